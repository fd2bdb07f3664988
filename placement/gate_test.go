package placement_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/placement"
)

// What the gate keeps out is refused with its sentences and the node's state, devices or not, and changes nothing.
func TestGateRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]struct {
		sql, says string
		cordoned  bool
	}{
		"cordoned": {
			`update nodes set cordoned = true, cordon_by = 'alex', cordon_at = now() - interval '14 minutes', cordon_reason = 'BIOS update window' where id = $1`,
			"takes no new work: cordoned by alex 14 min ago: BIOS update window", true,
		},
		"draining": {
			`insert into node_reasons (node_id, reason, owner, since) values ($1, 'draining', 'drain-controller', now())`, "takes no new work: draining", false,
		},
		"unreachable": {
			`insert into node_reasons (node_id, reason, owner, since) values ($1, 'unreachable', 'liveness', now())`, "takes no new work: unreachable", false,
		},
		"dedicated to another": {
			`insert into node_reasons (node_id, reason, owner, since) values ($1, 'taint:dedicated=other', 'operator', now())`, "takes no new work: only for other", false,
		},
		"dedicated to the tenant, and tainted": {
			`insert into node_reasons (node_id, reason, owner, since) values ($1, 'taint:dedicated=acme', 'operator', now()), ($1, 'taint:rma', 'operator', now())`,
			"takes no new work: taint:rma", false,
		},
		"in maintenance":  {`update nodes set maintenance = true where id = $1`, "in maintenance: it needs an operator", false},
		"adopting":        {`update nodes set provision_state = 'ADOPTING' where id = $1`, "takes no new work: adopting: its daemon has not connected yet", false},
		"I6 quarantined":  {`update nodes set credential = 'QUARANTINED' where id = $1`, "its certificate is quarantined: two machines used it", false},
		"I6 revoked":      {`update nodes set credential = 'REVOKED' where id = $1`, "its credential is revoked; it must join again", false},
		"not joined well": {`update nodes set credential = 'NONE' where id = $1`, "holds no credential yet", false},
	} {
		n := b.machine(1)
		b.exec(c.sql, n)
		for _, devices := range [][]string{nil, {"GPU-0"}} {
			_, err := b.hold(placement.Booking{NodeID: n, Devices: devices, Duration: time.Hour})
			require.Equal(t, fault.InvalidState, fault.CodeOf(err), name)
			require.ErrorContains(t, err, c.says, name)
			require.Equal(t, c.cordoned, fault.From(err).Details["cordoned"], name)
			require.Contains(t, fault.From(err).Details, "provisionState", name)
		}
	}
	var made int
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) from reservations`).Scan(&made))
	require.Zero(t, made)
	// A dedication to the tenant alone lets it in.
	n := b.machine(1)
	b.exec(`insert into node_reasons (node_id, reason, owner, since) values ($1, 'taint:dedicated=acme', 'operator', now())`, n)
	_, err := b.hold(placement.Booking{NodeID: n, Devices: []string{"GPU-0"}})
	require.NoError(t, err)
}
