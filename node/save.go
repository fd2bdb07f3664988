package node

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/better-compute/better-compute/db"
)

// change is one node before and after a decision, and on which axes the two differ.
type change struct {
	before, after *Node
	moved         Axes
}

// row is the node's own columns as the update takes them.
type row struct {
	ID                 string     `json:"id"`
	Hostname           string     `json:"hostname"`
	Version            int        `json:"version"`
	ProvisionState     string     `json:"provision_state"`
	FailurePhase       *string    `json:"failure_phase"`
	FailureMessage     *string    `json:"failure_message"`
	FailureAt          *time.Time `json:"failure_at"`
	Cordoned           bool       `json:"cordoned"`
	CordonReason       *string    `json:"cordon_reason"`
	CordonBy           *string    `json:"cordon_by"`
	CordonAt           *time.Time `json:"cordon_at"`
	Maintenance        bool       `json:"maintenance"`
	Connectivity       string     `json:"connectivity"`
	ConnectivitySince  *time.Time `json:"connectivity_since"`
	IdentityGeneration int        `json:"identity_generation"`
	Credential         string     `json:"credential"`
	CredentialSince    time.Time  `json:"credential_since"`
	ChangedBy          string     `json:"changed_by"`
	ChangedAt          time.Time  `json:"changed_at"`
	DeletedAt          *time.Time `json:"deleted_at"`
	CordonUntil        *time.Time `json:"cordon_until"`
	AcceptanceRun      string     `json:"acceptance_run"`
	AdoptedAt          *time.Time `json:"adopted_at"`
}

// updateNode is for the common case: it needs no document that PostgreSQL has to take apart.
const updateNode = `
update nodes set hostname = $2, version = $3, provision_state = $4, failure_phase = $5, failure_message = $6, failure_at = $7, cordoned = $8,
  cordon_reason = $9, cordon_by = $10, cordon_at = $11, maintenance = $12, connectivity = $13, connectivity_since = $14, identity_generation = $15,
  credential = $16, credential_since = $17, changed_by = $18, changed_at = $19, deleted_at = $20, cordon_until = $21,
  acceptance_run = nullif($22, ''), adopted_at = $23
where id = $1`

const updateNodes = `
update nodes n set hostname = x.hostname, version = x.version, provision_state = x.provision_state, failure_phase = x.failure_phase,
  failure_message = x.failure_message, failure_at = x.failure_at, cordoned = x.cordoned, cordon_reason = x.cordon_reason, cordon_by = x.cordon_by,
  cordon_at = x.cordon_at, maintenance = x.maintenance, connectivity = x.connectivity, connectivity_since = x.connectivity_since,
  identity_generation = x.identity_generation, credential = x.credential, credential_since = x.credential_since, changed_by = x.changed_by,
  changed_at = x.changed_at, deleted_at = x.deleted_at, cordon_until = x.cordon_until,
  acceptance_run = nullif(x.acceptance_run, ''), adopted_at = x.adopted_at
from json_to_recordset($1::json) as x(id text, hostname text, version bigint, provision_state text, failure_phase text, failure_message text,
  failure_at timestamptz, cordoned boolean, cordon_reason text, cordon_by text, cordon_at timestamptz, maintenance boolean, connectivity text,
  connectivity_since timestamptz, identity_generation bigint, credential text, credential_since timestamptz, changed_by text,
  changed_at timestamptz, deleted_at timestamptz, cordon_until timestamptz,
  acceptance_run text, adopted_at timestamptz)
where n.id = x.id`

// save writes what changed, set by set. The statements go out with the transaction's next one, which for most is the final batch.
func save(tx *db.Tx, changes []change) error {
	if err := sendRows(tx, changes); err != nil {
		return err
	}
	sendReasons(tx, changes)
	sendLabels(tx, changes)
	sendDrains(tx, changes)
	return nil
}

func rowOf(n *Node) row {
	r := row{
		ID: n.ID, Hostname: n.Hostname, Version: n.Version, ProvisionState: string(n.ProvisionState), Cordoned: n.Cordoned(),
		Maintenance: n.Maintenance, Connectivity: string(n.Connectivity), ConnectivitySince: n.ConnectivitySince,
		IdentityGeneration: n.IdentityGeneration, Credential: string(n.Credential), CredentialSince: n.CredentialSince,
		ChangedBy: n.ChangedBy, ChangedAt: n.ChangedAt, DeletedAt: n.DeletedAt, AcceptanceRun: n.AcceptanceRun, AdoptedAt: n.AdoptedAt,
	}
	if f := n.Failure; f != nil {
		r.FailurePhase, r.FailureMessage, r.FailureAt = &f.Phase, &f.Message, &f.At
	}
	if c := n.Cordon; c != nil {
		r.CordonBy, r.CordonAt, r.CordonUntil = &c.By, &c.At, c.Until
		if c.Reason != "" {
			reason := string(c.Reason)
			r.CordonReason = &reason
		}
	}
	return r
}

func sendRows(tx *db.Tx, changes []change) error {
	if len(changes) == 1 {
		r := rowOf(changes[0].after)
		tx.Send(updateNode, r.ID, r.Hostname, r.Version, r.ProvisionState, r.FailurePhase, r.FailureMessage, r.FailureAt, r.Cordoned, r.CordonReason,
			r.CordonBy, r.CordonAt, r.Maintenance, r.Connectivity, r.ConnectivitySince, r.IdentityGeneration, r.Credential, r.CredentialSince,
			r.ChangedBy, r.ChangedAt, r.DeletedAt, r.CordonUntil, r.AcceptanceRun, r.AdoptedAt)
		return nil
	}
	if sendAlike(tx, changes) {
		return nil
	}
	rows := make([]row, len(changes))
	for i, c := range changes {
		rows[i] = rowOf(c.after)
	}
	body, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("save the node: %w", err)
	}
	tx.Send(updateNodes, string(body))
	return nil
}

// elsewhere are the axes that leave the node's own row alone but for its version, or move no more of it than its cordon.
const elsewhere = AxisCordon | AxisDrain | AxisTaints | AxisConditions | AxisUnreachable | AxisOperatorLabels

// sendAlike writes the rows of nodes that become alike but for their versions, each of which is the next, as those do that one act moves: by their ids and
// one set of values, at a third of what a document costs. It says whether they are so.
func sendAlike(tx *db.Tx, changes []change) bool {
	first := changes[0].after
	ids := make([]string, len(changes))
	cordons, alike := false, true
	for i, c := range changes {
		if !elsewhere.Has(c.moved) || c.moved&versioned == 0 {
			return false
		}
		ids[i] = c.after.ID
		cordons, alike = cordons || c.moved&AxisCordon != 0, alike && reflect.DeepEqual(c.after.Cordon, first.Cordon)
	}
	if cordons && !alike {
		return false
	}
	if !cordons {
		tx.Send(`update nodes set version = version + 1, changed_by = $2, changed_at = $3 where id = any($1)`, ids, first.ChangedBy, first.ChangedAt)
		return true
	}
	r := rowOf(first)
	tx.Send(`
		update nodes set version = version + 1, changed_by = $2, changed_at = $3,
		  cordoned = $4, cordon_reason = $5, cordon_by = $6, cordon_at = $7, cordon_until = $8
		where id = any($1)`, ids, r.ChangedBy, r.ChangedAt, r.Cordoned, r.CordonReason, r.CordonBy, r.CordonAt, r.CordonUntil)
	return true
}

// sendReasons writes only the difference, so that a reason that another controller owns is never rewritten.
func sendReasons(tx *db.Tx, changes []change) {
	var goneNodes, gone, nodes, names, owners, bys, messages []string
	var sinces []time.Time
	for _, c := range changes {
		for _, r := range c.before.Reasons {
			if !slices.ContainsFunc(c.after.Reasons, func(o Reason) bool { return o.Name == r.Name }) {
				goneNodes, gone = append(goneNodes, c.after.ID), append(gone, r.Name)
			}
		}
		for _, r := range c.after.Reasons {
			if !slices.Contains(c.before.Reasons, r) {
				nodes, names, owners = append(nodes, c.after.ID), append(names, r.Name), append(owners, r.Owner)
				bys, messages, sinces = append(bys, string(r.By)), append(messages, string(r.Message)), append(sinces, r.Since)
			}
		}
	}
	switch len(gone) {
	case 0:
	case 1: // without arrays PostgreSQL plans it once, which is most of the cost
		tx.Send(`delete from node_reasons where node_id = $1 and reason = $2`, goneNodes[0], gone[0])
	default:
		tx.Send(`delete from node_reasons r using unnest($1::text[], $2::text[]) as x(node_id, reason)
			where r.node_id = x.node_id and r.reason = x.reason`, goneNodes, gone)
	}
	if len(names) > 0 {
		tx.Send(`insert into node_reasons (node_id, reason, owner, by, message, since)
			select node_id, reason, owner, nullif(by, ''), nullif(message, ''), since
			from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[]) as x(node_id, reason, owner, by, message, since)
			on conflict (node_id, reason) do update set owner = excluded.owner, by = excluded.by, message = excluded.message, since = excluded.since`,
			nodes, names, owners, bys, messages, sinces)
	}
}

func sendLabels(tx *db.Tx, changes []change) {
	var goneNodes, gone, nodes, keys, values, sources []string
	for _, c := range changes {
		for _, l := range c.before.Labels {
			if !slices.ContainsFunc(c.after.Labels, func(o Label) bool { return o.Key == l.Key }) {
				goneNodes, gone = append(goneNodes, c.after.ID), append(gone, l.Key)
			}
		}
		for _, l := range c.after.Labels {
			if !slices.Contains(c.before.Labels, l) {
				nodes, keys = append(nodes, c.after.ID), append(keys, l.Key)
				values, sources = append(values, l.Value), append(sources, string(l.Source))
			}
		}
	}
	if len(gone) > 0 {
		tx.Send(`delete from node_labels l using unnest($1::text[], $2::text[]) as x(node_id, key)
			where l.node_id = x.node_id and l.key = x.key`, goneNodes, gone)
	}
	if len(keys) > 0 {
		tx.Send(`insert into node_labels (node_id, key, value, source)
			select * from unnest($1::text[], $2::text[], $3::text[], $4::text[])
			on conflict (node_id, key) do update set value = excluded.value, source = excluded.source`, nodes, keys, values, sources)
	}
}

const insertDrains = `
	insert into node_drains (id, node_id, state, reason, by, started_at, deadline, ended_at, ended_by, cause, confirmed_by_node)
	select id, node_id, state, nullif(reason, ''), by, started_at, deadline, ended_at, nullif(ended_by, ''), nullif(cause, ''), confirmed
	from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::timestamptz[], $9::text[], $10::text[],
	  $11::boolean[]) as x(id, node_id, state, reason, by, started_at, deadline, ended_at, ended_by, cause, confirmed)`

const updateDrains = `
	update node_drains d set state = x.state, ended_at = x.ended_at, ended_by = nullif(x.ended_by, ''), cause = nullif(x.cause, ''), confirmed_by_node = x.confirmed
	from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::boolean[]) as x(id, state, ended_at, ended_by, cause, confirmed)
	where d.id = x.id`

// sendDrains writes the drains that began or ended: one by itself, and many by sets.
func sendDrains(tx *db.Tx, changes []change) {
	var began, ended []*Drain
	for _, c := range changes {
		d := c.after.LastDrain
		switch {
		case d == nil || Moved(&Node{LastDrain: c.before.LastDrain}, &Node{LastDrain: d}) == 0:
		case c.before.LastDrain == nil || c.before.LastDrain.ID != d.ID:
			began = append(began, d)
		default:
			ended = append(ended, d)
		}
	}
	switch len(began) {
	case 0:
	case 1:
		d := began[0]
		tx.Send(`
			insert into node_drains (id, node_id, state, reason, by, started_at, deadline, ended_at, ended_by, cause, confirmed_by_node)
			values ($1, $2, $3, nullif($4, ''), $5, $6, $7, $8, nullif($9, ''), nullif($10, ''), $11)`,
			d.ID, d.NodeID, d.State, d.Reason, d.By, d.StartedAt, d.Deadline, d.EndedAt, d.EndedBy, d.Cause, d.ConfirmedByNode)
	default:
		tx.Send(insertDrains, of(began, func(d *Drain) string { return d.ID }), of(began, func(d *Drain) string { return d.NodeID }),
			of(began, func(d *Drain) string { return string(d.State) }), of(began, func(d *Drain) string { return string(d.Reason) }),
			of(began, func(d *Drain) string { return d.By }), of(began, func(d *Drain) time.Time { return d.StartedAt }),
			of(began, func(d *Drain) *time.Time { return d.Deadline }), of(began, func(d *Drain) *time.Time { return d.EndedAt }),
			of(began, func(d *Drain) string { return string(d.EndedBy) }), of(began, func(d *Drain) string { return string(d.Cause) }),
			of(began, func(d *Drain) *bool { return d.ConfirmedByNode }))
	}
	switch len(ended) {
	case 0:
	case 1:
		d := ended[0]
		tx.Send(`update node_drains set state = $2, ended_at = $3, ended_by = nullif($4, ''), cause = nullif($5, ''), confirmed_by_node = $6 where id = $1`,
			d.ID, d.State, d.EndedAt, d.EndedBy, d.Cause, d.ConfirmedByNode)
	default:
		tx.Send(updateDrains, of(ended, func(d *Drain) string { return d.ID }), of(ended, func(d *Drain) string { return string(d.State) }),
			of(ended, func(d *Drain) *time.Time { return d.EndedAt }), of(ended, func(d *Drain) string { return string(d.EndedBy) }),
			of(ended, func(d *Drain) string { return string(d.Cause) }), of(ended, func(d *Drain) *bool { return d.ConfirmedByNode }))
	}
}

// of gives a column of drains.
func of[T any](drains []*Drain, column func(*Drain) T) []T {
	c := make([]T, len(drains))
	for i, d := range drains {
		c[i] = column(d)
	}
	return c
}
