package node

import (
	"context"
	"fmt"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
)

// A deleted node's row stays: audit rows, certificates, inventories and past allocations point to it. No projection holds it, so nobody sees it, but the
// tenant that owned it reads it by its id, among events, and in lists that ask for it.

// ofTombstone is the condition on nodes n that are deleted and were the tenant's.
const ofTombstone = "n.deleted_at is not null and n.owner_tenant_id = "

// tombstone gives a deleted node to the tenant that owned it; to everybody else what the look before said, by the same statements for what is another's
// and what never was.
func (s *Store) tombstone(ctx context.Context, who iam.Actor, action iam.Action, tenant, nodeID string, unseen error) (*View, error) {
	rights, err := s.Authority.Rights(ctx, s.DB.Pool(), who, action, tenant)
	if err != nil {
		return nil, unseen
	}
	views, err := s.collect(ctx, tenant, seeing{owned: "true"}, "nodes n join pools p on p.id = n.pool_id where n.id = $1 and "+ofTombstone+"$2", nodeID, tenant)
	if err != nil {
		return nil, err
	}
	if len(views) == 0 {
		return nil, unseen
	}
	views[0].Rights = rights
	return views[0], nil
}

// MayDelete decides whether who may delete the node, and says whether it is deleted already: the tenant that owned a deleted node may ask again.
func (s *Store) MayDelete(ctx context.Context, who iam.Actor, tenant, nodeID string) (gone bool, err error) {
	_, err = s.Authority.OnNode(ctx, s.DB.Pool(), who, iam.NodesDelete, tenant, nodeID)
	if fault.CodeOf(err) != fault.NotFound {
		return false, err
	}
	v, tombErr := s.tombstone(ctx, who, iam.NodesDelete, tenant, nodeID, err)
	return v != nil, tombErr
}

// MayReadPast says whether who may read what happened to a deleted node: for the tenant that owned it; to everybody else it is what the look before said.
func (s *Store) MayReadPast(ctx context.Context, who iam.Actor, tenant, nodeID string, unseen error) error {
	_, err := s.tombstone(ctx, who, iam.NodesEvents, tenant, nodeID, unseen)
	return err
}

// Past gives, by id, those of the nodes that the tenant sees now, and those that were its own and are deleted: for what tells of the past. Who asks may
// read nodes; that was decided.
func (s *Store) Past(ctx context.Context, tenant string, ids []string) (map[string]*View, error) {
	out, err := s.Views(ctx, tenant, ids)
	if err != nil || len(out) == len(ids) {
		return out, err
	}
	gone, err := s.collect(ctx, tenant, seeing{owned: "true"}, "nodes n join pools p on p.id = n.pool_id where n.id = any($1) and "+ofTombstone+"$2", ids, tenant)
	if err != nil {
		return nil, fmt.Errorf("read deleted nodes: %w", err)
	}
	for _, v := range gone {
		out[v.ID] = v
	}
	return out, nil
}
