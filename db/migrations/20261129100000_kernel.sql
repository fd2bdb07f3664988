-- +goose Up

-- The log. Its one clock row makes positions gapless and in commit order: a transaction moves it in its final batch, together with COMMIT.
create table event_clock (
  one      boolean primary key default true check (one),
  position bigint not null,
  at       timestamptz not null,
  oldest   bigint not null,       -- events below this position may be gone
  epoch    bigint not null        -- 64 random bits: another log, or one restored from a backup, has another epoch
) with (fillfactor = 10);

insert into event_clock (position, at, oldest, epoch)
values (0, clock_timestamp(), 1, ('x' || translate(left(gen_random_uuid()::text, 8) || right(gen_random_uuid()::text, 8), '-', ''))::bit(64)::bigint);

create table events (
  position   bigint not null,
  at         timestamptz not null,
  id         text not null,
  type       text not null,
  tenant_id  text not null,       -- owner of what the event is about
  node_id    text,
  actor      text not null,
  reason     text,
  request_id text,
  data       jsonb not null,
  full_for   text[] not null,     -- tenants that saw the whole when it was written; fixed for ever
  reduced_for text[] not null,    -- tenants that saw the reduced form
  primary key (at, position)
) partition by range (at);
create index events_position on events (position);
create index events_node on events (node_id, position);

-- +goose StatementBegin
do $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  for i in 0..3 loop
    execute format('create table %I partition of events for values from (%L) to (%L)',
      'events_' || to_char(month + make_interval(months => i), 'YYYY_MM'),
      to_char(month + make_interval(months => i), 'YYYY-MM-DD') || ' 00:00:00+00',
      to_char(month + make_interval(months => i + 1), 'YYYY-MM-DD') || ' 00:00:00+00');
  end loop;
end $$;
-- +goose StatementEnd

create table tenants (
  id         text primary key check (id ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
  created_at timestamptz not null default now()
);

create table pools (
  id         text primary key check (id ~ '^pool_[0-9a-z]{26}$'),
  tenant_id  text not null references tenants,
  name       text not null check (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
  created_at timestamptz not null default now(),
  unique (tenant_id, name)
);

-- Who may: principals, their tokens, what they were granted, and what each tenant sees.
create table principals (
  name       text primary key,
  created_at timestamptz not null default now()
);

create table api_tokens (
  jti        text primary key,
  principal  text not null references principals,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  revoked_at timestamptz
);

create table grants (
  principal  text not null references principals,
  tenant_id  text references tenants,          -- null: every tenant
  role       text not null,
  granted_at timestamptz not null default now(),
  unique nulls not distinct (principal, tenant_id, role)
);

-- A request id happens once: the row is the first statement of the transaction that it stands for.
create table requests (
  principal text not null,
  id        text not null,
  hash      bytea not null,      -- of the operation and its input
  changed   boolean,
  made      text[] not null default '{}',   -- ids that the request made
  position  bigint,
  at        timestamptz not null default now(),
  primary key (principal, id)
);
create index requests_at on requests (at);

-- Nodes. Heartbeats never touch this table.
create table nodes (
  id                  text primary key check (id ~ '^node_[0-9a-z]{26}$'),
  key                 text not null,
  owner_tenant_id     text not null references tenants,
  pool_id             text not null references pools,
  hostname            text not null,
  version             bigint not null default 1,
  provision_state     text not null check (provision_state in
                        ('ENROLLING', 'ADOPTING', 'ADOPTED', 'PROVISIONING', 'FAILED', 'RETIRING', 'RETIRED')),
  failure_phase       text check (failure_phase in ('ENROLLMENT', 'ACCEPTANCE', 'PROVISIONING', 'RETIRE')),
  failure_message     text,
  failure_at          timestamptz,
  cordoned            boolean not null default false,
  cordon_reason       text,
  cordon_by           text,
  cordon_at           timestamptz,
  maintenance         boolean not null default false,
  connectivity        text not null default 'PENDING' check (connectivity in
                        ('PENDING', 'CONNECTED', 'DISCONNECTED', 'UNREACHABLE', 'LOST')),
  connectivity_since  timestamptz,
  identity_generation bigint not null default 1,
  credential          text not null default 'NONE' check (credential in ('NONE', 'TRUSTED', 'REVOKED', 'QUARANTINED')),
  credential_since    timestamptz not null default now(),
  changed_by          text not null,            -- who moved the version last, and when
  changed_at          timestamptz not null default now(),
  created_at          timestamptz not null default now(),
  deleted_at          timestamptz,
  check (cordoned = (cordon_at is not null)),
  check (cordoned = (cordon_by is not null)),
  check (cordoned or cordon_reason is null),
  check ((provision_state = 'FAILED') = (failure_phase is not null))
) with (fillfactor = 80);
create unique index nodes_key on nodes (key) where deleted_at is null;
create index nodes_pool on nodes (pool_id);

-- Why a node takes no new work, one row a reason; each belongs to the controller or operator that wrote it.
create table node_reasons (
  node_id text not null references nodes,
  reason  text not null,
  owner   text not null,
  by      text,
  message text,
  since   timestamptz not null,
  primary key (node_id, reason)
);

create table node_labels (
  node_id text not null references nodes,
  key     text not null,
  value   text not null,
  source  text not null check (source in ('OPERATOR', 'INVENTORY', 'SYSTEM')),
  primary key (node_id, key)
);
create index node_labels_key on node_labels (key, value);

create table node_drains (
  id                text primary key check (id ~ '^drn_[0-9a-z]{26}$'),
  node_id           text not null references nodes,
  state             text not null check (state in ('DRAINING', 'DRAINED', 'CANCELLED')),
  reason            text,
  by                text not null,
  started_at        timestamptz not null,
  ended_at          timestamptz,
  ended_by          text,
  cause             text,
  confirmed_by_node boolean,
  check ((state = 'DRAINING') = (ended_at is null)),
  check ((state = 'DRAINED') = (confirmed_by_node is not null))
);
create unique index node_drains_running on node_drains (node_id) where state = 'DRAINING';
create index node_drains_node on node_drains (node_id, started_at);

-- What each tenant sees. Any row gives sight, OWNER the full view.
create table node_projection (
  tenant_id text not null references tenants,
  node_id   text not null references nodes,
  relation  text not null check (relation in ('OWNER', 'SHARED', 'ALLOCATED', 'DEDICATED')),
  since     timestamptz not null default now(),
  primary key (tenant_id, node_id, relation)
);
create index node_projection_node on node_projection (node_id);

-- A node's newest session, and when it was last heard of. The second is written often and so is narrow and apart.
create table node_sessions (
  node_id         text primary key references nodes,
  id              text not null,
  number          bigint not null,              -- counts the node's sessions; the newest wins
  gateway_id      text not null,
  boot_id         text not null,
  agent_version   text not null,
  print           jsonb not null,               -- of the machine: machine id, product uuid, EK hash
  clock_skew_ms   bigint not null,
  connected_at    timestamptz not null,
  disconnected_at timestamptz
);

create table node_liveness (
  node_id        text primary key references nodes,
  last_seen      timestamptz not null,
  gateway_id     text not null,
  session_number bigint not null
) with (fillfactor = 50);

-- What runs on the node as its own daemon reports it: devices with compute processes. known is false where it can't tell.
create table node_running (
  node_id        text primary key references nodes,
  session_number bigint not null,
  known          boolean not null,
  devices        text[] not null,
  reported_at    timestamptz not null
);

-- Bookings. live = open = not released and not ended, those that start later included.
create table reservations (
  id          text primary key check (id ~ '^res_[0-9a-z]{26}$'),
  tenant_id   text not null references tenants,
  reason      text,
  created_by  text not null,
  created_at  timestamptz not null,
  released_at timestamptz,
  released_by text,
  ended_at    timestamptz
);
create index reservations_tenant on reservations (tenant_id, id);

create table allocations (
  id             text primary key check (id ~ '^alloc_[0-9a-z]{26}$'),
  reservation_id text not null references reservations,
  tenant_id      text not null references tenants,
  node_id        text not null references nodes,
  starts_at      timestamptz not null,
  ends_at        timestamptz,                   -- null: open-ended
  started_at     timestamptz,                   -- written by the interval timer, as is ended_at
  released_at    timestamptz,
  ended_at       timestamptz,
  check (ends_at is null or ends_at > starts_at)
);
create index allocations_reservation on allocations (reservation_id);
create index allocations_node on allocations (node_id, id);
create index allocations_live on allocations (node_id) where released_at is null and ended_at is null;
create index allocations_ends on allocations (ends_at) where released_at is null and ended_at is null and ends_at is not null;
create index allocations_starts on allocations (starts_at) where started_at is null and released_at is null and ended_at is null;
