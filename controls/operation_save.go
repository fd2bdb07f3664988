package controls

import (
	"slices"

	"github.com/better-compute/better-compute/db"
)

// save writes the results in the order of the nodes, and how far the operation has come.
func (s *step) save(tx *db.Tx) error {
	o := &s.op
	came := 0
	for _, p := range s.parts {
		var results []*Result
		for _, nodeID := range p.ids {
			r := s.results[nodeID]
			if r == nil {
				break // it found no slot, and so did all after it
			}
			results = append(results, r)
			switch r.Outcome {
			case OutcomeDone:
				o.Done++
			case OutcomeUnchanged:
				o.Unchanged++
			case OutcomeRefused:
				o.Refused++
			}
		}
		if len(results) > 0 {
			came += len(results)
			sendResults(tx, o, p.part, results)
		}
	}
	if came == 0 {
		return s.saveWaiting(tx)
	}
	s.over = o.Left() == 0
	tx.Send(`
		update node_operations set done = $2, unchanged = $3, refused = $4, waiting = null, looked_at = clock_timestamp(),
		  state = case when $5 then 'DONE' else state end, ended_at = case when $5 then clock_timestamp() end
		where id = $1`, o.ID, o.Done, o.Unchanged, o.Refused, s.over)
	return nil
}

// sendResults writes what became of the next nodes of a part as one row: which nodes they are stands in the part, and that all is done needs no word.
func sendResults(tx *db.Tx, o *Operation, part int, results []*Result) {
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
		o.ID, part, o.Done+o.Unchanged+o.Refused, len(results), outcomes, codes, messages)
}

// saveWaiting says that the operation waits, and now and then that it is looked at.
func (s *step) saveWaiting(tx *db.Tx) error {
	s.waits = true
	if s.op.idleFor > lookedEvery || s.op.Waiting != "" {
		tx.Send(`
			update node_operations set waiting = nullif($2, ''), looked_at = clock_timestamp()
			where id = $1 and (waiting is distinct from nullif($2, '') or looked_at < clock_timestamp() - make_interval(secs => $3))`,
			s.op.ID, s.op.Waiting, lookedEvery.Seconds())
	}
	return nil
}
