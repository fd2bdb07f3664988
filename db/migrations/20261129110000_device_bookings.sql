-- +goose Up

-- Which devices an allocation holds. One that names none is a share of its node and stands in no row here: it excludes nobody.
--
-- Two live allocations can't hold one device at one time, whoever writes them: the exclusion constraint stands over (device, interval). What it
-- judges by, whether the allocation is live and for how long, it has from the allocation itself by a foreign key that follows every change of it, so
-- a release, an end or a moved interval frees or claims the device by itself, and no row can say otherwise than its allocation.
alter table devices add column number bigint generated always as identity;
alter table devices add constraint devices_number unique (node_id, uuid, number);

alter table allocations
  add column open boolean not null generated always as (released_at is null and ended_at is null) stored,
  -- what was really held: a release shortens it, and one before the beginning leaves nothing
  add column during tstzrange not null generated always as (
    case when released_at < starts_at then 'empty'::tstzrange else tstzrange(starts_at, least(ends_at, released_at)) end) stored;
alter table allocations add constraint allocations_held unique (id, node_id, open, during);

create table allocation_devices (
  allocation_id text not null,
  node_id       text not null,
  uuid          text not null,
  device        bigint not null,                -- the device's number: an exclusion over a range of one needs no extension
  open          boolean not null,
  during        tstzrange not null,
  primary key (allocation_id, uuid),
  foreign key (allocation_id, node_id, open, during) references allocations (id, node_id, open, during) on update cascade,
  foreign key (node_id, uuid, device) references devices (node_id, uuid, number),
  constraint allocation_devices_once exclude using gist (int8range(device, device, '[]') with &&, during with &&) where (open)
);
create index allocation_devices_device on allocation_devices (node_id, uuid);
