package pki_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

func TestCA(t *testing.T) {
	t.Parallel()
	t.Run("written and read back, keys for the owner alone", func(t *testing.T) {
		t.Parallel()
		ca := pkitest.NewCA(t)
		dir := filepath.Join(t.TempDir(), "pki")
		require.NoError(t, pki.WriteCA(dir, ca))
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 4, "no temporary stays behind")
		for _, f := range files {
			info, err := f.Info()
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), f.Name())
		}
		got, err := pki.ReadCA(dir, time.Now())
		require.NoError(t, err)
		require.Equal(t, ca.TrustDomain, got.TrustDomain)
		require.True(t, ca.Root.Equal(got.Root))
		require.True(t, ca.Intermediate.Equal(got.Intermediate))
		require.Nil(t, got.RootKey)

		require.ErrorIs(t, pki.WriteCA(dir, pkitest.NewCA(t)), fs.ErrExist, "an authority is never written over")
	})
	t.Run("the root key is not read, and may be elsewhere", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, pki.WriteCA(dir, pkitest.NewCA(t)))
		require.NoError(t, os.Remove(filepath.Join(dir, pki.RootKeyFile)))
		_, err := pki.ReadCA(dir, time.Now())
		require.NoError(t, err)
		_, _, err = pki.ReadRootKey(dir)
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
	t.Run("absence is one error, damage is another", func(t *testing.T) {
		t.Parallel()
		_, err := pki.ReadCA(t.TempDir(), time.Now())
		require.ErrorIs(t, err, pki.ErrNoCA)
		other := t.TempDir()
		require.NoError(t, pki.WriteCA(other, pkitest.NewCA(t)))
		read := func(name string) []byte {
			raw, err := os.ReadFile(filepath.Join(other, name))
			require.NoError(t, err)
			return raw
		}
		for name, damage := range map[string]func(dir string) error{
			"an empty root": func(dir string) error { return os.WriteFile(filepath.Join(dir, pki.RootFile), nil, 0o600) },
			"another root": func(dir string) error {
				return os.WriteFile(filepath.Join(dir, pki.RootFile), read(pki.RootFile), 0o600)
			},
			"no intermediate":     func(dir string) error { return os.Remove(filepath.Join(dir, pki.IntermediateFile)) },
			"no intermediate key": func(dir string) error { return os.Remove(filepath.Join(dir, pki.IntermediateKeyFile)) },
			"another key": func(dir string) error {
				return os.WriteFile(filepath.Join(dir, pki.IntermediateKeyFile), read(pki.IntermediateKeyFile), 0o600)
			},
			"a key that others can read": func(dir string) error { return os.Chmod(filepath.Join(dir, pki.IntermediateKeyFile), 0o640) },
			"a root of another kind": func(dir string) error {
				return os.WriteFile(filepath.Join(dir, pki.RootFile), read(pki.RootKeyFile), 0o600)
			},
			"the root for intermediate": func(dir string) error {
				return os.WriteFile(filepath.Join(dir, pki.IntermediateFile), mustRead(t, dir, pki.RootFile), 0o600)
			},
			"a certificate where the key": func(dir string) error {
				return os.WriteFile(filepath.Join(dir, pki.IntermediateKeyFile), read(pki.RootFile), 0o600)
			},
		} {
			dir := t.TempDir()
			require.NoError(t, pki.WriteCA(dir, pkitest.NewCA(t)))
			require.NoError(t, damage(dir))
			_, err := pki.ReadCA(dir, time.Now())
			require.Error(t, err, name)
			require.NotErrorIs(t, err, pki.ErrNoCA, name)
		}
	})
	t.Run("killed before the last file, the directory counts as empty and is written over", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, pki.WriteCA(dir, pkitest.NewCA(t)))
		require.NoError(t, os.Remove(filepath.Join(dir, pki.RootFile)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".root.crt.0011"), []byte("half"), 0o600))
		_, err := pki.ReadCA(dir, time.Now())
		require.ErrorIs(t, err, pki.ErrNoCA)
		second := pkitest.NewCA(t)
		require.NoError(t, pki.WriteCA(dir, second))
		got, err := pki.ReadCA(dir, time.Now())
		require.NoError(t, err)
		require.True(t, second.Root.Equal(got.Root))
	})
	t.Run("an intermediate that ended is refused with what to do", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		require.NoError(t, pki.WriteCA(dir, pkitest.NewCA(t)))
		_, err := pki.ReadCA(dir, time.Now().Add(pki.IntermediateLifetime+time.Minute))
		require.ErrorContains(t, err, "make a new one")
	})
}

func mustRead(t *testing.T, dir, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return raw
}

func TestChainPEM(t *testing.T) {
	t.Parallel()
	var chain []*x509.Certificate
	var want []byte
	for size := range 200 {
		der := bytes.Repeat([]byte{byte(size)}, size)
		chain = append(chain, &x509.Certificate{Raw: der})
		want = append(want, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	require.Equal(t, string(want), string(pki.ChainPEM(chain)))
}
