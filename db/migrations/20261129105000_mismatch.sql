-- +goose Up

-- The last event about a machine that holds this certificate and calls itself another node: one an hour at most.
alter table node_certs add column mismatch_seen_at timestamptz;
