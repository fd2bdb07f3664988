package pki

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
)

// again answers a join by a token that does not count any more: the same answer when it only got lost, else the one refusal. A second use by
// somebody else is the best sign of a stolen token that there is, so it is told to the owner, once a minute at most.
func (s *Store) again(ctx context.Context, j *joining, t tokenRow) (wire.JoinAnswer, error) {
	switch {
	case t.usedBy != nil:
	case t.revoked:
		return wire.JoinAnswer{}, s.refused(ctx, j, t, TokenRevoked)
	default:
		return wire.JoinAnswer{}, s.refused(ctx, j, t, TokenExpired)
	}
	if t.ageOfUse != nil && *t.ageOfUse < answerAgain {
		answer, err := s.lostAnswer(ctx, j)
		if err == nil || !errors.Is(err, pgx.ErrNoRows) {
			return answer, err
		}
	}
	s.Log.WarnContext(ctx, "a used join token is shown again", "token", j.token.ID(), "usedBy", *t.usedBy)
	return wire.JoinAnswer{}, s.refused(ctx, j, t, usedUp)
}

// lostAnswer gives the answer of the join that used the token, if this is the same machine asking for the same and the certificate was never
// used; otherwise pgx.ErrNoRows.
func (s *Store) lostAnswer(ctx context.Context, j *joining) (wire.JoinAnswer, error) {
	var chain, nodeID string
	var generation int64
	var now time.Time
	err := s.DB.Pool().QueryRow(ctx, `
		select c.chain, c.node_id, c.generation, clock_timestamp()
		from node_certs c join nodes n on n.id = c.node_id join identity_keys k on k.node_id = n.id and k.state = 'TRUSTED'
		where c.token_id = $1 and c.state = 'ACTIVE' and c.first_used_at is null and c.chain is not null and c.key_fingerprint = $2
		  and k.fingerprint = $3 and n.deleted_at is null and n.credential = 'TRUSTED' and n.identity_generation = c.generation`,
		j.token.ID(), j.csrKey, j.fingerprint).Scan(&chain, &nodeID, &generation, &now)
	if err != nil {
		return wire.JoinAnswer{}, fmt.Errorf("look for the answer that was given: %w", err)
	}
	parsed, err := parseChain(chain)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	s.Log.InfoContext(ctx, "a join's answer is given again", "node", nodeID, "token", j.token.ID())
	return s.answer(j, parsed[0], chain, nodeID, generation, now), nil
}

// reuseData is what security.join-token.reused says: both machines, as far as they are known.
type reuseData struct {
	JoinTokenID string          `json:"joinTokenId"`
	UsedBy      string          `json:"usedBy"`
	FirstKey    string          `json:"firstKey"`
	FirstPrint  json.RawMessage `json:"firstPrint"`
	Key         string          `json:"key"`
	Print       json.RawMessage `json:"print"`
	Hostname    string          `json:"hostname"`
}

func (s *Store) tellReuse(ctx context.Context, tx *db.Tx, t telling) error {
	data := reuseData{JoinTokenID: t.tokenID, Key: t.key, Print: t.print, Hostname: t.hostname}
	err := tx.QueryRow(ctx, `
		update join_tokens t set reuse_seen_at = clock_timestamp()
		from nodes n
		where t.id = $1 and n.id = t.used_by and (t.reuse_seen_at is null or t.reuse_seen_at < clock_timestamp() - interval '1 minute')
		returning n.id, n.key, coalesce((select print from node_certs c where c.token_id = t.id order by issued_at limit 1), '{}')`, t.tokenID).
		Scan(&data.UsedBy, &data.FirstKey, &data.FirstPrint)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // told within the last minute
	}
	if err != nil {
		return fmt.Errorf("note the second use of a join token: %w", err)
	}
	return events.Append(tx, events.Entry{
		Type: "security.join-token.reused", TenantID: t.tenant, NodeID: data.UsedBy, Actor: iam.System("join").Name, Data: data,
		Audience: events.Audience{Full: []string{t.tenant}},
	})
}
