package db

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Migrations gives the product's own migrations, one file each, named by timestamp.
func Migrations() (fs.FS, error) { return fs.Sub(embedded, "migrations") }

// migrationLock is the advisory lock under which one process at a time migrates.
const migrationLock = 0x6263_6d69_6772_6174 // "bcmigrat"

// Migrate brings the database to this binary's schema: the product's migrations and River's, under one advisory lock. Statements have no
// bound in time but wait at most 2 s for a lock, and try again for as long as ctx lasts. A database that is newer is left as it is: the version
// before must run on the schema after.
func Migrate(ctx context.Context, url string, log *slog.Logger) error {
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		return unreadable()
	}
	pc.MaxConns = 2
	pc.ConnConfig.RuntimeParams["lock_timeout"] = "2000"
	pc.ConnConfig.RuntimeParams["statement_timeout"] = "0"
	pc.ConnConfig.RuntimeParams["application_name"] = "better-compute migrate"
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer pool.Close()

	unlock, err := lockMigrations(ctx, pc.ConnConfig)
	if err != nil {
		return err
	}
	defer unlock()
	for {
		err := migrateOnce(ctx, pool, log)
		var pg *pgconn.PgError
		if err == nil || !errors.As(err, &pg) || pg.Code != "55P03" {
			return err
		}
		log.WarnContext(ctx, "a migration waits for a lock that others hold; it is tried again")
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func migrateOnce(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	river, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate the job tables: %w", err)
	}
	files, err := Migrations()
	if err != nil {
		return err
	}
	sqlDB := stdlib.OpenDBFromPool(pool)
	defer func() { _ = sqlDB.Close() }()
	// Files are named by when they were made, and a branch that was begun earlier can land later: the database takes what it lacks.
	provider, err := goose.NewProvider(goose.DialectPostgres, sqlDB, files, goose.WithAllowOutofOrder(true))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for _, r := range results {
		log.InfoContext(ctx, "migrated", "migration", r.Source.Path, "took", r.Duration)
	}
	return nil
}

// lockMigrations takes the lock on a connection of its own, which also lets go of it when the process dies.
func lockMigrations(ctx context.Context, c *pgx.ConnConfig) (unlock func(), err error) {
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, unopened(err)
	}
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}
	if onlyReads(conn) {
		unlock()
		return nil, openedReadOnly()
	}
	for {
		var got bool
		if err := conn.QueryRow(ctx, "select pg_try_advisory_lock($1)", int64(migrationLock)).Scan(&got); err != nil {
			unlock()
			return nil, fmt.Errorf("lock the migrations: %w", err)
		}
		if got {
			return unlock, nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			unlock()
			return nil, err
		}
	}
}

// State tells how the database's schema stands to this binary's.
type State struct {
	// Current is the newest migration that the database has; 0 when it has none.
	Current int64
	// Latest is the newest migration that this binary knows.
	Latest int64
	// Missing is how many of those that this binary knows the database does not have.
	Missing int
}

// Behind says that migrations are missing.
func (s State) Behind() bool { return s.Missing > 0 }

// MigrationState reads it without changing anything.
func (d *DB) MigrationState(ctx context.Context) (State, error) {
	files, err := Migrations()
	if err != nil {
		return State{}, err
	}
	sqlDB := stdlib.OpenDBFromPool(d.pool)
	defer func() { _ = sqlDB.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, sqlDB, files)
	if err != nil {
		return State{}, fmt.Errorf("migrations: %w", err)
	}
	sources := provider.ListSources()
	s := State{Latest: sources[len(sources)-1].Version, Missing: len(sources)}
	known := make([]int64, len(sources))
	for i, source := range sources {
		known[i] = source.Version
	}
	err = d.pool.QueryRow(ctx, `select coalesce(max(version_id), 0), $2 - count(distinct version_id) filter (where version_id = any($1))
		from goose_db_version where is_applied`, known, len(known)).Scan(&s.Current, &s.Missing)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" { // undefined_table
		return s, nil
	}
	return s, err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
