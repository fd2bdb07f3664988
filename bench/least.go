package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// least measures the smallest programs that can do what [cordon] measures, to read that row by: a plain HTTP handler that runs the bare write, and tells
// one subscriber of it by a line. They ask nobody who may, know no GraphQL and no websocket, and keep no rules. One decides nothing and takes one round
// trip to the database; the other locks the node first, as who decides in the program has to, and takes two.
func least(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.nodes(ctx, 2)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, kind := range []string{"cordon-least-one-trip", "cordon-least-two-trips"} {
		row, err := r.least(ctx, kind, ids, s)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *rig) least(ctx context.Context, kind string, ids []string, s size) (Row, error) {
	f, err := startFloor(ctx, kind, leastDatabase+"="+r.postgres.URL())
	if err != nil {
		return Row{}, err
	}
	defer f.stop()
	told, err := net.Dial("tcp", f.address)
	if err != nil {
		return Row{}, err
	}
	defer told.Close()
	if _, err := fmt.Fprintf(told, "GET / HTTP/1.1\r\nHost: least\r\n\r\n"); err != nil {
		return Row{}, err
	}
	lines := bufio.NewScanner(told)
	for lines.Scan() && lines.Text() != "" { // the head of the answer
	}
	asks, err := net.Dial("tcp", f.address)
	if err != nil {
		return Row{}, err
	}
	c := &client{conn: asks, in: bufio.NewReader(asks)}
	defer asks.Close()
	query, variables := toggling(ids[0], true)
	request, err := r.request(query, variables)
	if err != nil {
		return Row{}, err
	}
	work := func(context.Context) (time.Duration, error) {
		began := time.Now()
		if _, err := asks.Write(request); err != nil {
			return 0, err
		}
		for lines.Text() != ids[0] && lines.Scan() {
		}
		took := time.Since(began)
		if lines.Text() != ids[0] {
			return 0, errors.Join(errors.New("nobody told of it"), lines.Err())
		}
		lines.Scan() // the end of its chunk
		_, err := c.read()
		return took, err
	}
	return pairs(ctx, kind, s.rounds, median, side{f.cpu, r.dbCPU, timed(s.each, work)}, r.bareOne(s.each, ids[1]))
}

// leastDatabase names the database to the programs of [least].
const leastDatabase = "BENCH_DATABASE"

// serveLeast is the other side of [least].
func serveLeast(l net.Listener, twoTrips bool) error {
	pool, err := pgxpool.New(context.Background(), os.Getenv(leastDatabase))
	if err != nil {
		return err
	}
	defer pool.Close()
	write := func(ctx context.Context, nodeID string) error {
		_, err := pool.Exec(ctx, bareWrite, nodeID)
		return err
	}
	if twoTrips {
		write = func(ctx context.Context, nodeID string) error { return lockAndWrite(ctx, pool, nodeID) }
	}
	told := make(chan string, 1)
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			w.WriteHeader(http.StatusOK)
			for flush := http.NewResponseController(w); flush.Flush() == nil; {
				if _, err := fmt.Fprintln(w, <-told); err != nil {
					return
				}
			}
			return
		}
		var in struct {
			Variables struct{ I struct{ NodeID string } }
		}
		err := json.NewDecoder(req.Body).Decode(&in)
		if err == nil {
			err = write(req.Context(), in.Variables.I.NodeID)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		told <- in.Variables.I.NodeID
		_, _ = io.WriteString(w, `{"data":{}}`)
	})}
	return server.Serve(l)
}

func lockAndWrite(ctx context.Context, pool *pgxpool.Pool, nodeID string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, statements := range [][]string{{"begin", "select id from nodes where id = $1 for no key update"}, {bareWrite, "commit"}} {
		b := &pgx.Batch{}
		for _, sql := range statements {
			if strings.Contains(sql, "$1") {
				b.Queue(sql, nodeID)
			} else {
				b.Queue(sql)
			}
		}
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
	}
	return nil
}
