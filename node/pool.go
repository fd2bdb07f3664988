package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

// Pool is a set of nodes that one tenant owns.
type Pool struct {
	ID        string
	TenantID  string
	Name      string
	CreatedAt time.Time
}

const poolColumns = "id, tenant_id, name, created_at"

// Pools lists a tenant's pools by name.
func Pools(ctx context.Context, q db.Querier, tenant string) ([]Pool, error) {
	rows, err := q.Query(ctx, "select "+poolColumns+" from pools where tenant_id = $1 order by name", tenant)
	if err != nil {
		return nil, fmt.Errorf("list the pools: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Pool])
}

// PoolsOfNodes gives the pools that nodes belong to, by pool id.
func PoolsOfNodes(ctx context.Context, q db.Querier, nodeIDs []string) (map[string]Pool, error) {
	rows, err := q.Query(ctx, "select "+poolColumns+" from pools where id in (select pool_id from nodes where id = any($1))", nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("read the pools: %w", err)
	}
	pools, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Pool])
	if err != nil {
		return nil, fmt.Errorf("read the pools: %w", err)
	}
	out := make(map[string]Pool, len(pools))
	for _, p := range pools {
		out[p.ID] = p
	}
	return out, nil
}

// PoolOf gives one pool of the tenant; another tenant's is NOT_FOUND like one that does not exist.
func PoolOf(ctx context.Context, q db.Querier, tenant, poolID string) (Pool, error) {
	if err := id.Check(id.Pool, "poolId", poolID); err != nil {
		return Pool{}, err
	}
	rows, err := q.Query(ctx, "select "+poolColumns+" from pools where id = $1 and tenant_id = $2", poolID, tenant)
	if err != nil {
		return Pool{}, fmt.Errorf("read the pool: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Pool])
	if errors.Is(err, pgx.ErrNoRows) {
		return Pool{}, fault.New(fault.NotFound, fault.Details{"poolId": poolID}, "no pool %s in tenant %s", poolID, tenant)
	}
	return p, err
}

// PoolCreateInput is the input of PoolCreate.
type PoolCreateInput struct {
	TenantID string
	Name     string
	// RequestID makes a repeat within a day harmless; empty for none.
	RequestID string `json:"-"`
}

// PoolCreated is what PoolCreate did.
type PoolCreated struct {
	Pool Pool
	// Changed says that it was made; false when it was there.
	Changed bool
	// Cursor is the log's position of this very change; when nothing changed, the head.
	Cursor events.Cursor
}

// poolData is what events say of a pool.
type poolData struct {
	PoolID string `json:"poolId"`
	Name   string `json:"name"`
}

// PoolCreate makes a pool and publishes pool.created to its tenant. One of that name that is there is given unchanged.
//
// Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND for a tenant that is not there.
func (s *Store) PoolCreate(ctx context.Context, who iam.Actor, in PoolCreateInput) (PoolCreated, error) {
	if err := id.Tenant("tenantId", in.TenantID); err != nil {
		return PoolCreated{}, err
	}
	if err := id.Slug("name", in.Name); err != nil {
		return PoolCreated{}, err
	}
	request, err := iam.NewRequest(who, in.RequestID, "poolCreate", in)
	if err != nil {
		return PoolCreated{}, err
	}
	if err := s.Authority.OnTenant(ctx, s.DB.Pool(), who, iam.PoolsCreate, in.TenantID); err != nil {
		return PoolCreated{}, err
	}
	var pool Pool
	read := func(ctx context.Context, tx *db.Tx, _ iam.Answer) error {
		if err := tx.Locks(db.LockPool); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "select "+poolColumns+" from pools where tenant_id = $1 and name = $2", in.TenantID, in.Name)
		if err != nil {
			return fmt.Errorf("read the pool: %w", err)
		}
		pool, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Pool])
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.NotFound, fault.Details{"tenantId": in.TenantID}, "no tenant %s", in.TenantID)
		}
		if err != nil {
			return fmt.Errorf("read the pool: %w", err)
		}
		return nil
	}
	did, err := request.Once(ctx, s.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
		if err := tx.Locks(db.LockPool); err != nil {
			return iam.Answer{}, err
		}
		tag, err := tx.Exec(ctx, `
			insert into pools (id, tenant_id, name) select $1, id, $3 from tenants where id = $2 on conflict (tenant_id, name) do nothing`,
			id.New(id.Pool), in.TenantID, in.Name)
		if err != nil {
			return iam.Answer{}, fmt.Errorf("make the pool: %w", err)
		}
		if err := read(ctx, tx, iam.Answer{}); err != nil {
			return iam.Answer{}, err
		}
		if tag.RowsAffected() == 0 {
			return iam.Answer{Made: []string{pool.ID}}, nil
		}
		return iam.Answer{Changed: true, Made: []string{pool.ID}}, events.Append(tx, events.Entry{
			Type: "pool.created", TenantID: in.TenantID, Actor: who.Name, RequestID: in.RequestID,
			Data: poolData{PoolID: pool.ID, Name: pool.Name}, Audience: events.Audience{Full: []string{in.TenantID}},
		})
	}, read)
	if err != nil {
		return PoolCreated{}, err
	}
	return PoolCreated{Pool: pool, Changed: did.Changed, Cursor: did.Cursor}, nil
}

// CreatePoolTx makes a pool without an event, for the first start; one of that name in the tenant is given as it is.
func CreatePoolTx(ctx context.Context, tx *db.Tx, tenant, name string) (Pool, error) {
	rows, err := tx.Query(ctx, `
		insert into pools (id, tenant_id, name) values ($1, $2, $3)
		on conflict (tenant_id, name) do update set name = excluded.name
		returning `+poolColumns, id.New(id.Pool), tenant, name)
	if err != nil {
		return Pool{}, fmt.Errorf("make the pool: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Pool])
	if err != nil {
		return Pool{}, fmt.Errorf("make the pool: %w", err)
	}
	return p, nil
}
