-- +goose Up

-- What became of an operation's nodes: a row for those of one part that were committed together. last is the number of the newest of them, counted in the
-- order in which they were committed; which nodes they are stands in the part. Without outcomes all of them are done. It takes the place of a row for each
-- node; the table of these goes with the next version.
create table node_operation_batches (
  operation_id text not null references node_operations on delete cascade,
  last         bigint not null,
  part         bigint not null,
  begin        bigint not null,                -- how many of the part's nodes come before
  count        bigint not null check (count > 0),
  outcomes     text[] check (outcomes <@ '{DONE,UNCHANGED,REFUSED}'),
  codes        text[],                         -- empty but for what is refused
  messages     text[],
  at           timestamptz not null,
  primary key (operation_id, last),
  check (last >= count and begin >= 0),
  check ((outcomes is null) = (codes is null) and (outcomes is null) = (messages is null)),
  check (cardinality(outcomes) = count and cardinality(codes) = count and cardinality(messages) = count)
);
comment on table node_operation_results is 'written by nobody any more';

-- How many nodes a part has, so that what is left of an operation is found without unpacking the lists of all its parts.
alter table node_operation_parts add column size bigint not null generated always as (cardinality(node_ids)) stored;
