package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
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

// CreatePoolTx makes a pool; one of that name in the tenant is given as it is.
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
