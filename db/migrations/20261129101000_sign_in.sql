-- +goose Up

-- One-time links with which a person signs in to the console. Only the hash of the secret is kept.
create table sign_in_links (
  hash       bytea primary key,
  principal  text not null references principals,
  expires_at timestamptz not null,
  used_at    timestamptz
);
