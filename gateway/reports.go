package gateway

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/liveness"
)

// reports are what a session has told and what is not yet in the database: of each kind the newest. They are worked on beside the read loop, so that a
// slow database never makes a machine look silent, and tried again until they are stored or the session ends, since a machine tells them once.
type reports struct {
	inventory *wire.Inventory
	running   *wire.Report
	csr       []byte

	working bool
	pace    *rate.Limiter
}

func (r *reports) empty() bool { return r.inventory == nil && r.running == nil && r.csr == nil }

// offer adds to the reports and sees to it that somebody works on them.
func (s *session) offer(ctx context.Context, add func(*reports)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.reports)
	if s.reports.working || s.reports.empty() {
		return
	}
	s.reports.working = true
	if s.reports.pace == nil {
		s.reports.pace = rate.NewLimiter(rate.Every(5*time.Second), 6) // a machine can't make the log grow faster than this
	}
	s.g.work.Go(func() {
		roomy()
		s.tell(ctx)
	})
}

// take gives what there is to work on; nothing ends the work.
func (s *session) take() (reports, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reports.empty() {
		s.reports.working = false
		return reports{}, false
	}
	r := s.reports
	s.reports = reports{working: true, pace: r.pace}
	return r, true
}

// giveBack keeps for the next try what could not be stored, unless something newer came.
func (s *session) giveBack(r reports) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reports.inventory == nil {
		s.reports.inventory = r.inventory
	}
	if s.reports.running == nil {
		s.reports.running = r.running
	}
}

// tell works on the reports until there are none or the session ends.
func (s *session) tell(ctx context.Context) {
	failures := 0
	for {
		r, ok := s.take()
		if !ok {
			return
		}
		if r.pace.Wait(ctx) != nil {
			return
		}
		select {
		case s.g.telling <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := s.store(ctx, &r)
		<-s.g.telling
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		s.g.Log.ErrorContext(ctx, "what a machine reported could not be stored; trying again", "node", s.NodeID, "session", s.id, "error", err)
		s.giveBack(r)
		failures++
		again := time.NewTimer(jitter(min(time.Second<<min(failures, 5), 15*time.Second)))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// store does what there is to do, and takes out of r what is done.
func (s *session) store(ctx context.Context, r *reports) error {
	if r.csr != nil {
		s.renew(ctx, r.csr)
		r.csr = nil
	}
	if r.inventory != nil {
		if err := s.g.Health.Report(ctx, s.NodeID, s.number, facts(r.inventory)); err != nil {
			return err
		}
		r.inventory = nil
	}
	if r.running != nil {
		running := liveness.Running{NodeID: s.NodeID, Number: s.number, Known: r.running.GetKnown(), Devices: r.running.GetRunningDeviceUuids()}
		if err := s.g.Sessions.ReportRunning(ctx, running); err != nil {
			return err
		}
		r.running = nil
	}
	return nil
}

// renew answers a request for a new certificate. When the one of the session no longer counts, the session ends; when it can't be done now, the
// machine asks again by itself.
func (s *session) renew(ctx context.Context, csr []byte) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	renewed, err := s.g.Identities.Renew(ctx, s.Verdict, csr)
	if err == nil {
		err = s.send(&wire.Down{Body: &wire.Down_Renewed{Renewed: &wire.Renewed{ChainPem: []byte(renewed.Chain)}}})
	}
	if err == nil {
		s.g.Log.InfoContext(ctx, "a certificate was renewed", "node", s.NodeID, "session", s.id)
		return
	}
	s.g.Log.InfoContext(ctx, "a certificate was not renewed", "node", s.NodeID, "session", s.id, "error", err)
	if reason := refusedBy(err); reason != "" {
		s.end(reason, fault.From(err).Message, 0)
	} else if fault.CodeOf(err) == fault.InvalidInput {
		s.end(liveness.EndedProtocol, fault.From(err).Message, 0)
	}
}
