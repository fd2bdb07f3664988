package pki

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
)

// Trust is what the database knows of the certificate authority: enough to tell a machine what to pin.
type Trust struct {
	// Fingerprint is the lower-case hex SHA-256 of the root's DER.
	Fingerprint string
	// TrustDomain is the domain that every name lies in.
	TrustDomain string
}

// ReadTrust reads it. Before the first gateway has started there is none: INVALID_STATE.
func ReadTrust(ctx context.Context, q db.Querier) (Trust, error) {
	t, err := readTrust(ctx, q)
	if errors.Is(err, pgx.ErrNoRows) {
		return Trust{}, fault.New(fault.InvalidState, nil, "there is no certificate authority yet; start a process with the role gateway, which makes it")
	}
	return t, err
}

func readTrust(ctx context.Context, q db.Querier) (Trust, error) {
	var t Trust
	err := q.QueryRow(ctx, `select fingerprint, trust_domain from cas where retired_at is null`).Scan(&t.Fingerprint, &t.TrustDomain)
	if err != nil {
		return Trust{}, fmt.Errorf("read the certificate authority's fingerprint: %w", err)
	}
	return t, nil
}

// One process at a time looks whether there is an authority, and makes it.
const caLock = 0x6263_7069_6b69 // "bcpki"

// OpenCA gives the installation's certificate authority from a directory. A new one is made, by create, only when the database has none and the
// directory holds none; an authority that lies there while the database has none (the process died in between, or the database is new) is
// entered. A directory that does not hold the one that the database names is INVALID_STATE with what to do: nothing is ever made in its place,
// since that would lock out every machine.
func OpenCA(ctx context.Context, d *db.DB, dir string, create func(ctx context.Context, trustDomain string) (*CA, error)) (*CA, error) {
	var ca *CA
	_, err := d.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(caLock)); err != nil {
			return fmt.Errorf("wait for the certificate authority's lock: %w", err)
		}
		known, err := readTrust(ctx, tx)
		fresh := errors.Is(err, pgx.ErrNoRows)
		if err != nil && !fresh {
			return err
		}
		ca, err = ReadCA(dir, time.Now())
		switch {
		case errors.Is(err, ErrNoCA) && fresh:
			if ca, err = create(ctx, NewTrustDomain()); err != nil {
				return err
			}
			if err := WriteCA(dir, ca); err != nil {
				return err
			}
		case errors.Is(err, ErrNoCA):
			return fault.New(fault.InvalidState, fault.Details{"caFingerprint": known.Fingerprint},
				"the database belongs to the certificate authority %s, and %s holds none: copy %s, %s and %s from the machine that made it (not %s)",
				known.Fingerprint, dir, RootFile, IntermediateFile, IntermediateKeyFile, RootKeyFile)
		case err != nil:
			return err
		case !fresh && Fingerprint(ca.Root) != known.Fingerprint:
			return fault.New(fault.InvalidState, fault.Details{"caFingerprint": known.Fingerprint},
				"the database belongs to the certificate authority %s, and %s holds another, %s: give this process its own database or the right directory",
				known.Fingerprint, dir, Fingerprint(ca.Root))
		}
		if !fresh {
			return nil
		}
		if _, err := tx.Exec(ctx, `insert into cas (fingerprint, trust_domain) values ($1, $2)`, Fingerprint(ca.Root), ca.TrustDomain); err != nil {
			return fmt.Errorf("enter the certificate authority: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ca.RootKey = nil // on disk now; nothing that runs needs it
	return ca, nil
}
