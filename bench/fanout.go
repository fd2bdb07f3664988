package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// fanout measures the server's CPU for one event to one subscriber, with many subscribers of whom one in twenty doesn't read, against a server that
// writes ready bytes to as many plain connections.
func fanout(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.nodes(ctx, 1)
	if err != nil {
		return nil, err
	}
	stuck := s.n / 20
	f, err := startFloor(ctx, "frames")
	if err != nil {
		return nil, err
	}
	defer f.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := memoryOf(r.server.Process.Pid)
	if err != nil {
		return nil, err
	}
	readers, err := r.readers(ctx, s.n, stuck)
	if err != nil {
		return nil, err
	}
	after, err := memoryOf(r.server.Process.Pid)
	if err != nil {
		return nil, err
	}
	raw, err := f.readers(ctx, s.n, stuck)
	if err != nil {
		return nil, err
	}
	work := func(ctx context.Context) (round, error) {
		return readers.take(ctx, s.each, func() error {
			_, err := r.pool.Exec(ctx, publish, ids[0], tenant)
			return err
		})
	}
	floor := func(ctx context.Context) (round, error) {
		return raw.take(ctx, s.each, func() error { return f.send(next) })
	}
	row, err := pairs(ctx, "fanout", s.rounds, cpuEach, side{r.cpu, r.dbCPU, work}, side{f.cpu, zero, floor})
	row.More = map[string]float64{
		"subscribers": float64(s.n), "stuck": float64(stuck), "kb_each": tidy((after - before) / 1024 / float64(s.n)),
	}
	return []Row{row}, err
}

// publish writes an event as the server would, without its work: what is measured is only what follows.
const publish = `
with clock as (
  update event_clock set position = position + 1, at = greatest(clock_timestamp(), at + interval '1 microsecond') returning position, at
), written as (
  insert into events (position, at, id, type, tenant_id, node_id, actor, data, full_for, reduced_for)
  select clock.position, clock.at, 'evt_bench', 'node.cordoned', $2, $1, 'bench', '{}', array[$2], '{}' from clock
)
select pg_notify('bc_log', '')`

// next is what a subscriber gets for it.
var next = []byte(`{"id":"1","type":"next","payload":{"data":{"nodeEvents":{"nodeId":"node_01k5aaaaaaaaaaaaaaaaaaaaaa","type":"node.cordoned"}}}}`)

// readers are subscribers that count what they get.
type readers struct {
	n     int
	got   atomic.Int64
	more  chan struct{}
	ended chan error // the first reader that got something else than an event
}

func newReaders(n int) *readers {
	return &readers{n: n, more: make(chan struct{}, 1), ended: make(chan error, 1)}
}

func (l *readers) end(err error) {
	select {
	case l.ended <- err:
	default:
	}
}

func (l *readers) count() {
	l.got.Add(1)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take publishes some events, and waits until every reader has them. The time of each is until the last reader had it.
func (l *readers) take(ctx context.Context, each int, publish func() error) (round, error) {
	done := round{n: each * l.n}
	for range each {
		want := l.got.Load() + int64(l.n)
		began := time.Now()
		if err := publish(); err != nil {
			return round{}, err
		}
		late := time.After(20 * time.Second)
		for l.got.Load() < want {
			select {
			case <-l.more:
			case <-ctx.Done():
				return round{}, ctx.Err()
			case err := <-l.ended:
				return round{}, fmt.Errorf("a subscriber has ended: %w", err)
			case <-late:
				return round{}, fmt.Errorf("%d of %d subscribers have the event after 20 s", l.got.Load()-want+int64(l.n), l.n)
			}
		}
		done.times = append(done.times, time.Since(began))
	}
	return done, nil
}

// readers opens n subscriptions of which some never read, over sockets that hold little.
func (r *rig) readers(ctx context.Context, n, stuck int) (*readers, error) {
	l := newReaders(n - stuck)
	after, err := r.head(ctx)
	if err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.SetLimit(16)
	narrow := &http.Client{Transport: &http.Transport{DialContext: narrowDial}}
	for i := range n {
		g.Go(func() error {
			var client *http.Client
			if i < stuck {
				client = narrow
			}
			conn, err := r.follow(ctx, client, after, "node.cordoned")
			if err != nil || i < stuck {
				return err
			}
			go func() {
				for {
					_, text, err := conn.Read(ctx)
					switch {
					case err != nil:
						l.end(err)
						return
					case bytes.Contains(text, []byte(`"type":"next"`)):
						l.count()
					case !bytes.Contains(text, []byte(`"type":"ping"`)):
						l.end(fmt.Errorf("it got %.300s", text))
					}
				}
			}()
			return nil
		})
	}
	return l, g.Wait()
}

// narrowDial dials with a small receive buffer, so that a reader that is stuck is stuck soon.
func narrowDial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4096)
	}
	return conn, err
}

func (f *floor) readers(ctx context.Context, n, stuck int) (*readers, error) {
	l := newReaders(n - stuck)
	for i := range n {
		conn, err := narrowDial(ctx, "tcp", f.address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			return nil, fmt.Errorf("the floor did not take a connection: %w", err)
		}
		if i < stuck {
			continue
		}
		go func() {
			buffer := make([]byte, 4096)
			for {
				n, err := conn.Read(buffer)
				if err != nil {
					l.end(err)
					return
				}
				for range bytes.Count(buffer[:n], []byte("\n")) {
					l.count()
				}
			}
		}()
	}
	return l, nil
}
