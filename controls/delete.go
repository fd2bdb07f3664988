package controls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/placement"
)

// deleteBound is how long a delete may wait to be done; after that it is refused, so that nothing is deleted an hour later.
const deleteBound = 10 * time.Second

// QueueDeletes is the queue of deletes.
const QueueDeletes = "deletes"

// ReasonDeleted stands on the certificates that a delete revokes.
const ReasonDeleted = "node-deleted"

// DeleteJob does what a row of node_deletes asks for.
type DeleteJob struct {
	DeleteID string `json:"delete_id"`
}

// Kind names the job.
func (DeleteJob) Kind() string { return "node_delete" }

// Deleted is what a delete did.
type Deleted struct {
	// Deleted says that the node was deleted by it; false when it was deleted before.
	Deleted bool
	// Cursor is the log's position of node.deleted; when nothing was deleted, the head.
	Cursor events.Cursor
	// Warnings are sentences about what was done all the same.
	Warnings []string
}

// holding is what is read under the node's lock to decide whether it may go.
type holding struct {
	held     placement.Held
	lastSeen *time.Time
}

func (h *holding) queue(b *pgx.Batch, nodeID string) {
	placement.QueueHolding(b, nodeID, &h.held)
	liveness.QueueLastSeen(b, nodeID, &h.lastSeen)
}

// deletable is the rule: a retired node, an adopted one that is cordoned, or one that never got going; and none that holds a live allocation.
func deletable(n *node.Node, live int) error {
	details := fault.Details{"provisionState": n.ProvisionState, "cordoned": n.Cordoned()}
	switch {
	case n.ProvisionState == node.Adopted && !n.Cordoned():
		return fault.New(fault.InvalidState, details, "Cordon the adopted node first (nodes.cordon), then delete it once it holds nothing")
	case n.ProvisionState == node.Retired, n.ProvisionState == node.Adopted, n.ProvisionState == node.Adopting, n.ProvisionState == node.Enrolling:
	case n.ProvisionState == node.Failed && n.Failure != nil && n.Failure.Phase == node.PhaseEnrollment:
	default:
		return fault.New(fault.InvalidState, details,
			"a node that is %s can't be deleted: it has to be retired, adopted and cordoned, or not adopted yet", n.ProvisionState)
	}
	if live > 0 {
		return fault.New(fault.InvalidState, fault.Details{"openAllocations": live},
			"the node holds %d open allocations; release their reservations, or let them end, then delete it", live)
	}
	return nil
}

// deleteControl makes the node a tombstone and ends what hangs on it, in the rooms that own it.
func deleteControl(version *int, seen *holding) node.Control {
	return node.Control{
		Name: "delete", Action: iam.NodesDelete, Axes: node.AxisDeleted | node.AxisDrain | node.AxisIdentity,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			if n.DeletedAt != nil {
				return nil, nil //nolint:nilnil // nothing to do
			}
			if err := (node.Edit{Version: version}).CheckVersion(n); err != nil {
				return nil, err
			}
			if err := deletable(n, seen.held.Live); err != nil {
				return nil, err
			}
			n.DeletedAt = &a.Now
			if n.Credential != node.Revoked {
				n.Credential, n.CredentialSince = node.Revoked, a.Now
			}
			if d := n.Running(); d != nil {
				d.State, d.EndedAt, d.EndedBy, d.Cause, d.Overdue = node.Cancelled, &a.Now, node.Text(a.Who.Name), "deleted", false
				n.RemoveReason(node.ReasonDraining)
			}
			return &node.Fact{Type: "node.deleted"}, nil
		},
		Follow: func(ctx context.Context, tx *db.Tx, n *node.Node) error {
			if err := tx.Locks(db.LockLiveness); err != nil {
				return err
			}
			liveness.EndNodeTx(tx, n.ID)
			if err := tx.Locks(db.LockNodePart); err != nil {
				return err
			}
			placement.RetireNodeTx(tx, n.ID)
			pki.EndNodeTx(tx, n.ID, n.ChangedBy, ReasonDeleted)
			iam.ForgetNodeTx(tx, n.ID)
			return nil
		},
	}
}

// Delete removes a node for good: it becomes a tombstone, and the machine can join again as a new node. Deleting a deleted node gives Deleted false,
// whatever version the call names. A call that comes while a delete of the node is under way attaches to it.
//
// The row of node_deletes is the truth. This process does what it asks for at once; the job does it if this process dies before.
//
// Codes besides the write path's: INVALID_STATE { provisionState, cordoned } or { openAllocations }, UNAVAILABLE when it could not be done in time.
func (c *Controls) Delete(ctx context.Context, e node.Edit) (Deleted, error) {
	if err := e.Check(); err != nil {
		return Deleted{}, err
	}
	request, err := iam.NewRequest(e.Who, e.RequestID, "node.delete", []any{e.TenantID, e.NodeID, e.Version, e.Reason})
	if err != nil {
		return Deleted{}, err
	}
	switch gone, err := c.Nodes.MayDelete(ctx, e.Who, e.TenantID, e.NodeID); {
	case err != nil:
		return Deleted{}, err
	case gone && e.RequestID == "":
		return c.deletedBefore(ctx)
	}
	for {
		answer, err := request.Once(ctx, c.Nodes.DB, func(ctx context.Context, tx *db.Tx) (iam.Answer, error) {
			deleteID, err := c.ask(ctx, tx, e)
			return iam.Answer{Made: []string{deleteID}}, err
		}, func(context.Context, *db.Tx, iam.Answer) error { return nil })
		if err != nil {
			return Deleted{}, err
		}
		if answer.Made[0] == "" {
			return Deleted{Cursor: answer.Cursor}, nil // deleted before, as a repeat of the request says too
		}
		out, mine, err := c.await(ctx, answer.Made[0], e)
		if mine || err == nil || fault.CodeOf(err) == fault.Internal || ctx.Err() != nil {
			return out, err
		}
		// What another asked for was refused; this call is judged by itself.
		_, err = c.Nodes.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error { return iam.FreeRequestTx(ctx, tx, e.Who.Name, e.RequestID) })
		if err != nil {
			return Deleted{}, err
		}
	}
}

// deletedBefore is the answer of a delete that finds the node deleted.
func (c *Controls) deletedBefore(ctx context.Context) (Deleted, error) {
	head, err := events.Head(ctx, c.Nodes.DB.Pool())
	return Deleted{Cursor: head}, err
}

// ask enters a delete, or attaches to the one that is under way; "" when the node is deleted.
func (c *Controls) ask(ctx context.Context, tx *db.Tx, e node.Edit) (string, error) {
	if err := tx.Locks(db.LockJoinToken); err != nil {
		return "", err
	}
	var deleteID string
	fresh := id.New(id.Delete)
	// What ran out is out of the way; the index lets one be open for a node.
	if _, err := tx.Exec(ctx, `
		update node_deletes set finished_at = clock_timestamp(), outcome = 'EXPIRED'
		where node_id = $1 and finished_at is null and expires_at < clock_timestamp()`, e.NodeID); err != nil {
		return "", fmt.Errorf("ask for the delete: %w", err)
	}
	err := tx.QueryRow(ctx, `
		insert into node_deletes (id, node_id, version, by, reason, request_id, expires_at)
		select $1, n.id, $3, $4, nullif($5, ''), nullif($6, ''), clock_timestamp() + make_interval(secs => $7)
		from nodes n where n.id = $2 and n.deleted_at is null
		on conflict (node_id) where finished_at is null do update set node_id = excluded.node_id
		returning id`, fresh, e.NodeID, e.Version, e.Who.Name, e.Reason, e.RequestID, deleteBound.Seconds()).Scan(&deleteID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask for the delete: %w", err)
	}
	if deleteID != fresh {
		return deleteID, nil
	}
	if err := placement.SendJob(tx, DeleteJob{DeleteID: fresh}, QueueDeletes); err != nil {
		return "", fmt.Errorf("ask for the delete: %w", err)
	}
	return fresh, nil
}

// lookEach is how often a delete that another process does is looked at.
const lookEach = 25 * time.Millisecond

// await does the delete, or waits for who does, and gives its answer. mine says that the call itself had asked for it.
func (c *Controls) await(ctx context.Context, deleteID string, e node.Edit) (out Deleted, mine bool, err error) {
	// The caller may leave meanwhile: what it asked for is done all the same, or refused in time.
	if err := c.RunDelete(context.WithoutCancel(ctx), deleteID); err != nil && fault.CodeOf(err) != fault.Unavailable {
		return Deleted{}, true, err
	}
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for {
		row, err := c.readDelete(ctx, deleteID)
		if err != nil {
			return Deleted{}, true, err
		}
		mine = row.by == e.Who.Name && row.requestID == e.RequestID
		if row.outcome != "" {
			out, err := row.answer()
			return out, mine, err
		}
		if row.late {
			return Deleted{}, true, errLateDelete()
		}
		select {
		case <-ctx.Done():
			return Deleted{}, true, ctx.Err()
		case <-tick.C:
		}
	}
}

func errLateDelete() error {
	return fault.New(fault.Unavailable, nil, "the node could not be deleted within %s, and will not be; try again", deleteBound)
}

// deleteRow is a row of node_deletes.
type deleteRow struct {
	nodeID    string
	version   *int
	by        string
	reason    string
	requestID string
	outcome   string
	refusal   []byte
	warning   string
	cursor    events.Cursor
	late      bool
}

const deleteColumns = `node_id, version, by, coalesce(reason, ''), coalesce(request_id, ''), coalesce(outcome, ''), refusal, coalesce(warning, ''),
	coalesce(epoch, 0), coalesce(position, 0), expires_at < clock_timestamp()`

func scanDelete(row pgx.Row) (deleteRow, error) {
	var r deleteRow
	err := row.Scan(&r.nodeID, &r.version, &r.by, &r.reason, &r.requestID, &r.outcome, &r.refusal, &r.warning, &r.cursor.Epoch, &r.cursor.Position, &r.late)
	if err != nil {
		return r, fmt.Errorf("read the delete: %w", err)
	}
	return r, nil
}

func (c *Controls) readDelete(ctx context.Context, deleteID string) (deleteRow, error) {
	return scanDelete(c.Nodes.DB.Pool().QueryRow(ctx, "select "+deleteColumns+" from node_deletes where id = $1", deleteID))
}

// refusal is a fault as it is stored.
type refusal struct {
	Code    fault.Code    `json:"code"`
	Message string        `json:"message"`
	Details fault.Details `json:"details,omitempty"`
}

func (r deleteRow) answer() (Deleted, error) {
	switch r.outcome {
	case "DELETED":
		out := Deleted{Deleted: true, Cursor: r.cursor}
		if r.warning != "" {
			out.Warnings = []string{r.warning}
		}
		return out, nil
	case "REFUSED":
		var f refusal
		if err := json.Unmarshal(r.refusal, &f); err != nil {
			return Deleted{}, fmt.Errorf("read the delete: %w", err)
		}
		return Deleted{}, fault.New(f.Code, f.Details, "%s", f.Message)
	case "EXPIRED":
		return Deleted{}, errLateDelete()
	}
	return Deleted{Cursor: r.cursor}, nil // GONE: deleted before
}

// RunDelete does what a row of node_deletes asks for, in one transaction with node.deleted and the row's outcome. A refusal is an outcome too. It is
// idempotent, and safe to call at any time by anyone: a row that is finished stays as it is.
func (c *Controls) RunDelete(ctx context.Context, deleteID string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteBound)
	defer cancel()
	_, err := c.Nodes.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		r, err := lockDelete(ctx, tx, deleteID)
		if err != nil || r.outcome != "" {
			return err
		}
		if r.late {
			return errExpired
		}
		var seen holding
		many := node.Many{
			IDs: []string{r.nodeID}, Who: iam.Actor{Name: r.by}, Reason: r.reason, RequestID: r.requestID,
			Read: func(b *pgx.Batch) { seen.queue(b, r.nodeID) },
		}
		changed, err := c.Nodes.ChangeManyTx(ctx, tx, many, deleteControl(r.version, &seen))
		if err != nil {
			return err
		}
		if len(changed) == 0 {
			finishDelete(tx, deleteID, "GONE", nil, "")
			return nil
		}
		warning := ""
		if n := changed[0]; n.Connectivity == node.Connected {
			warning = "the node held a session"
			if seen.lastSeen != nil {
				warning += " and was last seen at " + seen.lastSeen.UTC().Format(time.RFC3339)
			}
			warning += "; its daemon is told that the node is deleted, and what runs on the machine goes on"
		}
		finishDelete(tx, deleteID, "DELETED", nil, warning)
		return nil
	})
	if errors.Is(err, errExpired) {
		return c.endDelete(ctx, deleteID, "EXPIRED", nil)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code != fault.Unavailable && f.Code != fault.Internal {
		return c.refuseDelete(ctx, deleteID, f)
	}
	return err
}

func lockDelete(ctx context.Context, tx *db.Tx, deleteID string) (deleteRow, error) {
	if err := tx.Locks(db.LockJoinToken); err != nil {
		return deleteRow{}, err
	}
	return scanDelete(tx.QueryRow(ctx, "select "+deleteColumns+" from node_deletes where id = $1 for no key update", deleteID))
}

// finishDelete writes the outcome with the final batch; a delete's position is that of its event.
func finishDelete(tx *db.Tx, deleteID, outcome string, refused []byte, warning string) {
	tx.AtCommit(db.RankPosition, `
		update node_deletes set finished_at = clock_timestamp(), outcome = $2, refusal = $3, warning = nullif($4, ''),
		  (epoch, position) = (select epoch, position from event_clock)
		where id = $1 and finished_at is null`, deleteID, outcome, refused, warning)
}

// errExpired says that a delete came too late to be done.
var errExpired = errors.New("the delete is past its time")

func (c *Controls) refuseDelete(ctx context.Context, deleteID string, f *fault.Error) error {
	body, err := json.Marshal(refusal{Code: f.Code, Message: f.Message, Details: f.Details})
	if err != nil {
		return fmt.Errorf("refuse the delete: %w", err)
	}
	return c.endDelete(ctx, deleteID, "REFUSED", body)
}

// errFinished says that another wrote the delete's outcome meanwhile.
var errFinished = errors.New("the delete has its outcome")

// endDelete writes the outcome of a delete that did nothing. Its request id is free again: what was refused can be asked for anew. Where another did it
// meanwhile, the id stays tied to that.
func (c *Controls) endDelete(ctx context.Context, deleteID, outcome string, refused []byte) error {
	before, err := c.readDelete(ctx, deleteID)
	if err != nil {
		return err
	}
	_, err = c.Nodes.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := iam.FreeRequestTx(ctx, tx, before.by, before.requestID); err != nil {
			return err
		}
		r, err := lockDelete(ctx, tx, deleteID)
		if err != nil {
			return err
		}
		if r.outcome != "" {
			return errFinished
		}
		finishDelete(tx, deleteID, outcome, refused, "")
		return nil
	})
	if errors.Is(err, errFinished) {
		return nil
	}
	return err
}
