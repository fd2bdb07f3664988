-- +goose Up

-- The certificate authorities that this installation has had. Its one present one is made when there is none.
create table cas (
  fingerprint  text primary key check (fingerprint ~ '^[0-9a-f]{64}$'),   -- of the root: what machines pin
  trust_domain text not null,
  created_at   timestamptz not null default now(),
  retired_at   timestamptz
);
create unique index cas_present on cas ((true)) where retired_at is null;

-- Join tokens. Of the secret only the hash is kept: a backup holds which tokens there were, and none that works.
create table join_tokens (
  id            text primary key check (id ~ '^jt_[0-9a-z]{26}$'),
  tenant_id     text not null references tenants,
  pool_id       text not null references pools,
  secret_hash   bytea not null check (length(secret_hash) = 32),
  created_by    text not null,
  created_at    timestamptz not null,
  expires_at    timestamptz not null check (expires_at > created_at),
  used_at       timestamptz,
  used_by       text references nodes deferrable initially deferred,      -- claimed before the node's row is written, in one transaction
  revoked_at    timestamptz,
  revoked_by    text,
  reuse_seen_at timestamptz,                    -- the last event about a second use: one a minute at most
  check ((used_at is null) = (used_by is null)),
  check ((revoked_at is null) = (revoked_by is null))
);
create index join_tokens_tenant on join_tokens (tenant_id, id);

-- Identity keys: who a machine is, whatever becomes of its credential. A distrusted one stays so for ever; a deleted node's is free again.
create table identity_keys (
  node_id     text not null references nodes,
  fingerprint text not null check (fingerprint ~ '^[0-9a-f]{64}$'),
  public_key  bytea not null check (length(public_key) = 32),
  state       text not null check (state in ('TRUSTED', 'DISTRUSTED', 'FREED')),
  since       timestamptz not null default now(),
  primary key (node_id, fingerprint)
);
create unique index uq_trusted_identity_key on identity_keys (node_id) where state = 'TRUSTED';
create unique index uq_identity_key_holder on identity_keys (fingerprint) where state <> 'FREED';

-- Certificates of nodes. A certificate is good while its row says so; nothing is signed for a node that is not in here.
create table node_certs (
  serial          text primary key,             -- lower-case hex
  node_id         text not null references nodes,
  state           text not null check (state in ('PENDING', 'ACTIVE', 'SUPERSEDED', 'REVOKED')),
  generation      bigint not null,              -- the node's identity generation that it carries
  key_fingerprint text not null,                -- of the public key in it
  csr_hash        bytea not null,
  chain           text,                         -- as it was handed out, for an answer that got lost; empty from its first use
  print           jsonb not null default '{}',  -- of the machine that asked for it
  token_id        text references join_tokens,  -- the join that it came from; null: a renewal
  issued_at       timestamptz not null,
  not_before      timestamptz not null,
  not_after       timestamptz not null,
  first_used_at   timestamptz,
  ended_at        timestamptz,                  -- when it was superseded or revoked
  ended_by        text,
  reason          text,
  seen_again_at   timestamptz,                  -- the last event about a use after its end: one an hour at most
  check ((state in ('SUPERSEDED', 'REVOKED')) = (ended_at is not null))
);
create unique index uq_active_node_credential on node_certs (node_id) where state = 'ACTIVE';
create unique index uq_pending_node_credential on node_certs (node_id) where state = 'PENDING';
create index node_certs_node on node_certs (node_id, issued_at);
create index node_certs_token on node_certs (token_id) where token_id is not null;
