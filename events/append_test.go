package events_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/id"
)

// TestAppend: whatever the events of one transaction have in common, the log holds each with all that it was given, in the order of their adding.
func TestAppend(t *testing.T) {
	t.Parallel()
	own := func(i int, e *events.Entry) { e.Data = map[string]any{"n": i} }
	of := func(n int, change ...func(i int, e *events.Entry)) []events.Entry {
		all := make([]events.Entry, n)
		for i := range all {
			all[i] = entry("acme", "node_"+fmt.Sprint(i), "node.cordoned")
			for _, c := range change {
				c(i, &all[i])
			}
		}
		return all
	}
	kinds := func(k int) func(i int, e *events.Entry) {
		return func(i int, e *events.Entry) { e.Actor = fmt.Sprintf("actor-%d", i%k) }
	}
	for name, list := range map[string][]events.Entry{
		"one":                         of(1),
		"four":                        of(4, own),
		"five alike":                  of(5),
		"many alike":                  of(300),
		"many with data of their own": of(300, own),
		"two kinds in turn, as a drain that is over at once": of(300, own, func(i int, e *events.Entry) {
			if i%2 == 1 {
				e.Type, e.Actor, e.RequestID = "node.drained", "drain-controller", ""
			}
		}),
		"kinds that differ in each part": of(40, func(i int, e *events.Entry) {
			switch i % 8 {
			case 1:
				e.Type = "node.uncordoned"
			case 2:
				e.TenantID = "other"
			case 3:
				e.Actor = "sam"
			case 4:
				e.Reason = ""
			case 5:
				e.RequestID = "nop_1"
			case 6:
				e.Audience.Full = []string{"acme", "other"}
			case 7:
				e.Audience.Reduced = []string{"guest", "other"}
			}
		}),
		"data that one of a kind has for itself": of(20, func(i int, e *events.Entry) {
			if i == 13 {
				e.Data = map[string]any{"n": 13}
			}
		}),
		"as many kinds as are few": of(40, kinds(8)),
		"one kind more":            of(40, kinds(9), own),
		"all of their own kind":    of(40, kinds(40)),
		"about no node, seen by nobody, without a reason or data": of(9, func(_ int, e *events.Entry) {
			*e = events.Entry{Type: "security.token.created", TenantID: "acme", Actor: "alex"}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.New(t)
			write(t, d, entry("acme", "node_a", "node.cordoned"))
			c := write(t, d, list...)
			require.EqualValues(t, len(list)+1, c.Position)
			rows, err := d.Pool().Query(t.Context(), `
				select position, at, id, type, tenant_id, node_id, actor, reason, request_id, data, full_for, reduced_for from events where position > 1 order by position`)
			require.NoError(t, err)
			defer rows.Close()
			seen := map[string]bool{}
			for i, want := range list {
				require.True(t, rows.Next())
				var e events.Event
				var nodeID, reason, requestID *string
				require.NoError(t, rows.Scan(&e.Position, &e.At, &e.ID, &e.Type, &e.TenantID, &nodeID, &e.Actor, &reason, &requestID, &e.Data, &e.Audience.Full, &e.Audience.Reduced))
				require.EqualValues(t, i+2, e.Position)
				require.Equal(t, c.At, e.At.UTC())
				require.NoError(t, id.Check(id.Event, "id", e.ID))
				require.False(t, seen[e.ID])
				seen[e.ID] = true
				require.Equal(t, []string{want.Type, want.TenantID, want.Actor}, []string{e.Type, e.TenantID, e.Actor})
				for column, p := range map[string]struct {
					want string
					is   *string
				}{"node_id": {want.NodeID, nodeID}, "reason": {want.Reason, reason}, "request_id": {want.RequestID, requestID}} {
					if want := p.want; want == "" {
						require.Nil(t, p.is, column)
					} else {
						require.Equal(t, &want, p.is, column)
					}
				}
				data := []byte("{}")
				if want.Data != nil {
					data, err = json.Marshal(want.Data)
					require.NoError(t, err)
				}
				require.JSONEq(t, string(data), string(e.Data))
				require.Equal(t, len(want.Audience.Full), len(e.Audience.Full))
				require.Subset(t, e.Audience.Full, want.Audience.Full)
				require.Equal(t, len(want.Audience.Reduced), len(e.Audience.Reduced))
				require.Subset(t, e.Audience.Reduced, want.Audience.Reduced)
			}
			require.False(t, rows.Next())
			require.NoError(t, rows.Err())
		})
	}
}
