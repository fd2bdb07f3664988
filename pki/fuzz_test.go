package pki_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

// FuzzCAFiles: whatever stands in one of the authority's files, reading it gives an error that names the file or the directory and quotes no key, or an
// authority whose parts fit together.
func FuzzCAFiles(f *testing.F) {
	ca := pkitest.NewCA(f)
	dir := f.TempDir()
	require.NoError(f, pki.WriteCA(dir, ca))
	names := []string{pki.RootFile, pki.IntermediateFile, pki.IntermediateKeyFile}
	good := map[string][]byte{}
	for i, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(f, err)
		good[name] = text
		f.Add(i, good[name])
		f.Add(i, good[name][:len(good[name])/2])
		f.Add(i, append([]byte("\n"), good[name]...))
		f.Add(i, append(append([]byte{}, good[name]...), good[name]...))
		f.Add((i+1)%len(names), good[name])
	}
	f.Add(0, []byte{})
	secret := strings.Split(string(good[pki.IntermediateKeyFile]), "\n")[1]
	f.Fuzz(func(t *testing.T, which int, content []byte) {
		name := names[uint(which)%uint(len(names))]
		dir := t.TempDir()
		for other, text := range good {
			if other == name {
				text = content
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, other), text, 0o600))
		}
		got, err := pki.ReadCA(dir, time.Now())
		if err != nil {
			require.ErrorContains(t, err, dir)
			require.NotContains(t, err.Error(), secret)
			return
		}
		require.NoError(t, got.Check(time.Now()))
		require.Equal(t, ca.Root.Raw, got.Root.Raw, "no other root has signed the intermediate")
		require.Equal(t, ca.Intermediate.PublicKey, got.Intermediate.PublicKey, "no other certificate fits the key")
	})
}
