package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"log/slog"
	"strings"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// Token is a join token taken apart. Printed or logged it shows its id alone; only Secret and Text give the secret away.
type Token struct {
	id     string
	secret string
}

const (
	tokenPrefix = "bcj_"
	// secretSize is what a fresh secret holds, in bytes.
	secretSize = 32
	// A secret of 256 bits has 43 characters in base62 and 52 in base32.
	minSecret, maxSecret = 43, 64
)

var lowerBase32 = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewToken makes a token with a fresh secret for the id of a join token ("jt_…").
func NewToken(tokenID string) (Token, error) {
	if err := id.Check(id.JoinToken, "token", tokenID); err != nil {
		return Token{}, fmt.Errorf("make a join token: %w", err)
	}
	secret := make([]byte, secretSize)
	if _, err := rand.Read(secret); err != nil {
		return Token{}, fmt.Errorf("make a join token: %w", err)
	}
	return Token{id: tokenID, secret: lowerBase32.EncodeToString(secret)}, nil
}

// ParseToken takes a token's text apart: bcj_, the 26 characters of its id, _, the secret. White space around it is ignored. An error is an
// INVALID_INPUT and never repeats the text.
func ParseToken(text string) (Token, error) {
	malformed := fault.Invalid("token", "must look like bcj_, 26 characters, _ and the secret, as join-tokens create printed it", 0)
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), tokenPrefix)
	if !ok {
		return Token{}, malformed
	}
	suffix, secret, ok := strings.Cut(rest, "_")
	if !ok || len(secret) < minSecret || len(secret) > maxSecret || strings.ContainsFunc(secret, notBase62) {
		return Token{}, malformed
	}
	t := Token{id: string(id.JoinToken) + "_" + suffix, secret: secret}
	if id.Check(id.JoinToken, "token", t.id) != nil {
		return Token{}, malformed
	}
	return t, nil
}

func notBase62(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// ID is the id of the token ("jt_…"); it is no secret.
func (t Token) ID() string { return t.id }

// Text is the whole token as it is handed over, secret included.
func (t Token) Text() string {
	return tokenPrefix + strings.TrimPrefix(t.id, string(id.JoinToken)+"_") + "_" + t.secret
}

// SecretHash is all that a control plane keeps of the secret: the SHA-256 of its text.
func (t Token) SecretHash() [sha256.Size]byte { return sha256.Sum256([]byte(t.secret)) }

// String shows the id alone.
func (t Token) String() string { return t.id }

// GoString shows the id alone.
func (t Token) GoString() string { return t.id }

// LogValue shows the id alone.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.id) }
