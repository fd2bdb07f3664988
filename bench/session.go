package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/better-compute/better-compute/gateway/wire"
)

// joined lets machines join and gives their certificates.
func (r *rig) joined(ctx context.Context, n int) (*door, []tls.Certificate, error) {
	machines, err := r.joiners(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	d, err := r.door(ctx)
	if err != nil {
		return nil, nil, err
	}
	certificates := make([]tls.Certificate, n)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, m := range machines {
		g.Go(func() error {
			answer, err := d.join(ctx, m)
			if err != nil {
				return err
			}
			certificates[i], err = m.certificate(answer)
			return err
		})
	}
	return d, certificates, g.Wait()
}

// session is an open one, and the connection under it.
type session struct {
	*websocket.Conn

	conn *tls.Conn
}

// session opens a machine's session: dial, Hello, Welcome.
func (d *door) session(ctx context.Context, certificate tls.Certificate) (*session, error) {
	secured, err := d.dial(ctx, certificate)
	if err != nil {
		return nil, err
	}
	conn, resp, err := websocket.Dial(ctx, "wss://gateway"+wire.SessionPath,
		&websocket.DialOptions{HTTPClient: oneConnection(secured), Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return nil, errors.Join(err, secured.Close())
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("session: %s", resp.Status)
	}
	wire.Prepare(conn)
	hello := &wire.Hello{BootId: "boot", Print: &wire.Print{BootId: "boot"}, AgentVersion: "bench", Hostname: "bench", ClockUnixMs: time.Now().UnixMilli()}
	if err := wire.WriteUp(ctx, conn, &wire.Up{Body: &wire.Up_Hello{Hello: hello}}); err != nil {
		return nil, err
	}
	down, err := wire.ReadDown(ctx, conn)
	if err == nil && down.GetWelcome() == nil {
		err = errors.New("the gateway did not welcome the machine")
	}
	return &session{conn, secured}, err
}

// sessions opens one for each certificate.
func (d *door) sessions(ctx context.Context, certificates []tls.Certificate) ([]*session, error) {
	conns := make([]*session, len(certificates))
	g, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	g.SetLimit(16)
	for i, certificate := range certificates {
		g.Go(func() error {
			var err error
			conns[i], err = d.session(ctx, certificate)
			return err
		})
	}
	return conns, g.Wait()
}

// raw opens as many TLS connections to the floor, with the same certificates.
func (f *floor) raw(ctx context.Context, certificates []tls.Certificate) ([]*tls.Conn, error) {
	conns := make([]*tls.Conn, len(certificates))
	var g errgroup.Group
	g.SetLimit(16)
	for i, certificate := range certificates {
		g.Go(func() error {
			dialer := &tls.Dialer{Config: &tls.Config{
				MinVersion: tls.VersionTLS13, ServerName: floorName, Certificates: []tls.Certificate{certificate},
				InsecureSkipVerify: true, //nolint:gosec // the floor made its certificate a moment ago, in a process that this one started
			}}
			conn, err := dialer.DialContext(ctx, "tcp", f.address)
			if err != nil {
				return err
			}
			var ok bool
			if conns[i], ok = conn.(*tls.Conn); !ok {
				return fmt.Errorf("a TLS dial gave a %T", conn)
			}
			return nil
		})
	}
	return conns, g.Wait()
}

// beaters is how many beats are under way at one time.
const beaters = 16

// beatBytes is as many bytes as a beat has on the wire inside TLS: the websocket's header and mask, and the frame.
const beatBytes = 2 + 4 + 5

// beater is a machine whose beats cost the measuring process no more than the floor's bytes do, so that neither server waits longer than the other: it writes
// the websocket's frame by hand, with a mask of zeros.
type beater struct {
	conn *tls.Conn
	seq  uint64
}

// beat sends one and reads the gateway's answer to it.
func (m *beater) beat() error {
	m.seq++
	body := protowire.AppendVarint([]byte{1 << 3}, m.seq)
	frame := append([]byte{0x82, 0x80 | byte(2+len(body)), 0, 0, 0, 0, 2<<3 | 2, byte(len(body))}, body...)
	if _, err := m.conn.Write(frame); err != nil {
		return err
	}
	var b [32]byte
	n, err := m.conn.Read(b[:])
	if err != nil {
		return err
	}
	if want := append([]byte{0x82, byte(2 + len(body)), 2<<3 | 2, byte(len(body))}, body...); !bytes.Equal(b[:n], want) {
		return fmt.Errorf("the beat %d was answered with %x", m.seq, b[:n])
	}
	return nil
}

// heartbeat measures the gateway's CPU for a beat and its answer over mutual TLS, against echoing the same bytes over TLS.
func heartbeat(ctx context.Context, r *rig, s size) ([]Row, error) {
	d, certificates, err := r.joined(ctx, s.n)
	if err != nil {
		return nil, err
	}
	conns, err := d.sessions(ctx, certificates)
	if err != nil {
		return nil, err
	}
	machines := make([]beater, len(conns))
	for i, c := range conns {
		machines[i] = beater{conn: c.conn, seq: 127}
	}
	f, err := startFloor(ctx, "echo")
	if err != nil {
		return nil, err
	}
	defer f.stop()
	raw, err := f.raw(ctx, certificates)
	if err != nil {
		return nil, err
	}
	defer func() {
		for i := range conns {
			_ = conns[i].CloseNow()
			_ = raw[i].Close()
		}
	}()
	work := overAll(s, func(_ context.Context, i int) error { return machines[i].beat() })
	floor := overAll(s, func(_ context.Context, i int) error {
		var b [beatBytes]byte
		if _, err := raw[i].Write(b[:]); err != nil {
			return err
		}
		_, err := raw[i].Read(b[:])
		return err
	})
	row, err := pairs(ctx, "heartbeat", s.rounds, cpuEach, side{r.cpu, r.dbCPU, work}, side{f.cpu, zero, floor})
	return []Row{row}, err
}

// overAll is a round in which every connection is used each times, some of them at once.
func overAll(s size, fn func(ctx context.Context, i int) error) func(context.Context) (round, error) {
	return together(beaters, s.each*s.n/beaters, func(ctx context.Context, c, i int) error {
		mine := s.n / beaters
		return fn(ctx, c*mine+i%mine)
	})
}

// settle is how long the memory of a process is left alone before it is read.
const settle = 3 * time.Second

// lean makes the collector hold little above what lives, so that resident memory tells what sessions hold.
const lean = "GOGC=20"

// sessions measures the server's memory for each open session, against raw TLS connections with the same certificates. Both processes are fresh.
func sessions(ctx context.Context, r *rig, s size) ([]Row, error) {
	d, certificates, err := r.joined(ctx, s.n)
	if err != nil {
		return nil, err
	}
	r.halt()
	if err := r.serve(ctx, nil, lean); err != nil {
		return nil, err
	}
	f, err := startFloor(ctx, "echo", lean)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	var closers []func()
	defer func() {
		for _, end := range closers {
			end()
		}
	}()
	// Some come first, so that what a first session makes is not counted.
	first := len(certificates) / 10
	value, err := grown(ctx, r.server.Process.Pid, certificates, first, func(some []tls.Certificate) error {
		conns, err := d.sessions(ctx, some)
		for _, c := range conns {
			closers = append(closers, func() {
				if c != nil {
					_ = c.CloseNow()
				}
			})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	least, err := grown(ctx, f.cmd.Process.Pid, certificates, first, func(some []tls.Certificate) error {
		conns, err := f.raw(ctx, some)
		for _, c := range conns {
			closers = append(closers, func() {
				if c != nil {
					_ = c.Close()
				}
			})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, end := range closers {
		end()
	}
	closers = nil
	left, err := r.churned(ctx, d, certificates)
	return []Row{{
		Name: "sessions", N: len(certificates) - first, Unit: "KB", Value: tidy(value / 1024), Floor: tidy(least / 1024), Ratio: tidy(value / least),
		More: map[string]float64{"goroutines_left_percent": tidy(100 * left / float64(len(certificates)))},
	}}, err
}

// churns is how often all sessions are taken over by new ones before their goroutines are counted.
const churns = 3

// churned has new sessions take the place of all those that are open, again and again, ends the last ones, and gives how many more goroutines the server
// has then than it had before.
func (r *rig) churned(ctx context.Context, d *door, certificates []tls.Certificate) (float64, error) {
	before, err := r.goroutines(ctx)
	if err != nil {
		return 0, err
	}
	var conns []*session
	for range churns {
		newer, err := d.sessions(ctx, certificates)
		if err != nil {
			return 0, err
		}
		for _, c := range conns {
			_ = c.CloseNow() // as the machine does that it belongs to
		}
		conns = newer
	}
	for _, c := range conns {
		_ = c.CloseNow()
	}
	after, err := r.goroutines(ctx)
	return max(after-before, 0), err
}

// goroutines gives how few goroutines the server has within some seconds, in which what has ended settles.
func (r *rig) goroutines(ctx context.Context) (float64, error) {
	least := math.Inf(1)
	for range 6 {
		if err := pause(ctx, time.Second); err != nil {
			return 0, err
		}
		n, err := r.metric(ctx, "go_goroutines")
		if err != nil {
			return 0, err
		}
		least = min(least, n)
	}
	return least, nil
}

// metric gives one of the server's figures.
func (r *rig) metric(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("no figure %s: %s", name, resp.Status), lines.Err())
}

// grown gives by how many bytes a process has grown for each of the connections after the first ones.
func grown(ctx context.Context, pid int, certificates []tls.Certificate, first int, open func([]tls.Certificate) error) (float64, error) {
	if err := open(certificates[:first]); err != nil {
		return 0, err
	}
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	before, err := memoryOf(pid)
	if err != nil {
		return 0, err
	}
	if err := open(certificates[first:]); err != nil {
		return 0, err
	}
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	after, err := memoryOf(pid)
	return (after - before) / float64(len(certificates)-first), err
}
