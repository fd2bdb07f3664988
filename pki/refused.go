package pki

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/iam"
)

// JoinTokenRefusal says why a join token was refused. The machine that showed it is never told; its owner is.
type JoinTokenRefusal string

// The reasons, as events say them. A token that is used up has an event of its own, security.join-token.reused.
const (
	// TokenWrongSecret: somebody knows the token's id and not its secret.
	TokenWrongSecret JoinTokenRefusal = "WRONG_SECRET"
	// TokenExpired: it came too late.
	TokenExpired JoinTokenRefusal = "EXPIRED"
	// TokenRevoked: an operator has revoked it.
	TokenRevoked JoinTokenRefusal = "REVOKED"
	// TokenOtherPool: the machine is a node of another pool than the token's.
	TokenOtherPool JoinTokenRefusal = "OTHER_POOL"
	// TokenOtherNode: the token is for one node, and the machine is not that one.
	TokenOtherNode JoinTokenRefusal = "OTHER_NODE"
	// TokenOutdated: the token was made before the certificate of the machine's node was revoked.
	TokenOutdated JoinTokenRefusal = "OUTDATED"
)

// usedUp stands in the queue for a second use, which is told by an event of its own.
const usedUp JoinTokenRefusal = "USED"

// refused gives the one refusal, and sees to it that the log has the truth now and the token's owner soon.
func (s *Store) refused(ctx context.Context, j *joining, t tokenRow, cause JoinTokenRefusal) error {
	s.Log.InfoContext(ctx, "join refused for its token", "token", j.token.ID(), "cause", cause, "key", j.fingerprint)
	s.tellings.add(context.WithoutCancel(ctx), telling{
		tokenID: j.token.ID(), cause: cause, tenant: t.tenant, pool: t.pool, boundTo: t.node, key: j.fingerprint, print: j.print, hostname: j.Hostname,
	}, s.tell)
	return errRefused()
}

// telling is an event that is to be written about a refusal: the token, and what is known of the machine that showed it.
type telling struct {
	tokenID  string
	cause    JoinTokenRefusal
	tenant   string
	pool     string
	boundTo  *string
	key      string
	print    json.RawMessage
	hostname string
}

// tellings are those that wait for their turn. They are written one after the other beside the answers, never before them: an answer that took a
// write longer would tell whoever holds a token, or merely knows its id, which kind of refusal it got, and a fault of the write would be another answer.
// A process that is killed in that moment loses the event; the next try is told.
type tellings struct {
	mu      sync.Mutex
	waiting []telling
	known   map[string]bool // waiting or being written, so that a storm of tries is one telling
	running chan struct{}   // closed when nothing waits any more; nil when nobody works
}

const (
	// maxTellings bounds what waits: a rack that was given as many dead tokens.
	maxTellings = 1024
	// tellTimeout bounds the writing of one.
	tellTimeout = 10 * time.Second
)

// add puts a telling in the queue, unless the same one is in it, and sees to it that somebody works on it.
func (q *tellings) add(ctx context.Context, t telling, tell func(context.Context, telling)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[t.name()] || len(q.waiting) == maxTellings {
		return
	}
	if q.known == nil {
		q.known = map[string]bool{}
	}
	q.known[t.name()] = true
	q.waiting = append(q.waiting, t)
	if q.running == nil {
		q.running = make(chan struct{})
		go q.work(ctx, tell)
	}
}

func (t telling) name() string { return t.tokenID + " " + string(t.cause) }

func (q *tellings) work(ctx context.Context, tell func(context.Context, telling)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		t := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		tell(ctx, t)
		q.mu.Lock()
		delete(q.known, t.name())
	}
	q.waiting = nil
	close(q.running)
	q.running = nil
}

// Told waits until the events about refusals so far are written, or ctx ends. A process calls it before it ends.
func (s *Store) Told(ctx context.Context) {
	s.tellings.mu.Lock()
	running := s.tellings.running
	s.tellings.mu.Unlock()
	if running == nil {
		return
	}
	select {
	case <-running:
	case <-ctx.Done():
	}
}

// tell writes an event, in a transaction of its own. The refusal has long been given, so a fault is a line in the log.
func (s *Store) tell(ctx context.Context, t telling) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	write := s.tellRefused
	if t.cause == usedUp {
		write = s.tellReuse
	}
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.Locks(db.LockJoinToken); err != nil {
			return err
		}
		return write(ctx, tx, t)
	})
	if err != nil {
		s.Log.ErrorContext(ctx, "the event about a refused join could not be written", "token", t.tokenID, "cause", t.cause, "error", err)
	}
}

// refusedData is what security.join-token.refused says.
type refusedData struct {
	JoinTokenID string           `json:"joinTokenId"`
	Cause       JoinTokenRefusal `json:"cause"`
	PoolID      string           `json:"poolId"`
	BoundTo     *string          `json:"boundTo,omitempty"`
	Key         string           `json:"key"`
	Print       json.RawMessage  `json:"print"`
	Hostname    string           `json:"hostname"`
}

// tellRefused tells a token's owner that it was refused, once an hour for each cause, whichever gateways refuse it. The event is about the node that
// the machine has proved to be, else about the one that the token is for; of another tenant's node it says nothing.
func (s *Store) tellRefused(ctx context.Context, tx *db.Tx, t telling) error {
	tag, err := tx.Exec(ctx, `
		insert into join_token_refusals as r (token_id, cause, told_at)
		select $1, $2, clock_timestamp()
		where not exists (select from join_token_refusals where token_id = $1 and cause = $2 and told_at > clock_timestamp() - interval '1 hour')
		on conflict (token_id, cause) do update set told_at = excluded.told_at where r.told_at <= excluded.told_at - interval '1 hour'`,
		t.tokenID, t.cause)
	if err != nil {
		return fmt.Errorf("note the refusal of a join token: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil // told within the last hour
	}
	var nodeID string
	err = tx.QueryRow(ctx, `
		select n.id from identity_keys k join nodes n on n.id = k.node_id
		where k.fingerprint = $1 and k.state <> 'FREED' and n.owner_tenant_id = $2`, t.key, t.tenant).Scan(&nodeID)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		if t.boundTo != nil {
			nodeID = *t.boundTo
		}
	case err != nil:
		return fmt.Errorf("look for the node of a refused machine: %w", err)
	}
	return events.Append(tx, events.Entry{
		Type: "security.join-token.refused", TenantID: t.tenant, NodeID: nodeID, Actor: iam.System("join").Name,
		Data: refusedData{
			JoinTokenID: t.tokenID, Cause: t.cause, PoolID: t.pool, BoundTo: t.boundTo, Key: t.key, Print: t.print, Hostname: t.hostname,
		},
		Audience: events.Audience{Full: []string{t.tenant}},
	})
}
