package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/better-compute/better-compute/id"
)

// renewLeast measures the smallest programs that can do what [renew] measures, to read that row by: a goroutine for each TLS connection that reads a
// request, signs, writes the two statements that a renewal can't do without in one round trip, and answers. They know no websocket and no frames, ask
// nobody whether the node may renew, read nothing back that they signed, log nothing, and end no session. One writes each in a transaction of its own, the
// other writes in one transaction what came while the one before it was under way.
func renewLeast(ctx context.Context, r *rig, s size) ([]Row, error) {
	var rows []Row
	for _, kind := range []string{"renew-least", "renew-least-together"} {
		more, err := r.renewLeast(ctx, kind, s)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

func (r *rig) renewLeast(ctx context.Context, kind string, s size) ([]Row, error) {
	_, certificates, err := r.joined(ctx, s.n)
	if err != nil {
		return nil, err
	}
	nodes, err := r.nodes(ctx, s.n)
	if err != nil {
		return nil, err
	}
	f, err := startFloor(ctx, kind, leastDatabase+"="+r.postgres.URL())
	if err != nil {
		return nil, err
	}
	defer f.stop()
	conns, err := f.raw(ctx, certificates)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	requests, err := newCSRs(s.n * (s.rounds + 1))
	if err != nil {
		return nil, err
	}
	ca, err := newFloorCA()
	if err != nil {
		return nil, err
	}
	next := 0
	work := func(ctx context.Context) (round, error) {
		mine := requests[next*s.n : (next+1)*s.n]
		next++
		return together(renewers, s.n/renewers, func(_ context.Context, c, i int) error {
			at := c*(s.n/renewers) + i
			if err := writePiece(conns[at], append([]byte(nodes[at]), mine[at]...)); err != nil {
				return err
			}
			var room [4 << 10]byte
			_, err := readPiece(conns[at], room[:])
			return err
		})(ctx)
	}
	floor := func(ctx context.Context) (round, error) {
		mine := requests[(next-1)*s.n : next*s.n]
		return together(renewers, s.n/renewers, func(_ context.Context, c, i int) error {
			_, err := ca.sign(mine[c*(s.n/renewers)+i], id.New(id.Node))
			return err
		})(ctx)
	}
	row, err := pairs(ctx, kind, s.rounds, cpuEach, side{f.cpu, r.dbCPU, work}, side{ownCPU, zero, floor})
	return []Row{row}, err
}

func newCSRs(n int) ([][]byte, error) {
	made := make([][]byte, n)
	for i := range made {
		var err error
		if made[i], err = newCSR(); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// A piece is its length in two bytes, and it.
func writePiece(w io.Writer, piece []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint16(make([]byte, 0, len(piece)+2), uint16(len(piece))), piece...))
	return err
}

func readPiece(r io.Reader, room []byte) ([]byte, error) {
	if _, err := io.ReadFull(r, room[:2]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(room))
	if n > len(room) {
		return nil, errors.New("a piece that is too long")
	}
	_, err := io.ReadFull(r, room[:n])
	return room[:n], err
}

// serveRenewLeast is the other side of [renewLeast].
func serveRenewLeast(l net.Listener, joint bool) error {
	config, err := floorTLS()
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(context.Background(), os.Getenv(leastDatabase))
	if err != nil {
		return err
	}
	defer pool.Close()
	ca, err := newFloorCA()
	if err != nil {
		return err
	}
	keep := alone(pool)
	if joint {
		keep = inTurn(pool)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		secured := tls.Server(conn, config)
		go func() {
			defer secured.Close()
			if secured.HandshakeContext(context.Background()) == nil {
				leastSession(secured, keep, ca)
			}
		}()
	}
}

var nodeIDLength = len(id.New(id.Node))

func leastSession(conn net.Conn, keep keeper, ca *floorCA) {
	room := make([]byte, 1<<10)
	for {
		piece, err := readPiece(conn, room)
		if err != nil {
			return
		}
		nodeID, csr := string(piece[:nodeIDLength]), piece[nodeIDLength:]
		der, err := ca.sign(csr, nodeID)
		if err != nil {
			return
		}
		if err := keep(nodeID, csr, der); err != nil {
			return
		}
		if err := writePiece(conn, der); err != nil {
			return
		}
	}
}

// keeper puts a certificate on record.
type keeper func(nodeID string, csr, der []byte) error

// alone writes each in a transaction of its own.
func alone(pool *pgxpool.Pool) keeper {
	return func(nodeID string, csr, der []byte) error {
		return keepAll(pool, []kept{{nodeID: nodeID, csr: csr, der: der}})
	}
}

type kept struct {
	nodeID   string
	csr, der []byte
	done     chan error
}

// inTurn writes in one transaction what came while the one before it was under way.
func inTurn(pool *pgxpool.Pool) keeper {
	waiting := make(chan kept, renewers)
	go func() {
		for first := range waiting {
			batch := []kept{first}
			for len(waiting) > 0 {
				batch = append(batch, <-waiting)
			}
			err := keepAll(pool, batch)
			for _, k := range batch {
				k.done <- err
			}
		}
	}()
	return func(nodeID string, csr, der []byte) error {
		k := kept{nodeID: nodeID, csr: csr, der: der, done: make(chan error, 1)}
		waiting <- k
		return <-k.done
	}
}

func keepAll(pool *pgxpool.Pool, batch []kept) error {
	n := len(batch)
	serials, nodes, hashes, chains := make([]string, n), make([]string, n), make([][]byte, n), make([]string, n)
	for i, k := range batch {
		hash := sha256.Sum256(k.csr)
		serials[i], nodes[i], hashes[i], chains[i] = rand.Text(), k.nodeID, hash[:], hex.EncodeToString(k.der)
	}
	b := &pgx.Batch{} // a batch is one transaction
	b.Queue(`select 1 from nodes where id = any($1) order by id for no key update`, nodes)
	b.Queue(`
		with ended as (
		  update node_certs set state = 'SUPERSEDED', ended_at = now(), ended_by = node_id, chain = null
		  where node_id = any($2) and state = 'PENDING' returning true
		)
		insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, chain, issued_at, not_before, not_after)
		select x.serial, x.node_id, 'PENDING', 1, '', x.hash, x.chain, now(), now(), now() + interval '1 day'
		from (select count(*) from ended) as first, unnest($1::text[], $2::text[], $3::bytea[], $4::text[]) as x (serial, node_id, hash, chain)`,
		serials, nodes, hashes, chains)
	return pool.SendBatch(context.Background(), b).Close()
}
