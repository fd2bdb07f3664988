-- +goose Up

-- The run of acceptance that a node is in, or was in last, and when it was adopted first.
alter table nodes add column acceptance_run text;
alter table nodes add column adopted_at timestamptz;
update nodes set adopted_at = changed_at where provision_state = 'ADOPTED';

-- What the checks of that run said. A result belongs to its run and to the boot that it was got from.
create table node_checks (
  node_id    text not null references nodes,
  name       text not null,
  run_id     text not null,
  boot_id    text not null,
  status     text not null check (status in ('PENDING', 'WAITING', 'PASSED', 'FAILED')),
  message    text not null,
  evidence   text[] not null,
  started_at timestamptz not null,
  ended_at   timestamptz,
  primary key (node_id, name),
  check ((status in ('PASSED', 'FAILED')) = (ended_at is not null))
);
