-- +goose Up

-- The liveness controller's one row: who gives nodes up, when it last looked, and until when nobody is given up because it, or this database, was away.
create table liveness_controller (
  one        boolean primary key default true check (one),
  term       bigint not null,        -- counts the holders: what one began is void once the next has taken over
  holder     text not null,
  looked_at  timestamptz not null,
  hold_until timestamptz not null
) with (fillfactor = 10);

insert into liveness_controller (term, holder, looked_at, hold_until) values (0, '', clock_timestamp(), clock_timestamp());
