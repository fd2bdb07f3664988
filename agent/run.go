package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

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
	a.settle()
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
		end := a.connect(ctx, server, credential, isNext)
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

// connect holds one session with a server, and says what becomes of it.
func (a *Agent) connect(ctx context.Context, server string, credential *Credential, isNext bool) ending {
	a.tellState(Session{State: Connecting, Server: server})
	a.log.Info("connecting", "server", server, "node", credential.NodeID)
	return a.session(ctx, server, credential, func(ctx context.Context, w *wire.Welcome) {
		a.log.Info("the session is open", "server", server, "node", credential.NodeID, "generation", w.GetGeneration())
		a.tellState(Session{State: Connected, Server: server})
		if isNext {
			a.promote(ctx)
		}
	})
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
