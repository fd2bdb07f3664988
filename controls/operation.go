package controls

import (
	"context"
	"encoding/json"
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
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/placement"
)

const (
	// QueueOperations is the queue of operations on many nodes.
	QueueOperations = "operations"
	// maxOperations is how many operations run in one tenant at a time.
	maxOperations = 20
)

// OperationJob goes on with an operation. A job that is not of the operation's newest run ends: one at a time goes on.
type OperationJob struct {
	OperationID string `json:"operation_id"`
	Run         int    `json:"run"`
}

// Kind names the job.
func (OperationJob) Kind() string { return "node_operation" }

// OperationState is where an operation stands.
type OperationState string

// The states.
const (
	// OperationRunning goes on, or waits for drains.
	OperationRunning OperationState = "RUNNING"
	// OperationDone has a result for each node.
	OperationDone OperationState = "DONE"
	// OperationStopped was stopped by somebody; nodes without a result were left alone.
	OperationStopped OperationState = "STOPPED"
)

// Operation is a control on many nodes.
type Operation struct {
	ID       string
	TenantID string
	Manner   Manner
	Reason   node.Text
	By       string
	State    OperationState
	// Count is how many nodes there are, and the others are how many of them have which result.
	Count, Done, Unchanged, Refused int
	// Waiting says in words what a running one waits for; empty when it goes on.
	Waiting   node.Text
	CreatedAt time.Time
	EndedAt   *time.Time
	EndedBy   node.Text

	tokenID  string
	position int64
	logAt    time.Time
	// selection is of which its nodes are; empty for nodes that were named.
	selection string
	run       int
	idleFor   time.Duration
}

// Left is how many nodes have no result yet; once it was stopped, how many were left alone.
func (o *Operation) Left() int { return o.Count - o.Done - o.Unchanged - o.Refused }

// Outcome is what became of one node.
type Outcome string

// The outcomes.
const (
	OutcomeDone      Outcome = "DONE"
	OutcomeUnchanged Outcome = "UNCHANGED"
	OutcomeRefused   Outcome = "REFUSED"
)

// Result is what an operation did to one node.
type Result struct {
	// Number counts the operation's results from 1, in the order in which they were committed.
	Number  int
	NodeID  string
	Outcome Outcome
	// Code and Message are the refusal's; of what is unchanged the message says why.
	Code    node.Text
	Message node.Text
	At      time.Time
}

// ManyEdit is a control's call on many nodes by somebody.
type ManyEdit struct {
	Who      iam.Actor
	TenantID string
	// SelectionID, or NodeIDs, which are frozen now.
	SelectionID string
	NodeIDs     []string
	// Reason is free text for the events; up to 256 characters.
	Reason    string
	RequestID string
	Manner    Manner
}

// Begun is an operation that was asked for.
type Begun struct {
	Operation Operation
	// Cursor is where the log stood: what the operation does comes after it.
	Cursor   events.Cursor
	Warnings []string
}

// Begin has a control done to many nodes, each of which is judged as by the single control when its turn comes: by its sight and grants then, and
// refused when somebody decided otherwise about it since it was frozen. A node that is named and not seen is refused with NOT_FOUND as the others' turn
// comes, and nobody waits for it.
//
// Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN for who holds the action on no node of the tenant's, NOT_FOUND for the selection, RESOURCE_EXHAUSTED
// { limit, retryAfterMs } while too many run.
func (c *Controls) Begin(ctx context.Context, e ManyEdit) (Begun, error) {
	if err := e.check(); err != nil {
		return Begun{}, err
	}
	request, err := iam.NewRequest(e.Who, e.RequestID, "nodes."+string(e.Manner.Verb), []any{e.TenantID, e.SelectionID, e.NodeIDs, e.Reason, e.Manner})
	if err != nil {
		return Begun{}, err
	}
	control := e.Manner.control(e.Who.Name, nil)
	if err := c.Nodes.Authority.OnTenant(ctx, c.Nodes.DB.Pool(), e.Who, control.Action, e.TenantID); err != nil {
		return Begun{}, err
	}
	var out Begun
	if out.Warnings, err = e.Manner.warnings(ctx, c.Nodes.DB.Pool()); err != nil {
		return Begun{}, err
	}
	did, err := request.Once(ctx, c.Nodes.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
		out.Operation, err = c.begin(ctx, tx, e)
		return iam.Answer{Made: []string{out.Operation.ID}}, err
	}, func(ctx context.Context, tx *db.Tx, a iam.Answer) (err error) {
		out.Operation, err = readOperation(ctx, tx, e.TenantID, a.Made[0])
		return err
	})
	out.Cursor = did.Cursor
	return out, err
}

func (e ManyEdit) check() error {
	if err := id.Tenant("tenantId", e.TenantID); err != nil {
		return err
	}
	if (e.SelectionID == "") == (e.NodeIDs == nil) {
		return fault.Invalid("selectionId", "must stand alone, or nodeIds: one of the two says which nodes", 0)
	}
	if e.NodeIDs != nil {
		if err := checkNamed(e.NodeIDs); err != nil {
			return err
		}
	} else if err := id.Check(id.Selection, "selectionId", e.SelectionID); err != nil {
		return err
	}
	if err := node.CheckReason(e.Reason); err != nil {
		return err
	}
	return e.Manner.check()
}

// begin writes the operation with its nodes, and hands it to the jobs.
func (c *Controls) begin(ctx context.Context, tx *db.Tx, e ManyEdit) (Operation, error) {
	if err := tx.Locks(db.LockJoinToken); err != nil {
		return Operation{}, err
	}
	// Of those who begin at the same time in one tenant, the second counts the first one's.
	var running int
	b := &pgx.Batch{}
	b.Queue(`select pg_advisory_xact_lock(hashtextextended('node_operations ' || $1, 0))`, e.TenantID)
	b.Queue(`select count(*) from node_operations where tenant_id = $1 and state = 'RUNNING'`, e.TenantID).QueryRow(func(row pgx.Row) error {
		return row.Scan(&running)
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return Operation{}, fmt.Errorf("count the operations: %w", err)
	}
	if running >= maxOperations {
		return Operation{}, fault.New(fault.ResourceExhausted, fault.Details{"limit": maxOperations, "retryAfterMs": 10_000},
			"%d operations run in tenant %s already; wait for one to end, or stop one", running, e.TenantID)
	}
	o := Operation{ID: id.New(id.Operation), TenantID: e.TenantID, Manner: e.Manner, Reason: node.Text(e.Reason), By: e.Who.Name, State: OperationRunning, run: 1}
	o.tokenID, o.selection = e.Who.TokenID, e.SelectionID
	var parts []part
	now, err := c.members(ctx, tx, e, &o, &parts)
	if err != nil {
		return Operation{}, err
	}
	if err := e.Manner.checkEnds(now); err != nil {
		return Operation{}, err
	}
	o.CreatedAt = now
	if o.Count == 0 {
		o.State, o.EndedAt = OperationDone, &now
	}
	return o, o.insert(tx, parts)
}

// members finds the operation's nodes, as they were frozen before or are now, and gives the database's time.
func (c *Controls) members(ctx context.Context, tx *db.Tx, e ManyEdit, o *Operation, parts *[]part) (time.Time, error) {
	if e.SelectionID != "" {
		s, err := readSelection(ctx, tx, e.Who, e.TenantID, e.SelectionID)
		if err != nil {
			return time.Time{}, err
		}
		o.Count, o.position, o.logAt = s.Count, s.position, s.logAt
		var now time.Time
		err = tx.QueryRow(ctx, `select clock_timestamp()`).Scan(&now)
		return now, err
	}
	frozen, err := c.Nodes.Freeze(ctx, tx, e.TenantID, &node.Filter{NodeIDs: e.NodeIDs}, MaxNamed)
	if err != nil {
		return time.Time{}, err
	}
	*parts = partsOf(frozen.Nodes)
	seen := make(map[string]bool, len(frozen.Nodes))
	for _, n := range frozen.Nodes {
		seen[n.ID] = true
	}
	for unseen := range slices.Chunk(slices.DeleteFunc(slices.Sorted(slices.Values(e.NodeIDs)), func(nodeID string) bool { return seen[nodeID] }), partSize) {
		*parts = append(*parts, part{ids: unseen, versions: make([]*int, len(unseen))})
	}
	o.Count, o.position, o.logAt = len(e.NodeIDs), frozen.Position, frozen.LogAt
	return frozen.Now, nil
}

func (o *Operation) insert(tx *db.Tx, parts []part) error {
	manner, err := json.Marshal(o.Manner)
	if err != nil {
		return fmt.Errorf("write the operation: %w", err)
	}
	tx.Send(`
		insert into node_operations (id, tenant_id, verb, manner, reason, by, token_id, selection_id, count, position, log_at, state, run, created_at, looked_at, ended_at)
		values ($1, $2, $3, $4, nullif($5, ''), $6, $7, nullif($8, ''), $9, $10, $11, $12, $13, $14, $14, $15)`,
		o.ID, o.TenantID, o.Manner.Verb, string(manner), o.Reason, o.By, o.tokenID, o.selection, o.Count, o.position, o.logAt, o.State, o.run, o.CreatedAt, o.EndedAt)
	if o.selection != "" {
		tx.Send(`
			insert into node_operation_parts (operation_id, part, pool_id, node_ids, versions)
			select $1, part, pool_id, node_ids, versions from node_selection_parts where selection_id = $2`, o.ID, o.selection)
	}
	for i, p := range parts {
		tx.Send(`insert into node_operation_parts (operation_id, part, pool_id, node_ids, versions) values ($1, $2, $3, $4, $5)`,
			o.ID, i, p.pool, p.ids, p.versions)
	}
	if o.State != OperationRunning {
		return nil
	}
	return placement.SendJob(tx, OperationJob{OperationID: o.ID, Run: o.run}, QueueOperations)
}

const operationColumns = `id, tenant_id, verb, manner, coalesce(reason, ''), by, state, count, done, unchanged, refused, coalesce(waiting, ''), created_at,
	ended_at, coalesce(ended_by, ''), token_id, position, log_at, coalesce(selection_id, ''), run, extract(epoch from clock_timestamp() - looked_at)`

func scanOperation(row pgx.Row) (Operation, error) {
	var o Operation
	var verb Verb
	var manner []byte
	var idle float64
	err := row.Scan(&o.ID, &o.TenantID, &verb, &manner, &o.Reason, &o.By, &o.State, &o.Count, &o.Done, &o.Unchanged, &o.Refused, &o.Waiting, &o.CreatedAt,
		&o.EndedAt, &o.EndedBy, &o.tokenID, &o.position, &o.logAt, &o.selection, &o.run, &idle)
	if err != nil {
		return Operation{}, err
	}
	if err := json.Unmarshal(manner, &o.Manner); err != nil {
		return Operation{}, fmt.Errorf("read the operation's arguments: %w", err)
	}
	o.Manner.Verb, o.idleFor = verb, time.Duration(idle*float64(time.Second))
	return o, nil
}

func readOperation(ctx context.Context, q db.Querier, tenant, operationID string) (Operation, error) {
	o, err := scanOperation(q.QueryRow(ctx, "select "+operationColumns+" from node_operations where id = $1 and tenant_id = $2", operationID, tenant))
	if errors.Is(err, pgx.ErrNoRows) {
		return Operation{}, noOperation(operationID)
	}
	if err != nil {
		return Operation{}, fmt.Errorf("read the operation: %w", err)
	}
	return o, nil
}

func noOperation(operationID string) error {
	return fault.New(fault.NotFound, fault.Details{"operationId": operationID}, "no operation %s in this tenant, or it ended long ago", operationID)
}

// Operation gives an operation of the tenant's. Who asks may list its nodes; that was decided. Codes: INVALID_INPUT, NOT_FOUND.
func (c *Controls) Operation(ctx context.Context, tenant, operationID string) (Operation, error) {
	if err := id.Check(id.Operation, "operationId", operationID); err != nil {
		return Operation{}, err
	}
	return readOperation(ctx, c.Nodes.DB.Pool(), tenant, operationID)
}

// Operations lists the tenant's operations, the newest first, or only those that run, and says whether there are more. after is the id of the last entry
// before. Who asks may list its nodes; that was decided.
func (c *Controls) Operations(ctx context.Context, tenant string, active bool, first int, after string) (list []Operation, more bool, err error) {
	rows, err := c.Nodes.DB.Pool().Query(ctx, "select "+operationColumns+` from node_operations
		where tenant_id = $1 and (not $2 or state = 'RUNNING') and ($3 = '' or id < $3) order by id desc limit $4`, tenant, active, after, first+1)
	if err != nil {
		return nil, false, fmt.Errorf("list the operations: %w", err)
	}
	if list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Operation, error) { return scanOperation(row) }); err != nil {
		return nil, false, fmt.Errorf("list the operations: %w", err)
	}
	if len(list) > first {
		list, more = list[:first], true
	}
	return list, more, nil
}

// Results gives an operation's results beyond a number, in their order, and only those with one of the outcomes if there are any; at most first of them,
// and whether there are more.
func (c *Controls) Results(ctx context.Context, operationID string, outcomes []Outcome, beyond, first int) (list []Result, more bool, err error) {
	rows, err := c.Nodes.DB.Pool().Query(ctx, `
		select b.last - b.count + r.place, r.node_id, coalesce(r.outcome, 'DONE'), coalesce(r.code, ''), coalesce(r.message, ''), b.at
		from node_operation_batches b join node_operation_parts p using (operation_id, part)
		cross join unnest(p.node_ids[b.begin + 1:b.begin + b.count], b.outcomes, b.codes, b.messages) with ordinality as r (node_id, outcome, code, message, place)
		where b.operation_id = $1 and b.last > $2 and b.last - b.count + r.place > $2 and ($3::text[] is null or coalesce(r.outcome, 'DONE') = any($3))
		order by b.last, r.place limit $4`, operationID, beyond, outcomes, first+1)
	if err != nil {
		return nil, false, fmt.Errorf("read the results: %w", err)
	}
	if list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Result]); err != nil {
		return nil, false, fmt.Errorf("read the results: %w", err)
	}
	if len(list) > first {
		list, more = list[:first], true
	}
	return list, more, nil
}

// Stopping says which operation to stop.
type Stopping struct {
	Who         iam.Actor
	TenantID    string
	OperationID string
	RequestID   string
}

// Stopped is an operation that was to be stopped.
type Stopped struct {
	Operation Operation
	// Changed says whether it ran.
	Changed bool
	Cursor  events.Cursor
}

// Stop ends an operation: once it is answered nothing more is begun by it. What is done stays done. It takes the action of the operation's control; one
// that has ended is given unchanged. Codes: INVALID_INPUT, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND.
func (c *Controls) Stop(ctx context.Context, s Stopping) (Stopped, error) {
	if err := id.Tenant("tenantId", s.TenantID); err != nil {
		return Stopped{}, err
	}
	if err := id.Check(id.Operation, "operationId", s.OperationID); err != nil {
		return Stopped{}, err
	}
	request, err := iam.NewRequest(s.Who, s.RequestID, "node.operationStop", []any{s.TenantID, s.OperationID})
	if err != nil {
		return Stopped{}, err
	}
	if err := c.Nodes.Authority.OnTenant(ctx, c.Nodes.DB.Pool(), s.Who, iam.NodesList, s.TenantID); err != nil {
		return Stopped{}, err
	}
	o, err := readOperation(ctx, c.Nodes.DB.Pool(), s.TenantID, s.OperationID)
	if err != nil {
		return Stopped{}, err
	}
	if err := c.Nodes.Authority.OnTenant(ctx, c.Nodes.DB.Pool(), s.Who, o.Manner.control("", nil).Action, s.TenantID); err != nil {
		return Stopped{}, err
	}
	var out Stopped
	did, err := request.Once(ctx, c.Nodes.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
		if err := tx.Locks(db.LockOperation); err != nil {
			return iam.Answer{}, err
		}
		// It waits for a batch that is being committed; one that has not come so far finds that there is nothing to go on with.
		tag, err := tx.Exec(ctx, `
			update node_operations set state = 'STOPPED', ended_at = clock_timestamp(), ended_by = $2, waiting = null
			where id = $1 and state = 'RUNNING'`, s.OperationID, s.Who.Name)
		if err != nil {
			return iam.Answer{}, fmt.Errorf("stop the operation: %w", err)
		}
		out.Operation, err = readOperation(ctx, tx, s.TenantID, s.OperationID)
		made := []string{}
		if tag.RowsAffected() == 1 {
			made = append(made, s.OperationID)
		}
		return iam.Answer{Made: made}, err
	}, func(ctx context.Context, tx *db.Tx, _ iam.Answer) (err error) {
		out.Operation, err = readOperation(ctx, tx, s.TenantID, s.OperationID)
		return err
	})
	out.Cursor, out.Changed = did.Cursor, len(did.Made) > 0
	return out, err
}
