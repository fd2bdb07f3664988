package controls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
)

const (
	// runBound is how long one job goes on with an operation before it lets others have the worker; a process that stops waits for it.
	runBound = time.Second
	// lookForDrains is how often an operation that waits for drains looks whether one has ended.
	lookForDrains = 500 * time.Millisecond
	// lookedEvery is how often an operation that waits says that somebody looks at it.
	lookedEvery = 3 * time.Second
)

// Progress is how far a job has come with an operation.
type Progress struct {
	// Over says that there is nothing more to do for it.
	Over bool
	// Next is when to go on while it is not over.
	Next time.Duration
}

// RunOperation goes on with an operation, batch by batch: what a batch does to its nodes, their events, their results and how far the operation has come
// are one transaction, so that a process that dies in the middle loses nothing and nothing is done twice, whoever goes on. It is safe to call by several
// at a time: they take turns at the operation's row.
func (c *Controls) RunOperation(ctx context.Context, job OperationJob) (Progress, error) {
	until := time.Now().Add(runBound)
	for {
		s, err := c.stepOperation(ctx, job, partSize, nil)
		if defect(ctx, err) {
			// One node may be the cause, and the others are not to wait for it for ever.
			if s, err = c.stepOperation(ctx, job, 1, nil); defect(ctx, err) {
				c.report(ctx, job.OperationID, err)
				s, err = c.stepOperation(ctx, job, 1, fault.From(err))
			}
		}
		if err != nil {
			return Progress{}, err
		}
		if err := c.followUp(ctx, s); err != nil {
			return Progress{}, err
		}
		switch {
		case s.over:
			return Progress{Over: true}, nil
		case s.waits:
			return Progress{Next: lookForDrains}, nil
		case time.Now().After(until):
			return Progress{}, nil
		}
	}
}

// defect says that an error is one of ours and would come again.
func defect(ctx context.Context, err error) bool {
	return err != nil && fault.CodeOf(err) == fault.Internal && ctx.Err() == nil && !db.Unanswered(err)
}

func (c *Controls) report(ctx context.Context, operationID string, err error) {
	if c.Log != nil {
		c.Log.ErrorContext(ctx, "an operation can't change a node, which is refused", "operation", operationID, "error", err)
	}
}

// followUp does at once what the nets would do later: a drain of an empty node ends and makes room for the next, and acceptance looks at what was
// reported already.
func (c *Controls) followUp(ctx context.Context, s *step) error {
	var errs []error
	for _, n := range s.changed {
		switch {
		case s.op.Manner.Verb == VerbAdopt:
			errs = append(errs, c.LookAtAcceptance(ctx, n.ID, n.AcceptanceRun))
		case s.op.Manner.MaxPerPool != nil:
			errs = append(errs, c.EndDrain(ctx, n.ID))
		}
	}
	return errors.Join(errs...)
}

// step is one batch of an operation.
type step struct {
	op      Operation
	parts   []openPart
	pools   map[string]string // under which the nodes were frozen
	over    bool
	waits   bool
	control node.Control
	crowd   *iam.Crowd
	upset   map[string]upset
	results map[string]*Result
	// slots is how many drains may begin in a pool; nil without a limit.
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

// stepOperation does the next batch, of so many nodes at most. With broken, the nodes are refused with that instead of being looked at.
func (c *Controls) stepOperation(ctx context.Context, job OperationJob, most int, broken *fault.Error) (*step, error) {
	var s *step
	_, err := c.Nodes.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		s = &step{results: map[string]*Result{}, pools: map[string]string{}, full: map[string]bool{}}
		if err := s.lock(ctx, tx, job, most); err != nil || s.over {
			return err
		}
		if s.op.Manner.MaxPerPool != nil {
			if err := s.takeSlots(ctx, tx); err != nil {
				return err
			}
		}
		if broken != nil {
			s.refuseAll(broken)
		} else if err := s.act(ctx, tx, c.Nodes); err != nil {
			return err
		}
		return s.save(tx)
	})
	return s, err
}

// lock takes the operation's row and reads what comes next.
func (s *step) lock(ctx context.Context, tx *db.Tx, job OperationJob, most int) error {
	if err := tx.Locks(db.LockJoinToken); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("select "+operationColumns+" from node_operations where id = $1 for no key update", job.OperationID).QueryRow(func(row pgx.Row) (err error) {
		s.op, err = scanOperation(row)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // it ended, and was forgotten
		}
		return err
	})
	// Of each pool the first part that is not finished. A statement of its own, after the lock: it sees what the one before has committed.
	b.Queue(`
		select part, p.pool_id, p.node_ids[p.next + 1:p.next + $2], p.versions[p.next + 1:p.next + $2]
		from (select distinct on (pool_id) part from node_operation_parts
			where operation_id = $1 and next < size order by pool_id, part) as f join node_operation_parts p using (part)
		where p.operation_id = $1 order by p.pool_id`, job.OperationID, most).Query(func(rows pgx.Rows) (err error) {
		s.parts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p openPart, err error) {
			err = row.Scan(&p.part, &p.pool, &p.ids, &p.versions)
			return p, err
		})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("go on with the operation: %w", err)
	}
	if s.op.ID == "" || s.op.State != OperationRunning || s.op.run != job.Run {
		s.over = true
		return nil
	}
	if s.op.Manner.MaxPerPool == nil && len(s.parts) > 1 {
		s.parts = s.parts[:1]
	}
	return nil
}

// takeSlots finds how many drains may begin in each pool, and takes the pools' locks first: of two operations at the same time the second counts what the
// first has begun. A single nodeDrain is not held back, and counts.
func (s *step) takeSlots(ctx context.Context, tx *db.Tx) error {
	if err := tx.Locks(db.LockPool); err != nil {
		return err
	}
	var pools []string
	for _, p := range s.parts {
		if p.pool != "" {
			pools = append(pools, p.pool)
		}
	}
	s.slots = map[string]int{}
	b := &pgx.Batch{}
	for _, pool := range pools { // sorted, as the parts are
		s.slots[pool] = *s.op.Manner.MaxPerPool
		b.Queue(`select pg_advisory_xact_lock(hashtextextended('drains ' || $1, 0))`, pool)
	}
	b.Queue(`
		select n.pool_id, count(*) from node_drains d join nodes n on n.id = d.node_id
		where d.state = 'DRAINING' and n.pool_id = any($1) group by n.pool_id`, pools).Query(func(rows pgx.Rows) error {
		var pool string
		var running int
		_, err := pgx.ForEachRow(rows, []any{&pool, &running}, func() error {
			s.slots[pool] -= running
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("count the pools' drains: %w", err)
	}
	var open []openPart
	var full []string
	for _, p := range s.parts {
		free, limited := s.slots[p.pool]
		switch {
		case !limited: // what nobody sees needs no slot
			open = append(open, p)
		case free > 0:
			// No more nodes are locked than can begin.
			p.ids, p.versions = p.ids[:min(free, len(p.ids))], p.versions[:min(free, len(p.ids))]
			open = append(open, p)
		default:
			full = append(full, p.pool)
		}
	}
	if len(open) == 0 {
		s.waits = true
		s.op.Waiting = node.Text(fmt.Sprintf("%d drains run in pool %s, and at most %d may; the next begins when one ends",
			*s.op.Manner.MaxPerPool-s.slots[full[0]], strings.Join(full, ", "), *s.op.Manner.MaxPerPool))
	}
	s.parts = open
	return nil
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
	s.control = s.op.Manner.control(s.op.By)
	s.crowd = nodes.Authority.AskMany(who, s.control.Action, s.op.TenantID)
	many := node.Many{
		IDs: ids, Who: who, Reason: string(s.op.Reason), RequestID: s.op.ID, Unshown: node.AllParts,
		Read: func(b *pgx.Batch) { s.crowd.Queue(b, ids) },
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
	control := s.control
	control.Decide = s.decide
	var err error
	if s.changed, err = nodes.ChangeManyTx(ctx, tx, many, control); err != nil {
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
	if s.slots != nil {
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
