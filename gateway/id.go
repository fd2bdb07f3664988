package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/better-compute/better-compute/id"
)

// idFile holds the gateway's id in the data directory.
const idFile = "gateway-id"

// OpenID gives the id of the gateway whose data directory this is, and makes one at the first start. Under it a process finds what the one before it
// left open. A copy of the directory must not run beside the first: the older process then stops.
func OpenID(dir string) (string, error) {
	path := filepath.Join(dir, idFile)
	text, err := os.ReadFile(path)
	if err == nil {
		gatewayID := strings.TrimSpace(string(text))
		if err := id.Check(id.Gateway, "gateway", gatewayID); err != nil {
			return "", fmt.Errorf("%s holds no gateway id; remove it to get a new one: %w", path, err)
		}
		return gatewayID, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the gateway's id: %w", err)
	}
	gatewayID := id.New(id.Gateway)
	f, err := os.CreateTemp(dir, "."+idFile+".*") // 0600, of its own name
	if err != nil {
		return "", fmt.Errorf("write the gateway's id: %w", err)
	}
	_, err = f.WriteString(gatewayID + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("write the gateway's id: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return gatewayID, nil
}
