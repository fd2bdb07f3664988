package pki

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// How long a join token can be used.
const (
	TokenTTL    = 30 * time.Minute
	MaxTokenTTL = 7 * 24 * time.Hour
)

// JoinToken is a join token without its secret, which nobody can show again.
type JoinToken struct {
	ID        string
	TenantID  string
	PoolID    string
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    *time.Time
	// UsedBy is the node that it made or re-attached.
	UsedBy    *string
	RevokedAt *time.Time
	RevokedBy *string
	// Labels are the operator's labels that a new node begins with.
	Labels map[string]string
	// NodeID is the one node that it re-attaches; nil for whichever machine shows it.
	NodeID *string
}

const tokenColumns = `id, tenant_id, pool_id, created_by, created_at, expires_at, used_at, used_by, revoked_at, revoked_by, labels, node_id` //nolint:gosec // names of columns

// JoinTokenCreateInput is the input of JoinTokenCreate.
type JoinTokenCreateInput struct {
	TenantID string
	PoolID   string
	// TTL is how long it can be used: 1 second to 7 days; 0 is TokenTTL.
	TTL time.Duration
	// Labels are what a new node is labelled with from its first moment, as its operator's: up to 64. A node that comes back keeps its own.
	Labels map[string]string `json:",omitempty"`
	// NodeID binds it to a node of that pool, for a machine that comes back; empty for any machine.
	NodeID string `json:",omitempty"`
	// RequestID makes a repeat within a day harmless; empty for none.
	RequestID string `json:"-"`
}

// JoinTokenCreated is what JoinTokenCreate made.
type JoinTokenCreated struct {
	Token JoinToken
	// Secret is the whole text that the machine shows ("bcj_…"). It is here and nowhere else; a repeated request id gives none.
	Secret string
	Trust  Trust
	Cursor events.Cursor
}

// JoinTokenCreate makes a token for one machine to join a pool, and publishes join-token.created.
//
// Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND for a pool that the tenant does not own, INVALID_STATE before there is a
// certificate authority.
func (s *Store) JoinTokenCreate(ctx context.Context, who iam.Actor, in JoinTokenCreateInput) (JoinTokenCreated, error) {
	if err := id.Tenant("tenantId", in.TenantID); err != nil {
		return JoinTokenCreated{}, err
	}
	if err := id.Check(id.Pool, "poolId", in.PoolID); err != nil {
		return JoinTokenCreated{}, err
	}
	ttl := in.TTL
	if ttl == 0 {
		ttl = TokenTTL
	}
	if ttl < time.Second || ttl > MaxTokenTTL {
		return JoinTokenCreated{}, fault.Invalid("ttlSeconds", "must be 1 to 604800", 0)
	}
	if err := node.CheckLabels("labels", in.Labels); err != nil {
		return JoinTokenCreated{}, err
	}
	if in.NodeID != "" {
		if err := id.Check(id.Node, "nodeId", in.NodeID); err != nil {
			return JoinTokenCreated{}, err
		}
	}
	labels := in.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	request, err := iam.NewRequest(who, in.RequestID, "joinTokenCreate", in)
	if err != nil {
		return JoinTokenCreated{}, err
	}
	if err := s.Authority.OnTenant(ctx, s.DB.Pool(), who, iam.JoinTokensCreate, in.TenantID); err != nil {
		return JoinTokenCreated{}, err
	}
	token, err := wire.NewToken(id.New(id.JoinToken))
	if err != nil {
		return JoinTokenCreated{}, err
	}
	var out JoinTokenCreated
	did, err := request.Once(ctx, s.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
		out = JoinTokenCreated{}
		var err error
		if out.Trust, err = ReadTrust(ctx, tx); err != nil {
			return iam.Answer{}, err
		}
		hash := token.SecretHash()
		rows, err := tx.Query(ctx, `
			insert into join_tokens (id, tenant_id, pool_id, secret_hash, created_by, created_at, expires_at, labels, node_id)
			select $1, tenant_id, id, $4, $5, at, at + $6 * interval '1 microsecond', $7, nullif($8, '')
			from pools p, (select clock_timestamp() as at) clock where id = $2 and tenant_id = $3
			  and ($8 = '' or exists (select from nodes n where n.id = $8 and n.pool_id = p.id and n.deleted_at is null))
			returning `+tokenColumns, token.ID(), in.PoolID, in.TenantID, hash[:], who.Name, ttl.Microseconds(), labels, in.NodeID)
		if err == nil {
			out.Token, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[JoinToken])
		}
		if errors.Is(err, pgx.ErrNoRows) {
			if in.NodeID != "" {
				return iam.Answer{}, fault.New(fault.NotFound, fault.Details{"poolId": in.PoolID, "nodeId": in.NodeID}, "no node %s in a pool %s of tenant %s", in.NodeID, in.PoolID, in.TenantID)
			}
			return iam.Answer{}, fault.New(fault.NotFound, fault.Details{"poolId": in.PoolID}, "no pool %s, or it is not tenant %s's", in.PoolID, in.TenantID)
		}
		if err != nil {
			return iam.Answer{}, fmt.Errorf("write the join token: %w", err)
		}
		out.Secret = token.Text()
		return iam.Answer{Changed: true, Made: []string{out.Token.ID}}, events.Append(tx, tokenEvent("join-token.created", out.Token, who.Name, in.RequestID))
	}, func(ctx context.Context, tx *db.Tx, before iam.Answer) error {
		out = JoinTokenCreated{}
		var err error
		if out.Trust, err = ReadTrust(ctx, tx); err != nil {
			return err
		}
		if len(before.Made) != 1 {
			return fmt.Errorf("the request %s made %d tokens", in.RequestID, len(before.Made))
		}
		out.Token, err = readToken(ctx, tx, in.TenantID, before.Made[0])
		return err
	})
	if err != nil {
		return JoinTokenCreated{}, err
	}
	out.Cursor = did.Cursor
	return out, nil
}

// tokenData is what events say of a token: never its secret.
type tokenData struct {
	JoinTokenID string            `json:"joinTokenId"`
	PoolID      string            `json:"poolId"`
	ExpiresAt   time.Time         `json:"expiresAt"`
	Labels      map[string]string `json:"labels,omitempty"`
}

func tokenEvent(kind string, t JoinToken, actor, requestID string) events.Entry {
	return events.Entry{
		Type: kind, TenantID: t.TenantID, Actor: actor, RequestID: requestID,
		Data:     tokenData{JoinTokenID: t.ID, PoolID: t.PoolID, ExpiresAt: t.ExpiresAt, Labels: t.Labels},
		Audience: events.Audience{Full: []string{t.TenantID}},
	}
}

func readToken(ctx context.Context, q db.Querier, tenant, tokenID string) (JoinToken, error) {
	rows, err := q.Query(ctx, `select `+tokenColumns+` from join_tokens where id = $1 and tenant_id = $2`, tokenID, tenant)
	if err != nil {
		return JoinToken{}, fmt.Errorf("read the join token: %w", err)
	}
	t, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[JoinToken])
	if errors.Is(err, pgx.ErrNoRows) {
		return JoinToken{}, fault.New(fault.NotFound, fault.Details{"joinTokenId": tokenID}, "no join token %s in tenant %s", tokenID, tenant)
	}
	if err != nil {
		return JoinToken{}, fmt.Errorf("read the join token: %w", err)
	}
	return t, nil
}

// JoinTokenRevokeInput is the input of JoinTokenRevoke.
type JoinTokenRevokeInput struct {
	TenantID    string
	JoinTokenID string
	RequestID   string `json:"-"`
}

// JoinTokenRevoked is what JoinTokenRevoke did.
type JoinTokenRevoked struct {
	Token   JoinToken
	Changed bool
	Cursor  events.Cursor
}

// JoinTokenRevoke makes a token worthless that was not used yet, and publishes join-token.revoked. One that is revoked already, or expired, is
// returned unchanged.
//
// Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, INVALID_STATE for a token that a machine has used: its certificate is what to revoke.
func (s *Store) JoinTokenRevoke(ctx context.Context, who iam.Actor, in JoinTokenRevokeInput) (JoinTokenRevoked, error) {
	if err := id.Tenant("tenantId", in.TenantID); err != nil {
		return JoinTokenRevoked{}, err
	}
	if err := id.Check(id.JoinToken, "joinTokenId", in.JoinTokenID); err != nil {
		return JoinTokenRevoked{}, err
	}
	request, err := iam.NewRequest(who, in.RequestID, "joinTokenRevoke", in)
	if err != nil {
		return JoinTokenRevoked{}, err
	}
	if err := s.Authority.OnTenant(ctx, s.DB.Pool(), who, iam.JoinTokensRevoke, in.TenantID); err != nil {
		return JoinTokenRevoked{}, err
	}
	var t JoinToken
	read := func(ctx context.Context, tx *db.Tx, _ iam.Answer) (err error) {
		t, err = readToken(ctx, tx, in.TenantID, in.JoinTokenID)
		return err
	}
	did, err := request.Once(ctx, s.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
		if err := tx.Locks(db.LockJoinToken); err != nil {
			return iam.Answer{}, err
		}
		tag, err := tx.Exec(ctx, `
			update join_tokens set revoked_at = clock_timestamp(), revoked_by = $3
			where id = $1 and tenant_id = $2 and revoked_at is null and used_at is null and expires_at > clock_timestamp()`,
			in.JoinTokenID, in.TenantID, who.Name)
		if err != nil {
			return iam.Answer{}, fmt.Errorf("revoke the join token: %w", err)
		}
		if err := read(ctx, tx, iam.Answer{}); err != nil {
			return iam.Answer{}, err
		}
		switch {
		case t.UsedAt != nil:
			return iam.Answer{}, fault.New(fault.InvalidState, fault.Details{"usedBy": *t.UsedBy, "usedAt": *t.UsedAt},
				"the join token was used by %s; revoke that node's certificate instead", *t.UsedBy)
		case tag.RowsAffected() == 0:
			return iam.Answer{}, nil
		}
		return iam.Answer{Changed: true}, events.Append(tx, tokenEvent("join-token.revoked", t, who.Name, in.RequestID))
	}, read)
	if err != nil {
		return JoinTokenRevoked{}, err
	}
	return JoinTokenRevoked{Token: t, Changed: did.Changed, Cursor: did.Cursor}, nil
}

// JoinTokens lists a tenant's tokens, the newest first: at most first of them, after the token of that id; more says that there are others.
func (s *Store) JoinTokens(ctx context.Context, who iam.Actor, tenant string, first int, after string) (tokens []JoinToken, more bool, err error) {
	if err := id.Tenant("tenantId", tenant); err != nil {
		return nil, false, err
	}
	if first < 1 || first > 500 {
		return nil, false, fault.Invalid("first", "must be 1 to 500", 0)
	}
	if after != "" {
		if err := id.Check(id.JoinToken, "after", after); err != nil {
			return nil, false, err
		}
	}
	if err := s.Authority.OnTenant(ctx, s.DB.Pool(), who, iam.JoinTokensRead, tenant); err != nil {
		return nil, false, err
	}
	rows, err := s.DB.Pool().Query(ctx, `
		select `+tokenColumns+` from join_tokens where tenant_id = $1 and ($2 = '' or id < $2) order by id desc limit $3`, tenant, after, first+1)
	if err != nil {
		return nil, false, fmt.Errorf("list the join tokens: %w", err)
	}
	tokens, err = pgx.CollectRows(rows, pgx.RowToStructByPos[JoinToken])
	if err != nil {
		return nil, false, fmt.Errorf("list the join tokens: %w", err)
	}
	if len(tokens) > first {
		return tokens[:first], true, nil
	}
	return tokens, false, nil
}
