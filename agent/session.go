package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/protobuf/proto"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// helloPatience is how long bcd waits for Welcome: a gateway may let the Hellos of a whole rack queue.
const helloPatience = time.Minute

// ending says how a session ended.
type ending struct {
	// err is why; nil when bcd closed it itself.
	err error
	// refused holds the gateway's reason when it does not want this node's certificate: waiting a little longer won't help.
	refused string
	// pause is how long the gateway asked to stay away; 0 when it did not.
	pause time.Duration
	// renewed tells that a new certificate waits to be used.
	renewed bool
	// welcomedAt is when the session was open; zero when it never was.
	welcomedAt time.Time
}

// session holds one session with a gateway until it ends or ctx does.
func (a *Agent) session(ctx context.Context, server string, credential *Credential, welcomed func(context.Context, *wire.Welcome)) ending {
	conn, end := a.open(ctx, server, credential)
	if conn == nil {
		return end
	}
	defer func() { _ = conn.CloseNow() }()
	wire.Prepare(conn)

	// Reading outlives ctx: when bcd is stopped the session is closed in order, which takes a last answer of the gateway.
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	frames, failed := make(chan *wire.Down), make(chan error, 1)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() {
		for {
			down, err := wire.ReadDown(reading, conn)
			if err != nil {
				failed <- err
				return
			}
			select {
			case frames <- down:
			case <-reading.Done():
				return
			}
		}
	})

	s := &live{agent: a, conn: conn, credential: credential, frames: frames, failed: failed}
	welcome, end := s.hello(ctx)
	if welcome == nil {
		return end
	}
	welcomedAt := time.Now()
	welcomed(ctx, welcome)
	seen := make(chan observation)
	work.Go(func() { a.observe(reading, seen) })
	end = s.run(ctx, welcome, seen)
	end.welcomedAt = welcomedAt
	return end
}

// open dials a gateway and upgrades the connection.
func (a *Agent) open(ctx context.Context, server string, credential *Credential) (*websocket.Conn, ending) {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	known := trust{root: credential.root, trustDomain: credential.TrustDomain, clock: a.clock, cable: a.cable}
	secured, err := known.dial(ctx, server, credential)
	if err != nil {
		return nil, ending{err: err}
	}
	conn, response, err := websocket.Dial(ctx, "wss://"+wire.GatewayName(known.trustDomain)+wire.SessionPath, //nolint:bodyclose // the library closes it
		&websocket.DialOptions{HTTPClient: oneConnection(secured), Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		_ = secured.Close()
		if response == nil {
			return nil, ending{err: dialFault(server, err), refused: alerted(err)}
		}
		// A refusal fits into what the library keeps of the body.
		content, _ := io.ReadAll(io.LimitReader(response.Body, wire.MaxJoinBody))
		return nil, refusedEnding(refusal(server, response.StatusCode, content), response.StatusCode)
	}
	if conn.Subprotocol() != wire.Subprotocol {
		_ = conn.CloseNow()
		return nil, ending{err: fault.New(fault.Unavailable, nil, "%s does not speak %s", server, wire.Subprotocol)}
	}
	return conn, ending{}
}

// refusedEnding is the end that an HTTP refusal of the upgrade makes.
func refusedEnding(err error, status int) ending {
	f := fault.From(err)
	end := ending{err: err}
	end.pause, _ = retryAfter(f)
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		end.refused = wire.ReasonUnknown
		if reason, ok := f.Details["reason"].(string); ok && reason != "" {
			end.refused = reason
		}
	}
	return end
}

// live is a session that is open.
type live struct {
	agent      *Agent
	conn       *websocket.Conn
	credential *Credential
	frames     <-chan *wire.Down
	failed     <-chan error
	beats      uint64

	inventory *wire.Inventory
	report    *wire.Report
}

// hello opens the session: Hello, then Welcome.
func (s *live) hello(ctx context.Context) (*wire.Welcome, ending) {
	print := s.agent.machine.Print(ctx)
	hello := &wire.Hello{
		BootId: print.GetBootId(), Print: print, AgentVersion: s.agent.version, Hostname: s.agent.machine.Hostname(ctx),
		ClockUnixMs: s.agent.clock().UnixMilli(), NodeId: s.credential.NodeID,
	}
	if err := s.send(ctx, &wire.Up{Body: &wire.Up_Hello{Hello: hello}}); err != nil {
		// The gateway may have closed with a reason, which only reading shows.
		return nil, s.lost(err)
	}
	patience := time.NewTimer(helloPatience)
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
			s.bye()
			return nil, ending{}
		case <-patience.C:
			return nil, ending{err: fault.New(fault.Unavailable, nil, "the gateway did not answer Hello within %s", helloPatience)}
		case err := <-s.failed:
			return nil, connectionEnding(err)
		case down := <-s.frames:
			switch body := down.GetBody().(type) {
			case *wire.Down_Welcome:
				if body.Welcome.GetNodeId() != s.credential.NodeID {
					return nil, ending{err: fault.New(fault.Internal, nil, "the gateway welcomed another node, %s", body.Welcome.GetNodeId())}
				}
				return body.Welcome, ending{}
			case *wire.Down_Close:
				s.bye()
				return nil, closedEnding(body.Close)
			}
		}
	}
}

// run beats, tells and listens until the session ends.
func (s *live) run(ctx context.Context, welcome *wire.Welcome, seen <-chan observation) ending {
	interval, lease := wire.BeatInterval, wire.Lease
	if ms := welcome.GetBeatIntervalMs(); ms > 0 {
		interval = time.Duration(ms) * time.Millisecond
	}
	if ms := welcome.GetLeaseMs(); ms > 0 {
		lease = time.Duration(ms) * time.Millisecond
	}
	beat := time.NewTicker(interval)
	defer beat.Stop()
	heard := time.NewTimer(lease)
	defer heard.Stop()
	renew := time.NewTimer(s.agent.renewIn(s.credential, time.UnixMilli(welcome.GetServerTimeUnixMs())))
	defer renew.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			s.bye()
			return ending{}
		case err := <-s.failed:
			return connectionEnding(err)
		case <-heard.C:
			return ending{err: fault.New(fault.Unavailable, nil, "the gateway answered no beat for %s", lease)}
		case <-beat.C:
			s.beats++
			err = s.send(ctx, &wire.Up{Body: &wire.Up_Beat{Beat: &wire.Beat{Seq: s.beats}}})
		case o := <-seen:
			err = s.tell(ctx, o)
		case <-renew.C:
			renew.Reset(s.agent.rhythm.renewAgain())
			err = s.askRenewal(ctx)
		case down := <-s.frames:
			switch body := down.GetBody().(type) {
			case *wire.Down_BeatAck:
				heard.Reset(lease)
			case *wire.Down_RenewNow:
				renew.Reset(s.agent.rhythm.renewAgain())
				err = s.askRenewal(ctx)
			case *wire.Down_Renewed:
				if s.agent.takeRenewal(s.credential, body.Renewed.GetChainPem()) {
					s.bye()
					return ending{renewed: true}
				}
			case *wire.Down_Close:
				s.bye()
				return closedEnding(body.Close)
			}
		}
		if err != nil {
			return s.lost(err)
		}
	}
}

// send sends one frame. It outlives ctx by at most the time that one frame may take, since a write that is cut off takes the connection with it, and
// the gateway would not learn that bcd was stopped.
func (s *live) send(ctx context.Context, up *wire.Up) error {
	return wire.WriteUp(context.WithoutCancel(ctx), s.conn, up)
}

// tell sends an observation if this session has not told the same.
func (s *live) tell(ctx context.Context, o observation) error {
	if o.inventory != nil && !sameInventory(o.inventory, s.inventory) {
		if err := s.send(ctx, &wire.Up{Body: &wire.Up_Inventory{Inventory: o.inventory}}); err != nil {
			return err
		}
		s.inventory = o.inventory
	}
	if o.report != nil && !proto.Equal(o.report, s.report) {
		if err := s.send(ctx, &wire.Up{Body: &wire.Up_Report{Report: o.report}}); err != nil {
			return err
		}
		s.report = o.report
	}
	return nil
}

// sameInventory compares two inventories but for the times in them: the kernel works the time of its boot out anew whenever the clock is corrected.
func sameInventory(a, b *wire.Inventory) bool {
	if a == nil || b == nil {
		return a == b
	}
	timeless := func(i *wire.Inventory) proto.Message {
		clone := proto.CloneOf(i)
		clone.CollectedUnixMs = 0
		if clone.GetSystem() != nil {
			clone.System.BootedUnixMs = 0
		}
		return clone
	}
	return proto.Equal(timeless(a), timeless(b))
}

// bye closes the session in order, so that the gateway knows at once that this was meant.
func (s *live) bye() { _ = s.conn.Close(websocket.StatusNormalClosure, "") }

// lost is the end after a failed write: the gateway's reason if it gave one before the connection went, else the failure.
func (s *live) lost(writing error) ending {
	last := time.NewTimer(time.Second)
	defer last.Stop()
	for {
		select {
		case down := <-s.frames:
			if closed := down.GetClose(); closed != nil {
				return closedEnding(closed)
			}
		case <-s.failed:
			return connectionEnding(writing)
		case <-last.C:
			return connectionEnding(writing)
		}
	}
}

// connectionEnding is the end of a session whose connection went without a Close frame.
func connectionEnding(err error) ending {
	return ending{err: fault.Because(fault.Unavailable, err, nil, "the connection to the gateway ended: %v", innermost(err)), refused: alerted(err)}
}

// innermost gives the error that the others of a chain are only wrapped around.
func innermost(err error) error {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}

// alerted gives the reason when the TLS layer of the gateway refused the machine's certificate. TLS 1.3 tells it only after the handshake, on the
// first read. The library has no type for it but its text.
func alerted(err error) string {
	if isAlert(err) && (strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "access denied")) {
		return wire.ReasonUnknown
	}
	return ""
}

// closedEnding is the end that the gateway told in its last frame.
func closedEnding(c *wire.Close) ending {
	end := ending{pause: asked(c.GetRetryAfterMs())}
	code := fault.Unauthenticated
	switch c.GetReason() {
	case wire.Close_REVOKED:
		end.refused = wire.ReasonRevoked
	case wire.Close_DELETED:
		end.refused = wire.ReasonDeleted
	case wire.Close_QUARANTINED:
		end.refused = wire.ReasonQuarantined
	case wire.Close_EXPIRED:
		end.refused = wire.ReasonExpired
	default:
		code = fault.Unavailable
	}
	message := c.GetMessage()
	if message == "" {
		message = "no reason given"
	}
	end.err = fault.New(code, fault.Details{"reason": c.GetReason().String()}, "the gateway closed the session (%s): %s", c.GetReason(), message)
	return end
}

// observation is something new that the machine may have to tell.
type observation struct {
	inventory *wire.Inventory
	report    *wire.Report
}

// observe looks at the machine until ctx ends: the inventory at once and then now and then, the running devices more often. It never holds up
// the beats, since looking can take long on a sick machine.
func (a *Agent) observe(ctx context.Context, seen chan<- observation) {
	send := func(o observation) bool {
		select {
		case seen <- o:
			return true
		case <-ctx.Done():
			return false
		}
	}
	running := func() observation {
		uuids, known := a.machine.Running(ctx)
		return observation{report: &wire.Report{RunningDeviceUuids: uuids, Known: known}}
	}
	if !send(observation{inventory: a.machine.Inventory(ctx)}) || !send(running()) {
		return
	}
	inventory, report := time.NewTicker(a.rhythm.inventory), time.NewTicker(a.rhythm.report)
	defer inventory.Stop()
	defer report.Stop()
	for {
		var o observation
		select {
		case <-ctx.Done():
			return
		case <-inventory.C:
			o = observation{inventory: a.machine.Inventory(ctx)}
		case <-report.C:
			o = running()
		}
		if !send(o) {
			return
		}
	}
}
