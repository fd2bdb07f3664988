package events_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
)

// ear is a session that listens on the log's channel.
type ear struct {
	*testing.T
	*pgx.Conn
}

func newEar(t *testing.T, url string) ear {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	_, err = conn.Exec(t.Context(), "listen bc_log")
	require.NoError(t, err)
	return ear{t, conn}
}

// say notifies on the channel, as a process does.
func (e ear) say(payload string) {
	e.Helper()
	_, err := e.Exec(e.Context(), "select pg_notify('bc_log', $1)", payload)
	require.NoError(e, err)
}

// hear waits for a notification with that payload, and counts those that say that the log has grown before it.
func (e ear) hear(payload string) (grown int) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 20*time.Second)
	defer cancel()
	for {
		n, err := e.WaitForNotification(ctx)
		require.NoError(e, err, "waiting for %q", payload)
		if n.Payload == payload {
			return grown
		}
		if n.Payload == "" {
			grown++
		}
	}
}

// A process tells no other of its commits while none listens; from the moment that one says that it does it tells, and no more once that one was silent for
// long.
func TestAlone(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	running(t, d, events.Options{Greet: time.Second, Notify: time.Millisecond})
	e := newEar(t, dbtest.URL(d))
	silent := func(what string) {
		t.Helper()
		for range 100 {
			e.hear("listening") // from here on it hears nothing of this session, which would count as another process
			for range 5 {
				write(t, d, entry("acme", "node_a", "node.cordoned"))
			}
			if e.hear("listening") == 0 { // its greeting comes a while after what it would have said
				return
			}
		}
		require.Fail(t, "it tells nobody", what)
	}
	silent("nobody has said that it listens")
	e.say("arrived")
	e.hear("") // the answer, which the newcomer knows others by
	for range 3 {
		e.say("listening")
		e.hear("listening") // one's own
		require.Zero(t, e.hear("listening"), "one that has arrived is not answered again: many processes would say nothing else")
		write(t, d, entry("acme", "node_a", "node.cordoned"))
		e.hear("")
	}
	silent("the other one is gone")
	e.say("listening")
	e.hear("") // it is told of what it was not told meanwhile
}

// Processes that never look by themselves hear of each other's commits by NOTIFY alone, also one that came later, and also when all was quiet for many
// greetings.
func TestOthers(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	process := func() (func() events.Cursor, *events.Follower) {
		own := openDB(t, dbtest.URL(d))
		l := running(t, own, events.Options{Look: time.Hour, Greet: 100 * time.Millisecond})
		require.Eventually(t, l.Ready, 20*time.Second, time.Millisecond)
		return func() events.Cursor {
			c := write(t, own, entry("acme", "node_a", "node.cordoned"))
			return events.Cursor{Epoch: c.Epoch, Position: c.Position}
		}, follow(t, l, events.Filter{Tenant: "acme"}, nil)
	}
	writeA, a := process()
	e := newEar(t, dbtest.URL(d))
	for range 20 { // two seconds: longer than an answer to a greeting may take
		e.hear("listening")
	}
	require.Equal(t, writeA(), next(t, a).Cursor(), "its own")
	writeB, b := process()
	for range 3 {
		at := writeA()
		require.Equal(t, at, next(t, a).Cursor())
		require.Equal(t, at, next(t, b).Cursor())
		at = writeB()
		require.Equal(t, at, next(t, b).Cursor())
		require.Equal(t, at, next(t, a).Cursor())
		for range 20 {
			e.hear("listening")
		}
	}
}
