package iam_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

// signed makes a token as somebody else might, who has that key.
func signed(t *testing.T, algorithm jose.SignatureAlgorithm, key any, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	require.NoError(t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}

// encoded makes a part of a token.
func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(b)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, expiresAt, err := b.issuer.Issue(t.Context(), "alex", time.Hour)
	require.NoError(t, err)
	who, err := b.issuer.Verify(token)
	require.NoError(t, err)
	require.Equal(t, "alex", who.Name)
	require.Equal(t, expiresAt.Unix(), who.ExpiresAt.Unix())
	require.False(t, who.IsSystem())

	good := jwt.Claims{
		Issuer: "better-compute", Audience: jwt.Audience{"better-compute"}, Subject: "alex", ID: who.TokenID, Expiry: jwt.NewNumericDate(expiresAt),
	}
	but := func(change func(*jwt.Claims)) jwt.Claims {
		c := good
		change(&c)
		return c
	}
	_, err = b.issuer.Verify(signed(t, jose.EdDSA, b.key, good))
	require.NoError(t, err, "what follows differs from a good one in one thing each")

	_, foreign, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public := []byte(b.key.Public().(ed25519.PublicKey))
	parts := strings.Split(token, ".")
	for name, bad := range map[string]string{
		"empty":                                  "",
		"no token":                               "abc",
		"too long":                               token + strings.Repeat("A", 4096),
		"another key":                            signed(t, jose.EdDSA, foreign, good),
		"wrong algorithm, no signature":          encoded(t, map[string]string{"alg": "none"}) + "." + parts[1] + ".",
		"wrong algorithm, none with a signature": encoded(t, map[string]string{"alg": "none"}) + "." + parts[1] + "." + parts[2],
		"wrong algorithm, the public key as HMAC": signed(t, jose.HS256, public, good),
		"wrong algorithm, ES256":                  signed(t, jose.ES256, curve, good),
		"another's claims under its signature":    parts[0] + "." + encoded(t, but(func(c *jwt.Claims) { c.Subject = "root" })) + "." + parts[2],
		"other audience":                          signed(t, jose.EdDSA, b.key, but(func(c *jwt.Claims) { c.Audience = jwt.Audience{"other"} })),
		"no audience":                             signed(t, jose.EdDSA, b.key, but(func(c *jwt.Claims) { c.Audience = nil })),
		"other issuer":                            signed(t, jose.EdDSA, b.key, but(func(c *jwt.Claims) { c.Issuer = "other" })),
		"no subject":                              signed(t, jose.EdDSA, b.key, but(func(c *jwt.Claims) { c.Subject = "" })),
		"no id":                                   signed(t, jose.EdDSA, b.key, but(func(c *jwt.Claims) { c.ID = "" })),
		"no end":                                  signed(t, jose.EdDSA, b.key, but(func(c *jwt.Claims) { c.Expiry = nil })),
	} {
		_, err := b.issuer.Verify(bad)
		require.Equal(t, fault.Unauthenticated, code(err), name)
		require.Equal(t, iam.Unauthenticated().Error(), err.Error(), "%s: one answer to all", name)
	}
	// Cut at any place it is no token any more.
	for i := range token {
		_, err := b.issuer.Verify(token[:i])
		require.Equal(t, fault.Unauthenticated, code(err), i)
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	b := setup(t)
	live := func(who iam.Actor) error { return b.issuer.Live(t.Context(), who) }

	t.Run("The database's clock and its row end a token, whatever the token says", func(t *testing.T) {
		t.Parallel()
		b := *b
		b.T = t
		// Signed by us, good for years, and in no row: as after a restore of an older backup.
		far := signed(t, jose.EdDSA, b.key, jwt.Claims{
			Issuer: "better-compute", Audience: jwt.Audience{"better-compute"}, Subject: "alex", ID: id.New(id.Token),
			Expiry: jwt.NewNumericDate(time.Now().Add(10 * 365 * 24 * time.Hour)),
		})
		who, err := b.issuer.Verify(far)
		require.NoError(t, err)
		require.Equal(t, fault.Unauthenticated, code(live(who)))

		late := b.signedIn("alex")
		require.NoError(t, live(late))
		b.exec(`update api_tokens set expires_at = now() - interval '1 microsecond' where jti = $1`, late.TokenID)
		require.Equal(t, fault.Unauthenticated, code(live(late)))

		// Said to have ended long ago by its own words only: the row says otherwise.
		b.exec(`update api_tokens set expires_at = now() + interval '1 hour' where jti = $1`, late.TokenID)
		late.ExpiresAt = time.Unix(0, 0)
		require.NoError(t, live(late))
	})

	t.Run("Revoking ends it for good, once", func(t *testing.T) {
		t.Parallel()
		b := *b
		b.T = t
		who := b.signedIn("sam")
		require.NoError(t, b.issuer.RevokeToken(t.Context(), who.TokenID))
		at := func() (at time.Time) {
			require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select revoked_at from api_tokens where jti = $1`, who.TokenID).Scan(&at))
			return at
		}
		first := at()
		require.NoError(t, b.issuer.RevokeToken(t.Context(), who.TokenID))
		require.Equal(t, first, at())
		require.Equal(t, fault.Unauthenticated, code(live(who)))
	})

	t.Run("D6 a token's text and a link's secret are in no row", func(t *testing.T) {
		t.Parallel()
		b := *b
		b.T = t
		b.grant("tess", "acme", "admin")
		token, _, err := b.issuer.Issue(t.Context(), "tess", time.Hour)
		require.NoError(t, err)
		secret, err := b.issuer.SignInLink(t.Context(), "tess")
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(secret), 43, "256 bits")
		for _, text := range []string{token, strings.Split(token, ".")[2], secret} {
			var found bool
			require.NoError(t, b.db.Pool().QueryRow(t.Context(), `
				select exists (select from api_tokens t where t::text like '%' || $1 || '%')
				    or exists (select from sign_in_links l where l::text like '%' || $1 || '%' or l.hash = convert_to($1, 'UTF8'))`, text).Scan(&found))
			require.False(t, found)
		}
	})

	t.Run("A sign-in link is claimed once, also by twenty at a time, and not when it is late or unknown", func(t *testing.T) {
		t.Parallel()
		b := *b
		b.T = t
		b.grant("tess", "acme", "admin")
		b.grant("late", "acme", "admin")
		secret, err := b.issuer.SignInLink(t.Context(), "tess")
		require.NoError(t, err)
		var claimed atomic.Int32
		var g errgroup.Group
		for range 20 {
			g.Go(func() error {
				token, _, err := b.issuer.ClaimSignIn(t.Context(), secret)
				if code(err) == fault.Unauthenticated {
					return nil
				}
				if err != nil {
					return err
				}
				claimed.Add(1)
				who, err := b.issuer.Verify(token)
				if err == nil && who.Name != "tess" {
					return errors.New("the link is for tess, the token for " + who.Name)
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
		require.EqualValues(t, 1, claimed.Load())
		late, err := b.issuer.SignInLink(t.Context(), "late")
		require.NoError(t, err)
		b.exec(`update sign_in_links set expires_at = now() where principal = 'late'`)
		for _, bad := range []string{late, secret, "", "unknown"} {
			_, _, err = b.issuer.ClaimSignIn(t.Context(), bad)
			require.Equal(t, fault.Unauthenticated, code(err))
		}
	})
}

func TestForgetTokens(t *testing.T) {
	t.Parallel()
	// What ended long ago goes, and counts as little as before; what lives, or ended lately, stays.
	b := setup(t)
	b.grant("alex", "acme", "admin")
	live, late, old := b.signedIn("alex"), b.signedIn("alex"), b.signedIn("alex")
	_, err := b.issuer.SignInLink(t.Context(), "alex")
	require.NoError(t, err)
	b.exec(`update api_tokens set expires_at = now() - interval '6 days 23 hours' where jti = $1`, late.TokenID)
	b.exec(`update api_tokens set expires_at = now() - interval '7 days 1 second' where jti = $1`, old.TokenID)
	b.exec(`insert into sign_in_links (hash, principal, expires_at) values ('old', 'alex', now() - interval '8 days')`)
	forgotten, err := iam.ForgetTokens(t.Context(), b.db)
	require.NoError(t, err)
	require.EqualValues(t, 2, forgotten)
	var rows int
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select (select count(*) from api_tokens) + (select count(*) from sign_in_links)`).Scan(&rows))
	require.Equal(t, 3, rows)
	require.NoError(t, b.issuer.Live(t.Context(), live))
	for _, who := range []iam.Actor{late, old} {
		require.Equal(t, fault.Unauthenticated, code(b.issuer.Live(t.Context(), who)))
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	// What is published verifies a token and signs none.
	b := setup(t)
	token, _, err := b.issuer.Issue(t.Context(), "alex", time.Hour)
	require.NoError(t, err)
	text, err := json.Marshal(b.issuer.Keys())
	require.NoError(t, err)
	require.NotContains(t, string(text), `"d"`)
	var keys jose.JSONWebKeySet
	require.NoError(t, json.Unmarshal(text, &keys))
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	require.NoError(t, err)
	var claims jwt.Claims
	require.NoError(t, parsed.Claims(keys.Key(parsed.Headers[0].KeyID)[0], &claims))
	require.Equal(t, "alex", claims.Subject)
}

func FuzzVerify(f *testing.F) {
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(f, err)
	issuer := iam.NewIssuer(nil, key)
	f.Add("")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, s string) {
		// No text makes it panic, and none that our key did not sign names anybody.
		who, err := issuer.Verify(s)
		require.Equal(t, fault.Unauthenticated, code(err))
		require.Equal(t, iam.Actor{}, who)
	})
}
