-- +goose Up

-- A certificate's row is a little over the 2 kB from which PostgreSQL compresses until its first use, when its chain goes. Compressing what is base64
-- saves nothing and costs more than writing it.
alter table node_certs set (toast_tuple_target = 4080);
