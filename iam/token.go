package iam

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// issuerName stands in each token as issuer and audience.
const issuerName = "better-compute"

// Issuer makes and verifies bearer tokens: JWTs signed by Ed25519 and nothing else, whose jti the database must hold.
type Issuer struct {
	db  *db.DB
	key ed25519.PrivateKey
	kid string

	mu       sync.Mutex
	verified map[[sha256.Size]byte]Actor // whom the tokens name whose signature was found good, by the tokens' hashes
}

// NewIssuer takes the signing key, which the api processes of an installation share.
func NewIssuer(d *db.DB, key ed25519.PrivateKey) *Issuer {
	sum := sha256.Sum256(key.Public().(ed25519.PublicKey))
	return &Issuer{db: d, key: key, kid: hex.EncodeToString(sum[:8]), verified: map[[sha256.Size]byte]Actor{}}
}

// Issue makes a token for the principal, which is made too if it is new. The token's text is given once and stored nowhere.
func (i *Issuer) Issue(ctx context.Context, principal string, life time.Duration) (token string, expiresAt time.Time, err error) {
	jti := id.New(id.Token)
	_, err = i.db.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		expiresAt, err = recordTx(ctx, tx, jti, principal, life)
		return err
	})
	if err != nil {
		return "", time.Time{}, err
	}
	token, err = i.sign(principal, jti, expiresAt)
	return token, expiresAt, err
}

func recordTx(ctx context.Context, tx *db.Tx, jti, principal string, life time.Duration) (expiresAt time.Time, err error) {
	if _, err := tx.Exec(ctx, `insert into principals (name) values ($1) on conflict do nothing`, principal); err != nil {
		return time.Time{}, fmt.Errorf("record the token: %w", err)
	}
	if err := tx.QueryRow(ctx, `
		insert into api_tokens (jti, principal, expires_at) values ($1, $2, now() + $3) returning expires_at`, jti, principal, life).Scan(&expiresAt); err != nil {
		return time.Time{}, fmt.Errorf("record the token: %w", err)
	}
	return expiresAt, nil
}

func (i *Issuer) sign(principal, jti string, expiresAt time.Time) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: i.key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", i.kid))
	if err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: issuerName, Audience: jwt.Audience{issuerName}, Subject: principal, ID: jti, Expiry: jwt.NewNumericDate(expiresAt),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return token, nil
}

// maxToken bounds what is parsed.
const maxToken = 4096

// maxVerified bounds how many tokens are known by their hash; past it all are verified anew.
const maxVerified = 4096

// Verify reads who a bearer token names. It judges the signature, of the same token once; whether the token was revoked or has ended is judged by the
// database's clock at each decision.
func (i *Issuer) Verify(token string) (Actor, error) {
	if token == "" || len(token) > maxToken {
		return Actor{}, Unauthenticated()
	}
	hash := sha256.Sum256([]byte(token))
	i.mu.Lock()
	who, known := i.verified[hash]
	i.mu.Unlock()
	if known {
		return who, nil
	}
	who, err := i.verify(token)
	if err != nil {
		return Actor{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.verified) >= maxVerified {
		clear(i.verified)
	}
	i.verified[hash] = who
	return who, nil
}

func (i *Issuer) verify(token string) (Actor, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return Actor{}, Unauthenticated()
	}
	var claims jwt.Claims
	if err := parsed.Claims(i.key.Public(), &claims); err != nil {
		return Actor{}, Unauthenticated()
	}
	if claims.Issuer != issuerName || !claims.Audience.Contains(issuerName) || claims.Subject == "" || claims.ID == "" || claims.Expiry == nil {
		return Actor{}, Unauthenticated()
	}
	return Actor{Name: claims.Subject, TokenID: claims.ID, ExpiresAt: claims.Expiry.Time()}, nil
}

// Live says whether the actor's token still counts, by the database.
func (i *Issuer) Live(ctx context.Context, who Actor) error {
	var live bool
	err := i.db.Pool().QueryRow(ctx, `
		select exists (select from api_tokens where jti = $1 and revoked_at is null and expires_at > now())`, who.TokenID).Scan(&live)
	if err != nil {
		return fmt.Errorf("check the token: %w", err)
	}
	if !live {
		return Unauthenticated()
	}
	return nil
}

// Keys gives the public half as a JSON Web Key Set, for /.well-known/jwks.json.
func (i *Issuer) Keys() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.kid, Algorithm: string(jose.EdDSA), Use: "sig"}}}
}

// RevokeToken ends a token for good; a repeat changes nothing.
func (i *Issuer) RevokeToken(ctx context.Context, jti string) error {
	if _, err := i.db.Pool().Exec(ctx, `update api_tokens set revoked_at = coalesce(revoked_at, now()) where jti = $1`, jti); err != nil {
		return fmt.Errorf("revoke the token: %w", err)
	}
	return nil
}

const (
	signInLinkLife = 10 * time.Minute
	// SessionLife is how long a browser stays signed in.
	SessionLife = 12 * time.Hour
)

// SignInLink makes the secret of a one-time sign-in link for the principal: 256 bits, good for 10 minutes and one claim, kept as a hash.
func (i *Issuer) SignInLink(ctx context.Context, principal string) (string, error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make a sign-in link: %w", err)
	}
	secret := base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(secret))
	_, err := i.db.Pool().Exec(ctx, `
		insert into sign_in_links (hash, principal, expires_at) values ($1, $2, now() + $3)`, sum[:], principal, signInLinkLife)
	if err != nil {
		return "", fmt.Errorf("make a sign-in link: %w", err)
	}
	return secret, nil
}

// ClaimSignIn turns the link's secret into a session token for the browser's cookie. A secret that is unknown, used or late is UNAUTHENTICATED.
func (i *Issuer) ClaimSignIn(ctx context.Context, secret string) (token string, expiresAt time.Time, err error) {
	sum := sha256.Sum256([]byte(secret))
	jti := id.New(id.Token)
	var principal string
	// In one transaction: a link whose token could not be recorded is not used up.
	_, err = i.db.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		err := tx.QueryRow(ctx, `
			update sign_in_links set used_at = now() where hash = $1 and used_at is null and expires_at > now() returning principal`, sum[:]).Scan(&principal)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.Unauthenticated, nil,
				"this sign-in link was used, has expired or is not ours; make a new one with `better-compute sign-in`")
		}
		if err != nil {
			return fmt.Errorf("claim the sign-in link: %w", err)
		}
		expiresAt, err = recordTx(ctx, tx, jti, principal, SessionLife)
		return err
	})
	if err != nil {
		return "", time.Time{}, err
	}
	token, err = i.sign(principal, jti, expiresAt)
	return token, expiresAt, err
}

// GrantTx gives the principal a role in a tenant; an empty tenant means every one.
func GrantTx(ctx context.Context, tx *db.Tx, principal, tenant, role string) error {
	if _, err := tx.Exec(ctx, `insert into principals (name) values ($1) on conflict do nothing`, principal); err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	_, err := tx.Exec(ctx, `
		insert into grants (principal, tenant_id, role) values ($1, nullif($2, ''), $3) on conflict do nothing`, principal, tenant, role)
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	return nil
}

// ForgetTokens removes what has ended more than a week ago: tokens, which no longer count without their row as with it, and sign-in links.
func ForgetTokens(ctx context.Context, d *db.DB) (int64, error) {
	var forgotten int64
	for _, table := range []string{"api_tokens", "sign_in_links"} {
		tag, err := d.Pool().Exec(ctx, "delete from "+table+" where expires_at < now() - interval '7 days'")
		if err != nil {
			return forgotten, fmt.Errorf("forget old tokens: %w", err)
		}
		forgotten += tag.RowsAffected()
	}
	return forgotten, nil
}
