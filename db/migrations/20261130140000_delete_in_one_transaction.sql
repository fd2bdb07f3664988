-- +goose Up

-- A node is deleted in the transaction of its call. The table of what was asked for stays for processes of the version before; jobs that they left are
-- worked by nobody any more, and whoever asked for those was never answered.
comment on table node_deletes is 'written by nobody any more';
delete from river_job where kind = 'node_delete' and state <> 'running';
