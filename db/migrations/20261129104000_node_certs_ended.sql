-- +goose Up

-- The revocation feed reads what ended of late, each second.
create index node_certs_ended on node_certs (ended_at) where ended_at is not null;
