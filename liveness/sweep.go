package liveness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/node"
)

// Controller is who gives nodes up and takes them back; it owns the reason unreachable.
const Controller = "liveness"

// SweepEvery is how often each process that works jobs offers to sweep; one of them does.
const SweepEvery = 5 * time.Second

// The lengths, in seconds, that the sweep counts by. The database's clock alone is asked, each comparison inside one statement.
const (
	// lease is how long a node may be unheard of.
	lease = 40
	// awayAfter is how long the controller or the database may be away before what was not written meanwhile may not count against nodes.
	awayAfter = 20
	// awayGrace is for how long it then doesn't.
	awayGrace = 300
	// suspectAfter is how old a gateway's row may be before its nodes are held; lostAfter is for how long after its last flush.
	suspectAfter, lostAfter = 20, 120
	// takeOverAfter is how long the controller may be silent before another process takes over: before awayAfter, so that this costs no grace.
	takeOverAfter = 12
)

// sweepAtOnce is how many nodes one transaction gives up or takes back.
const sweepAtOnce = 500

// Sweeper is the liveness controller of one process: it gives up nodes that were not heard of for their lease, and takes back those that are heard of
// again by the session that they had. Of all processes one sweeps, whoever holds the controller's row.
type Sweeper struct {
	*Store

	holder string
}

// NewSweeper makes a process's sweeper. It writes nothing before its first sweep.
func NewSweeper(s *Store) *Sweeper { return &Sweeper{Store: s, holder: id.New(id.Session)} }

// Swept is what one sweep did.
type Swept struct {
	// Holder says that this process holds the controller. Otherwise it did nothing.
	Holder bool
	// Grace says that nobody is given up for now, since the controller or the database was away.
	Grace bool
	// Unreachable and Back are how many nodes were given up and taken back.
	Unreachable, Back int
}

// Unreachable are the fields of node.unreachable.
type Unreachable struct {
	// LastSeen is when the node was last heard of.
	LastSeen time.Time `json:"lastSeen"`
	// Gateway is the gateway that held its newest session; empty when it never had one.
	Gateway string `json:"gateway,omitempty"`
	// Was is its connectivity until now.
	Was node.Connectivity `json:"was"`
}

// errTerm says that another process has taken the controller over, or that this one stood still for too long.
var errTerm = errors.New("the liveness controller is another's now")

// Sweep looks once. A node that was not heard of for 40 s is UNREACHABLE and gets the reason unreachable; nothing else of it moves, and what it holds
// stays. "Heard of" is the later of its session's flushed age and its end, else the session's beginning, else the newest certificate's issue.
//
// Nobody is given up for 5 minutes after the controller or the database was away for more than 20 s, or after the database's clock stepped by as
// much; and no node of a gateway that has not flushed for 20 s before its last flush is 120 s old. Taking back waits for neither.
func (s *Sweeper) Sweep(ctx context.Context) (Swept, error) {
	out, term, err := s.hold(ctx)
	if err != nil || !out.Holder {
		return out, err
	}
	if out.Back, err = s.many(ctx, term, false, backSQL, s.takeBack); err != nil {
		return out, err
	}
	if !out.Grace {
		out.Unreachable, err = s.many(ctx, term, true, staleSQL, s.giveUp)
	}
	return out, err
}

// hold takes the controller, or keeps it, and writes that it looks. It gives the term.
func (s *Sweeper) hold(ctx context.Context) (Swept, int64, error) {
	out := Swept{Holder: true}
	var term int64
	var away float64
	var began bool
	err := s.DB.Pool().QueryRow(ctx, `
		update liveness_controller c set
		  term = case when c.holder = $1 then c.term else c.term + 1 end, holder = $1, looked_at = now(),
		  hold_until = case when b.away > $2 then now() + make_interval(secs => $3) else c.hold_until end
		from (select one, abs(extract(epoch from now() - looked_at))::float8 as away from liveness_controller) b
		where b.one = c.one and (c.holder in ($1, '') or abs(extract(epoch from now() - c.looked_at)) > $4)
		returning c.term, c.hold_until > now(), b.away, b.away > $2`, s.holder, awayAfter, awayGrace, takeOverAfter).
		Scan(&term, &out.Grace, &away, &began)
	if errors.Is(err, pgx.ErrNoRows) {
		return Swept{}, 0, nil
	}
	if err != nil {
		return Swept{}, 0, fmt.Errorf("hold the liveness controller: %w", err)
	}
	if began {
		s.Log.InfoContext(ctx, "nobody is given up for a while: the liveness controller or the database was away, or its clock stepped",
			slog.Duration("away", time.Duration(away*float64(time.Second)).Round(time.Second)), slog.Duration("grace", awayGrace*time.Second))
	}
	return out, term, nil
}

// seenSQL is when a node was last heard of, by the rows l (liveness), s (its newest session) and n.
const seenSQL = `case when s.node_id is null
	then greatest(l.last_seen, (select max(c.issued_at) from node_certs c where c.node_id = l.node_id))
	else coalesce(greatest(case when s.number = l.session_number then l.last_seen end, s.disconnected_at), s.connected_at) end`

// staleSQL finds who is to be given up: $1 the nodes to look at, or null for all. The first condition is what lets a scan of the narrow table find them.
var staleSQL = fmt.Sprintf(`
	select l.node_id, %s as seen, l.gateway_id
	from node_liveness l
	join nodes n on n.id = l.node_id and n.deleted_at is null and n.connectivity in ('PENDING', 'CONNECTED', 'DISCONNECTED')
	left join node_sessions s on s.node_id = l.node_id
	left join gateways g on g.id = l.gateway_id
	where l.last_seen < now() - make_interval(secs => %d) and ($1::text[] is null or l.node_id = any($1))
	  and %s < now() - make_interval(secs => %d)
	  and not coalesce(g.flushed_at < now() - make_interval(secs => %d) and g.flushed_at > now() - make_interval(secs => %d), false)
	order by l.node_id limit %d`, seenSQL, lease, seenSQL, lease, suspectAfter, lostAfter, sweepAtOnce)

// backSQL finds who was given up and is heard of by the session that it had all along: its gateway was cut off from the database, not from the node.
var backSQL = fmt.Sprintf(`
	select l.node_id, l.last_seen, l.gateway_id
	from node_reasons r
	join nodes n on n.id = r.node_id and n.deleted_at is null and n.connectivity = 'UNREACHABLE'
	join node_liveness l on l.node_id = r.node_id
	join node_sessions s on s.node_id = l.node_id and s.number = l.session_number and s.disconnected_at is null
	where r.reason = 'unreachable' and ($1::text[] is null or l.node_id = any($1)) and l.last_seen > now() - make_interval(secs => %d)
	order by l.node_id limit %d`, lease, sweepAtOnce)

// candidate is a node that a sweep has found.
type candidate struct {
	NodeID  string
	Seen    time.Time
	Gateway string
}

// many finds nodes and changes them, a transaction for each few hundred, until there are no more. It gives how many it changed.
func (s *Sweeper) many(ctx context.Context, term int64, giving bool, find string, control func(map[string]candidate) node.Control) (int, error) {
	changed := 0
	for {
		rows, err := s.DB.Pool().Query(ctx, find, nil)
		if err != nil {
			return changed, fmt.Errorf("look for nodes whose connectivity changes: %w", err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[candidate])
		if err != nil {
			return changed, fmt.Errorf("look for nodes whose connectivity changes: %w", err)
		}
		if len(found) == 0 {
			return changed, nil
		}
		n := 0
		_, err = s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
			n, err = s.changeTx(ctx, tx, term, giving, find, found, control)
			return err
		})
		if errors.Is(err, errTerm) {
			s.Log.WarnContext(ctx, "a sweep was given up halfway: another process holds the liveness controller, or this one stood still")
			return changed, nil
		}
		if err != nil {
			return changed, err
		}
		changed += n
		// Those that others hold come at the next sweep.
		if n == 0 || len(found) < sweepAtOnce {
			return changed, nil
		}
	}
}

// changeTx locks the nodes and their ages and looks again: what a Hello, an end or a flush changed since they were found counts. The controller's row
// is held against a taking over until the commit.
func (s *Sweeper) changeTx(
	ctx context.Context, tx *db.Tx, term int64, giving bool, find string, found []candidate, control func(map[string]candidate) node.Control,
) (int, error) {
	if err := tx.Locks(db.LockControllerTerm); err != nil {
		return 0, err
	}
	var mine bool
	err := tx.QueryRow(ctx, `
		select term = $1 and abs(extract(epoch from now() - looked_at)) <= $2 and (hold_until <= now() or not $3) from liveness_controller for share`,
		term, awayAfter, giving).Scan(&mine)
	if err != nil {
		return 0, fmt.Errorf("look who holds the liveness controller: %w", err)
	}
	if !mine {
		return 0, errTerm
	}
	ids := make([]string, len(found))
	for i, c := range found {
		ids[i] = c.NodeID
	}
	still := make(map[string]candidate, len(found))
	changed, err := s.Nodes.ChangeManyTx(ctx, tx, node.Many{
		IDs: ids, SkipLocked: true, Who: iam.System(Controller),
		Read: func(b *pgx.Batch) {
			b.Queue(find+" for no key update of l skip locked", ids).Query(func(rows pgx.Rows) error {
				again, err := pgx.CollectRows(rows, pgx.RowToStructByPos[candidate])
				for _, c := range again {
					still[c.NodeID] = c
				}
				return err
			})
		},
	}, control(still))
	if err != nil {
		return 0, err
	}
	return len(changed), tx.Locks(db.LockLiveness)
}

// giveUp is the decision about nodes that were not heard of.
func (s *Sweeper) giveUp(still map[string]candidate) node.Control {
	return node.Control{
		Name: "unreachable", Axes: node.AxisConnectivity | node.AxisUnreachable,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			c, found := still[n.ID]
			if !found {
				return nil, nil //nolint:nilnil // heard of meanwhile, or locked by who hears of it
			}
			was := n.Connectivity
			n.Connectivity, n.ConnectivitySince = node.Unreachable, &a.Now
			n.AddReason(node.Reason{Name: node.ReasonUnreachable, Owner: Controller, Since: a.Now})
			return &node.Fact{Type: "node.unreachable", Data: Unreachable{LastSeen: c.Seen, Gateway: c.Gateway, Was: was}}, nil
		},
	}
}

// takeBack is the decision about nodes that are heard of again.
func (s *Sweeper) takeBack(still map[string]candidate) node.Control {
	return node.Control{
		Name: "heard", Axes: node.AxisConnectivity | node.AxisUnreachable,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			c, found := still[n.ID]
			if !found {
				return nil, nil //nolint:nilnil // lost meanwhile, or locked
			}
			n.Connectivity, n.ConnectivitySince = node.Connected, &a.Now
			n.RemoveReason(node.ReasonUnreachable)
			return &node.Fact{Type: "node.reconnected", Data: Reconnected{Gateway: c.Gateway, Was: node.Unreachable}}, nil
		},
	}
}
