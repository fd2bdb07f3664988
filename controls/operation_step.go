package controls

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

// aheadMost is how many parts of an operation are read at a time.
const aheadMost = 8

// step is one batch of an operation.
type step struct {
	op    Operation
	parts []openPart
	// ahead are the parts that come after, as far as they were read; nil where the next step has to look.
	ahead   []openPart
	pools   map[string]string // under which the nodes were frozen
	over    bool
	waits   bool
	control node.Control
	crowd   *iam.Crowd
	seen    *emptiness // of nodes whose drains are ended with the batch; nil for other verbs
	upset   map[string]upset
	results map[string]*Result
	// slots is how many drains may begin in a pool; nil without a limit. One that is over at once needs none.
	slots   map[string]int
	full    map[string]bool // pools in which a node of this batch found no slot
	changed []*node.Node
}

// openPart is what of a part comes next.
type openPart struct {
	part     int
	pool     string
	ids      []string
	versions []*int
}

// stride says what a step is to do.
type stride struct {
	job OperationJob
	// most is how many nodes of a part are changed at most.
	most int
	// after is what the step before leaves, which is on its way; nil: the database says where the operation stands.
	after *outlook
	// foresee, if there is one, is told what the step leaves to the next, once it has decided.
	foresee func(outlook)
	// holds, if there is one, is told when the step holds the operation's row, and when it has failed and is tried again.
	holds func()
	// broken, if there is one, is what the nodes are refused with instead of being looked at.
	broken *fault.Error
}

// stepOperation does the next batch. It is errOvertaken when the operation does not stand any more as it was taken to. A panic is a defect like another.
func (c *Controls) stepOperation(ctx context.Context, how stride) (s *step, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	seen := &emptiness{} // its look before the locks is the first try's
	_, err = c.Nodes.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		if s != nil && how.holds != nil {
			how.holds() // whoever follows finds that this step did not come to be, and lets its nodes go
		}
		s = &step{results: map[string]*Result{}, pools: map[string]string{}, full: map[string]bool{}}
		if how.after != nil {
			s.op, s.parts, s.ahead = how.after.op, how.after.ahead[:1], how.after.ahead[1:]
		} else if err := s.read(ctx, tx, how); err != nil || s.over {
			return err
		}
		if s.op.Manner.Verb == VerbDrain && !c.DrainsByJob {
			s.seen = seen
		}
		if s.op.Manner.MaxPerPool != nil {
			if err := s.takeSlots(ctx, tx); err != nil {
				return err
			}
		}
		if how.broken != nil {
			s.refuseAll(how.broken)
		} else if err := s.act(ctx, tx, c.Nodes); err != nil {
			return err
		}
		return s.save(ctx, tx, how)
	})
	return s, err
}

// read finds where the operation stands and what comes next: without a limit the next parts, of which this step does the first; with one, the first part of
// each pool.
func (s *step) read(ctx context.Context, tx *db.Tx, how stride) error {
	b := &pgx.Batch{}
	b.Queue("select "+operationColumns+" from node_operations where id = $1", how.job.OperationID).QueryRow(func(row pgx.Row) (err error) {
		s.op, err = scanOperation(row)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it ended, and was forgotten
		}
		return err
	})
	b.Queue(`
		select p.part, p.pool_id, p.node_ids[p.next + 1:p.next + $2], p.versions[p.next + 1:p.next + $2]
		from (select part, row_number() over (order by part) as place, row_number() over (partition by pool_id order by part) as in_pool
			from node_operation_parts where operation_id = $1 and next < size) as f join node_operation_parts p using (part)
		where p.operation_id = $1
		  and case when (select manner ? 'maxPerPool' from node_operations where id = $1) then in_pool = 1 else place <= $3 end
		order by p.pool_id, p.part`, how.job.OperationID, how.most, aheadMost).Query(func(rows pgx.Rows) (err error) {
		s.parts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p openPart, err error) {
			err = row.Scan(&p.part, &p.pool, &p.ids, &p.versions)
			return p, err
		})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("go on with the operation: %w", err)
	}
	if s.op.ID == "" || s.op.State != OperationRunning || s.op.run != how.job.Run {
		s.over = true
		return nil
	}
	if s.op.Manner.MaxPerPool == nil && len(s.parts) > 1 {
		s.parts, s.ahead = s.parts[:1], s.parts[1:]
	}
	if how.most < partSize {
		s.ahead = nil // the rest of the part comes first
	}
	return nil
}

// takeSlots finds how many drains may begin in each pool, and takes the pools' locks first: of two operations at the same time the second counts what the
// first has begun. A single nodeDrain is not held back, and counts. A drain of an empty node is over as it begins, and so needs no slot.
func (s *step) takeSlots(ctx context.Context, tx *db.Tx) error {
	if err := tx.Locks(db.LockPool); err != nil {
		return err
	}
	var pools, ids []string
	for _, p := range s.parts {
		if p.pool != "" {
			pools, ids = append(pools, p.pool), append(ids, p.ids...)
		}
	}
	s.slots = map[string]int{}
	var held map[string]placement.Held
	b := &pgx.Batch{}
	for _, pool := range pools { // sorted, as the parts are
		s.slots[pool] = *s.op.Manner.MaxPerPool
		b.Queue(`select pg_advisory_xact_lock(hashtextextended('drains ' || $1, 0))`, pool)
	}
	names := map[string]string{}
	b.Queue(`
		select p.id, p.name, count(d.node_id)
		from pools p left join (node_drains d join nodes n on n.id = d.node_id and d.state = 'DRAINING') on n.pool_id = p.id
		where p.id = any($1) group by p.id`, pools).Query(func(rows pgx.Rows) error {
		var pool, name string
		var running int
		_, err := pgx.ForEachRow(rows, []any{&pool, &name, &running}, func() error {
			names[pool] = name
			s.slots[pool] -= running
			return nil
		})
		return err
	})
	placement.QueueHoldings(b, ids, &held)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("count the pools' drains: %w", err)
	}
	var open []openPart
	var full []string
	for _, p := range s.parts {
		free, limited := s.slots[p.pool]
		if limited {
			p = p.first(s.mayBegin(p.ids, free, held))
		}
		if len(p.ids) > 0 {
			open = append(open, p)
		} else {
			full = append(full, names[p.pool])
		}
	}
	if len(open) == 0 {
		s.waits = true
		s.op.Waiting = node.Text(fmt.Sprintf("%s in pool %s, and at most %d may; the next begins when one ends",
			counted(*s.op.Manner.MaxPerPool-s.slots[s.parts[0].pool], "drain runs", "drains run"), strings.Join(full, ", "), *s.op.Manner.MaxPerPool))
	}
	s.parts = open
	return nil
}

// mayBegin says how many of the nodes, from the first on, can begin to drain with so many free slots, as far as can be told before they are locked. No
// others are locked.
func (s *step) mayBegin(ids []string, free int, held map[string]placement.Held) int {
	for i, nodeID := range ids {
		if s.seen != nil && held[nodeID].Live == 0 {
			continue
		}
		if free <= 0 {
			return i
		}
		free--
	}
	return len(ids)
}

// first gives the part with no more than so many of its nodes.
func (p openPart) first(n int) openPart {
	p.ids, p.versions = p.ids[:n], p.versions[:n]
	return p
}

// act locks the nodes and does to each what its turn brings.
func (s *step) act(ctx context.Context, tx *db.Tx, nodes *node.Store) error {
	var ids []string
	versions := map[string]int{}
	for _, p := range s.parts {
		for i, nodeID := range p.ids {
			s.pools[nodeID] = p.pool
			if p.versions[i] == nil {
				// It was not seen when it was named, so it is not looked at, and least of all locked.
				s.results[nodeID] = refused(nodeID, fault.From(iam.NoSuchNode(nodeID)))
				continue
			}
			ids, versions[nodeID] = append(ids, nodeID), *p.versions[i]
		}
	}
	if len(ids) == 0 {
		return nil
	}
	who := iam.Actor{Name: s.op.By, TokenID: s.op.tokenID}
	s.control = s.op.Manner.control(s.op.By, s.seen)
	s.crowd = nodes.Authority.AskMany(who, s.control.Action, s.op.TenantID)
	many := node.Many{
		IDs: ids, Who: who, Reason: string(s.op.Reason), RequestID: s.op.ID, Unshown: node.AllParts, Crowd: s.crowd,
		Locked: func(ctx context.Context, nodes []*node.Node) (err error) {
			var moved []string
			for _, n := range nodes {
				if n.Version != versions[n.ID] {
					moved = append(moved, n.ID)
				}
			}
			s.upset, err = findUpsets(ctx, tx, s.op.Manner, s.op.selection, s.op.position, s.op.logAt, moved)
			return err
		},
	}
	var next []node.Next
	if s.seen != nil {
		many.Before = func(b *pgx.Batch) { s.seen.before(b, ids) }
		many.Read = func(b *pgx.Batch) { s.seen.queue(b, ids) }
		next = append(next, drainedNext(s.seen))
	}
	control := s.control
	control.Decide = s.decide
	var err error
	if s.changed, err = nodes.ChangeManyTx(ctx, tx, many, control, next...); err != nil {
		return fmt.Errorf("change the nodes of %s: %w", s.op.ID, err)
	}
	for _, nodeID := range ids {
		if s.results[nodeID] == nil && !s.full[s.pools[nodeID]] {
			s.results[nodeID] = refused(nodeID, fault.From(iam.NoSuchNode(nodeID))) // it was deleted meanwhile
		}
	}
	return nil
}

// refuseAll makes what is a defect of ours the result of the whole batch.
func (s *step) refuseAll(broken *fault.Error) {
	for _, p := range s.parts {
		for _, nodeID := range p.ids {
			s.results[nodeID] = refused(nodeID, broken)
		}
	}
}

func refused(nodeID string, f *fault.Error) *Result {
	return &Result{NodeID: nodeID, Outcome: OutcomeRefused, Code: node.Text(f.Code), Message: node.Text(f.Message)}
}

// decide is the verb's own decision, with what a bulk asks before and after: whether the author may, whether somebody decided otherwise since, and whether
// there is a slot. A refusal is the node's result, and none of the batch's.
func (s *step) decide(n *node.Node, a node.Act) (*node.Fact, error) {
	pool := s.pools[n.ID]
	if s.full[pool] {
		return nil, nil //nolint:nilnil // its turn comes
	}
	if err := s.crowd.Answer(n.ID); err != nil {
		return nil, s.refuse(n.ID, err)
	}
	fact, err := s.control.Decide(n, a)
	switch {
	case err != nil:
		return nil, s.refuse(n.ID, err)
	case fact == nil:
		s.results[n.ID] = &Result{NodeID: n.ID, Outcome: OutcomeUnchanged, Message: node.Text(s.op.Manner.idle(n))}
		return nil, nil //nolint:nilnil // nothing to do
	}
	if u, there := s.upset[n.ID]; there {
		return nil, s.refuse(n.ID, u.refusal(n.ID))
	}
	if s.slots != nil && (s.seen == nil || !s.seen.empty(n.ID)) {
		if s.slots[pool] <= 0 {
			s.full[pool] = true
			return nil, nil //nolint:nilnil // its turn comes
		}
		s.slots[pool]--
	}
	s.results[n.ID] = &Result{NodeID: n.ID, Outcome: OutcomeDone}
	return fact, nil
}

// refuse makes an error the node's result; one that is no refusal is the batch's.
func (s *step) refuse(nodeID string, err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code == fault.Internal || f.Code == fault.Unavailable {
		return err
	}
	s.results[nodeID] = refused(nodeID, f)
	return nil
}
