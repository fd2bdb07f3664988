-- +goose Up

-- Frozen sets of nodes: which nodes a tenant saw at one moment, each with the version that it had, and where the log stood. They live for an hour.
create table node_selections (
  id         text primary key check (id ~ '^sel_[0-9a-z]{26}$'),
  tenant_id  text not null references tenants,
  by         text not null,                    -- only its author uses it
  count      bigint not null check (count >= 0),
  position   bigint not null,                  -- of the log, when the nodes were read
  log_at     timestamptz not null,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index node_selections_author on node_selections (tenant_id, by, created_at);
create index node_selections_expires on node_selections (expires_at);

-- Its nodes, in parts of one pool each, by id.
create table node_selection_parts (
  selection_id text not null references node_selections on delete cascade,
  part         bigint not null,
  pool_id      text not null,
  node_ids     text[] not null,
  versions     bigint[] not null,
  primary key (selection_id, part),
  check (cardinality(node_ids) = cardinality(versions))
);

-- A control on many nodes. A job does it part by part; this row is the truth, and is locked by whoever goes on with it.
create table node_operations (
  id           text primary key check (id ~ '^nop_[0-9a-z]{26}$'),
  tenant_id    text not null references tenants,
  verb         text not null check (verb in ('CORDON', 'UNCORDON', 'DRAIN', 'TAINT', 'LABEL', 'ADOPT')),
  manner       jsonb not null,                 -- the verb's arguments
  reason       text,
  by           text not null,
  token_id     text not null,                  -- with which it was asked for: once that is revoked, nothing more is done
  selection_id text,                           -- of which its nodes are; it may be gone
  count        bigint not null check (count >= 0),
  position     bigint not null,                -- of the log, when the nodes were frozen
  log_at       timestamptz not null,
  state        text not null check (state in ('RUNNING', 'DONE', 'STOPPED')),
  done         bigint not null default 0,
  unchanged    bigint not null default 0,
  refused      bigint not null default 0,
  waiting      text,                           -- what it waits for, in words
  run          bigint not null default 1,      -- the job of this number is the one that goes on
  created_at   timestamptz not null default clock_timestamp(),
  looked_at    timestamptz not null default clock_timestamp(),
  ended_at     timestamptz,
  ended_by     text,
  check ((state = 'RUNNING') = (ended_at is null)),
  check (done + unchanged + refused <= count),
  check (state <> 'DONE' or done + unchanged + refused = count)
);
create index node_operations_running on node_operations (tenant_id) where state = 'RUNNING';
create index node_operations_tenant on node_operations (tenant_id, id);
create index node_operations_ended on node_operations (ended_at) where ended_at is not null;

-- Its nodes, and how far it has come in each part. A version is null where the tenant did not see the node.
create table node_operation_parts (
  operation_id text not null references node_operations on delete cascade,
  part         bigint not null,
  pool_id      text not null,
  node_ids     text[] not null,
  versions     bigint[] not null,
  next         bigint not null default 0,
  primary key (operation_id, part),
  check (cardinality(node_ids) = cardinality(versions)),
  check (next between 0 and cardinality(node_ids))
) with (fillfactor = 70);

-- What became of each node, numbered in the order in which it was committed.
create table node_operation_results (
  operation_id text not null references node_operations on delete cascade,
  number       bigint not null,
  node_id      text not null,
  outcome      text not null check (outcome in ('DONE', 'UNCHANGED', 'REFUSED')),
  code         text,
  message      text,
  at           timestamptz not null,
  primary key (operation_id, number),
  check ((outcome = 'REFUSED') = (code is not null))
);
