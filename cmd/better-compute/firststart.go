package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

const (
	adminName      = "admin"
	adminTokenFile = "admin.token"
	adminTokenLife = 30 * 24 * time.Hour
	// adminTokenLeft is how much life an admin token must have left at a start; otherwise it is written anew.
	adminTokenLeft = 7 * 24 * time.Hour
	signingKeyFile = "token-signing.key"
	defaultName    = "default"
)

// firstStart makes the tenant and the pool that a laptop needs and the admin with its grant. A repeat changes nothing.
func firstStart(ctx context.Context, d *db.DB) error {
	_, err := d.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := iam.CreateTenantTx(ctx, tx, defaultName); err != nil {
			return err
		}
		if _, err := node.CreatePoolTx(ctx, tx, defaultName, defaultName); err != nil {
			return err
		}
		return iam.GrantTx(ctx, tx, adminName, "", "admin")
	})
	return err
}

// issuer reads the key that signs tokens, made at the first start, and keeps the admin's token file good.
func (s *settings) issuer(ctx context.Context, d *db.DB) (*iam.Issuer, error) {
	key, err := signingKey(filepath.Join(s.dataDir, "pki"))
	if err != nil {
		return nil, err
	}
	issuer := iam.NewIssuer(d, key)
	path := filepath.Join(s.dataDir, adminTokenFile)
	if good(ctx, issuer, path) {
		return issuer, nil
	}
	token, _, err := issuer.Issue(ctx, adminName, adminTokenLife)
	if err != nil {
		return nil, err
	}
	return issuer, writeFile(path, []byte(token+"\n"), 0o600)
}

func good(ctx context.Context, issuer *iam.Issuer, path string) bool {
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	who, err := issuer.Verify(strings.TrimSpace(string(b)))
	return err == nil && issuer.Live(ctx, who) == nil && time.Until(who.ExpiresAt) > adminTokenLeft
}

func signingKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, signingKeyFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if b, err = newSigningKey(); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fault.Because(fault.InvalidInput, err, nil, "%s cannot be made", dir)
		}
		if err := writeFile(path, b, 0o600); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fault.Because(fault.InvalidState, err, nil, "the key that signs tokens, %s, cannot be read; run serve as the user that made it", path)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fault.New(fault.InvalidState, nil, "%s holds no key; restore it from a backup, or remove it: then every token must be made anew", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fault.New(fault.InvalidState, nil, "%s holds no Ed25519 key; restore it from a backup, or remove it: then every token must be made anew", path)
	}
	return key, nil
}

func newSigningKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key that signs tokens: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make the key that signs tokens: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// writeFile puts a file in its place whole or not at all, with its rights from the beginning.
func writeFile(path string, content []byte, mode os.FileMode) (err error) {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fault.Because(fault.InvalidState, err, nil, "%s cannot be written; check the rights of the data directory and its space", path)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fault.Because(fault.InvalidState, err, nil, "%s cannot be written; check the space of its disk", path)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("put %s in place: %w", path, err)
	}
	return nil
}
