-- +goose Up

-- The labels that a node has from its first moment, as its operator's.
alter table join_tokens add column labels jsonb not null default '{}';
