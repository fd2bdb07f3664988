// Package dbtest gives each test a real PostgreSQL database of its own, with the whole schema in it.
//
// The database is cloned from a template that is made once for each set of migrations, and takes some tens of milliseconds. It is dropped when
// the test passes and kept when it fails, with its connection string in the test's log; of the kept ones the newest few stay.
//
// The server is that of BC_TEST_DATABASE_URL if it is set (its role must be allowed to make databases). Else the first test program that needs
// one starts it, in the background, from the same program files that serve would pick (or those in BC_TEST_POSTGRES_BIN); all test programs of
// this user share it, and it ends by itself when none has used it for a minute. It forgets what a power cut forgets, and is fast for it.
package dbtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/better-compute/better-compute/db"
)

const (
	freshPrefix    = "bc_test_"
	keptPrefix     = "bc_kept_"
	templatePrefix = "bc_template_"
	// keptMost is how many databases of failed tests stay.
	keptMost = 8
	// bound is for what the tests' own machinery does, on a machine that runs many of them at once.
	bound = 60 * time.Second
)

// Option changes how New opens the database.
type Option func(*db.Config)

// WithMaxConns bounds the pool. With one connection a verb that takes a second one inside its transaction does not come back.
func WithMaxConns(n int32) Option { return func(c *db.Config) { c.MaxConns = n } }

// WithLog has the database's own log written there.
func WithLog(log *slog.Logger) Option { return func(c *db.Config) { c.Log = log } }

// With changes any other setting.
func With(change func(*db.Config)) Option { return change }

// New gives a database with the schema, closed and dropped when the test ends. Locks taken against the order fail (db.Config.Strict).
func New(tb testing.TB, opts ...Option) *db.DB {
	tb.Helper()
	c := db.Config{URL: create(tb, true), MaxConns: 10, Application: "test " + tb.Name(), Strict: true}
	for _, o := range opts {
		o(&c)
	}
	d, err := db.Open(tb.Context(), c)
	if err != nil {
		tb.Fatalf("dbtest: %v", err)
	}
	tb.Cleanup(func() {
		closed := make(chan struct{})
		go func() { defer close(closed); d.Close() }()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			tb.Errorf("dbtest: the test ended and still holds a connection of its database")
		}
	})
	return d
}

// URL is the connection string of a database, for a second pool or another process.
func URL(d *db.DB) string { return d.URL() }

// Empty gives the connection string of a database without any schema, for tests of the migrations themselves.
func Empty(tb testing.TB) string {
	tb.Helper()
	return create(tb, false)
}

// create makes the database and sees to its end.
func create(tb testing.TB, schema bool) string {
	tb.Helper()
	admin, err := server()
	if err != nil {
		tb.Fatalf("dbtest: no PostgreSQL for the tests: %v", err)
	}
	ctx := context.WithoutCancel(tb.Context()) // the end comes after the test's context
	name := strings.ToLower(rand.Text())
	sql := "create database " + freshPrefix + name + " template template0"
	if schema {
		template, err := makeTemplate(ctx, admin)
		if err != nil {
			tb.Fatalf("dbtest: the template database: %v", err)
		}
		sql = "create database " + freshPrefix + name + " template " + template + " strategy file_copy"
	}
	if err := run(ctx, admin, sql); err != nil {
		tb.Fatalf("dbtest: %v", err)
	}
	tb.Cleanup(func() {
		if err := finish(ctx, tb, admin, name); err != nil {
			tb.Errorf("dbtest: %v", err)
		}
	})
	return database(admin, freshPrefix+name)
}

// finish drops the database of a test that passed, and keeps that of one that failed.
func finish(ctx context.Context, tb testing.TB, admin, name string) error {
	tb.Helper()
	if !tb.Failed() {
		return run(ctx, admin, "drop database "+freshPrefix+name+" with (force)")
	}
	// The name begins with the time, so that the oldest are known; those whose test still holds a connection cannot be renamed and are kept under
	// the name they have.
	kept := keptPrefix + time.Now().UTC().Format("20060102t150405") + "_" + name[:8]
	err := run(ctx, admin, "alter database "+freshPrefix+name+" rename to "+kept)
	if err != nil {
		kept = freshPrefix + name
	}
	tb.Logf("dbtest: the database is kept: %s", database(admin, kept))
	return trim(ctx, admin, keptPrefix, keptMost)
}

// trim drops the oldest databases of a prefix, beyond so many. Others may do the same at the same time.
func trim(ctx context.Context, admin, prefix string, most int) error {
	names, err := list(ctx, admin, prefix)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for len(names) > most {
		if err := run(ctx, admin, "drop database if exists "+names[0]+" with (force)"); err != nil {
			return err
		}
		names = names[1:]
	}
	return nil
}

// template is made once a process and set of migrations; a process that failed to make it tries again.
var template struct {
	sync.Mutex
	name string
}

func makeTemplate(ctx context.Context, admin string) (string, error) {
	template.Lock()
	defer template.Unlock()
	if template.name != "" {
		return template.name, nil
	}
	hash, err := schemaHash()
	if err != nil {
		return "", err
	}
	name := templatePrefix + hex.EncodeToString(hash[:10])
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	// All test programs come here at once: one makes it, the others wait and find it made.
	key := int64(binary.BigEndian.Uint64(hash[:8]))
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", key); err != nil {
		return "", err
	}
	var made bool
	if err := conn.QueryRow(ctx, "select exists(select from pg_database where datname = $1)", name).Scan(&made); err != nil {
		return "", err
	}
	if !made {
		// Made under another name first: a template with the right name is a whole one. No connection may disturb it once it is.
		half := name + "_new"
		for _, sql := range []string{"drop database if exists " + half + " with (force)", "create database " + half + " template template0"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return "", err
			}
		}
		if err := db.Migrate(ctx, database(admin, half), slog.New(slog.DiscardHandler)); err != nil {
			return "", err
		}
		for _, sql := range []string{"alter database " + half + " allow_connections false", "alter database " + half + " rename to " + name} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return "", err
			}
		}
	}
	template.name = name
	return name, nil
}

// schemaHash tells one set of migrations, ours and River's, from another.
func schemaHash() ([]byte, error) {
	h := sha256.New()
	files, err := db.Migrations()
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	if err != nil {
		return nil, err
	}
	river, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return nil, err
	}
	for _, m := range river.AllVersions() {
		fmt.Fprintf(h, "river %d %d\n%s", m.Version, len(m.SQLUp), m.SQLUp)
	}
	return h.Sum(nil), nil
}

// run runs one statement on a connection of its own: a pool would leave goroutines behind in programs that look for them.
func run(ctx context.Context, admin, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	_, err = conn.Exec(ctx, sql)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

func list(ctx context.Context, admin, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, "select datname::text from pg_database where starts_with(datname::text, $1)", prefix)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// database is a server's connection string with another database in it.
func database(admin, name string) string {
	u, err := url.Parse(admin)
	if err != nil { // it was parsed before it came here
		panic("dbtest: " + err.Error())
	}
	u.Path = "/" + name
	return u.String()
}

// usable says whether the server answers; nil means that it does.
func usable(ctx context.Context, admin string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "53300" { // too many connections: it is there
		return nil
	}
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
