package dbtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
)

// Rows gives how many rows of a table fn reads, by scans of the table and by its indexes, so that a test can hold that what runs all the time does not go
// through all of it. Only sessions of d's pool are counted, which must have but one connection: [WithMaxConns].
func Rows(tb testing.TB, d *db.DB, table string, fn func()) int {
	tb.Helper()
	require.EqualValues(tb, 1, d.Pool().Config().MaxConns, "the pool's one session tells what it has counted")
	read := func() (n int) {
		_, err := d.Pool().Exec(tb.Context(), "select pg_stat_force_next_flush()")
		require.NoError(tb, err)
		err = d.Pool().QueryRow(tb.Context(), "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relid = $1::text::regclass", table).Scan(&n)
		require.NoError(tb, err)
		return n
	}
	before := read()
	fn()
	return read() - before
}
