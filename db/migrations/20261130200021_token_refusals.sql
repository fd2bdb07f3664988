-- +goose Up

-- When the owner of a join token was last told that it was refused, and why. A table of its own: whoever knows a token's id can have it refused, and
-- that must not hold up the row that a good join claims. No secret, no live state; a backup may leave it out.
create table join_token_refusals (
  token_id text not null references join_tokens,
  cause    text not null check (cause in ('WRONG_SECRET', 'EXPIRED', 'REVOKED', 'OTHER_POOL', 'OTHER_NODE', 'OUTDATED')),
  told_at  timestamptz not null,
  primary key (token_id, cause)
);
