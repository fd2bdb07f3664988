package pki_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

func TestOpenCA(t *testing.T) {
	t.Parallel()
	type maker = func(ctx context.Context, trustDomain string) (*pki.CA, error)
	counting := func(t *testing.T) (maker, *atomic.Int64) {
		t.Helper()
		var n atomic.Int64
		return func(context.Context, string) (*pki.CA, error) {
			n.Add(1)
			return pkitest.NewCA(t), nil
		}, &n
	}
	t.Run("made once, however many processes start", func(t *testing.T) {
		t.Parallel()
		d := dbtest.New(t)
		dir := filepath.Join(t.TempDir(), "pki")
		create, made := counting(t)
		_, err := pki.ReadTrust(t.Context(), d.Pool())
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		var wg sync.WaitGroup
		cas, errs := make([]*pki.CA, 8), make([]error, 8)
		for i := range cas {
			wg.Go(func() { cas[i], errs[i] = pki.OpenCA(t.Context(), d, dir, create) })
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.Equal(t, int64(1), made.Load())
		trust, err := pki.ReadTrust(t.Context(), d.Pool())
		require.NoError(t, err)
		for _, ca := range cas {
			require.True(t, cas[0].Root.Equal(ca.Root))
			require.Nil(t, ca.RootKey)
			require.Equal(t, pki.Trust{Fingerprint: pki.Fingerprint(ca.Root), TrustDomain: ca.TrustDomain}, trust)
		}
	})
	t.Run("killed between the files and the row, the files count", func(t *testing.T) {
		t.Parallel()
		d := dbtest.New(t)
		dir := t.TempDir()
		left := pkitest.NewCA(t)
		require.NoError(t, pki.WriteCA(dir, left))
		create, made := counting(t)
		ca, err := pki.OpenCA(t.Context(), d, dir, create)
		require.NoError(t, err)
		require.True(t, left.Root.Equal(ca.Root))
		require.Zero(t, made.Load())
	})
	t.Run("a directory without the database's authority is refused, and nothing is made", func(t *testing.T) {
		t.Parallel()
		d := dbtest.New(t)
		dir := t.TempDir()
		create, made := counting(t)
		ca, err := pki.OpenCA(t.Context(), d, dir, create)
		require.NoError(t, err)

		empty := t.TempDir()
		_, err = pki.OpenCA(t.Context(), d, empty, create)
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
		require.ErrorContains(t, err, "copy root.crt")
		files, err := os.ReadDir(empty)
		require.NoError(t, err)
		require.Empty(t, files)

		other := t.TempDir()
		require.NoError(t, pki.WriteCA(other, pkitest.NewCA(t)))
		_, err = pki.OpenCA(t.Context(), d, other, create)
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))

		// A copy without the root key, as a gateway on another machine has it, is enough; damage is never taken for absence.
		require.NoError(t, os.Remove(filepath.Join(dir, pki.RootKeyFile)))
		again, err := pki.OpenCA(t.Context(), d, dir, create)
		require.NoError(t, err)
		require.True(t, ca.Root.Equal(again.Root))
		require.NoError(t, os.Truncate(filepath.Join(dir, pki.RootFile), 0))
		_, err = pki.OpenCA(t.Context(), d, dir, create)
		require.Error(t, err)
		require.Equal(t, int64(1), made.Load())
	})
	t.Run("a maker that fails leaves nothing", func(t *testing.T) {
		t.Parallel()
		d := dbtest.New(t)
		dir := filepath.Join(t.TempDir(), "pki")
		_, err := pki.OpenCA(t.Context(), d, dir, func(context.Context, string) (*pki.CA, error) { return nil, errors.New("no entropy") })
		require.ErrorContains(t, err, "no entropy")
		require.NoDirExists(t, dir)
		_, err = pki.ReadTrust(t.Context(), d.Pool())
		require.Equal(t, fault.InvalidState, fault.CodeOf(err))
	})
}
