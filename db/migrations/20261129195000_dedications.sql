-- +goose Up

-- A node can be dedicated to a tenant that is made later: from then on it sees the node.
alter table node_projection drop constraint node_projection_tenant_id_fkey;
