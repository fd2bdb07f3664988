package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// Join says how a machine joins.
type Join struct {
	// Token is the proof that the machine may.
	Token wire.Token
	// Reset lets the machine join as a new node: once it has, the identity that is there is moved aside. Until then, and when the join is refused,
	// the machine is what it was. Nothing is deleted.
	Reset bool
}

// Joined is the outcome of a join.
type Joined struct {
	// Credential is what the machine got.
	Credential *Credential
	// MovedAside is the directory that holds the identity from before a reset; empty when there was none, or when the machine has not become a new node.
	MovedAside string
}

// CheckJoin says before a token is read whether Join could begin: INVALID_INPUT for a configuration that lacks something, ErrJoined in an
// INVALID_STATE when the machine has joined already, or why the state directory can't be used. It changes nothing and dials nothing.
func (a *Agent) CheckJoin(reset bool) error {
	if _, err := a.servers(nil); err != nil {
		return err
	}
	if a.config.CAFingerprint == "" {
		return fault.Invalid("ca_fingerprint", "must be given to join, as join-tokens create printed it", 0)
	}
	if err := checkStateDir(a.config.StateDir); err != nil {
		if isAbsent(err) {
			return nil
		}
		return err
	}
	if reset {
		return nil
	}
	return a.refuseJoined()
}

// refuseJoined is the error of a machine that has joined, or whose files do not say whether it has. A machine whose certificate the control plane
// has refused for good, as run wrote down, may join again.
func (a *Agent) refuseJoined() error {
	credential, found, err := a.credential(credentialRecord)
	if err != nil || !found {
		return err
	}
	session, err := a.lastSession()
	if err != nil {
		return err
	}
	if session != nil && session.State == Refused && session.Serial == credential.Serial() && spent(session.Reason) {
		return nil
	}
	return fault.New(fault.InvalidState, fault.Details{"nodeId": credential.NodeID},
		"this machine is %w as %s; to join as a new node use --reset --yes; to get a new certificate for the same node remove %s/%s first",
		ErrJoined, credential.NodeID, a.config.StateDir, credentialRecord)
}

// spent says whether a gateway's reason means that a certificate is of no more use while the node is still there: then a join with a fresh token gives
// the same node a new one. A deleted node, a copied or a distrusted identity come back only by a reset.
func spent(reason string) bool {
	switch reason {
	case wire.ReasonRevoked, wire.ReasonSuperseded, wire.ReasonUnknown, wire.ReasonExpired:
		return true
	default:
		return false
	}
}

// Join gets the machine its credential. The identity key is made when there is none, and kept when there is one, so that a machine that lost
// only its credential comes back as the same node.
//
// Several calls at a time, in one process or many, send one request: the others find the machine joined (ErrJoined). UNAUTHENTICATED: the token
// was refused, or the gateway is not the one that ca_fingerprint names (it then was sent nothing). UNAVAILABLE: no gateway answered; when the
// answer was lost, the same token can be used again from this machine for some minutes.
func (a *Agent) Join(ctx context.Context, j Join) (Joined, error) {
	if err := a.CheckJoin(j.Reset); err != nil {
		return Joined{}, err
	}
	if err := makeStateDir(a.config.StateDir); err != nil {
		return Joined{}, err
	}
	unlock, err := a.store.lock(ctx)
	if err != nil {
		return Joined{}, err
	}
	defer unlock()
	blank, err := a.store.blank()
	switch {
	case err != nil:
		return Joined{}, err
	case j.Reset && !blank:
		return a.joinAnew(ctx, j.Token)
	}
	// Whoever held the lock before has joined.
	if err := a.refuseJoined(); err != nil {
		return Joined{}, err
	}
	credential, _, err := a.joinAs(ctx, a.store, j.Token)
	if err != nil {
		return Joined{}, err
	}
	// What is left of this join, and of a renewal of the certificate before, has served.
	for _, record := range []string{pendingRecord, nextRecord} {
		if err := a.store.drop(record); err != nil {
			a.log.Warn("a record that has served stays behind; it does no harm", "record", record, "error", err)
		}
	}
	return Joined{Credential: credential}, nil
}

// joinAs joins with the identity in a store, which is made when there is none, and keeps the credential there. open says that a request went out and was
// not decided: the control plane may know the identity.
func (a *Agent) joinAs(ctx context.Context, s *store, token wire.Token) (_ *Credential, open bool, _ error) {
	identity, err := a.ensureIdentity(s)
	if err != nil {
		return nil, false, err
	}
	pending, credential, err := a.ensurePending(s, token)
	if err != nil {
		return nil, false, err
	}
	credential.Key = identity.Fingerprint()
	credential.JoinedAt = a.clock().UTC()
	credential.Servers, err = a.servers(nil)
	if err != nil {
		return nil, false, err
	}
	answer, open, err := a.askToJoin(ctx, identity, pending, token)
	if err != nil {
		return nil, open, err
	}
	if err := a.accept(credential, answer); err != nil {
		return nil, true, err
	}
	record, err := credential.record()
	if err != nil {
		return nil, true, err
	}
	if err := s.write(credentialRecord, record); err != nil {
		return nil, true, fmt.Errorf("keep the certificate; repeat the join with the same token to get it again: %w", err)
	}
	return credential, false, nil
}

// ensureIdentity gives the identity and makes it when there is none.
func (a *Agent) ensureIdentity(s *store) (Identity, error) {
	identity, found, err := s.identity()
	if err != nil {
		return Identity{}, err
	}
	if !found {
		if identity, err = newIdentity(); err != nil {
			return Identity{}, err
		}
	}
	// Also what was found is written, when it was found in a copy: a second fault must not meet the only one.
	return identity, s.keep(identityRecord, identity.record(a.clock()), found)
}

// ensurePending gives the key and request for a token: those of a join with this token whose answer was lost, else fresh ones. They are on the
// disk before anything is sent.
func (a *Agent) ensurePending(s *store, token wire.Token) (pendingJSON, *Credential, error) {
	var pending pendingJSON
	found, err := s.read(pendingRecord, &pending)
	if err != nil {
		return pendingJSON{}, nil, err
	}
	if found && pending.TokenID == token.ID() {
		key, err := parseKey(pending.PrivateKey)
		return pending, &Credential{key: key}, err
	}
	pending, key, err := newPending(token.ID())
	if err != nil {
		return pendingJSON{}, nil, err
	}
	return pending, &Credential{key: key}, s.write(pendingRecord, pending)
}

// accept checks the gateway's answer and completes the credential with it.
func (a *Agent) accept(credential *Credential, answer wire.JoinAnswer) error {
	credential.NodeID, credential.TrustDomain, credential.Generation = answer.NodeID, answer.TrustDomain, answer.Generation
	err := credential.take(answer.Certificate, answer.Root)
	switch {
	case err != nil:
	case credential.RootFingerprint() != a.config.CAFingerprint:
		err = errors.New("its root is not the one that ca_fingerprint names")
	case answer.Key != credential.Key:
		err = errors.New("it is for another identity")
	default:
		return nil
	}
	return fault.New(fault.Internal, nil, "the gateway's answer does not fit this machine, and was not kept: %w", err)
}

// joinTries is how often a join is sent in one call when answers get lost or the gateway asks for patience.
const joinTries = 3

// askToJoin sends the request to one gateway after the other until one answers it. open says that a request went out and was not decided.
func (a *Agent) askToJoin(ctx context.Context, identity Identity, pending pendingJSON, token wire.Token) (_ wire.JoinAnswer, open bool, _ error) {
	servers, err := a.servers(nil)
	if err != nil {
		return wire.JoinAnswer{}, false, err
	}
	for try := 1; ; try++ {
		var last error
		again := time.Duration(-1)
		for _, server := range servers {
			answer, sent, err := a.joinAt(ctx, server, identity, pending, token)
			if err == nil {
				return answer, false, nil
			}
			f := fault.From(err)
			undecided := f.Code == fault.Unavailable || f.Code == fault.ResourceExhausted
			if ctx.Err() != nil {
				return wire.JoinAnswer{}, open || sent, err
			}
			a.log.Info("the gateway did not join this machine", "server", server, "error", err)
			switch {
			case undecided:
				open = open || sent
				// Another server may help. What was sent is worth a repeat: the same key gets the same answer.
				if wait, ok := retryAfter(f); ok || sent {
					again = max(again, wait)
				}
			case !sent:
				// A server that is not trusted says nothing about the next in the list.
			default:
				return wire.JoinAnswer{}, false, err
			}
			if last == nil || sent {
				last = err
			}
		}
		if again < 0 || try == joinTries {
			return wire.JoinAnswer{}, open, last
		}
		// Jitter, so that a rack of machines does not come back as one.
		if err := wait(ctx, again+upTo(time.Second)); err != nil {
			return wire.JoinAnswer{}, open, err
		}
	}
}

// joinAt sends the request to one gateway. sent tells whether the gateway was trusted and the request handed to it.
func (a *Agent) joinAt(
	ctx context.Context, server string, identity Identity, pending pendingJSON, token wire.Token,
) (_ wire.JoinAnswer, sent bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+wire.JoinTimeout)
	defer cancel()
	known, err := a.learnTrust(ctx, server)
	if err != nil {
		return wire.JoinAnswer{}, false, err
	}
	conn, err := known.dial(ctx, server, nil)
	if err != nil {
		return wire.JoinAnswer{}, false, err
	}
	defer func() { _ = conn.Close() }()
	body, err := a.joinRequest(ctx, conn, identity, pending, token)
	if err != nil {
		return wire.JoinAnswer{}, false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+wire.GatewayName(known.trustDomain)+wire.JoinPath, bytes.NewReader(body))
	if err != nil {
		return wire.JoinAnswer{}, false, fmt.Errorf("make the join request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := oneConnection(conn).Do(request)
	if err != nil {
		return wire.JoinAnswer{}, true, dialFault(server, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, 2*wire.MaxJoinBody))
	if err != nil {
		return wire.JoinAnswer{}, true, dialFault(server, err)
	}
	if response.StatusCode != http.StatusOK {
		return wire.JoinAnswer{}, true, refusal(server, response.StatusCode, content)
	}
	var answer wire.JoinAnswer
	if err := json.Unmarshal(content, &answer); err != nil {
		return wire.JoinAnswer{}, true, fault.Because(fault.Unavailable, err, nil, "%s accepted the join and its answer can't be read", server)
	}
	return answer, true, nil
}

func (a *Agent) joinRequest(ctx context.Context, conn *tls.Conn, identity Identity, pending pendingJSON, token wire.Token) ([]byte, error) {
	state := conn.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	if err != nil {
		return nil, fmt.Errorf("bind the join to its connection: %w", err)
	}
	print := a.machine.Print(ctx)
	body, err := json.Marshal(wire.JoinRequest{
		Token: token.Text(), CSR: pending.CSR, IdentityKey: identity.Public(), Proof: identity.prove(exporter, pending.CSR, token.ID()),
		Print: wire.JoinPrint{
			MachineID: print.GetMachineId(), ProductUUID: print.GetProductUuid(), EKHash: print.GetEkHash(), BootID: print.GetBootId(),
		},
		Hostname: a.machine.Hostname(ctx), AgentVersion: a.version, Clock: a.clock().UTC(),
	})
	if err != nil {
		return nil, fmt.Errorf("write the join request: %w", err)
	}
	return body, nil
}

// refusal reads a gateway's refusal. What is no ErrorBody comes from something in between, or from no gateway at all.
func refusal(server string, status int, content []byte) error {
	var body wire.ErrorBody
	if json.Unmarshal(content, &body) == nil && body.Code != "" && body.Message != "" {
		details := fault.Details{}
		maps.Copy(details, body.Details)
		if body.RetryAfterMs > 0 {
			details["retryAfterMs"] = body.RetryAfterMs
		}
		return fault.New(body.Code, details, "%s", body.Message)
	}
	code := fault.Unavailable
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		code = fault.Unauthenticated
	}
	return fault.New(code, nil, "%s answered HTTP %d without a reason", server, status)
}

// retryAfter gives the pause that a refusal asks for.
func retryAfter(f *fault.Error) (time.Duration, bool) {
	ms, ok := f.Details["retryAfterMs"].(int64)
	if !ok || ms <= 0 {
		return 0, false
	}
	return asked(ms), true
}

// asked is a pause in milliseconds that somebody else asked for, at most longestPause and never below none: a number so big that it would come round
// is one too.
func asked(ms int64) time.Duration {
	return time.Duration(max(0, min(ms, longestPause.Milliseconds()))) * time.Millisecond
}

// wait lets d pass; it ends early, with an error, when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
