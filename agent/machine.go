package agent

import (
	"context"

	"github.com/better-compute/better-compute/gateway/wire"
)

// Machine is the hardware that bcd runs on. The real one is a Host; simulations put a made-up one in its place.
type Machine interface {
	// Print tells this machine from others. What is not known is empty.
	Print(ctx context.Context) *wire.Print
	// Hostname is the machine's name, empty when not known.
	Hostname(ctx context.Context) string
	// Inventory reads what the machine is made of. It gives what it could read, with a note for what it could not.
	Inventory(ctx context.Context) *wire.Inventory
	// Running gives the hardware UUIDs of the devices that have compute processes, sorted; known is false when the machine can't tell.
	Running(ctx context.Context) (uuids []string, known bool)
}
