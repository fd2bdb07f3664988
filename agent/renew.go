package agent

import (
	"context"
	"time"

	"github.com/better-compute/better-compute/gateway/wire"
)

// renewIn says how long to wait with the renewal of a certificate: half of its life, give or take a tenth, by the database's clock. One that is
// past that point is renewed soon, and not at once, so that a fleet which slept does not ask as one.
func (a *Agent) renewIn(credential *Credential, now time.Time) time.Duration {
	life := credential.NotAfter().Sub(credential.NotBefore())
	spread := life / 10
	due := credential.NotBefore().Add(life/2 - spread + upTo(2*spread))
	return max(due.Sub(now), upTo(a.rhythm.renewSoon))
}

// askRenewal sends a request for a new certificate. Its key is on the disk first; if that fails, nothing is sent and the certificate goes on.
func (s *live) askRenewal(ctx context.Context) error {
	csr, ok := s.agent.beginRenewal()
	if !ok {
		return nil
	}
	return s.send(ctx, &wire.Up{Body: &wire.Up_Renew{Renew: &wire.Renew{Csr: csr}}})
}

// beginRenewal gives the request to send: that of a renewal whose answer did not come, or a fresh one.
func (a *Agent) beginRenewal() (csr []byte, ok bool) {
	// Who holds the lock is joining anew; the beats can't wait for that, and the renewal can.
	unlock, err := a.store.tryLock()
	if err != nil {
		a.log.Warn("the certificate is not renewed now", "error", err)
		return nil, false
	}
	defer unlock()
	var pending pendingJSON
	found, err := a.store.read(pendingRecord, &pending)
	if err == nil && found && pending.TokenID == "" {
		return pending.CSR, true
	}
	if err == nil {
		if pending, _, err = newPending(""); err == nil {
			err = a.store.write(pendingRecord, pending)
		}
	}
	if err != nil {
		a.log.Error("the certificate can't be renewed now; the one in use goes on", "error", err)
		return nil, false
	}
	return pending.CSR, true
}

// takeRenewal keeps a new certificate beside the one in use and says whether it is there to be used.
func (a *Agent) takeRenewal(old *Credential, chainPEM []byte) bool {
	err := func() error {
		unlock, err := a.store.tryLock()
		if err != nil {
			return err
		}
		defer unlock()
		var pending pendingJSON
		found, err := a.store.read(pendingRecord, &pending)
		if err != nil || !found || pending.TokenID != "" {
			return err
		}
		key, err := parseKey(pending.PrivateKey)
		if err != nil {
			return err
		}
		fresh := *old
		fresh.key = key
		if err := fresh.take(string(chainPEM), encodePEM(old.root)); err != nil {
			return err
		}
		record, err := fresh.record()
		if err != nil {
			return err
		}
		if err := a.store.write(nextRecord, record); err != nil {
			return err
		}
		return a.store.drop(pendingRecord)
	}()
	if err != nil {
		a.log.Error("the new certificate can't be kept; the one in use goes on", "error", err)
		return false
	}
	next, found, err := a.credential(nextRecord)
	if err != nil || !found {
		a.log.Error("the new certificate is not there; the one in use goes on", "error", err)
		return false
	}
	a.log.Info("the certificate is renewed", "node", next.NodeID, "serial", next.Serial(), "not_after", next.NotAfter())
	return true
}

// promote makes the renewed certificate the one in use, now that a gateway has taken it. When it can't be written it stays beside the old one
// and is used from there.
func (a *Agent) promote(ctx context.Context) {
	unlock, err := a.store.lock(ctx)
	if err == nil {
		defer unlock()
		err = a.store.promote()
	}
	if err != nil {
		a.log.Warn("the renewed certificate stays beside the one before", "error", err)
	}
}
