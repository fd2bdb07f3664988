package iam

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/id"
)

// Tenant owns pools and books nodes.
type Tenant struct {
	ID        string
	CreatedAt time.Time
}

// Tenants lists, by id, the tenants in which the actor holds a grant.
func (a *Authority) Tenants(ctx context.Context, who Actor) ([]Tenant, error) {
	rows, err := a.db.Pool().Query(ctx, `
		select id, created_at from tenants t
		where exists (select from grants g where g.principal = $1 and (g.tenant_id = t.id or g.tenant_id is null)) order by id`, who.Name)
	if err != nil {
		return nil, fmt.Errorf("list the tenants: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Tenant])
}

// TenantCreateInput is the input of TenantCreate.
type TenantCreateInput struct {
	TenantID string
	// RequestID makes a repeat within a day harmless; empty for none.
	RequestID string `json:"-"`
}

// TenantCreated is what TenantCreate did.
type TenantCreated struct {
	Tenant Tenant
	// Changed says that it was made; false when it was there.
	Changed bool
	// Cursor is the log's position of this very change; when nothing changed, the head.
	Cursor events.Cursor
}

// TenantCreate makes a tenant and publishes tenant.created to it. One of that name that is there is given unchanged.
//
// Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN without a grant in every tenant.
func (a *Authority) TenantCreate(ctx context.Context, who Actor, in TenantCreateInput) (TenantCreated, error) {
	if err := id.Tenant("tenantId", in.TenantID); err != nil {
		return TenantCreated{}, err
	}
	request, err := NewRequest(who, in.RequestID, "tenantCreate", in)
	if err != nil {
		return TenantCreated{}, err
	}
	if err := a.Everywhere(ctx, a.db.Pool(), who, TenantsCreate); err != nil {
		return TenantCreated{}, err
	}
	var tenant Tenant
	read := func(ctx context.Context, tx *db.Tx, _ Answer) error {
		row := tx.QueryRow(ctx, `select id, created_at from tenants where id = $1`, in.TenantID)
		if err := row.Scan(&tenant.ID, &tenant.CreatedAt); err != nil {
			return fmt.Errorf("read the tenant: %w", err)
		}
		return nil
	}
	did, err := request.Once(ctx, a.db, func(ctx context.Context, tx *db.Tx) (Answer, error) {
		row := tx.QueryRow(ctx, `insert into tenants (id) values ($1) on conflict do nothing returning id, created_at`, in.TenantID)
		err := row.Scan(&tenant.ID, &tenant.CreatedAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return Answer{}, read(ctx, tx, Answer{})
		}
		if err != nil {
			return Answer{}, fmt.Errorf("make the tenant: %w", err)
		}
		return Answer{Changed: true}, events.Append(tx, events.Entry{
			Type: "tenant.created", TenantID: in.TenantID, Actor: who.Name, RequestID: in.RequestID,
			Data: map[string]string{"tenantId": in.TenantID}, Audience: events.Audience{Full: []string{in.TenantID}},
		})
	}, read)
	if err != nil {
		return TenantCreated{}, err
	}
	return TenantCreated{Tenant: tenant, Changed: did.Changed, Cursor: did.Cursor}, nil
}

// CreateTenantTx makes a tenant without an event, for the first start; one of that name stays as it is.
func CreateTenantTx(ctx context.Context, tx *db.Tx, tenant string) error {
	if _, err := tx.Exec(ctx, `insert into tenants (id) values ($1) on conflict do nothing`, tenant); err != nil {
		return fmt.Errorf("make the tenant: %w", err)
	}
	return nil
}

// AbsentTenants gives those of the names that no tenant has, sorted; nothing is asked for no name.
func AbsentTenants(ctx context.Context, q db.Querier, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	rows, err := q.Query(ctx, `select distinct name collate "C" from unnest($1::text[]) as name where not exists (select from tenants where id = name) order by 1`, names)
	if err != nil {
		return nil, fmt.Errorf("look for the tenants: %w", err)
	}
	absent, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for the tenants: %w", err)
	}
	return absent, nil
}
