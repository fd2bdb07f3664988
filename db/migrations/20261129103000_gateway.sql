-- +goose Up

-- The gateways, one row each. instance is of the process that runs under that id now: a second one takes the row over, and the first sees it.
create table gateways (
  id         text primary key,
  instance   text not null,
  started_at timestamptz not null,
  flushed_at timestamptz not null               -- when it last wrote the ages of its sessions
);

-- A gateway that starts again looks for the sessions that its predecessor left open.
create index node_sessions_open on node_sessions (gateway_id, node_id) where disconnected_at is null;

-- What each node's daemon measured last. hash is of the facts without the times, so that a report that says nothing new is seen at once.
create table node_inventory (
  node_id        text primary key references nodes,
  session_number bigint not null,
  reported_at    timestamptz not null,
  facts          jsonb not null,
  hash           bytea not null
);
