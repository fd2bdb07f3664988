package health

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

func TestMissingFileSystemsAreBounded(t *testing.T) {
	t.Parallel()
	// A machine that shows other file systems with each inventory must not fill the database; what went missing last is kept, and what is there.
	d := dbtest.New(t)
	do := func(fn func(ctx context.Context, tx *db.Tx) error) {
		t.Helper()
		_, err := d.Do(t.Context(), fn)
		require.NoError(t, err)
	}
	var nodeID string
	do(func(ctx context.Context, tx *db.Tx) error {
		if err := iam.CreateTenantTx(ctx, tx, "acme"); err != nil {
			return err
		}
		p, err := node.CreatePoolTx(ctx, tx, "acme", "gpus")
		if err != nil {
			return err
		}
		n, err := node.CreateTx(tx, node.New{Key: id.New(id.Session), PoolID: p.ID, Hostname: "gpu-1", By: "test"})
		if err != nil {
			return err
		}
		nodeID = n
		return nil
	})
	see := func(round string, n int) {
		shown := []FileSystem{{Path: "/stays"}}
		for i := range n {
			shown = append(shown, FileSystem{Path: "/" + round, UUID: fmt.Sprint(i)})
		}
		do(func(ctx context.Context, tx *db.Tx) error { return seeStorageTx(ctx, tx, nodeID, shown) })
	}
	expect := func(path string, here, missing int) {
		t.Helper()
		var h, m int
		require.NoError(t, d.Pool().QueryRow(t.Context(), `
			select count(*) filter (where missing_since is null), count(*) filter (where missing_since is not null)
			from storage_roots where node_id = $1 and path like $2`, nodeID, path).Scan(&h, &m))
		require.Equal(t, []int{here, missing}, []int{h, m}, path)
	}
	see("a", 700)
	see("b", 700)
	expect("/a", 0, 700)
	see("c", 700)
	expect("/a", 0, placement.MaxMissing-700)
	expect("/b", 0, 700)
	expect("/c", 700, 0)
	see("d", 0)
	expect("/%", 1, placement.MaxMissing)
	expect("/stays", 1, 0)
}
