package db_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/fault"
)

// A statement that the database cuts for taking too long is one to try again, and no fault of ours.
func TestCutStatement(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, dbtest.With(func(c *db.Config) { c.StatementTimeout = 50 * time.Millisecond }))
	_, err := d.Pool().Exec(t.Context(), "select pg_sleep(20)")
	require.Error(t, err)
	require.True(t, db.Unanswered(err))
	require.Equal(t, fault.Unavailable, fault.CodeOf(db.Unavailable(err)))
}
