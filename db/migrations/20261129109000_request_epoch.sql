-- +goose Up

-- The log that a request's position is of: a restore begins another, in which that position is not the request's.
alter table requests add column epoch bigint;
update requests set epoch = event_clock.epoch from event_clock where requests.position is not null;
