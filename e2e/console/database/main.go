// Command database runs a PostgreSQL of its own in a scratch directory for the console's tests, and runs what they send it. Its first line is the URL;
// then each line on standard input is a JSON string of SQL, answered by a line: {"rows": [...]} or {"error": "..."}. It ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/better-compute/better-compute/db/embedded"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: database DIR")
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "database:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	server, err := embedded.Start(ctx, embedded.Config{
		DataDir: dir, Log: slog.New(slog.DiscardHandler), Settings: map[string]string{"fsync": "off"},
	})
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop(context.Background()) }()
	pool, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		return err
	}
	defer pool.Close()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(server.URL()); err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, more := <-lines:
			if !more {
				return nil
			}
			if err := out.Encode(answer(ctx, pool, line)); err != nil {
				return err
			}
		}
	}
}

// answer runs one line.
func answer(ctx context.Context, pool *pgxpool.Pool, line string) map[string]any {
	var sql string
	if err := json.Unmarshal([]byte(line), &sql); err != nil {
		return map[string]any{"error": err.Error()}
	}
	rows, err := pool.Query(ctx, sql)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	list, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"rows": list}
}
