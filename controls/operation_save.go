package controls

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/better-compute/better-compute/db"
)

// errOvertaken says that an operation does not stand any more as a step took it to: another went on with it, the step before did not commit, or it was
// stopped. The step's transaction comes to nothing.
var errOvertaken = errors.New("the operation stands elsewhere by now")

// save writes how far the operation has come, and then the results in the order of the nodes. It waits for the step before at the operation's row, and
// holds that until the end: of those who would go on from the same place one does.
func (s *step) save(ctx context.Context, tx *db.Tx, how stride) error {
	before := s.op
	var done [][]*Result
	for _, p := range s.parts {
		done = append(done, s.count(p))
	}
	o := &s.op
	if err := tx.Locks(db.LockOperation); err != nil {
		return err
	}
	if o.Left() == before.Left() {
		s.saveWaiting(tx)
		return nil
	}
	s.over, o.Waiting = o.Left() == 0, ""
	if how.foresee != nil {
		how.foresee(outlook{op: *o, ahead: s.ahead})
	}
	if err := s.come(ctx, tx, how, before); err != nil {
		return err
	}
	last := before.Count - before.Left()
	for i, results := range done {
		if len(results) > 0 {
			last += len(results)
			sendResults(tx, o, s.parts[i].part, last, results)
		}
	}
	return nil
}

// come takes the operation's row, after the step before, and moves it on from where it was before this step: if it stands there.
func (s *step) come(ctx context.Context, tx *db.Tx, how stride, before Operation) error {
	o := &s.op
	if how.after != nil {
		select {
		case <-how.after.first:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var stands bool
	b := &pgx.Batch{}
	// A statement of its own: what it waits for is not in its own snapshot, and is in that of the next.
	b.Queue(`select from node_operations where id = $1 for no key update`, o.ID)
	b.Queue(`
		update node_operations set done = done + $4, unchanged = unchanged + $5, refused = refused + $6, waiting = null, looked_at = clock_timestamp(),
		  state = case when $7 then 'DONE' else state end, ended_at = case when $7 then clock_timestamp() end
		where id = $1 and state = 'RUNNING' and run = $2 and done + unchanged + refused = $3`,
		o.ID, o.run, before.Count-before.Left(), o.Done-before.Done, o.Unchanged-before.Unchanged, o.Refused-before.Refused, s.over).Exec(func(tag pgconn.CommandTag) error {
		stands = tag.RowsAffected() == 1
		return nil
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("go on with the operation: %w", err)
	}
	if how.holds != nil {
		how.holds()
	}
	if !stands {
		return errOvertaken
	}
	return nil
}

// count gives the results of a part's nodes, up to the first that has none: it found no slot, and so did all after it.
func (s *step) count(p openPart) []*Result {
	var results []*Result
	for _, nodeID := range p.ids {
		r := s.results[nodeID]
		if r == nil {
			break
		}
		results = append(results, r)
		switch r.Outcome {
		case OutcomeDone:
			s.op.Done++
		case OutcomeUnchanged:
			s.op.Unchanged++
		case OutcomeRefused:
			s.op.Refused++
		}
	}
	return results
}

// sendResults writes what became of the next nodes of a part as one row: which nodes they are stands in the part, and that all is done needs no word.
func sendResults(tx *db.Tx, o *Operation, part, last int, results []*Result) {
	var outcomes, codes, messages []string
	if slices.ContainsFunc(results, func(r *Result) bool { return r.Outcome != OutcomeDone }) {
		for _, r := range results {
			outcomes, codes, messages = append(outcomes, string(r.Outcome)), append(codes, string(r.Code)), append(messages, string(r.Message))
		}
	}
	tx.Send(`
		with p as (update node_operation_parts set next = next + $4 where operation_id = $1 and part = $2 returning next)
		insert into node_operation_batches (operation_id, last, part, begin, count, outcomes, codes, messages, at)
		select $1, $3, $2, next - $4, $4, $5, $6, $7, clock_timestamp() from p`,
		o.ID, part, last, len(results), outcomes, codes, messages)
}

// saveWaiting says that the operation waits, and now and then that it is looked at.
func (s *step) saveWaiting(tx *db.Tx) {
	s.waits = true
	o := &s.op
	if o.idleFor > lookedEvery || o.Waiting != "" {
		tx.Send(`
			update node_operations set waiting = nullif($4, ''), looked_at = clock_timestamp()
			where id = $1 and state = 'RUNNING' and run = $2 and done + unchanged + refused = $3
			  and (waiting is distinct from nullif($4, '') or looked_at < clock_timestamp() - make_interval(secs => $5))`,
			o.ID, o.run, o.Count-o.Left(), o.Waiting, lookedEvery.Seconds())
	}
}
