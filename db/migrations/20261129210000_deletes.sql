-- +goose Up

-- Deletes of nodes: each is asked for, done or refused by a job within its time, and its answer stands here for whoever asks again.
create table node_deletes (
  id           text primary key check (id ~ '^del_[0-9a-z]{26}$'),
  node_id      text not null references nodes,
  version      bigint,                          -- that the author read; null: whichever
  by           text not null,
  reason       text,
  request_id   text,
  requested_at timestamptz not null default clock_timestamp(),
  expires_at   timestamptz not null,
  finished_at  timestamptz,
  outcome      text check (outcome in ('DELETED', 'GONE', 'REFUSED', 'EXPIRED')),
  refusal      jsonb,                           -- code, message, details
  warning      text,
  epoch        bigint,
  position     bigint,
  check ((finished_at is null) = (outcome is null)),
  check ((outcome = 'REFUSED') = (refusal is not null))
);
create unique index node_deletes_open on node_deletes (node_id) where finished_at is null;
