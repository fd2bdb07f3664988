package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/socket"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/pki"
)

// session is one connection that was let in; from its Hello on it is its node's session.
type session struct {
	// Verdict is whose session it is, by the certificate that the database judged.
	pki.Verdict

	g         *Gateway
	id        string
	from      string
	notBefore time.Time

	// number is the database's. It is written once, before the session is in the registry by its node.
	number int64
	opened atomic.Bool

	heard   atomic.Int64 // when the last frame came, by the gateway's clock
	flushed atomic.Int64 // what of it is in the database
	frames  atomic.Int64 // since the last look
	ack     [16]byte     // the last answer to a beat; only reading touches it
	nudged  time.Duration

	mu      sync.Mutex
	conn    *socket.Conn // nil until the connection is upgraded
	raw     *pending
	over    string // why it ends, when this side ends it
	closing *wire.Close
	status  socket.Code // of the close frame
	reports reports
}

// sentences are what a machine's log shows for the ends that the database decides.
var sentences = map[string]string{
	liveness.EndedSuperseded:  "a newer session of this node took over",
	liveness.EndedRevoked:     "the certificate or the identity of this node was revoked; an operator must make a new join token",
	liveness.EndedQuarantined: "two machines used this node's identity; an operator must say which one stays",
	liveness.EndedDeleted:     "the node was deleted; join with --reset --yes to come back as a new one",
	liveness.EndedExpired:     "the certificate ran out; join again",
}

var closeReasons = map[string]wire.Close_Reason{
	liveness.EndedSuperseded: wire.Close_SUPERSEDED, liveness.EndedRevoked: wire.Close_REVOKED, liveness.EndedQuarantined: wire.Close_QUARANTINED,
	liveness.EndedDeleted: wire.Close_DELETED, liveness.EndedExpired: wire.Close_EXPIRED, liveness.EndedGoAway: wire.Close_GO_AWAY,
	liveness.EndedProtocol: wire.Close_PROTOCOL,
}

const (
	// frameFlood is how many frames a second a machine may send; a healthy one sends a handful a minute.
	frameFlood = 200
	// nudgeEvery is how often a machine whose certificate nears its end is asked to renew it.
	nudgeEvery = 30 * time.Minute
)

func newSession(g *Gateway, v pki.Verdict, notBefore time.Time, from string) *session {
	return &session{Verdict: v, g: g, id: id.New(id.Session), from: from, notBefore: notBefore}
}

// upgraded gives the session its connection. One that has to go already gets to know it from run.
func (s *session) upgraded(conn *socket.Conn, raw *pending) {
	conn.Pinged = func() { s.frames.Add(1) }
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.raw = conn, raw
}

// run is the session from its first frame to its end.
func (s *session) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	reason := s.serve(ctx)
	cancel()
	s.g.registry.remove(s)
	if s.number > 0 {
		s.g.Log.InfoContext(ctx, "a session has ended", "node", s.NodeID, "session", s.id, "reason", reason)
		s.g.ends.add(liveness.Ended{NodeID: s.NodeID, SessionID: s.id, Number: s.number, Reason: reason})
	}
	if s.isOver() {
		s.conn.Await()
	}
	_ = s.conn.End()
}

// serve opens the session and reads until it ends; it gives why.
func (s *session) serve(ctx context.Context) string {
	if s.isOver() {
		return s.goodbye()
	}
	if reason := s.hello(ctx); reason != "" {
		return reason
	}
	for {
		up, seq, err := s.read()
		if err != nil {
			return s.broken(ctx, err)
		}
		s.heard.Store(int64(s.g.now()))
		s.frames.Add(1)
		if up == nil {
			if err := s.answer(seq); err != nil {
				return s.broken(ctx, err)
			}
			continue
		}
		switch body := up.GetBody().(type) {
		case *wire.Up_Beat: // spelled in another way than bcd does
			if err := s.answer(body.Beat.GetSeq()); err != nil {
				return s.broken(ctx, err)
			}
		case *wire.Up_Inventory:
			s.offer(ctx, func(r *reports) { r.inventory = body.Inventory })
		case *wire.Up_Report:
			s.offer(ctx, func(r *reports) { r.running = body.Report })
		case *wire.Up_Renew:
			s.offer(ctx, func(r *reports) { r.csr = body.Renew.GetCsr() })
		case *wire.Up_Hello:
			return s.end(liveness.EndedProtocol, "a session has one Hello", 0)
		}
		// What is not known here is from a newer bcd, and ignored.
	}
}

// answer answers a beat.
func (s *session) answer(seq uint64) error {
	s.g.beats.Add(1)
	return s.conn.Write(wire.AppendAck(s.ack[:0], seq))
}

// read reads the next frame. It has no end of its own and so costs no timer: who ends the session closes the connection.
func (s *session) read() (up *wire.Up, seq uint64, err error) {
	frame, err := s.conn.Next(wire.LimitUp)
	if err != nil {
		return nil, 0, err
	}
	up, seq, err = wire.DecodeUp(frame)
	s.conn.Free()
	return up, seq, err
}

// hello waits for the first frame, has the database open the session and welcomes the machine. It gives "" when the session is open, else why not.
func (s *session) hello(ctx context.Context) string {
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.g.HelloTimeout)
	late := context.AfterFunc(waiting, func() {
		if errors.Is(waiting.Err(), context.DeadlineExceeded) {
			s.end(liveness.EndedProtocol, "no Hello came in time", 0)
		}
	})
	up, _, err := s.read()
	late()
	cancel()
	if err != nil {
		return s.broken(ctx, err)
	}
	h := up.GetHello()
	if h == nil {
		return s.end(liveness.EndedProtocol, "the first frame must be Hello", 0)
	}
	if claimed := h.GetNodeId(); claimed != "" && claimed != s.NodeID {
		if err := s.g.Identities.TellMismatch(ctx, s.Verdict, claimed); err != nil {
			s.g.Log.ErrorContext(ctx, "a Hello that names another node could not be told of", "node", s.NodeID, "claimed", claimed, "error", err)
		}
		return s.end(liveness.EndedProtocol, "the certificate is another node's than Hello names; join again", 0)
	}
	printed := h.GetPrint()
	opened, err := s.g.opens.open(ctx, liveness.Hello{
		NodeID: s.NodeID, SessionID: s.id, BootID: h.GetBootId(), AgentVersion: h.GetAgentVersion(), Hostname: h.GetHostname(),
		Print: liveness.Print{
			MachineID: printed.GetMachineId(), ProductUUID: printed.GetProductUuid(), EKHash: printed.GetEkHash(), BootID: printed.GetBootId(),
		},
		ClockUnixMs: h.GetClockUnixMs(), At: time.Now(),
	})
	switch {
	case errors.Is(err, errNoNode):
		return s.end(liveness.EndedDeleted, sentences[liveness.EndedDeleted], 0)
	case err != nil:
		s.g.Log.ErrorContext(ctx, "a session could not be opened", "node", s.NodeID, "error", err)
		return s.end(liveness.EndedGoAway, "the session could not be opened; try again", time.Second+jitter(4*time.Second))
	}
	at := s.g.now()
	s.number = opened.Number
	s.heard.Store(int64(at))
	s.flushed.Store(int64(at)) // opening has written it
	older, newest := s.g.registry.open(s)
	if !newest {
		return s.end(liveness.EndedSuperseded, sentences[liveness.EndedSuperseded], 0)
	}
	s.opened.Store(true)
	if older != nil {
		s.g.work.Go(func() { older.end(liveness.EndedSuperseded, sentences[liveness.EndedSuperseded], 0) })
	}
	// Registered now, so the feed finds it from here on; what was revoked between its judgement and this moment is in the feed's memory.
	if s.g.Feed != nil {
		if refusal, denied := s.g.Feed.Denied(s.Serial); denied {
			reason := refusalEnds[string(refusal)]
			return s.end(reason, sentences[reason], 0)
		}
	}
	s.g.Log.InfoContext(ctx, "a session is open", "node", s.NodeID, "session", s.id, "from", s.from, "agent", h.GetAgentVersion())
	welcome := &wire.Welcome{
		NodeId: s.NodeID, Generation: s.Generation, BeatIntervalMs: s.g.BeatInterval.Milliseconds(), LeaseMs: s.g.Lease.Milliseconds(),
		ServerTimeUnixMs: opened.At.UnixMilli(),
	}
	if err := s.send(&wire.Down{Body: &wire.Down_Welcome{Welcome: welcome}}); err != nil {
		return s.broken(ctx, err)
	}
	return ""
}

// send sends one frame. There is no goroutine that only writes, and no timer: who sends waits for its turn, and the keeper cuts a connection that takes
// too long over a frame.
func (s *session) send(down *wire.Down) error {
	frame, err := wire.EncodeDown(down)
	if err != nil {
		return err
	}
	return s.conn.Write(frame)
}

// broken gives why the session ends after a read or write failed.
func (s *session) broken(ctx context.Context, err error) string {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	var closed *socket.Closed
	var broken *socket.Broken
	switch {
	case over != "":
		return over
	case errors.As(err, &closed) && (closed.Code == socket.Normal || closed.Code == socket.GoingAway):
		return liveness.EndedByNode
	case errors.As(err, &broken):
	case errors.Is(err, wire.ErrProtocol):
		broken = &socket.Broken{Code: socket.Unsupported}
	default:
		return liveness.EndedLost
	}
	s.g.Log.InfoContext(ctx, "a machine broke the protocol", "node", s.NodeID, "session", s.id, "error", err)
	return s.endAs(broken.Code, liveness.EndedProtocol, "what came is no frame of this protocol", 0)
}

func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over != ""
}

// end ends the session for a reason and gives the reason that counts: the first one. The machine is told why when it still listens; two seconds are
// for that, then the connection is cut.
func (s *session) end(reason, message string, retry time.Duration) string {
	return s.endAs(statusOf(closeReasons[reason]), reason, message, retry)
}

// endAs is end with the status of the websocket's close frame.
func (s *session) endAs(status socket.Code, reason, message string, retry time.Duration) string {
	s.mu.Lock()
	if s.over != "" {
		defer s.mu.Unlock()
		return s.over
	}
	s.over, s.status = reason, status
	if told, ok := closeReasons[reason]; ok {
		s.closing = &wire.Close{Reason: told, Message: message, RetryAfterMs: retry.Milliseconds()}
	}
	upgraded := s.conn != nil
	s.mu.Unlock()
	if upgraded {
		return s.goodbye()
	}
	return reason
}

// goodbye tells the machine why the session ends, and has the connection cut when it does not end within the time for that.
func (s *session) goodbye() string {
	s.mu.Lock()
	conn, raw, reason, closing, status := s.conn, s.raw, s.over, s.closing, s.status
	s.mu.Unlock()
	if closing == nil {
		_ = raw.Close() // nobody listens there
		return reason
	}
	time.AfterFunc(goodbye, func() { _ = raw.Close() })
	if s.send(&wire.Down{Body: &wire.Down_Close{Close: closing}}) != nil {
		return reason // it is gone
	}
	_ = conn.Close(status, closing.GetReason().String())
	return reason
}

// statusOf gives the websocket status that goes with a reason.
func statusOf(r wire.Close_Reason) socket.Code {
	switch r {
	case wire.Close_GO_AWAY:
		return socket.GoingAway
	case wire.Close_PROTOCOL:
		return socket.Protocol
	default:
		return socket.Policy
	}
}

// look is the keeper's look at the session: silence, the certificate's end, floods. It never blocks. Silence counts from since at the earliest.
func (s *session) look(ctx context.Context, now, since time.Duration) {
	s.mu.Lock()
	conn, raw := s.conn, s.raw
	s.mu.Unlock()
	if conn != nil && conn.Writing(now) > wire.WriteTimeout {
		_ = raw.Close() // it does not take what is sent
		return
	}
	frames := s.frames.Swap(0)
	if !s.opened.Load() || s.isOver() {
		return
	}
	silent := now - max(time.Duration(s.heard.Load()), since)
	left, life := time.Until(s.NotAfter), s.NotAfter.Sub(s.notBefore)
	switch {
	case frames > frameFlood*max(int64(s.g.LookEvery/time.Second), 1):
		s.g.work.Go(func() { s.end(liveness.EndedProtocol, "too many frames", 0) })
	case silent > s.g.Lease:
		s.g.work.Go(func() { s.end(liveness.EndedSilent, "", 0) })
	case left <= 0:
		s.g.work.Go(func() { s.end(liveness.EndedExpired, sentences[liveness.EndedExpired], 0) })
	case left < life/6 && (s.nudged == 0 || now-s.nudged > nudgeEvery):
		s.nudged = now
		s.g.work.Go(func() {
			if err := s.send(&wire.Down{Body: &wire.Down_RenewNow{RenewNow: &wire.RenewNow{}}}); err != nil {
				s.g.Log.DebugContext(ctx, "a machine could not be asked to renew its certificate", "node", s.NodeID, "error", err)
			}
		})
	}
}

// refusalEnds are the ends that a refused renewal makes, by the reason of the refusal.
var refusalEnds = map[string]string{
	wire.ReasonRevoked: liveness.EndedRevoked, wire.ReasonGeneration: liveness.EndedRevoked, wire.ReasonUnknown: liveness.EndedRevoked,
	wire.ReasonDeleted: liveness.EndedDeleted, wire.ReasonQuarantined: liveness.EndedQuarantined, wire.ReasonExpired: liveness.EndedExpired,
	wire.ReasonSuperseded: liveness.EndedSuperseded,
}

// refusedBy gives the end that a refusal makes; "" when the error is none.
func refusedBy(err error) string {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.Unauthenticated {
		return ""
	}
	reason, _ := f.Details["reason"].(string)
	return refusalEnds[reason]
}
