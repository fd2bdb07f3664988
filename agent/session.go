package agent

import (
	"context"
	"errors"
	"fmt"
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
	known := trust{root: credential.root, trustDomain: credential.TrustDomain, clock: a.clock}
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
	end := ending{pause: min(time.Duration(c.GetRetryAfterMs())*time.Millisecond, longestPause)}
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

// errRunning says that another bcd run has this state directory.
var errRunning = errors.New("already running")

// Run keeps a session with a gateway until ctx ends, and then closes it in order and gives nil. It comes back by itself after every loss, and
// after a refusal it tries once in five minutes, or at once when the machine was joined anew. Workloads are left alone throughout.
//
// It gives an error only when it can't go on: UNAUTHENTICATED when the machine has not joined, INVALID_STATE when another bcd runs with the same
// state directory or its files can't be trusted, or the error of reading them.
func (a *Agent) Run(ctx context.Context) error {
	credential, err := a.joined()
	if err != nil {
		return err
	}
	if _, err := a.servers(credential); err != nil {
		return err
	}
	unlock, err := tryLock(a.runLock())
	if errors.Is(err, errLocked) {
		return fault.New(fault.InvalidState, nil, "bcd is %w with the state directory %s", errRunning, a.config.StateDir)
	}
	if err != nil {
		return err
	}
	defer unlock()
	if len(a.config.Allow) > 0 {
		a.log.Warn("commands.allow is set, and this version of bcd runs no commands")
	}
	turn, failures := newTurn(), 0
	for {
		credential, isNext, err := a.awaitCredential(ctx)
		if ctx.Err() != nil {
			a.tellState(Session{State: Stopped})
			return nil
		}
		if err != nil {
			return err
		}
		servers, err := a.servers(credential)
		if err != nil {
			return err
		}
		server := turn.of(servers)
		a.tellState(Session{State: Connecting, Server: server})
		a.log.Info("connecting", "server", server, "node", credential.NodeID)
		end := a.session(ctx, server, credential, func(ctx context.Context, w *wire.Welcome) {
			a.log.Info("the session is open", "server", server, "node", credential.NodeID, "generation", w.GetGeneration())
			a.tellState(Session{State: Connected, Server: server})
			if isNext {
				a.promote(ctx)
			}
		})
		if ctx.Err() != nil {
			a.tellState(Session{State: Stopped, Server: server})
			a.log.Info("stopped", "node", credential.NodeID)
			return nil
		}
		if end.renewed {
			continue
		}
		if isNext && end.refused != "" {
			// The certificate before it may still be good, and no refusal is worth losing it for.
			a.log.Warn("the renewed certificate was refused; the one before goes on", "error", end.err)
			if err := a.forgetNext(ctx); err != nil {
				return err
			}
			continue
		}
		turn.next()
		if !end.welcomedAt.IsZero() && time.Since(end.welcomedAt) > a.rhythm.steady {
			failures = 0
		}
		if err := a.pause(ctx, credential, server, end, failures); err != nil {
			a.tellState(Session{State: Stopped, Server: server})
			return nil
		}
		failures++
	}
}

// pause waits before the next connect. It gives an error when ctx ended.
func (a *Agent) pause(ctx context.Context, credential *Credential, server string, end ending, failures int) error {
	if end.refused == "" {
		d := a.rhythm.retry(failures, end.pause)
		a.log.Warn("the session is lost; workloads are left alone", "server", server, "error", end.err, "retry_in", d.Round(time.Millisecond))
		a.tellState(Session{State: Waiting, Server: server, Message: sentence(end.err), NextTryAt: a.clock().Add(d)})
		return wait(ctx, d)
	}
	d := max(a.rhythm.refusedPause(), end.pause)
	a.log.Error("the control plane refuses this machine; workloads are left alone, no commands are taken",
		"reason", end.refused, "server", server, "error", end.err, "retry_in", d.Round(time.Second), "what_to_do", remedy(end.refused))
	a.tellState(Session{
		State: Refused, Server: server, Serial: credential.Serial(), Reason: end.refused, Message: sentence(end.err), NextTryAt: a.clock().Add(d),
	})
	until, look := time.NewTimer(d), time.NewTicker(a.rhythm.look)
	defer until.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-until.C:
			return nil
		case <-look.C:
			// Joined anew meanwhile: there is no reason to wait. What can't be read is for the next round to say.
			now, _, err := a.current()
			if errors.Is(err, errNotJoined) {
				continue
			}
			if err != nil || now.Serial() != credential.Serial() {
				return nil
			}
		}
	}
}

// awaitCredential gives the credential to connect with. An operator who lets the machine join anew takes the old one away first; then it waits for
// the new one.
func (a *Agent) awaitCredential(ctx context.Context) (_ *Credential, isNext bool, _ error) {
	look := time.NewTicker(a.rhythm.look)
	defer look.Stop()
	for told := false; ; {
		credential, isNext, err := a.current()
		if !errors.Is(err, errNotJoined) {
			return credential, isNext, err
		}
		if !told {
			told = true
			a.log.Warn("waiting to be joined again", "error", err)
			a.tellState(Session{State: Waiting, Message: sentence(err)})
		}
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-look.C:
		}
	}
}

// remedy says what an operator can do about a refusal.
func remedy(reason string) string {
	switch reason {
	case wire.ReasonDeleted:
		return "the node was deleted; to join as a new one: bcd join --reset --yes with a new token"
	case wire.ReasonQuarantined:
		return "two machines use this identity; find the copy, then join the real one anew: bcd join --reset --yes with a new token"
	case wire.ReasonGeneration:
		return "the node's identity was revoked; join anew: bcd join --reset --yes with a new token for this node"
	default:
		return "to come back as the same node: bcd join with a new token"
	}
}

// sentence gives the text of an error, "" for none.
func sentence(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// current gives the credential to connect with: a renewed one that was not used yet comes first.
func (a *Agent) current() (_ *Credential, isNext bool, _ error) {
	credential, err := a.joined()
	if err != nil {
		return nil, false, err
	}
	next, found, err := a.credential(nextRecord)
	switch {
	case err != nil:
		// The one in use is whole; what became of its successor must not stop it.
		a.log.Warn("the renewed certificate can't be read; the one before goes on", "error", err)
	case found && next.NodeID == credential.NodeID && next.Key == credential.Key:
		return next, true, nil
	}
	return credential, false, nil
}

// forgetNext drops a renewed certificate that the gateway refused.
func (a *Agent) forgetNext(ctx context.Context) error {
	unlock, err := a.store.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.store.drop(nextRecord); err != nil {
		return fmt.Errorf("drop the renewed certificate: %w", err)
	}
	return nil
}
