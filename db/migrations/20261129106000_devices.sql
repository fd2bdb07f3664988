-- +goose Up

-- The devices of nodes, by the hardware's own id: a device is the same one after a restart, a new certificate or a join anew. A row is made when a
-- node's inventory first shows the device, and never goes: bookings will point to it.
create table devices (
  node_id       text not null references nodes,
  uuid          text not null,
  kind          text not null check (kind in ('GPU')),
  slot          integer not null,               -- the driver's number for it, which can change with a restart
  model         text not null,
  memory_bytes  bigint not null,
  serial        text not null,
  pci_address   text not null,
  first_seen_at timestamptz not null,
  missing_since timestamptz,                    -- null: the newest inventory shows it
  primary key (node_id, uuid)
);

-- The file systems of nodes, by path and the file system's own id, kept as devices are.
create table storage_roots (
  node_id       text not null references nodes,
  path          text not null,
  uuid          text not null,                  -- empty where the file system has none
  fs_type       text not null,
  device        text not null,
  size_bytes    bigint not null,
  first_seen_at timestamptz not null,
  missing_since timestamptz,
  primary key (node_id, path, uuid)
);
