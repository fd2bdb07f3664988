-- +goose NO TRANSACTION
-- +goose Up

-- The order of a list of nodes unless another is asked for: a page stops at its end and need not look at every node.
create index concurrently nodes_by_name on nodes (hostname collate "C", id) where deleted_at is null;
