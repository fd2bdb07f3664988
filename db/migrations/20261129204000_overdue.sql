-- +goose Up

-- Until when a cordon is meant to hold. Nothing is lifted by itself: past it the owner is told, once a day.
alter table nodes add column cordon_until timestamptz;
create index nodes_cordon_until on nodes (cordon_until) where cordon_until is not null;

-- That a cordon was told as overdue: which, by its time and its end, and when last.
create table node_cordon_told (
  node_id   text primary key references nodes,
  cordon_at timestamptz not null,
  until     timestamptz not null,
  told_at   timestamptz not null
);

-- Until when a drain is meant to be over, and when it was told that it was not.
alter table node_drains add column deadline timestamptz;
alter table node_drains add column overdue_at timestamptz;
create index node_drains_deadline on node_drains (deadline) where state = 'DRAINING' and deadline is not null and overdue_at is null;
