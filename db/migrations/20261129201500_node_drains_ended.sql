-- +goose Up

-- Drains are counted by when they ended; the table only grows.
create index node_drains_ended on node_drains (ended_at) where ended_at is not null;
