// Package embedded runs a private PostgreSQL for one process: the database of serve when no --database-url is given, and that of the tests.
//
// What holds:
//   - The server listens on a Unix socket alone. Nobody but the operating system user that started it (and root, where root started it) gets
//     in: peer authentication with a map, never trust, and a socket in a directory that only its owner enters.
//   - PostgreSQL never runs as root. Started by root it runs as the user postgres, else nobody; its program files and its configuration
//     belong to root, so that this user cannot change what is run or who is let in.
//   - One process holds a data directory at a time, by a file lock that ends with the process.
//   - On Linux the server ends when the process that started it ends, however that happens. Elsewhere, and in the moment in between, the next
//     Start finds what was left over, ends it, and goes on; committed data survives all of it.
//
// The data directory holds: pg (the PostgreSQL data directory, the only part that PostgreSQL's user may write), pg-conf (its configuration,
// written anew at each start), pg-bin-… (a copy of its program files, where one is needed) and better-compute.lock.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/fault"
)

const (
	// Database is the name of the database, and of the role that owns it and may do nothing beyond it.
	Database = "better_compute"
	// superuser is the role that initdb makes. Only Start and the tests use it.
	superuser = "postgres"
	// oldest is the first major version of PostgreSQL that the product's SQL runs on.
	oldest = 15

	stopBound = 20 * time.Second // a fast shutdown writes a checkpoint; after that it is ended without one
	killBound = 5 * time.Second
)

// Config says where the database lives and whose program files run it.
type Config struct {
	// DataDir is the data directory of serve; it is made when missing. See the package comment for what is put there.
	DataDir string
	// BinDir is a folder that holds postgres and initdb (or has them in bin/). If set, nothing else is looked at.
	BinDir string
	// ProjectDir is one more folder, beside that of the executable and the working directory, from which node_modules is looked for upwards.
	ProjectDir string
	// Log takes what the server says; nil drops it.
	Log *slog.Logger
	// Settings are PostgreSQL's settings by name. They win over our defaults, but not over those that say who gets in.
	Settings map[string]string
}

// Server is a running PostgreSQL.
type Server struct {
	child  *child
	place  *place
	lock   *lock
	socket string
	log    *slog.Logger

	stop sync.Mutex // one Stop at a time
}

// Start brings the database up and returns once it takes connections. The context bounds the start alone: the server goes on until Stop, or
// until this process ends. Every error is a fault with one sentence for the operator.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	who, err := findAccount(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	settings, err := renderable(cfg.Settings)
	if err != nil {
		return nil, err
	}
	p, err := openPlace(ctx, cfg.DataDir, who)
	if err != nil {
		return nil, err
	}
	l, err := p.lock()
	if err != nil {
		return nil, err
	}
	s := &Server{place: p, lock: l, log: log}
	if err := s.start(ctx, cfg, settings); err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound+2*killBound)
		defer cancel()
		return nil, errors.Join(err, s.Stop(end))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, cfg Config, settings map[string]string) error {
	began := time.Now()
	p := s.place
	if err := p.endOrphans(ctx, s.log); err != nil {
		return err
	}
	s.lock.dropSocketDir()
	major, err := p.major()
	if err != nil {
		return err
	}
	durable := settings["fsync"] != "off"
	bin, err := findBinaries(ctx, p, cfg, major, durable)
	if err != nil {
		return err
	}
	if major == 0 {
		if err := p.initialise(ctx, bin, durable); err != nil {
			return err
		}
	}
	if s.socket, err = p.socketDir(); err != nil {
		return err
	}
	if err := s.lock.write(s.socket); err != nil {
		return err
	}
	if err := p.writeConfig(settings); err != nil {
		return err
	}
	if s.child, err = startChild(p.postgres(bin, s.socket), s.log); err != nil {
		return fault.Because(fault.Unavailable, err, nil, "PostgreSQL could not be started: %s", err)
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.log.InfoContext(ctx, "PostgreSQL is up", "version", bin.version, "binaries", bin.dir, "data", p.pg, "user", p.who.name, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// URL is the connection string of the role that owns the product's database; it holds no secret: the socket lets in this user alone.
func (s *Server) URL() string { return s.url(Database, Database) }

// AdminURL is the connection string of PostgreSQL's superuser, to the maintenance database.
func (s *Server) AdminURL() string { return s.url(superuser, "postgres") }

func (s *Server) url(role, database string) string {
	// A space must become %20, since readers of connection strings take a plus sign as it stands.
	q := "host=" + strings.ReplaceAll(url.QueryEscape(s.socket), "+", "%20") + "&port=5432"
	return (&url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: q}).String()
}

// PID is the process id of PostgreSQL's first process.
func (s *Server) PID() int { return s.child.cmd.Process.Pid }

// Done is closed when PostgreSQL has ended, by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.child.done }

// Err says, once Done is closed, how PostgreSQL ended if nobody asked it to; else nil.
func (s *Server) Err() error {
	select {
	case <-s.child.done:
		return s.child.fault()
	default:
		return nil
	}
}

// Stop ends the database: a fast shutdown (open transactions are rolled back, a checkpoint is written), and a harder one when it takes longer
// than 20 s or than the context lasts. Then it frees the data directory. A second Stop does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Lock()
	defer s.stop.Unlock()
	if s.child != nil {
		s.child.end(ctx)
		select {
		case <-s.child.done:
		default: // the lock stays: someone still works on the data
			return fault.New(fault.Unavailable, nil, "PostgreSQL (process %d) does not end", s.PID())
		}
	}
	return s.lock.release()
}

// ready waits until the server takes connections, which after a crash is when it has replayed its log, and makes the role and the database if
// this is the first time. Only the caller's context and the server's own end bound it.
func (s *Server) ready(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-s.child.done:
			return s.child.fault()
		case <-ctx.Done():
			return fault.Because(fault.Unavailable, errors.Join(ctx.Err(), last), nil, "PostgreSQL did not become ready in time; it last said: %s", s.child.tail.last())
		case <-tick.C:
		}
		conn, err := pgx.Connect(ctx, s.AdminURL())
		if err != nil {
			if errors.Is(err, syscall.EACCES) {
				return fault.Because(fault.Unavailable, err, nil, "the socket of PostgreSQL in %s cannot be entered by this process", s.socket)
			}
			var refusal *pgconn.PgError
			if errors.As(err, &refusal) && refusal.Code != "57P03" { // that one says that it is still coming up
				return fault.Because(fault.Unavailable, err, nil, "PostgreSQL does not let its own starter in: %s", refusal.Message)
			}
			last = err
			continue
		}
		err = furnish(ctx, conn)
		if errClose := conn.Close(ctx); err == nil {
			err = errClose
		}
		if err != nil {
			return fault.Because(fault.Unavailable, err, nil, "the database could not be set up in PostgreSQL: %s", err)
		}
		return nil
	}
}

// furnish makes what initdb does not: the role and its database. A start that was cut off in between is completed by the next.
func furnish(ctx context.Context, conn *pgx.Conn) error {
	var role, database bool
	err := conn.QueryRow(ctx, `select exists(select from pg_roles where rolname = $1), exists(select from pg_database where datname = $1)`, Database).Scan(&role, &database)
	if err != nil {
		return err
	}
	name := pgx.Identifier{Database}.Sanitize()
	var todo []string
	if !role {
		todo = append(todo, "create role "+name+" login")
	}
	if !database {
		todo = append(todo, "create database "+name+" owner "+name)
	}
	for _, sql := range todo {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// absolute makes a path absolute and free of symbolic links as far as it exists.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for dir, rest := abs, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			return "", err
		}
	}
}
