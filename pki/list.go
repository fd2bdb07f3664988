package pki

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/node"
)

// CertificateState is whether a node's certificate counts.
type CertificateState string

// The states of a node's certificate.
const (
	CertificatePending    CertificateState = "PENDING"
	CertificateActive     CertificateState = "ACTIVE"
	CertificateSuperseded CertificateState = "SUPERSEDED"
	CertificateRevoked    CertificateState = "REVOKED"
)

// NodeCertificate is a certificate of a node as its row has it.
type NodeCertificate struct {
	Serial         string
	NodeID         string
	State          CertificateState
	Generation     int
	KeyFingerprint string
	IssuedAt       time.Time
	NotBefore      time.Time
	NotAfter       time.Time
	FirstUsedAt    *time.Time
	EndedAt        *time.Time
	EndedBy        node.Text
	Reason         node.Text
}

// CertificateSlice says which certificates of nodes are wanted.
type CertificateSlice struct {
	// Live keeps those that still count: pending or active, and not past their end.
	Live bool
	// First is how many of each node.
	First int
	// After is the serial of the last one of the page before; empty for the first page.
	After string
}

// CertificatesOf gives certificates of nodes, newest first. Where a node has more than the slice, there is one more than asked for.
func CertificatesOf(ctx context.Context, q db.Querier, nodeIDs []string, s CertificateSlice) (map[string][]NodeCertificate, error) {
	rows, err := q.Query(ctx, `
		select c.* from unnest($1::text[]) as n(id) cross join lateral (
			select serial, node_id, state, generation, key_fingerprint, issued_at, not_before, not_after, first_used_at, ended_at,
			       coalesce(ended_by, ''), coalesce(reason, '')
			from node_certs where node_id = n.id and (not $2 or (state in ('PENDING', 'ACTIVE') and not_after > now()))
			  and ($3 = '' or (issued_at, serial) < (select p.issued_at, p.serial from node_certs p where p.serial = $3 and p.node_id = n.id))
			order by issued_at desc, serial desc limit $4) as c`, nodeIDs, s.Live, s.After, s.First+1)
	if err != nil {
		return nil, fmt.Errorf("read the nodes' certificates: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[NodeCertificate])
	if err != nil {
		return nil, fmt.Errorf("read the nodes' certificates: %w", err)
	}
	out := make(map[string][]NodeCertificate, len(nodeIDs))
	for _, c := range list {
		out[c.NodeID] = append(out[c.NodeID], c)
	}
	return out, nil
}
