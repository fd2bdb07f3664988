package iam_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
)

var alex, sam = iam.Actor{Name: "alex", TokenID: "t1"}, iam.Actor{Name: "sam", TokenID: "t2"}

// act runs an operation that appends one event under a request id, as verbs do, and says whether it happened now.
func (b *bundle) act(who iam.Actor, requestID, operation string, input any) (now bool, a iam.Answer, err error) {
	request, err := iam.NewRequest(who, requestID, operation, input)
	if err != nil {
		return false, a, err
	}
	a, err = request.Once(b.Context(), b.db, func(_ context.Context, tx *db.Tx) (iam.Answer, error) {
		now = true
		return iam.Answer{Changed: true, Made: []string{"made_1", "made_2"}}, events.Append(tx, events.Entry{
			Type: "test.acted", TenantID: "acme", Actor: who.Name, Audience: events.Audience{Full: []string{"acme"}},
		})
	}, func(_ context.Context, _ *db.Tx, before iam.Answer) error {
		now = false
		if len(before.Made) != 2 {
			return errors.New("another answer")
		}
		return nil
	})
	return now, a, err
}

func (b *bundle) acts() int {
	b.Helper()
	var n int
	require.NoError(b, b.db.Pool().QueryRow(b.Context(), `select count(*) from events`).Scan(&n))
	return n
}

func TestRequest(t *testing.T) {
	t.Parallel()

	t.Run("I7 a repeat does nothing and gives what the first one gave", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		now, first, err := b.act(alex, "r1", "op", "input")
		require.NoError(t, err)
		require.True(t, now)
		head, err := events.Head(t.Context(), b.db.Pool())
		require.NoError(t, err)
		require.Equal(t, iam.Answer{Changed: true, Made: []string{"made_1", "made_2"}, Cursor: head}, first)
		_, _, err = b.act(alex, "r2", "op", "other")
		require.NoError(t, err)
		now, again, err := b.act(alex, "r1", "op", "input")
		require.NoError(t, err)
		require.False(t, now)
		require.Equal(t, first, again)
		require.Equal(t, 2, b.acts())
	})

	t.Run("I7 another operation or input under the id is INVALID_INPUT; another principal's id is its own", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, _, err := b.act(alex, "r1", "op", []any{"a", 1})
		require.NoError(t, err)
		for _, c := range []struct {
			operation string
			input     any
		}{{"op", []any{"a", 2}}, {"op", []any{"a"}}, {"op2", []any{"a", 1}}} {
			_, _, err = b.act(alex, "r1", c.operation, c.input)
			require.Equal(t, fault.InvalidInput, code(err))
			require.Equal(t, "requestId", fault.From(err).Details["argument"])
		}
		now, _, err := b.act(sam, "r1", "op", "something else")
		require.NoError(t, err)
		require.True(t, now)
		require.Equal(t, 2, b.acts())
	})

	t.Run("I7 twenty at once are one act, and all get its answer", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var acted atomic.Int32
		var g errgroup.Group
		for range 20 {
			g.Go(func() error {
				now, a, err := b.act(alex, "r1", "op", "input")
				if err == nil && now {
					acted.Add(1)
				}
				if err == nil && a.Cursor.Position != 1 {
					return errors.New("another answer")
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.EqualValues(t, 1, acted.Load())
		require.Equal(t, 1, b.acts())
	})

	t.Run("An act that fails leaves the id unused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		request, err := iam.NewRequest(alex, "r1", "op", "input")
		require.NoError(t, err)
		refused := errors.New("refused")
		_, err = request.Once(t.Context(), b.db, func(context.Context, *db.Tx) (iam.Answer, error) {
			return iam.Answer{Changed: true}, refused
		}, nil)
		require.ErrorIs(t, err, refused)
		now, _, err := b.act(alex, "r1", "op", "input")
		require.NoError(t, err)
		require.True(t, now)
	})

	t.Run("A repeat of what changed nothing gives the head as it was then", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, _, err := b.act(alex, "r0", "op", "")
		require.NoError(t, err)
		idle := func() (acted bool, a iam.Answer) {
			request, err := iam.NewRequest(alex, "r1", "op", "input")
			require.NoError(t, err)
			a, err = request.Once(t.Context(), b.db, func(context.Context, *db.Tx) (iam.Answer, error) {
				acted = true
				return iam.Answer{Made: []string{"there"}}, nil
			}, func(context.Context, *db.Tx, iam.Answer) error { return nil })
			require.NoError(t, err)
			return acted, a
		}
		head, err := events.Head(t.Context(), b.db.Pool())
		require.NoError(t, err)
		acted, first := idle()
		require.True(t, acted)
		require.Equal(t, iam.Answer{Made: []string{"there"}, Cursor: head}, first)
		_, _, err = b.act(alex, "r2", "op", "")
		require.NoError(t, err)
		acted, again := idle()
		require.False(t, acted)
		require.Equal(t, first, again)
	})

	t.Run("I7 after a restore a repeat's cursor is still of the log before it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, first, err := b.act(alex, "r1", "op", "input")
		require.NoError(t, err)
		b.do(func(_ context.Context, tx *db.Tx) error {
			events.NewEpoch(tx)
			return nil
		})
		head, err := events.Head(t.Context(), b.db.Pool())
		require.NoError(t, err)
		require.NotEqual(t, first.Cursor.Epoch, head.Epoch)
		now, again, err := b.act(alex, "r1", "op", "input")
		require.NoError(t, err)
		require.False(t, now)
		require.Equal(t, first, again)
	})

	t.Run("A day later the id is forgotten, and not before", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, r := range []string{"old", "young"} {
			_, _, err := b.act(alex, r, "op", "")
			require.NoError(t, err)
		}
		b.exec(`update requests set at = now() - case id when 'old' then interval '24 hours 1 second' else interval '23 hours 59 minutes' end`)
		forgotten, err := iam.ForgetRequests(t.Context(), b.db)
		require.NoError(t, err)
		require.EqualValues(t, 1, forgotten)
		for id, forgot := range map[string]bool{"old": true, "young": false} {
			now, _, err := b.act(alex, id, "op", "")
			require.NoError(t, err)
			require.Equal(t, forgot, now)
		}
	})

	t.Run("H1 128 characters pass, 129, control characters and broken text don't; none at all is none", func(t *testing.T) {
		t.Parallel()
		for _, good := range []string{"r", strings.Repeat("ä", 128)} {
			_, err := iam.NewRequest(alex, good, "op", nil)
			require.NoError(t, err)
		}
		for _, bad := range []string{strings.Repeat("ä", 129), "a\x00", "a\n", "\xff"} {
			_, err := iam.NewRequest(alex, bad, "op", nil)
			require.Equal(t, fault.InvalidInput, code(err), "%q", bad)
		}
		b := setup(t)
		for range 2 {
			now, _, err := b.act(alex, "", "op", "")
			require.NoError(t, err)
			require.True(t, now)
		}
		require.Equal(t, 2, b.acts())
	})
}
