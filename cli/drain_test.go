package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDeviceSentence(t *testing.T) {
	t.Parallel()
	// What the caller may know of who holds a device, and no more.
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	busy := true
	for want, d := range map[string]device{
		"slot 0, H100, free":                            {Model: "H100"},
		"slot 3, -, missing since 2026-05-01T11:00:00Z": {Slot: 3, MissingSince: "2026-05-01T11:00:00Z"},
		"slot 1, H100, held":                            {Slot: 1, Model: "H100", Held: true},
		"slot 1, H100, held; another tenant's no end: release it to finish, processes run on it": {
			Slot: 1, Model: "H100", Held: true, Allocations: []allocation{{}}, InUse: &busy,
		},
		"slot 1, H100, free; res_1 acme begins 2026-05-01T13:00:00Z, no end: release it to finish": {
			Slot: 1, Model: "H100", Allocations: []allocation{{ReservationID: "res_1", TenantID: "acme", Future: true, StartsAt: "2026-05-01T13:00:00Z"}},
		},
	} {
		require.Equal(t, want, d.sentence(now))
	}
}

func TestAllocationSentence(t *testing.T) {
	t.Parallel()
	// Of another tenant's allocation the caller isn't told when it begins, so the sentence names no time.
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for want, a := range map[string]allocation{
		"another tenant's  begins later, no end: release it to finish":                      {Future: true},
		"another tenant's  no end: release it to finish":                                    {},
		"another tenant's  2 devices  no end: release it to finish":                         {Devices: []string{"GPU-0", "GPU-1"}},
		"res_1 acme  begins 2026-05-01T13:00:00Z, no end: release it to finish":             {ReservationID: "res_1", TenantID: "acme", Future: true, StartsAt: "2026-05-01T13:00:00Z"},
		"another tenant's  begins later, ends " + moment("2026-05-01T14:00:00Z").until(now): {Future: true, EndsAt: "2026-05-01T14:00:00Z"},
	} {
		require.Equal(t, want, a.sentence(now))
	}
}
