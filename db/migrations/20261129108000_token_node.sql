-- +goose Up

-- The one node that a token is for; null: whichever machine shows it.
alter table join_tokens add column node_id text references nodes;
