package controls

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/placement"
)

// ReasonDeleted stands on the certificates that a delete revokes.
const ReasonDeleted = "node-deleted"

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
func deleteControl(seen *holding) node.Control {
	return node.Control{
		Name: "delete", Action: iam.NodesDelete, Axes: node.AxisDeleted | node.AxisDrain | node.AxisIdentity, Blind: node.PartLabels, Read: seen.queue,
		Decide: func(n *node.Node, a node.Act) (*node.Fact, error) {
			if n.DeletedAt != nil {
				return nil, nil //nolint:nilnil // nothing to do
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
		Follow: func(_ context.Context, tx *db.Tx, nodes []*node.Node) error {
			if err := tx.Locks(db.LockLiveness); err != nil {
				return err
			}
			for _, n := range nodes {
				liveness.EndNodeTx(tx, n.ID)
			}
			if err := tx.Locks(db.LockNodePart); err != nil {
				return err
			}
			for _, n := range nodes {
				placement.RetireNodeTx(tx, n.ID)
				pki.EndNodeTx(tx, n.ID, n.ChangedBy, ReasonDeleted)
				iam.ForgetNodeTx(tx, n.ID)
			}
			return nil
		},
	}
}

// Delete removes a node for good, in one transaction: it becomes a tombstone, and the machine can join again as a new node. Deleting a deleted node gives
// Deleted false, whatever version the call names.
//
// Codes besides the write path's: INVALID_STATE { provisionState, cordoned } or { openAllocations }.
func (c *Controls) Delete(ctx context.Context, e node.Edit) (Deleted, error) {
	var seen holding
	e.Unshown = node.AllParts
	done, err := c.Nodes.Change(ctx, e, deleteControl(&seen))
	if fault.CodeOf(err) == fault.NotFound {
		return c.deletedBefore(ctx, e, err)
	}
	if err != nil {
		return Deleted{}, err
	}
	out := Deleted{Deleted: done.Changed, Cursor: done.Cursor}
	if done.Changed && done.Node.Connectivity == node.Connected {
		out.Warnings = []string{seen.warning()}
	}
	return out, nil
}

// warning is about a node that is deleted while its daemon is there.
func (h *holding) warning() string {
	w := "the node held a session"
	if h.lastSeen != nil {
		w += " and was last seen at " + h.lastSeen.UTC().Format(time.RFC3339)
	}
	return w + "; its daemon is told that the node is deleted, and what runs on the machine goes on"
}

// deletedBefore is the answer of a delete that finds no node, to the tenant that owned it: under the request id of what deleted it, that one's.
func (c *Controls) deletedBefore(ctx context.Context, e node.Edit, unseen error) (Deleted, error) {
	switch gone, err := c.Nodes.MayDelete(ctx, e.Who, e.TenantID, e.NodeID); {
	case err != nil:
		return Deleted{}, err
	case !gone:
		return Deleted{}, unseen // it came into sight meanwhile
	}
	request, err := e.Request("delete")
	if err != nil {
		return Deleted{}, err
	}
	did, err := request.Once(ctx, c.Nodes.DB,
		func(context.Context, *db.Tx) (iam.Answer, error) { return iam.Answer{}, nil },
		func(context.Context, *db.Tx, iam.Answer) error { return nil })
	return Deleted{Deleted: did.Changed, Cursor: did.Cursor}, err
}
