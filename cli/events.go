package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// ofNodes are the events of nodes, of what is booked on them and of trust in them: the log has others, as of pools.
var ofNodes = []string{"node.", "reservation.", "security."}

func (a *app) nodesEvents() *cobra.Command {
	var (
		types                       []string
		actor, sinceText, untilText string
		after                       string
		follow, export              bool
		number, historyMax          int
	)
	cmd := &cobra.Command{
		Use:   "events [NODE]",
		Short: "List the events of a node, or of all nodes, newest first; --follow goes on with new ones",
		Long: "Lists events, newest first: all of one node, or without NODE those of the types node., reservation. and security. of all nodes; --type asks\n" +
			"for others. With --follow it prints new events as they happen, oldest first, and goes on until it is interrupted or has printed --count of them.\n" +
			"It survives restarts of the server: it comes back from the last event's cursor, and prints each event once.\n" +
			"To go on later where it ended, keep the cursor of the last event and give it with --after.\n\n" +
			"With --follow --count 1 it waits for an event, which is what a script wants that goes on when a node is drained. With --export it prints all\n" +
			"there is, of every type, oldest first, one JSON object a line, each page as it comes, and ends at the newest.",
		Example: "  better-compute nodes events node_01k5wjb4s8fpvb0q9f6m3h2c7d --tenant acme --type node.drained\n" +
			"  better-compute nodes events node_01k5wjb4s8fpvb0q9f6m3h2c7d --type node.drained --follow --count 1\n" +
			"  better-compute nodes events --follow --type security. -o ndjson\n" +
			"  better-compute nodes events --export --since 24h > log.ndjson",
		Args:              maybeNode,
		ValidArgsFunction: a.completeNodes,
		RunE: a.run(func(cmd *cobra.Command, args []string) error {
			nodeID := ""
			if len(args) == 1 {
				nodeID = args[0]
			}
			changed := cmd.Flags().Changed
			if slices.Contains(types, "") || (changed("type") && len(types) == 0) {
				return Usage("--type must not be empty")
			}
			if err := checkLimit(historyMax); err != nil {
				return err
			}
			if nodeID == "" && len(types) == 0 && !export {
				types = ofNodes
			}
			switch {
			case follow && (changed("since") || changed("until") || changed("limit") || changed("actor") || export):
				return Usage("--since, --until, --limit, --actor and --export go with the history, not with --follow; use --after to go on from an event")
			case !follow && changed("count"):
				return Usage("--count goes with --follow; use --limit for the history")
			case number < 0 || (changed("count") && number == 0):
				return Usage("--count must be 1 or more")
			case export && changed("limit"):
				return Usage("--export gives all there is; bound it by --since and --until")
			case export && a.flags.jq.code == nil && a.format(formatNDJSON) != formatNDJSON:
				return Usage("--export writes ndjson; leave -o away")
			}
			if follow {
				return a.followEvents(cmd.Context(), nodeID, types, after, number)
			}
			variables := map[string]any{}
			if nodeID != "" {
				variables["nodeId"] = nodeID
			}
			if len(types) > 0 {
				variables["types"] = types
			}
			if actor != "" {
				variables["actor"] = actor
			}
			past := history{variables: variables, since: sinceText, until: untilText, after: after, limit: historyMax, manyNodes: nodeID == ""}
			if export {
				return a.exportEvents(cmd.Context(), past)
			}
			return a.listEvents(cmd.Context(), past)
		}),
	}
	set := cmd.Flags()
	set.StringSliceVar(&types, "type", nil, "only events of this `type`, or of all that begin with it when it ends with a dot; can be given more than once")
	set.BoolVar(&follow, "follow", false, "print new events as they happen")
	set.StringVar(&after, "after", "", "with --follow: begin after this event's `cursor`, not now; without: go on from a page's endCursor")
	set.IntVar(&number, "count", 0, "with --follow: end after `N` events")
	set.StringVar(&actor, "actor", "", "history: only events by this `name`")
	set.StringVar(&sinceText, "since", "", "history: only events of the last `time`, like 2h, or since a moment, like 2026-11-29T14:00:00Z")
	set.StringVar(&untilText, "until", "", "history: only events before that moment, or older than that `time`")
	set.BoolVar(&export, "export", false, "print all the history as ndjson, oldest first")
	set.IntVar(&historyMax, "limit", 50, "history: how many at most; 0: all")
	return cmd
}

// history is which part of the log is asked for.
type history struct {
	variables    map[string]any
	since, until string
	after        string
	limit        int
	manyNodes    bool
}

// bound fills in the tenant and the moments; lengths of time are taken from the server's clock.
func (a *app) bound(ctx context.Context, h *history) (*client, error) {
	var ago [2]time.Duration
	for i, m := range []struct{ flag, text, name string }{{"--since", h.since, "since"}, {"--until", h.until, "until"}} {
		if m.text == "" {
			continue
		}
		at, length, err := momentOrSpan(m.flag, m.text)
		if err != nil {
			return nil, err
		}
		if ago[i] = length; length == 0 {
			h.variables[m.name] = at.UTC().Format(time.RFC3339Nano)
		}
	}
	c, tenant, err := a.asTenant(ctx)
	if err != nil {
		return nil, err
	}
	for i, name := range []string{"since", "until"} {
		if ago[i] > 0 {
			h.variables[name] = c.now().Add(-ago[i]).UTC().Format(time.RFC3339Nano)
		}
	}
	h.variables["tenantId"] = tenant
	return c, nil
}

// exportEvents prints the history page by page, so that its length costs no memory.
func (a *app) exportEvents(ctx context.Context, h history) error {
	c, err := a.bound(ctx, &h)
	if err != nil {
		return err
	}
	h.variables["order"], h.variables["first"] = "OLDEST_FIRST", exportPage
	for {
		if h.after != "" {
			h.variables["after"] = h.after
		}
		var answer struct {
			Events connection[event] `json:"events"`
		}
		if err := c.do(ctx, opEvents, h.variables, &answer); err != nil {
			return err
		}
		for i := range answer.Events.Nodes {
			if err := a.printLine(ctx, answer.Events.Nodes[i].raw); err != nil {
				return err
			}
		}
		page := answer.Events.PageInfo.v
		if !page.HasNextPage || page.EndCursor == nil || *page.EndCursor == h.after {
			return nil
		}
		h.after = *page.EndCursor
	}
}

// exportPage is how many events an export fetches at once.
const exportPage = 500

func (a *app) listEvents(ctx context.Context, h history) error {
	c, err := a.bound(ctx, &h)
	if err != nil {
		return err
	}
	all, err := pages[event](ctx, c, opEvents, h.variables, "events", h.after, h.limit)
	if err != nil {
		return err
	}
	manyNodes := h.manyNodes
	return a.printList(ctx, listing{
		key: "events", items: raws(all.Nodes), names: names(all.Nodes, func(e *event) string { return e.ID }),
		more: []member{{"pageInfo", all.PageInfo.raw}},
		none: "no events",
		rows: func(t *table, wide bool) {
			t.header(eventHead(manyNodes, wide)...)
			for i := range all.Nodes {
				t.row(eventRow(&all.Nodes[i].v, manyNodes, wide)...)
			}
		},
	})
}

func eventHead(manyNodes, wide bool) []string {
	head := []string{"AT", "TYPE"}
	if manyNodes {
		head = append(head, "NODE")
	}
	head = append(head, "ACTOR", "REASON")
	if wide {
		head = append(head, "DETAIL", "REQUEST", "ID", "CURSOR")
	}
	return head
}

func eventRow(e *event, manyNodes, wide bool) []string {
	row := []string{e.At.stamp(), e.Type}
	if manyNodes {
		row = append(row, orDash(e.NodeID))
	}
	row = append(row, e.Actor, orDash(e.Reason))
	if wide {
		row = append(row, orDash(e.detail()), orDash(e.RequestID), e.ID, e.Cursor)
	}
	return row
}

// followEvents prints events as they come. Without after it begins at the log's head, taken before it subscribes: a connection that breaks before
// the first event loses nothing either.
func (a *app) followEvents(ctx context.Context, nodeID string, types []string, after string, number int) error {
	c, tenant, err := a.asTenant(ctx)
	if err != nil {
		return err
	}
	known := false
	if after == "" {
		var answer struct {
			Log struct {
				Head string `json:"head"`
			} `json:"log"`
		}
		if err := c.do(ctx, opLog, map[string]any{"tenantId": tenant}, &answer); err != nil {
			return err
		}
		after, known = answer.Log.Head, true
	}
	f := &follower{
		c: c, tenant: tenant, nodeID: nodeID, types: types, after: after,
		returning: returning{
			known: known,
			lost:  func(err error) { a.say("# connection lost (%v); coming back", err) },
			back:  func() { a.say("# reconnected, no events missed") },
		},
	}
	absent := formatNDJSON
	if a.env.StdoutTTY {
		absent = formatTable
	}
	show := a.eventPrinter(a.format(absent), nodeID == "")
	return f.run(ctx, func(e doc[event]) error {
		if err := show(ctx, &e); err != nil {
			return err
		}
		if number--; number == 0 {
			return errEnough
		}
		return nil
	})
}

// eventPrinter prints one event at a time. Columns can't be aligned to what is yet to come, so their widths fit what is usual.
func (a *app) eventPrinter(format string, manyNodes bool) func(context.Context, *doc[event]) error {
	headed := false
	return func(ctx context.Context, e *doc[event]) error {
		switch format {
		case formatTable, formatWide:
			if !headed {
				headed = true
				if err := writeColumns(a.env.Stdout, manyNodes, eventHead(manyNodes, format == formatWide)); err != nil {
					return err
				}
			}
			return writeColumns(a.env.Stdout, manyNodes, eventRow(&e.v, manyNodes, format == formatWide))
		case formatName:
			return a.printNames(e.v.ID)
		case formatYAML:
			if _, err := io.WriteString(a.env.Stdout, "---\n"); err != nil {
				return fmt.Errorf("write the event: %w", err)
			}
			return a.printDocument(ctx, e.raw)
		}
		return a.printLine(ctx, e.raw)
	}
}

func writeColumns(w io.Writer, manyNodes bool, cells []string) error {
	widths := []int{20, 24, 31, 24}
	if manyNodes {
		widths = []int{20, 24, 31, 31, 24}
	}
	var b strings.Builder
	for i, cell := range cells {
		if cell = clean(cell); i < len(cells)-1 && i < len(widths) {
			cell = fmt.Sprintf("%-*s", widths[i], cell)
		}
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(cell)
	}
	if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
		return fmt.Errorf("write the event: %w", err)
	}
	return nil
}

// momentOrSpan reads an RFC 3339 moment, or a length of time like 90m or 7d.
func momentOrSpan(flag, text string) (time.Time, time.Duration, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, 0, nil
	}
	length, err := parseSpan(text)
	if err != nil {
		return time.Time{}, 0, Usage("%s %q must be a length of time like 2h or 7d, or a moment like 2026-11-29T14:00:00Z", flag, text)
	}
	return time.Time{}, length, nil
}
