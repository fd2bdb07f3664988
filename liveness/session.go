package liveness

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

// Store is the room's verbs on the database.
type Store struct {
	DB    *db.DB
	Nodes *node.Store
	Log   *slog.Logger
}

// Actor is who moves a node's connectivity.
const Actor = "gateway"

// Why a session ended, as node.disconnected tells it.
const (
	// EndedByNode: the daemon closed it in order, as it does when it is stopped.
	EndedByNode = "CLOSED"
	// EndedLost: the connection broke.
	EndedLost = "CONNECTION_LOST"
	// EndedSilent: nothing was heard for as long as the lease lasts.
	EndedSilent = "SILENT"
	// EndedProtocol: the daemon sent what the protocol does not allow.
	EndedProtocol = "PROTOCOL"
	// EndedGoAway: the gateway stopped, or had to shed load.
	EndedGoAway = "GO_AWAY"
	// EndedGatewayLost: the gateway's process died; its successor closed the session.
	EndedGatewayLost = "GATEWAY_LOST"
	// EndedSuperseded: a newer session or certificate of the node took over. It is told only where the machine used the newer certificate and then
	// said no Hello; else the newer session is told.
	EndedSuperseded = "SUPERSEDED"
	// EndedRevoked: the certificate or the identity was revoked.
	EndedRevoked = "REVOKED"
	// EndedQuarantined: two machines used the identity.
	EndedQuarantined = "QUARANTINED"
	// EndedDeleted: the node was deleted.
	EndedDeleted = "DELETED"
	// EndedExpired: the certificate ran out.
	EndedExpired = "EXPIRED"
)

// Print is what tells one machine from another. It proves nothing.
type Print struct {
	MachineID   string `json:"machineId,omitempty"`
	ProductUUID string `json:"productUuid,omitempty"`
	EKHash      string `json:"ekHash,omitempty"`
	BootID      string `json:"bootId,omitempty"`
}

// Hello is a session that begins. Whose it is was read from the certificate and from nothing that the daemon says.
type Hello struct {
	NodeID       string
	SessionID    string
	BootID       string
	AgentVersion string
	Hostname     string
	Print        Print
	// ClockUnixMs is the machine's clock; it is shown as a skew and decides no time.
	ClockUnixMs int64
	// At is when the Hello came, by the gateway's monotonic clock.
	At time.Time
}

// Opened is a session as the database has it.
type Opened struct {
	// Number counts the node's sessions; the newest wins.
	Number int64
	// At is the database's clock at its begin.
	At time.Time
}

// Connected are the fields of node.connected.
type Connected struct {
	SessionID    string `json:"sessionId"`
	Gateway      string `json:"gateway"`
	BootID       string `json:"bootId"`
	AgentVersion string `json:"agentVersion"`
	ClockSkewMs  int64  `json:"clockSkewMs"`
}

// Reconnected are the fields of node.reconnected.
type Reconnected struct {
	// SessionID is the new session; empty when the node is heard of by the one that it had.
	SessionID string `json:"sessionId,omitempty"`
	Gateway   string `json:"gateway"`
	// Was is what the node's connectivity had come to.
	Was node.Connectivity `json:"was"`
}

// Reconnect is the decision that a node which was given up takes work again: it has a new session, and has told by it what it is made of. The caller
// knows both.
func Reconnect(sessionID, gatewayID string) node.Control {
	return node.Control{
		Name: "reconnect", Axes: node.AxisUnreachable,
		Decide: func(n *node.Node, _ node.Act) (*node.Fact, error) {
			if !slices.Contains(n.NoScheduleReasons(), node.ReasonUnreachable) {
				return nil, nil //nolint:nilnil // nothing to do
			}
			n.RemoveReason(node.ReasonUnreachable)
			return &node.Fact{Type: "node.reconnected", Data: Reconnected{SessionID: sessionID, Gateway: gatewayID, Was: node.Unreachable}}, nil
		},
	}
}

// Open begins sessions, all in one transaction: the node is CONNECTED, its session row is the new one with the next number, its age starts now. A
// node that was given up keeps its reason unreachable until its inventory has come: see Reconnect. What is not in the answer does not exist any more. Two Hellos of one node in one call
// are the caller's fault.
func (s *Store) Open(ctx context.Context, gatewayID string, hellos []Hello) (map[string]Opened, error) {
	ordered := slices.Clone(hellos)
	slices.SortFunc(ordered, func(a, b Hello) int { return strings.Compare(a.NodeID, b.NodeID) })
	byNode := make(map[string]*Hello, len(ordered))
	ids := make([]string, len(ordered))
	for i := range ordered {
		h := &ordered[i]
		h.BootID, h.AgentVersion = Plain(h.BootID, 128), Plain(h.AgentVersion, 64)
		h.Print = Print{
			MachineID: Plain(h.Print.MachineID, 128), ProductUUID: Plain(h.Print.ProductUUID, 128),
			EKHash: Plain(h.Print.EKHash, 128), BootID: Plain(h.Print.BootID, 128),
		}
		byNode[h.NodeID], ids[i] = h, h.NodeID
	}
	if len(byNode) != len(ordered) {
		return nil, fmt.Errorf("open sessions: %d Hellos of %d nodes", len(ordered), len(byNode))
	}
	var opened map[string]Opened
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		var err error
		opened, err = s.openTx(ctx, tx, gatewayID, ids, byNode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func (s *Store) openTx(ctx context.Context, tx *db.Tx, gatewayID string, ids []string, hellos map[string]*Hello) (map[string]Opened, error) {
	skews := make(map[string]int64, len(ids))
	many := node.Many{IDs: ids, Who: iam.System(Actor)}
	found, err := s.Nodes.ChangeManyTx(ctx, tx, many, node.Control{
		Name: "connect", Axes: node.AxisConnectivity | node.AxisHostname,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			h := hellos[n.ID]
			skews[n.ID] = skew(h.ClockUnixMs, a.Now.Add(-time.Since(h.At)))
			return connect(n, a, gatewayID, h, skews[n.ID]), nil
		},
	})
	if err != nil {
		return nil, err
	}
	return record(ctx, tx, gatewayID, found, hellos, skews)
}

// connect is the decision: connectivity and the name that the machine gives itself, and nothing else. A name that no machine may have is not taken
// over. A node that is connected keeps since when it is; the new session is told all the same.
func connect(n *node.Node, a node.Act, gatewayID string, h *Hello, skewMs int64) *node.Fact {
	if n.Connectivity != node.Connected {
		n.Connectivity, n.ConnectivitySince = node.Connected, &a.Now
	}
	if node.HostnameRule.MatchString(h.Hostname) {
		n.Hostname = h.Hostname
	}
	return &node.Fact{Type: "node.connected", Data: Connected{
		SessionID: h.SessionID, Gateway: gatewayID, BootID: h.BootID, AgentVersion: h.AgentVersion, ClockSkewMs: skewMs,
	}}
}

// skew is the machine's clock minus the true one, in milliseconds; what a broken machine sends is cut to what a century can be off.
func skew(clockUnixMs int64, at time.Time) int64 {
	const most = math.MaxInt64 / 4
	return min(max(clockUnixMs, -most), most) - at.UnixMilli()
}

// record writes the session rows and the ages of nodes whose rows are locked.
func record(ctx context.Context, tx *db.Tx, gatewayID string, nodes []*node.Node, hellos map[string]*Hello, skews map[string]int64) (map[string]Opened, error) {
	if err := tx.Locks(db.LockLiveness); err != nil {
		return nil, err
	}
	var ids, sessions, boots, versions, prints []string
	var skewed []int64
	for _, n := range nodes {
		h := hellos[n.ID]
		printed, err := json.Marshal(h.Print)
		if err != nil {
			return nil, fmt.Errorf("open sessions: %w", err)
		}
		ids, sessions, boots = append(ids, n.ID), append(sessions, h.SessionID), append(boots, h.BootID)
		versions, prints, skewed = append(versions, h.AgentVersion), append(prints, string(printed)), append(skewed, skews[n.ID])
	}
	rows, err := tx.Query(ctx, `
		with opened as (
		  insert into node_sessions as s (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at, disconnected_at)
		  select node_id, id, 1, $1, boot_id, agent_version, print, clock_skew_ms, clock_timestamp(), null
		  from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::jsonb[], $7::bigint[])
		    as x(node_id, id, boot_id, agent_version, print, clock_skew_ms)
		  on conflict (node_id) do update set id = excluded.id, number = s.number + 1, gateway_id = excluded.gateway_id, boot_id = excluded.boot_id,
		    agent_version = excluded.agent_version, print = excluded.print, clock_skew_ms = excluded.clock_skew_ms,
		    connected_at = excluded.connected_at, disconnected_at = null
		  returning node_id, number, connected_at
		), seen as (
		  insert into node_liveness as l (node_id, last_seen, gateway_id, session_number)
		  select node_id, connected_at, $1, number from opened
		  on conflict (node_id) do update set last_seen = excluded.last_seen, gateway_id = excluded.gateway_id, session_number = excluded.session_number
		)
		select node_id, number, connected_at from opened`, gatewayID, ids, sessions, boots, versions, prints, skewed)
	if err != nil {
		return nil, fmt.Errorf("open sessions: %w", err)
	}
	opened := make(map[string]Opened, len(ids))
	var nodeID string
	var o Opened
	if _, err := pgx.ForEachRow(rows, []any{&nodeID, &o.Number, &o.At}, func() error { opened[nodeID] = o; return nil }); err != nil {
		return nil, fmt.Errorf("open sessions: %w", err)
	}
	return opened, nil
}

// Ended is a session that is over.
type Ended struct {
	NodeID    string
	SessionID string
	Number    int64
	// Reason is one of the Ended… words.
	Reason string
}

// Disconnected are the fields of node.disconnected.
type Disconnected struct {
	SessionID string `json:"sessionId"`
	Reason    string `json:"reason"`
}

// End ends sessions, all in one transaction: the row says when, the node is DISCONNECTED, and nothing else of it moves. A session that is not its
// node's newest, or that has an end already, is passed over, so that the late end of an old session never touches a newer one. The nodes of one
// call differ.
func (s *Store) End(ctx context.Context, ended []Ended) error {
	byNode := make(map[string]Ended, len(ended))
	ids := make([]string, len(ended))
	for i, e := range ended {
		byNode[e.NodeID], ids[i] = e, e.NodeID
	}
	if len(byNode) != len(ended) {
		return fmt.Errorf("end sessions: %d ends of %d nodes", len(ended), len(byNode))
	}
	slices.Sort(ids)
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Session rows are written only under the lock of their nodes, so what is read below stays true.
		if _, err := node.LockTx(ctx, tx, ids...); err != nil {
			return err
		}
		present, err := presentOf(ctx, tx, ids, byNode)
		if err != nil || len(present) == 0 {
			return err
		}
		_, err = s.Nodes.ChangeManyTx(ctx, tx, node.Many{IDs: present, Who: iam.System(Actor)}, node.Control{
			Name: "disconnect", Axes: node.AxisConnectivity,
			Decide: func(n *node.Node, a node.Act) (*node.Fact, error) { return disconnect(n, a, byNode[n.ID]), nil },
		})
		if err != nil {
			return err
		}
		if err := tx.Locks(db.LockLiveness); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `update node_sessions set disconnected_at = clock_timestamp() where node_id = any($1)`, present); err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		return nil
	})
	return err
}

// presentOf gives those of the nodes whose newest session is the one that ended, and that has no end yet.
func presentOf(ctx context.Context, tx *db.Tx, ids []string, ended map[string]Ended) ([]string, error) {
	rows, err := tx.Query(ctx, `select node_id, number from node_sessions where node_id = any($1) and disconnected_at is null order by node_id`, ids)
	if err != nil {
		return nil, fmt.Errorf("end sessions: %w", err)
	}
	var present []string
	var nodeID string
	var number int64
	_, err = pgx.ForEachRow(rows, []any{&nodeID, &number}, func() error {
		if ended[nodeID].Number == number {
			present = append(present, nodeID)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("end sessions: %w", err)
	}
	return present, nil
}

// disconnect moves a connected node only: one that was given up meanwhile stays so.
func disconnect(n *node.Node, a node.Act, e Ended) *node.Fact {
	if n.Connectivity != node.Connected {
		return nil
	}
	n.Connectivity, n.ConnectivitySince = node.Disconnected, &a.Now
	return &node.Fact{Type: "node.disconnected", Data: Disconnected{SessionID: e.SessionID, Reason: e.Reason}}
}

// Plain makes text that a machine sent fit to be stored and shown: at most so many characters, none of them a control character.
func Plain(s string, most int) string {
	var b strings.Builder
	for n, r := range []rune(strings.ToValidUTF8(s, "")) {
		if n == most {
			break
		}
		if !unicode.IsControl(r) && r != utf8.RuneError {
			b.WriteRune(r)
		}
	}
	return b.String()
}
