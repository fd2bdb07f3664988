package graph

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newStream makes a stream with its turns, whose writer waits for an answer.
func newStream(all *turns) (context.Context, *turn) {
	t := &turn{turns: all, ready: make(chan struct{}, 1)}
	t.ready <- struct{}{}
	return context.WithValue(context.Background(), turnKey{}, t), t
}

func TestTurns(t *testing.T) {
	t.Parallel()

	t.Run("no more answers of streams are made at once than there are places, and each comes to its turn", func(t *testing.T) {
		t.Parallel()
		all := &turns{places: make(chan struct{}, 2)}
		var now, most, made atomic.Int64
		var streams sync.WaitGroup
		for range 50 {
			streams.Go(func() {
				ctx, turn := newStream(all)
				out := make(chan int)
				go give(ctx, out, 1)
				<-out
				at := now.Add(1)
				for have := most.Load(); at > have && !most.CompareAndSwap(have, at); have = most.Load() {
				}
				<-time.After(time.Millisecond)
				now.Add(-1)
				turn.made()
				made.Add(1)
			})
		}
		streams.Wait()
		require.Equal(t, int64(50), made.Load())
		require.Equal(t, int64(2), most.Load())
		require.Empty(t, all.places)
	})

	t.Run("G2 a subscriber whose answer before is still being written holds no place", func(t *testing.T) {
		t.Parallel()
		all := &turns{places: make(chan struct{}, 1)}
		stuck, turn := newStream(all)
		<-turn.ready
		ctx, cancel := context.WithCancel(stuck)
		ended := make(chan bool)
		go func() { ended <- give(ctx, make(chan int), 1) }()
		for range 10 {
			ctx, turn := newStream(all)
			out := make(chan int, 1)
			require.True(t, give(ctx, out, 1))
			turn.made()
		}
		cancel()
		require.False(t, <-ended)
		require.Empty(t, all.places)
	})

	t.Run("a part of an answer that waits for the database holds no place, and has one again after", func(t *testing.T) {
		t.Parallel()
		all := &turns{places: make(chan struct{}, 1)}
		ctx, turn := newStream(all)
		require.True(t, turn.take(ctx))
		var parts sync.WaitGroup
		for range 3 {
			parts.Go(func() {
				turn.wait(ctx, func() {
					other, its := newStream(all)
					require.True(t, its.take(other))
					its.made()
				})
			})
		}
		parts.Wait()
		require.Len(t, all.places, 1)
		turn.made()
		require.Empty(t, all.places)
	})

	t.Run("only a crowd pauses while requests are under way, and each of it comes to its turn", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			all := &turns{places: make(chan struct{}, 1)}
			all.requests.Add(1)
			took := func(streams int) time.Duration {
				ctx, first := newStream(all)
				require.True(t, first.take(ctx))
				var others sync.WaitGroup
				for range streams {
					others.Go(func() {
						ctx, other := newStream(all)
						other.take(ctx)
						other.made()
					})
				}
				synctest.Wait()
				began := time.Now()
				first.made()
				others.Wait()
				return time.Since(began)
			}
			require.Zero(t, took(crowd))
			require.Equal(t, 10*pause, took(crowd+10))
			all.requests.Add(-1)
			require.Zero(t, took(crowd+10))
			require.Empty(t, all.places)
		})
	})

	t.Run("a stream that ends while it waits for its turn leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		all := &turns{places: make(chan struct{}, 1)}
		_, first := newStream(all)
		require.True(t, first.take(context.Background()))
		ctx, second := newStream(all)
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan bool)
		go func() { ended <- second.take(ctx) }()
		cancel()
		require.False(t, <-ended)
		first.made()
		require.Empty(t, all.places)
	})
}
