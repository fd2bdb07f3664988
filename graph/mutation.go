package graph

import (
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/placement"
)

type mutations struct{ *API }

// NodeCordon cordons.
func (m mutations) NodeCordon(ctx context.Context, in NodeCordonInput) (*NodePayload, error) {
	verb := func(ctx context.Context, e node.Edit) (node.Changed, error) {
		return m.Controls.Cordon(ctx, e, controls.Cordoning{Until: in.Until, Update: in.UpdateReason})
	}
	return m.control(ctx, verb, node.Edit{
		TenantID: in.TenantID, NodeID: in.NodeID, Version: in.Version, Reason: text(in.Reason), RequestID: text(in.RequestID),
	})
}

// NodeUncordon uncordons.
func (m mutations) NodeUncordon(ctx context.Context, in NodeUncordonInput) (*NodePayload, error) {
	if in.IfCordonedBy != nil && *in.IfCordonedBy == "" {
		return nil, fault.Invalid("ifCordonedBy", "must be the name of somebody", 0)
	}
	verb := func(ctx context.Context, e node.Edit) (node.Changed, error) {
		return m.Controls.Uncordon(ctx, e, controls.Uncordoning{IfBy: text(in.IfCordonedBy)})
	}
	return m.control(ctx, verb, node.Edit{
		TenantID: in.TenantID, NodeID: in.NodeID, Version: in.Version, Reason: text(in.Reason), RequestID: text(in.RequestID),
	})
}

// NodeDrain drains.
func (m mutations) NodeDrain(ctx context.Context, in NodeDrainInput) (*NodePayload, error) {
	verb := func(ctx context.Context, e node.Edit) (node.Changed, error) {
		return m.Controls.Drain(ctx, e, controls.Draining{Deadline: in.Deadline})
	}
	return m.control(ctx, verb, node.Edit{
		TenantID: in.TenantID, NodeID: in.NodeID, Version: in.Version, Reason: text(in.Reason), RequestID: text(in.RequestID),
	})
}

// NodeTaint adds and removes taints.
func (m mutations) NodeTaint(ctx context.Context, in NodeTaintInput) (*NodePayload, error) {
	verb := func(ctx context.Context, e node.Edit) (node.Changed, error) {
		return m.Controls.Taint(ctx, e, controls.Taints{Add: in.Add, Remove: in.Remove})
	}
	return m.control(ctx, verb, node.Edit{
		TenantID: in.TenantID, NodeID: in.NodeID, Version: in.Version, Reason: text(in.Reason), RequestID: text(in.RequestID),
	})
}

// NodeLabel sets and removes labels.
func (m mutations) NodeLabel(ctx context.Context, in NodeLabelInput) (*NodePayload, error) {
	set, err := labelsOf("set", in.Set)
	if err != nil {
		return nil, err
	}
	verb := func(ctx context.Context, e node.Edit) (node.Changed, error) {
		return m.Controls.Label(ctx, e, controls.Labels{Set: set, Remove: in.Remove})
	}
	return m.control(ctx, verb, node.Edit{
		TenantID: in.TenantID, NodeID: in.NodeID, Version: in.Version, Reason: text(in.Reason), RequestID: text(in.RequestID),
	})
}

// NodeAdopt runs acceptance again, and looks at what was reported already once the answer is composed.
func (m mutations) NodeAdopt(ctx context.Context, in NodeAdoptInput) (*NodePayload, error) {
	payload, err := m.control(ctx, m.Controls.Adopt, node.Edit{
		TenantID: in.TenantID, NodeID: in.NodeID, Version: in.Version, Reason: text(in.Reason), RequestID: text(in.RequestID),
	})
	if err == nil && payload.Changed {
		run := payload.Node.AcceptanceRun
		m.Later(ctx, "look at acceptance", func(ctx context.Context) error { return m.Controls.LookAtAcceptance(ctx, in.NodeID, run) })
	}
	return payload, err
}

// NodeDelete deletes.
func (m mutations) NodeDelete(ctx context.Context, in NodeDeleteInput) (*NodeDeletePayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	done, err := m.Controls.Delete(ctx, node.Edit{
		Who: who, TenantID: in.TenantID, NodeID: in.NodeID, Version: in.Version, Reason: text(in.Reason), RequestID: text(in.RequestID),
	})
	if err != nil {
		return nil, err
	}
	return &NodeDeletePayload{NodeID: in.NodeID, Deleted: done.Deleted, Cursor: done.Cursor.String(), Warnings: done.Warnings}, nil
}

func (m mutations) control(ctx context.Context, verb func(context.Context, node.Edit) (node.Changed, error), e node.Edit) (*NodePayload, error) {
	var err error
	if e.Who, err = actor(ctx); err != nil {
		return nil, err
	}
	if !selected(ctx, "NodePayload", "node") {
		e.Unshown = node.AllParts
	}
	done, err := verb(ctx, e)
	if err != nil {
		return nil, err
	}
	return &NodePayload{
		Node:    m.oneNode(e.Who, &node.View{Node: done.Node, Seer: e.TenantID, Full: true, Rights: done.Rights}),
		Changed: done.Changed, Cursor: done.Cursor.String(), Warnings: done.Warnings,
	}, nil
}

// selected says whether the answer shows a field of what it gives.
func selected(ctx context.Context, kind, name string) bool {
	for _, f := range graphql.CollectFieldsCtx(ctx, []string{kind}) {
		if f.Name == name {
			return true
		}
	}
	return false
}

// ReservationCreate books.
func (m mutations) ReservationCreate(ctx context.Context, in ReservationCreateInput) (*ReservationPayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	b := placement.Booking{
		Who: who, TenantID: in.TenantID, NodeID: in.NodeID, Devices: in.Devices, StartsAt: in.StartsAt, EndsAt: in.EndsAt, Reason: text(in.Reason), RequestID: text(in.RequestID),
	}
	if s := in.DurationSeconds; s != nil {
		if *s < 1 || *s > placement.MaxSeconds {
			return nil, fault.Invalid("durationSeconds", "must be between 1 and 315360000", 0)
		}
		b.Duration = time.Duration(*s) * time.Second
	}
	out, err := m.Bookings.Create(ctx, b)
	return m.booked(out, err)
}

// ReservationRelease releases.
func (m mutations) ReservationRelease(ctx context.Context, in ReservationReleaseInput) (*ReservationPayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	out, err := m.Controls.Release(ctx, placement.Release{
		Who: who, TenantID: in.TenantID, ReservationID: in.ReservationID, Reason: text(in.Reason), RequestID: text(in.RequestID),
	})
	return m.booked(out, err)
}

func (m mutations) booked(out placement.Outcome, err error) (*ReservationPayload, error) {
	if err != nil {
		return nil, err
	}
	return &ReservationPayload{
		Reservation: m.reservations([]placement.Reservation{out.Reservation})[0], Changed: out.Changed, Cursor: out.Cursor.String(),
	}, nil
}

// JoinTokenCreate makes a join token.
func (m mutations) JoinTokenCreate(ctx context.Context, in JoinTokenCreateInput) (*JoinTokenCreatePayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	if in.TTLSeconds < 1 || in.TTLSeconds > int(pki.MaxTokenTTL.Seconds()) {
		return nil, fault.Invalid("ttlSeconds", "must be between 1 and 604800", 0)
	}
	labels, err := labelsOf("labels", in.Labels)
	if err != nil {
		return nil, err
	}
	made, err := m.PKI.JoinTokenCreate(ctx, who, pki.JoinTokenCreateInput{
		TenantID: in.TenantID, PoolID: in.PoolID, TTL: time.Duration(in.TTLSeconds) * time.Second, Labels: labels, RequestID: text(in.RequestID),
	})
	if err != nil {
		return nil, err
	}
	return m.madeToken(made), nil
}

// JoinTokenRevoke makes a join token worthless.
func (m mutations) JoinTokenRevoke(ctx context.Context, in JoinTokenRevokeInput) (*JoinTokenPayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	done, err := m.PKI.JoinTokenRevoke(ctx, who, pki.JoinTokenRevokeInput{
		TenantID: in.TenantID, JoinTokenID: in.JoinTokenID, RequestID: text(in.RequestID),
	})
	if err != nil {
		return nil, err
	}
	return &JoinTokenPayload{JoinToken: m.joinTokens(in.TenantID, done.Token)[0], Changed: done.Changed, Cursor: done.Cursor.String()}, nil
}

// TenantCreate makes a tenant.
func (m mutations) TenantCreate(ctx context.Context, in TenantCreateInput) (*TenantPayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	done, err := m.Authority.TenantCreate(ctx, who, iam.TenantCreateInput{TenantID: in.TenantID, RequestID: text(in.RequestID)})
	if err != nil {
		return nil, err
	}
	return &TenantPayload{Tenant: &done.Tenant, Changed: done.Changed, Cursor: done.Cursor.String()}, nil
}

// PoolCreate makes a pool.
func (m mutations) PoolCreate(ctx context.Context, in PoolCreateInput) (*PoolPayload, error) {
	who, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	done, err := m.Nodes.PoolCreate(ctx, who, node.PoolCreateInput{TenantID: in.TenantID, Name: in.Name, RequestID: text(in.RequestID)})
	if err != nil {
		return nil, err
	}
	return &PoolPayload{Pool: &done.Pool, Changed: done.Changed, Cursor: done.Cursor.String()}, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
