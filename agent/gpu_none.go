//go:build !cgo

package agent

import (
	"context"

	"github.com/better-compute/better-compute/gateway/wire"
)

func newGPULibrary() gpuLibrary { return noGPULibrary{} }

// noGPULibrary stands where bcd was built without cgo, by which the driver's library is called.
type noGPULibrary struct{}

func (noGPULibrary) list(context.Context) ([]*wire.Gpu, *wire.GpuDriver, string) {
	return nil, nil, "this bcd was built without cgo, so it can't ask the NVIDIA driver"
}

func (noGPULibrary) running(context.Context) (uuids []string, loaded, known bool) {
	return nil, false, false
}
