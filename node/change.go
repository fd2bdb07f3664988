package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
)

// Act is who acts on a node, why, and when by the database's clock after the node's lock was got.
type Act struct {
	Who    iam.Actor
	Reason string
	Now    time.Time
}

// Fact is the event that a decision causes.
type Fact struct {
	// Type is the event's dotted name.
	Type string
	// Reason stands in the event; empty means the act's.
	Reason string
	// Data holds the fields of the event's type.
	Data any
	// Guests are tenants that come to see the node by this very change: they are told its reduced form beside those who saw it before.
	Guests []string
}

// Decide looks at a node and an act, changes the node in memory and says what happened; nil says that there was nothing to do. It is pure: no
// database, no clock. A fault leaves everything as it was.
type Decide func(n *Node, a Act) (*Fact, error)

// Parts are what of a node is not in its own row, and is read only where it is needed.
type Parts uint8

// The parts.
const (
	PartReasons Parts = 1 << iota
	PartLabels
	PartDrain

	AllParts = PartReasons | PartLabels | PartDrain
)

func (p Parts) has(part Parts) bool { return p&part != 0 }

// Control is one thing that can be done to a node.
type Control struct {
	// Name is the control's, like cordon.
	Name string
	// Action is what the caller must hold.
	Action iam.Action
	// Axes are the only ones that the control may move; moving another is a defect and commits nothing.
	Axes Axes
	// Blind are the parts of the node that the decision neither looks at nor moves; they need not be read for it.
	Blind Parts
	// Read, if there is one, adds what else the decision needs to the batch that locks the node: it is read after the lock was got. It is for [Store.Change].
	Read func(b *pgx.Batch, nodeID string)
	// Before, if there is one, adds what the decision has to know of the time before the lock was got to the front of that batch. It is for [Store.Change].
	Before func(b *pgx.Batch, nodeID string)
	// Decide is the rule.
	Decide Decide
	// Unmoved, if there is one, gives the place in the log that an answer stands at which changed nothing; the zero cursor for the head. It is for
	// [Store.Change].
	Unmoved func(ctx context.Context, tx *db.Tx, n *Node) (events.Cursor, error)
	// Follow, if there is one, puts follow-up jobs into the same transaction after the nodes that changed were saved.
	Follow func(ctx context.Context, tx *db.Tx, nodes []*Node) error
}

// reads adds the control's reading to others.
func (c Control) reads(all []func(*pgx.Batch, string)) []func(*pgx.Batch, string) {
	if c.Read == nil {
		return all
	}
	return append(all, c.Read)
}

// Next is what a controller does to a node right after a control, in the same transaction and with an event of its own: where nothing has to be waited
// for, nothing waits. The node's version moves once for both. It has no follow-up jobs.
type Next struct {
	Who     iam.Actor
	Control Control
}

// Edit is a control's call by somebody.
type Edit struct {
	Who      iam.Actor
	TenantID string
	NodeID   string
	// Version is the one that the caller read; nil skips the check.
	Version *int
	// Reason is free text for the event; up to 256 characters.
	Reason string
	// RequestID makes a repeat within a day harmless; empty for none.
	RequestID string
	// Unshown are the parts of the node that nobody will look at in the answer.
	Unshown Parts `json:"-"`
	// Args are the control's own arguments, which a request id is tied to.
	Args any `json:",omitempty"`
}

// Changed is what a control did.
type Changed struct {
	Node *Node
	// Rights is what the caller may do on what its tenant owns.
	Rights iam.Rights
	// Changed says whether anything did.
	Changed bool
	// Cursor is the log's position of this very change; when nothing changed, the head as it was read under the node's lock.
	Cursor events.Cursor
	// Warnings are sentences about what was done all the same.
	Warnings []string
}

// Store changes and reads nodes.
type Store struct {
	DB        *db.DB
	Authority *iam.Authority
}

// Change is the one write path of a node: check the input; sight and action; lock; deleted again; version; decide; save; event; commit. The decision's
// reading and the lock are one statement, whose condition is sight: who does not see the node never holds it. Whoever sees it and lacks the action is
// refused before anything else is looked at, and the lock goes with the transaction.
//
// What comes next, if anything does, happens only where the control changed the node. The answer is the node as the control left it, at the cursor of the
// control's own event: who follows the log from there is told the rest.
//
// Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, CONFLICT { expected, actual, by, at }, and what the decision refuses with.
func (s *Store) Change(ctx context.Context, e Edit, c Control, next ...Next) (Changed, error) {
	if err := e.Check(); err != nil {
		return Changed{}, err
	}
	request, err := e.Request(c.Name)
	if err != nil {
		return Changed{}, err
	}
	blind, reads := c.Blind, c.reads(nil)
	for _, n := range next {
		blind &= n.Control.Blind
		reads = n.Control.reads(reads)
	}
	question := s.Authority.Ask(e.Who, c.Action, e.TenantID, e.NodeID)
	var got locked
	var sight iam.Sight
	answered := false
	done := Changed{}
	did, err := request.Perform(ctx, s.DB, iam.Steps{
		First: func(tx *db.Tx, b *pgx.Batch) error {
			got = locked{}
			if c.Before != nil {
				c.Before(b, e.NodeID)
			}
			err := s.first(tx, b, &got, question, e.NodeID, AllParts&^(blind&e.Unshown), func() (err error) {
				sight, err = question.Answer()
				answered = !errors.Is(err, iam.ErrUnseen)
				return err
			})
			for _, read := range reads {
				read(b, e.NodeID)
			}
			return err
		},
		Act: func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
			if err := got.live(e.NodeID); err != nil {
				return iam.Answer{}, err
			}
			done.Node = got.nodes[0]
			if err := e.CheckVersion(done.Node); err != nil {
				return iam.Answer{}, err
			}
			changed, after, err := apply(ctx, tx, got, deed{c, e.Who, e.Reason, e.RequestID}, next...)
			if err != nil {
				return iam.Answer{}, err
			}
			if len(changed) == 0 {
				var at events.Cursor
				if c.Unmoved != nil {
					at, err = c.Unmoved(ctx, tx, done.Node)
				}
				return iam.Answer{Cursor: at}, err
			}
			done.Node = changed[0]
			return iam.Answer{Changed: true, After: after}, nil
		},
		Again: func(context.Context, *db.Tx, iam.Answer) error {
			if err := got.live(e.NodeID); err != nil {
				return err
			}
			done.Node = got.nodes[0]
			return nil
		},
	})
	if err != nil {
		if answered {
			return Changed{}, err
		}
		// The node is not seen, or it or the request stayed with others for too long: who may not act is to hear that, and not of them.
		_, refused := s.Authority.OnNode(ctx, s.DB.Pool(), e.Who, c.Action, e.TenantID, e.NodeID)
		switch {
		case refused != nil:
			return Changed{}, refused
		case errors.Is(err, iam.ErrUnseen):
			return Changed{}, iam.NoSuchNode(e.NodeID) // it was, when it was asked
		}
		return Changed{}, err
	}
	done.Rights, done.Changed, done.Cursor = sight.Rights, did.Changed, did.Cursor
	return done, nil
}

// first queues the decision and the lock.
func (s *Store) first(tx *db.Tx, b *pgx.Batch, got *locked, q *iam.Question, nodeID string, parts Parts, answer func() error) error {
	if err := tx.Locks(db.LockNode); err != nil {
		return err
	}
	if q.OfSystem() {
		got.queueLock(b, []string{nodeID}, false)
		got.queueParts(b, []string{nodeID}, parts)
		return answer()
	}
	got.queueLockFor(b, q, nodeID, parts, answer)
	return nil
}

// live says that the one node that was to be locked is there and not deleted.
func (l *locked) live(nodeID string) error {
	if len(l.nodes) == 0 || l.nodes[0].DeletedAt != nil {
		return iam.NoSuchNode(nodeID)
	}
	return nil
}

// Check says whether the call can be read: INVALID_INPUT naming the argument.
func (e Edit) Check() error {
	if err := id.Tenant("tenantId", e.TenantID); err != nil {
		return err
	}
	if err := id.Check(id.Node, "nodeId", e.NodeID); err != nil {
		return err
	}
	if e.Version != nil && *e.Version < 1 {
		return fault.Invalid("version", "must be at least 1, as a node's version is", 0)
	}
	return CheckReason(e.Reason)
}

// Request ties the call's request id to the control and its input.
func (e Edit) Request(control string) (iam.Request, error) {
	return iam.NewRequest(e.Who, e.RequestID, "node."+control, []any{e.TenantID, e.NodeID, e.Version, e.Reason, e.Args})
}

// CheckVersion is CONFLICT when the node changed since the version that the call names.
func (e Edit) CheckVersion(n *Node) error {
	if e.Version == nil || *e.Version == n.Version {
		return nil
	}
	return fault.New(fault.Conflict, fault.Details{"expected": *e.Version, "actual": n.Version, "by": n.ChangedBy, "at": n.ChangedAt},
		"the node changed since version %d: it is at %d now, changed by %s; read it again and decide anew", *e.Version, n.Version, n.ChangedBy)
}

// Many says which nodes a set-based writer changes.
type Many struct {
	IDs []string
	// SkipLocked leaves out nodes that others hold, for controllers that come again.
	SkipLocked bool
	Who        iam.Actor
	Reason     string
	// RequestID stands in the events; empty for none.
	RequestID string
	// Crowd, if there is one, is asked along with the lock, so that the decision can ask it.
	Crowd *iam.Crowd
	// Before, if there is one, adds what the decision has to know of the time before the locks were got to the front of the batch that locks.
	Before func(b *pgx.Batch)
	// Read, if there is one, adds what the decision needs to that batch: it is read after the locks were got, in the same round trip.
	Read func(b *pgx.Batch)
	// Locked, if there is one, looks at the nodes between lock and decision.
	Locked func(ctx context.Context, nodes []*Node) error
	// Unshown are the parts of the nodes that nobody will look at.
	Unshown Parts
}

// ChangeManyTx applies one decision to many nodes inside a transaction of the caller: locked in the order of their ids, saved by sets, one event
// for each node that changed. What comes next, if anything does, happens to each that changed. Deleted nodes are passed over. It gives the nodes that
// changed, as the control itself left them.
func (s *Store) ChangeManyTx(ctx context.Context, tx *db.Tx, m Many, c Control, next ...Next) ([]*Node, error) {
	ids := slices.Clone(m.IDs)
	slices.Sort(ids)
	blind := c.Blind
	for _, n := range next {
		blind &= n.Control.Blind
	}
	got, err := lock(ctx, tx, wanted{
		ids: slices.Compact(ids), skip: m.SkipLocked, parts: AllParts &^ (blind & m.Unshown), before: m.Before, more: m.Read, crowd: m.Crowd,
	})
	if err != nil {
		return nil, err
	}
	got.nodes = slices.DeleteFunc(got.nodes, func(n *Node) bool { return n.DeletedAt != nil })
	if m.Locked != nil {
		if err := m.Locked(ctx, got.nodes); err != nil {
			return nil, err
		}
	}
	changed, _, err := apply(ctx, tx, got, deed{c, m.Who, m.Reason, m.RequestID}, next...)
	return changed, err
}

// deed is a control at work.
type deed struct {
	Control

	who       iam.Actor
	reason    string
	requestID string
}

// done is what a deed did to a node.
type done struct {
	after *Node
	moved Axes
	entry events.Entry
}

// on decides about a node as it is; false says that there was nothing to do.
func (d deed) on(before *Node, seers iam.Seers) (done, bool, error) {
	after := before.Clone()
	fact, err := d.Decide(after, Act{Who: d.who, Reason: d.reason, Now: seers.Now})
	if err != nil || fact == nil {
		return done{}, false, err
	}
	moved := Moved(before, after)
	if !d.Axes.Has(moved) {
		return done{}, false, fmt.Errorf("the control %s moved %s, of which only %s are its own", d.Name, moved, d.Axes)
	}
	if moved&versioned != 0 {
		after.Version++
		after.ChangedBy, after.ChangedAt = d.who.Name, seers.Now
	}
	reason := fact.Reason
	if reason == "" {
		reason = d.reason
	}
	return done{after, moved, events.Entry{
		Type: fact.Type, TenantID: after.TenantID, NodeID: after.ID, Actor: d.who.Name, Reason: reason, RequestID: d.requestID, Data: fact.Data,
		Audience: seers.Audiences[after.ID].With(fact.Guests),
	}}, true, nil
}

// apply decides, saves and appends for nodes that are locked. It gives those that changed, as the deed itself left them, and how many events of what came
// next follow on the last deed's.
func apply(ctx context.Context, tx *db.Tx, got locked, d deed, next ...Next) (changed []*Node, later int, err error) {
	var changes []change
	var entries []events.Entry
	for _, before := range got.nodes {
		did, does, err := d.on(before, got.seers)
		if err != nil {
			return nil, 0, err
		}
		if !does {
			continue
		}
		changed, later = append(changed, did.after), 0
		entries = append(entries, did.entry)
		whole := change{before, did.after, did.moved}
		for _, n := range next {
			did, does, err := deed{Control: n.Control, who: n.Who}.on(whole.after, got.seers)
			if err != nil {
				return nil, 0, err
			}
			if !does {
				break
			}
			entries = append(entries, did.entry)
			if whole.moved&versioned != 0 {
				did.after.Version = whole.after.Version // once for the transaction, so that the answer's is the row's
			}
			whole = change{before, did.after, whole.moved | did.moved}
			later++
		}
		changes = append(changes, whole)
	}
	if len(changes) == 0 {
		return nil, 0, nil
	}
	if err := save(tx, changes); err != nil {
		return nil, 0, err
	}
	if d.Follow != nil {
		last := make([]*Node, len(changes))
		for i, ch := range changes {
			last[i] = ch.after
		}
		if err := d.Follow(ctx, tx, last); err != nil {
			return nil, 0, err
		}
	}
	for _, e := range entries {
		if err := events.Append(tx, e); err != nil {
			return nil, 0, err
		}
	}
	return changed, later, nil
}
