package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/node"
)

// CheckStatus is where a check of acceptance stands.
type CheckStatus string

// The states of a check.
const (
	CheckPending CheckStatus = "PENDING"
	CheckWaiting CheckStatus = "WAITING"
	CheckPassed  CheckStatus = "PASSED"
	CheckFailed  CheckStatus = "FAILED"
)

// Result is what a check says.
type Result struct {
	Name    string
	Status  CheckStatus
	Message string
	// Evidence are the facts that it looked at, as name=value.
	Evidence []string
}

// check is one thing that a node has to show before it takes work.
type check struct {
	name string
	// disturbs says that it would disturb what runs: it waits until the node holds nothing live.
	disturbs bool
	judge    func(s seen) (CheckStatus, string, []string)
}

// checks are those of this release. None of them disturbs: they look at what the daemon reports by itself.
var checks = []check{
	{name: "session", judge: func(s seen) (CheckStatus, string, []string) {
		if !s.live {
			return CheckPending, "its daemon holds no session", nil
		}
		return CheckPassed, "its daemon holds a session", []string{"session=" + s.sessionID, "gateway=" + s.gatewayID, "boot=" + s.bootID}
	}},
	{name: "inventory", judge: func(s seen) (CheckStatus, string, []string) {
		if !s.live || !s.inventoried {
			return CheckPending, "its inventory is awaited", nil
		}
		return CheckPassed, "its inventory of this session is in", nil
	}},
	{name: "clock", judge: func(s seen) (CheckStatus, string, []string) {
		evidence := []string{fmt.Sprintf("skewMs=%d", s.skew.Milliseconds())}
		switch {
		case !s.live:
			return CheckPending, "its daemon holds no session", nil
		case s.skew.Abs() > clockTolerance:
			return CheckPending, skewSentence(s.skew), evidence
		}
		return CheckPassed, "its clock is right", evidence
	}},
	{name: "devices", judge: func(s seen) (CheckStatus, string, []string) {
		switch {
		case !s.live || !s.inventoried:
			return CheckPending, "its inventory is awaited", nil
		case len(s.missing) > 0:
			return CheckFailed, "devices that are booked are not there: " + strings.Join(s.missing, ", ") + "; put them back and restart the machine, or release what holds them",
				[]string{"missing=" + strings.Join(s.missing, ",")}
		}
		return CheckPassed, "every device that is booked is there", []string{fmt.Sprintf("booked=%d", s.booked)}
	}},
}

// judge gives what each check says of what was seen. One that would disturb waits while the node holds live allocations.
func judge(list []check, s seen) []Result {
	out := make([]Result, len(list))
	for i, c := range list {
		r := Result{Name: c.name}
		if c.disturbs && s.held > 0 {
			r.Status = CheckWaiting
			r.Message = fmt.Sprintf("it would disturb %d live allocations, and waits until the node holds none", s.held)
		} else {
			r.Status, r.Message, r.Evidence = c.judge(s)
		}
		out[i] = r
	}
	return out
}

// saveChecks writes what the checks say. A result of the same run and boot keeps its times while it says the same.
func saveChecks(tx *db.Tx, nodeID, run, boot string, results []Result) {
	for _, r := range results {
		evidence := r.Evidence
		if evidence == nil {
			evidence = []string{}
		}
		tx.Send(`
			insert into node_checks as c (node_id, name, run_id, boot_id, status, message, evidence, started_at, ended_at)
			values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp(), case when $5 in ('PASSED', 'FAILED') then clock_timestamp() end)
			on conflict (node_id, name) do update set run_id = excluded.run_id, boot_id = excluded.boot_id, status = excluded.status,
			  message = excluded.message, evidence = excluded.evidence,
			  started_at = case when c.run_id = excluded.run_id and c.boot_id in ('', excluded.boot_id) then c.started_at else excluded.started_at end,
			  ended_at = case when c.run_id = excluded.run_id and c.boot_id = excluded.boot_id and c.status = excluded.status then c.ended_at else excluded.ended_at end
			where (c.run_id, c.boot_id, c.status, c.message, c.evidence)
			  is distinct from (excluded.run_id, excluded.boot_id, excluded.status, excluded.message, excluded.evidence)`,
			nodeID, r.Name, run, boot, string(r.Status), r.Message, evidence)
	}
}

// Check is a check as it is shown.
type Check struct {
	Result

	NodeID    string
	RunID     node.Text
	BootID    node.Text
	StartedAt time.Time
	EndedAt   *time.Time
}

// DurationMs gives how long it took; nil while it goes on.
func (c *Check) DurationMs() *int {
	if c.EndedAt == nil {
		return nil
	}
	ms := int(max(0, c.EndedAt.Sub(c.StartedAt)).Milliseconds())
	return &ms
}

// ChecksOf gives the checks of each node's present run, or of its last, by node id.
func ChecksOf(ctx context.Context, q db.Querier, nodeIDs []string) (map[string][]Check, error) {
	rows, err := q.Query(ctx, `
		select c.node_id, c.name, c.run_id, c.boot_id, c.status, c.message, c.evidence, c.started_at, c.ended_at
		from node_checks c join nodes n on n.id = c.node_id and c.run_id = coalesce(n.acceptance_run, '')
		where c.node_id = any($1) order by c.node_id, c.started_at, c.name`, nodeIDs)
	if err != nil {
		return nil, fmt.Errorf("read the checks: %w", err)
	}
	out := map[string][]Check{}
	var c Check
	_, err = pgx.ForEachRow(rows, []any{&c.NodeID, &c.Name, &c.RunID, &c.BootID, &c.Status, &c.Message, &c.Evidence, &c.StartedAt, &c.EndedAt}, func() error {
		out[c.NodeID] = append(out[c.NodeID], c)
		c = Check{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the checks: %w", err)
	}
	return out, nil
}

// BeginRunTx begins the checks of a run that was asked for: each waits for what is seen next. The node is locked.
func BeginRunTx(tx *db.Tx, nodeID, run string) {
	tx.Send(`delete from node_checks where node_id = $1`, nodeID)
	pending := make([]Result, len(checks))
	for i, c := range checks {
		pending[i] = Result{Name: c.name, Status: CheckPending, Message: "not looked at yet"}
	}
	saveChecks(tx, nodeID, run, "", pending)
}

// Accept looks whether the node's checks pass, by what its present session reported: for who asked for a run. run is that run; the results of another are
// ignored. It is idempotent.
func (s *Store) Accept(ctx context.Context, nodeID, run string) error {
	_, err := s.DB.Do(ctx, func(ctx context.Context, tx *db.Tx) error {
		locked, err := node.LockTx(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		n, ok := locked[nodeID]
		if !ok {
			return nil
		}
		seen, err := lookTx(ctx, tx, nodeID, newest)
		if err != nil {
			return err
		}
		seen.run = run
		return s.followTx(ctx, tx, n, seen)
	})
	return err
}

// Waiting gives nodes in ADOPTING that hold a session whose inventory is in, so that a look may be all that is missing, with their runs.
func (s *Store) Waiting(ctx context.Context) (map[string]string, error) {
	rows, err := s.DB.Pool().Query(ctx, `
		select n.id, coalesce(n.acceptance_run, '') from nodes n join node_sessions s on s.node_id = n.id join node_inventory i on i.node_id = n.id
		where n.provision_state = 'ADOPTING' and n.deleted_at is null and s.disconnected_at is null and i.session_number = s.number limit 500`)
	if err != nil {
		return nil, fmt.Errorf("find nodes that wait for acceptance: %w", err)
	}
	out := map[string]string{}
	var nodeID, run string
	_, err = pgx.ForEachRow(rows, []any{&nodeID, &run}, func() error {
		out[nodeID] = run
		return nil
	})
	return out, err
}
