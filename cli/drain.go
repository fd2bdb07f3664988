package cli

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
)

func (a *app) nodesDrain() *cobra.Command {
	var (
		e        edit
		m        several
		most     int
		wait     bool
		timeout  time.Duration
		deadline string
	)
	cmd := &cobra.Command{
		Use:   "drain NODE… | - | --filter FILTER",
		Short: "Cordon a node and wait until it holds nothing; nothing is evicted",
		Long: "Cordons a node and has the control plane wait until it holds no live allocation. Nothing is evicted, and the node stays cordoned until it is\n" +
			"uncordoned. Draining a node that is already draining changes nothing.\n\n" +
			"With --wait the command stays until this drain has ended: 0 when the node is drained, 7 when the drain was cancelled, 8 after --timeout.\n" +
			"It survives restarts of the server. Ctrl-C ends the command, not the drain.\n\n" + severalHelp +
			"\nWith --max-per-pool another drain begins only while fewer than that run in the node's pool, whoever began them.",
		Example: "  better-compute nodes drain node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme --reason 'replace PSU'\n" +
			"  better-compute nodes drain node_01k5wjb4s8fpvb0q9f6m3h2c7d --wait --timeout 1h\n" +
			"  better-compute nodes drain --filter label=rack=b7 --expect-count 16 --max-per-pool 2",
		Args:              m.args,
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			input, err := e.input(cmd)
			if err != nil {
				return err
			}
			if timeout < 0 || (cmd.Flags().Changed("timeout") && timeout == 0) {
				return Usage("--timeout must be a length of time like 1h")
			}
			if timeout > 0 && !wait {
				return Usage("--timeout goes with --wait")
			}
			if deadline != "" {
				if input["deadline"], err = parseMoment("--deadline", deadline); err != nil {
					return err
				}
			}
			ctx := cmd.Context()
			if cmd.Flags().Changed("max-per-pool") {
				if most < 1 {
					return Usage("--max-per-pool must be 1 or more")
				}
				input["maxPerPool"] = most
			}
			if m.many(args) {
				return a.many(cmd, &m, opNodesDrain, args, input, "wait", "timeout")
			}
			if cmd.Flags().Changed("max-per-pool") {
				return Usage("--max-per-pool goes with several nodes")
			}
			input["nodeId"] = args[0]
			c, p, err := a.control(ctx, opNodeDrain, "nodeDrain", input)
			if err != nil {
				return err
			}
			d := p.Node.v.Drain
			if d == nil {
				d = p.Node.v.LastDrain
			}
			if d == nil {
				return &Error{Code: string(fault.Internal), Message: "the server's answer names no drain"}
			}
			a.moved(p, "draining", "already draining since "+d.StartedAt.stamp()+" by "+d.By+why(d.Reason))
			if !wait {
				return a.printNode(ctx, c, &p.Node, "")
			}
			w := &drainWait{a: a, c: c, tenant: a.resolved.tenant, nodeID: args[0], drainID: d.ID, cursor: p.Cursor}
			if err := w.run(ctx, timeout); err != nil {
				return err
			}
			if a.format("") == "" {
				return nil
			}
			n, err := c.node(ctx, a.resolved.tenant, args[0])
			if err != nil {
				return err
			}
			return a.printNode(ctx, c, n, "")
		}),
	}
	e.register(cmd)
	cmd.Flags().StringVar(&deadline, "deadline", "", "by when you want it to be over, a `moment` like 2026-11-30T06:00:00Z; past it the drain is overdue and goes on")
	m.register(cmd)
	cmd.Flags().IntVar(&most, "max-per-pool", 0, "with several nodes: at most `N` drains at a time in a pool")
	cmd.Flags().BoolVar(&wait, "wait", false, "stay until this drain has ended")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: give up after this `time`, like 1h; the drain goes on")
	return cmd
}

// drainWait watches one drain until it has ended. Its end comes from the log, read from the mutation's own cursor on, so none can be missed; the
// drain is also looked at from time to time, for the progress and in case its node is no longer visible.
type drainWait struct {
	a       *app
	c       *client
	tenant  string
	nodeID  string
	drainID string
	cursor  string

	shown string // the progress that stands there now
	lines int    // and how many lines of the terminal it takes
}

// lookEvery is how often the drain is looked at besides the events.
const lookEvery = 15 * time.Second

// goesOn ends every sentence after which the drain is still there.
const goesOn = "the drain goes on"

// run gives nil once the node is drained.
func (w *drainWait) run(ctx context.Context, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout,
			&Error{Code: codeTimedOut, Message: w.nodeID + " is not drained after " + timeout.String() + "; " + goesOn})
		defer cancel()
	}
	defer w.clear()
	err := w.watch(ctx)
	if err == nil {
		return nil
	}
	switch e := asError(err); e.Code {
	case codeInterrupted:
		return &Error{Code: codeInterrupted, Message: "no longer waiting; " + goesOn, Hint: "wait again with the same command", cause: err}
	case codeTimedOut, codeCancelled:
		return err
	default:
		e.Hint = strings.TrimPrefix(e.hint()+"; "+goesOn, "; ")
		return e
	}
}

// step is what the follower hands to the one goroutine that writes: an event, or a word about the connection.
type step struct {
	event *event
	note  string
	look  bool
}

// watch runs the follower beside the looks.
func (w *drainWait) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steps, gone := make(chan step), make(chan error, 1)
	hand := func(s step) error {
		select {
		case steps <- s:
			return nil
		case <-ctx.Done():
			return ended(ctx)
		}
	}
	f := &follower{
		c: w.c, tenant: w.tenant, nodeID: w.nodeID, after: w.cursor,
		types: []string{"node.drained", "node.uncordoned", "node.deleted", "reservation.", "allocation."},
		returning: returning{
			known: true,
			lost:  func(error) { _ = hand(step{note: "connection lost, coming back; " + goesOn}) },
			back:  func() { _ = hand(step{note: "reconnected, no events missed", look: true}) },
		},
	}
	go func() {
		gone <- f.run(ctx, func(e doc[event]) error {
			return hand(step{event: &e.v, look: !strings.HasPrefix(e.v.Type, "node.")})
		})
	}()
	// The follower is gone before watch returns, so that nothing outlives the command.
	finish := func(err error) error {
		cancel()
		<-gone
		return err
	}

	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for look := true; ; {
		if look {
			if done, err := w.look(ctx); done || refused(err) {
				return finish(err)
			}
		}
		select {
		case s := <-steps:
			if s.note != "" {
				w.note(s.note)
			}
			if s.event != nil {
				if done, err := w.judge(s.event); done {
					return finish(err)
				}
			}
			look = s.look
		case <-ticks.C:
			look = true
		case err := <-gone:
			return err
		}
	}
}

// refused says whether a look failed in a way that looking again does not mend. Whether the server is there at all, the follower finds out.
func refused(err error) bool {
	if err == nil || passing(err) {
		return false
	}
	switch asError(err).Exit() {
	case ExitUnauthenticated, ExitForbidden, ExitNotFound, ExitUsage:
		return true
	default:
		return false
	}
}

// judge says whether an event is the end of this very drain.
func (w *drainWait) judge(e *event) (done bool, err error) {
	switch {
	case e.Type == "node.drained" && e.DrainID == w.drainID:
		w.arrived(e.ConfirmedByNode)
		return true, nil
	case e.Type == "node.uncordoned" && e.CancelledDrainID == w.drainID:
		return true, w.cancelledBecause("uncordoned by " + e.Actor + why(e.Reason))
	case e.Type == "node.deleted":
		return true, w.cancelledBecause("the node was deleted by " + e.Actor + why(e.Reason))
	}
	return false, nil
}

// look reads the drain as it is now, and shows how far it is. A drain that is neither the running nor the newest one has ended; the log says how.
func (w *drainWait) look(ctx context.Context) (done bool, err error) {
	var answer struct {
		Node *struct {
			Drain     *drain `json:"drain"`
			LastDrain *drain `json:"lastDrain"`
		} `json:"node"`
	}
	bounded, cancel := context.WithTimeoutCause(ctx, dialTimeout, unavailable(nil, "%s does not answer", w.c.endpoint))
	defer cancel()
	if err := w.c.do(bounded, opNodeDrains, map[string]any{"tenantId": w.tenant, "nodeId": w.nodeID}, &answer); err != nil {
		return false, err
	}
	if answer.Node == nil {
		return true, &Error{Code: string(fault.NotFound), Message: w.nodeID + " is no longer visible to " + w.tenant}
	}
	for _, d := range []*drain{answer.Node.Drain, answer.Node.LastDrain} {
		if d == nil || d.ID != w.drainID {
			continue
		}
		switch d.State {
		case drained:
			w.arrived(d.ConfirmedByNode)
			return true, nil
		case cancelled:
			return true, w.cancelledBecause(first(d.Cause, "ended by "+orDash(d.EndedBy)))
		}
		w.progress(d)
		break
	}
	return false, nil
}

func (w *drainWait) cancelledBecause(cause string) error {
	return &Error{Code: codeCancelled, Message: "the drain was cancelled: " + cause, Details: fault.Details{"drainId": w.drainID, "cause": cause}}
}

func (w *drainWait) arrived(confirmed *bool) {
	w.clear()
	says := "the node itself has not confirmed that nothing runs"
	if confirmed != nil && *confirmed {
		says = "the node confirms that nothing runs"
	}
	w.a.say("%s drained; %s; it stays cordoned", w.nodeID, says)
}

// progress shows how far the drain is: on a terminal as a block that is drawn again, else as a line per change.
func (w *drainWait) progress(d *drain) {
	now := w.c.now()
	lines := []string{w.nodeID + " " + d.sentence(now)}
	for _, b := range d.Blockers {
		lines = append(lines, "  "+b.sentence(now))
	}
	if !w.redraws() {
		// The time that is left changes always; what counts as a change is which allocations are waited for and when they end.
		state := fmt.Sprint(d.Blockers)
		if state != w.shown {
			w.shown = state
			w.a.say("%s", strings.Join(append(lines[:1:1], compact(lines[1:])...), "; "))
		}
		return
	}
	w.clear()
	for _, line := range append(lines, "Ctrl-C stops watching; "+goesOn+".") {
		w.a.say("%s", line)
		w.lines += w.a.rows(clean(line))
	}
}

// rows says how many rows of the terminal a line takes: a long one is wrapped there, never cut off here.
func (a *app) rows(line string) int {
	columns := 0
	if a.env.Width != nil {
		columns = a.env.Width()
	}
	if columns < 1 {
		columns = 80
	}
	return max(1, (utf8.RuneCountInString(line)+columns-1)/columns)
}

func compact(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = strings.TrimSpace(line)
	}
	return out
}

// note says something about the connection without leaving a torn block behind.
func (w *drainWait) note(text string) {
	if w.redraws() {
		return // the block is drawn again as soon as the server is back
	}
	w.a.say("# %s", text)
}

func (w *drainWait) redraws() bool { return w.a.env.StderrTTY && w.a.env.get("TERM") != "dumb" }

// clear takes the block off the terminal.
func (w *drainWait) clear() {
	if w.lines > 0 {
		_, _ = fmt.Fprintf(w.a.env.Stderr, "\x1b[%dA\x1b[J", w.lines)
		w.lines = 0
	}
}

// sentence says where a drain stands.
func (d *drain) sentence(now time.Time) string {
	switch d.State {
	case drained:
		return "drained since " + d.EndedAt.stamp() + why(d.Reason)
	case cancelled:
		return "cancelled since " + d.EndedAt.stamp() + why(d.Cause)
	case draining:
		switch {
		case len(d.Blockers) == 0:
			return "draining: holds nothing any more"
		case d.ExpectedAt == "":
			return fmt.Sprintf("draining: waits for %s, no end known", liveAllocations(len(d.Blockers)))
		}
		return fmt.Sprintf("draining: waits for %s, expected end %s", liveAllocations(len(d.Blockers)), d.ExpectedAt.until(now))
	}
	return words(d.State)
}

func liveAllocations(n int) string {
	if n == 1 {
		return "1 live allocation"
	}
	return fmt.Sprintf("%d live allocations", n)
}

// sentence says whose allocation it is, as far as the caller may know, and when it ends.
func (b *allocation) sentence(now time.Time) string {
	whose := "another tenant's"
	if b.ReservationID != "" {
		whose = b.ReservationID + " " + b.TenantID
	}
	if len(b.Devices) > 0 {
		whose += "  " + b.what()
	}
	begins := ""
	switch {
	case b.Future && b.StartsAt == "":
		begins = "begins later, "
	case b.Future:
		begins = "begins " + b.StartsAt.stamp() + ", "
	}
	if b.EndsAt == "" {
		return whose + "  " + begins + "no end: release it to finish"
	}
	return whose + "  " + begins + "ends " + b.EndsAt.until(now)
}
