package agenttest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// session upgrades one session, or refuses it.
func (g *Gateway) session(w http.ResponseWriter, r *http.Request) {
	if len(r.TLS.VerifiedChains) == 0 {
		refuse(w, wire.ReasonUnknown)
		return
	}
	leaf := r.TLS.VerifiedChains[0][0]
	serial := leaf.SerialNumber.Text(16)
	g.mu.Lock()
	reason := g.refused[serial]
	g.mu.Unlock()
	if reason != "" {
		refuse(w, reason)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return
	}
	wire.Prepare(conn)
	s := &Session{
		NodeID: leaf.URIs[0].Path[len("/node/"):], Serial: serial, Inventories: make(chan *wire.Inventory, 64), Reports: make(chan *wire.Report, 64),
		Done: make(chan struct{}), conn: conn, gateway: g,
	}
	g.open.Go(func() { s.serve(g.life) })
}

func refuse(w http.ResponseWriter, reason string) {
	answer(w, http.StatusUnauthorized, wire.ErrorBody{
		Code: fault.Unauthenticated, Message: "this certificate is refused: " + reason, Details: fault.Details{"reason": reason},
	})
}

// Session is one session that a machine opened.
type Session struct {
	// NodeID and Serial are from the machine's certificate.
	NodeID, Serial string
	// Hello is the machine's first frame.
	Hello *wire.Hello
	// Inventories and Reports deliver what the machine tells.
	Inventories chan *wire.Inventory
	Reports     chan *wire.Report
	// Done is closed when the session is over.
	Done chan struct{}

	conn    *websocket.Conn
	gateway *Gateway

	mu    sync.Mutex
	beats uint64
	ended error
}

// Beats is the number of the newest beat.
func (s *Session) Beats() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beats
}

// Clean says whether the machine closed the session in order; it waits for the end.
func (s *Session) Clean() bool {
	<-s.Done
	s.mu.Lock()
	defer s.mu.Unlock()
	return websocket.CloseStatus(s.ended) == websocket.StatusNormalClosure
}

// Send sends one frame.
func (s *Session) Send(ctx context.Context, down *wire.Down) error {
	return wire.WriteDown(ctx, s.conn, down)
}

// SendClose sends a Close frame and ends the session.
func (s *Session) SendClose(ctx context.Context, c *wire.Close) error {
	err := s.Send(ctx, &wire.Down{Body: &wire.Down_Close{Close: c}})
	// The machine may have closed first.
	_ = s.conn.Close(websocket.StatusPolicyViolation, c.GetReason().String())
	return err
}

// Drop cuts the connection without a word.
func (s *Session) Drop() { _ = s.conn.CloseNow() }

func (s *Session) serve(ctx context.Context) {
	defer close(s.Done)
	defer func() { _ = s.conn.CloseNow() }()
	err := s.listen(ctx)
	s.mu.Lock()
	s.ended = err
	s.mu.Unlock()
}

func (s *Session) listen(ctx context.Context) error {
	up, err := wire.ReadUp(ctx, s.conn)
	if err != nil {
		return err
	}
	if s.Hello = up.GetHello(); s.Hello == nil {
		return errRefused
	}
	o := s.gateway.options
	interval, lease := o.BeatInterval, o.Lease
	if interval == 0 {
		interval = 10 * time.Millisecond
	}
	if lease == 0 {
		lease = time.Minute
	}
	if err := s.Send(ctx, &wire.Down{Body: &wire.Down_Welcome{Welcome: &wire.Welcome{
		NodeId: s.NodeID, Generation: 1, BeatIntervalMs: interval.Milliseconds(), LeaseMs: lease.Milliseconds(),
		ServerTimeUnixMs: time.Now().UnixMilli(),
	}}}); err != nil {
		return err
	}
	s.gateway.Sessions <- s
	for {
		up, err := wire.ReadUp(ctx, s.conn)
		if err != nil {
			return err
		}
		switch body := up.GetBody().(type) {
		case *wire.Up_Beat:
			s.mu.Lock()
			s.beats = body.Beat.GetSeq()
			s.mu.Unlock()
			if !o.Silent {
				err = s.Send(ctx, &wire.Down{Body: &wire.Down_BeatAck{BeatAck: &wire.BeatAck{Seq: body.Beat.GetSeq()}}})
			}
		case *wire.Up_Inventory:
			s.Inventories <- body.Inventory
		case *wire.Up_Report:
			s.Reports <- body.Report
		case *wire.Up_Renew:
			err = s.renew(ctx, body.Renew.GetCsr())
		default:
			err = errRefused
		}
		if err != nil {
			return err
		}
	}
}

func (s *Session) renew(ctx context.Context, der []byte) error {
	chain, err := s.gateway.Sign(s.NodeID, der)
	if err != nil {
		return err
	}
	return s.Send(ctx, &wire.Down{Body: &wire.Down_Renewed{Renewed: &wire.Renewed{ChainPem: []byte(chain)}}})
}
