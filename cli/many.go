package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// maxNamed is how many nodes one call can name.
const maxNamed = 5000

// severalHelp is what every command that takes several nodes says of it.
const severalHelp = `Several nodes are given by their ids, by - to read ids from standard input, or by --filter with terms between commas: cordoned, draining,
maintenance (or =false), pool=P, connectivity=C, provision-state=S, text=T, hostname=H, label=KEY or label=KEY=VALUE, taint=KEY, reason=R. All have to
hold; of one that is repeated, any of its values, but cordoned, draining, maintenance, pool and text stand once. "all" is every node. --expect-count
says how many you expect: with another number nothing is done.
They are changed as one operation that goes on whether you look or not; each node has a result, and 11 is the exit when some were refused.`

// several is how a command takes more than one node.
type several struct {
	filter string
	expect int
	detach bool
}

func (m *several) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.filter, "filter", "", "the nodes that this `filter` lets through, frozen now; it needs --expect-count")
	cmd.Flags().IntVar(&m.expect, "expect-count", 0, "with --filter: how many nodes there must be, `N`")
	cmd.Flags().BoolVar(&m.detach, "detach", false, "with several nodes: begin, and don't wait for the results")
}

// many says that the command line is about several nodes, or about whatever standard input holds.
func (m *several) many(args []string) bool { return m.filter != "" || len(args) != 1 || args[0] == "-" }

// args takes the ids of nodes, a dash, or none beside --filter. Whatever does not look like one is refused before a call is made.
func (m *several) args(cmd *cobra.Command, args []string) error {
	filtered, expects := cmd.Flags().Changed("filter"), cmd.Flags().Changed("expect-count")
	switch {
	case filtered && len(args) > 0:
		return Usage("%s takes ids or --filter, not both", cmd.CommandPath())
	case filtered && !expects:
		return Usage("--filter needs --expect-count: say how many nodes you expect; nodes list shows them")
	case filtered && m.expect < 0:
		return Usage("--expect-count must not be negative")
	case expects && !filtered:
		return Usage("--expect-count goes with --filter")
	case filtered:
		_, _, err := parseFilter(m.filter)
		return err
	case len(args) == 0:
		return Usage("%s takes the ids of nodes, - to read them from standard input, or --filter", cmd.CommandPath())
	case len(args) == 1 && args[0] == "-":
		return nil
	}
	for i, arg := range args {
		if arg == "-" {
			return Usage("- stands alone: the ids come from standard input")
		}
		if err := checkID(id.Node, "node", arg); err != nil {
			return err
		}
		if slices.Contains(args[:i], arg) {
			return Usage("%s stands there twice", arg)
		}
	}
	if m.detach && len(args) == 1 {
		return Usage("--detach goes with several nodes")
	}
	return nil
}

// parseFilter reads a filter; the pool is left to be looked up by its name.
func parseFilter(text string) (filter map[string]any, poolName string, err error) {
	filter = map[string]any{}
	add := func(key string, value any) {
		list, _ := filter[key].([]any)
		filter[key] = append(list, value)
	}
	lists := map[string]string{
		"connectivity": "connectivity", "provision-state": "provisionStates", "hostname": "hostnames", "taint": "taints", "reason": "reasons",
	}
	closed := map[string][]string{"connectivity": connectivities, "provision-state": provisionStates}
	once := map[string]bool{}
	for term := range strings.SplitSeq(text, ",") {
		key, value, valued := strings.Cut(strings.TrimSpace(term), "=")
		switch key {
		case "cordoned", "draining", "maintenance", "pool", "text":
			// The API takes one value of each; whichever was taken, other nodes than those that were meant would match.
			if once[key] {
				return nil, "", Usage("--filter: %s stands there twice, and takes one value", key)
			}
			once[key] = true
		}
		switch {
		case key == "all" && !valued:
		case key == "cordoned" || key == "draining" || key == "maintenance":
			if valued && value != "true" && value != "false" {
				return nil, "", Usage("--filter: %s is true or false, not %q", key, value)
			}
			filter[key] = value != "false"
		case value == "":
			return nil, "", Usage("--filter: %q is no term; see better-compute nodes cordon --help", term)
		case key == "pool":
			poolName = value
		case key == "text":
			filter["text"] = value
		case key == "label":
			addLabel(filter, value)
		case lists[key] != "":
			if allowed := closed[key]; allowed != nil {
				word := choice{allowed: allowed}
				if err := word.Set(value); err != nil {
					return nil, "", Usage("--filter: %s %v, not %q", key, err, value)
				}
				value = word.values[0]
			}
			add(lists[key], value)
		default:
			return nil, "", Usage("--filter: %q is no term; see better-compute nodes cordon --help", term)
		}
	}
	if poolName != "" {
		if err := checkPool(poolName); err != nil {
			return nil, "", err
		}
	}
	return filter, poolName, nil
}

// addLabel adds a condition on a label: that it is there, or one more of the values that it may have.
func addLabel(filter map[string]any, text string) {
	name, wanted, exact := strings.Cut(text, "=")
	list, _ := filter["labels"].([]any)
	for _, m := range list {
		m, _ := m.(map[string]any)
		if values, valued := m["values"].([]any); exact && valued && m["key"] == name {
			m["values"] = append(values, wanted)
			return
		}
	}
	match := map[string]any{"key": name}
	if exact {
		match["values"] = []any{wanted}
	}
	filter["labels"] = append(list, match)
}

// readIDs reads the ids of nodes, one a word. One that is there twice is one.
func readIDs(r io.Reader) ([]string, error) {
	if r == nil {
		return nil, nil
	}
	var ids []string
	seen := map[string]bool{}
	words := bufio.NewScanner(r)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		word := words.Text()
		if err := checkID(id.Node, "node", word); err != nil {
			return nil, err
		}
		if seen[word] {
			continue
		}
		if seen[word] = true; len(seen) > maxNamed {
			return nil, Usage("standard input holds more than %d ids; use --filter, or several calls", maxNamed)
		}
		ids = append(ids, word)
	}
	if err := words.Err(); err != nil {
		return nil, Usage("standard input can't be read as ids: %v", err)
	}
	return ids, nil
}

// operationState is what decisions and tables read of a NodesOperation.
type operationState struct {
	ID        string        `json:"id"`
	Control   string        `json:"control"`
	State     string        `json:"state"`
	By        string        `json:"by"`
	Reason    string        `json:"reason"`
	Count     int           `json:"count"`
	Done      int           `json:"done"`
	Unchanged int           `json:"unchanged"`
	Refused   int           `json:"refused"`
	Left      int           `json:"left"`
	Waiting   string        `json:"waiting"`
	CreatedAt moment        `json:"createdAt"`
	EndedAt   moment        `json:"endedAt"`
	EndedBy   string        `json:"endedBy"`
	Cursor    string        `json:"cursor"`
	Results   []doc[result] `json:"newResults"`
}

// result is what became of one node.
type result struct {
	NodeID string `json:"nodeId"`
	Node   *struct {
		Hostname string `json:"hostname"`
	} `json:"node"`
	Outcome string `json:"outcome"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (r *result) row() []string {
	hostname := ""
	if r.Node != nil {
		hostname = r.Node.Hostname
	}
	return []string{r.NodeID, orDash(hostname), words(r.Outcome), strings.TrimPrefix(r.Code+why(r.Message), ": ")}
}

type operationPayload struct {
	Operation doc[operationState] `json:"operation"`
	Changed   bool                `json:"changed"`
	Warnings  []string            `json:"warnings"`
}

// many does a control to several nodes, and shows what becomes of each. unfit are flags of the command that are for one node.
func (a *app) many(cmd *cobra.Command, m *several, op operation, args []string, input map[string]any, unfit ...string) error {
	for _, flag := range append(unfit, "if-version") {
		if cmd.Flags().Changed(flag) {
			return Usage("--%s goes with one node", flag)
		}
	}
	if len(args) == 1 {
		var err error
		if args, err = readIDs(a.env.Stdin); err != nil {
			return err
		}
		if len(args) == 0 {
			a.say("no ids on standard input: nothing to do")
			if format := a.format(formatTable); format != formatJSON && format != formatYAML {
				return nil
			}
			// Whoever reads a document gets one, also where there is nothing in it.
			return a.printList(cmd.Context(), listing{key: "results", more: []member{{"operation", nil}}})
		}
	}
	if len(args) > maxNamed {
		return Usage("%s takes at most %d ids; use --filter", cmd.CommandPath(), maxNamed)
	}
	ctx := cmd.Context()
	c, tenant, err := a.asTenant(ctx)
	if err != nil {
		return err
	}
	input["tenantId"] = tenant
	if m.filter == "" {
		input["nodeIds"] = args
	} else if input["selectionId"], err = m.freeze(ctx, c, tenant); err != nil {
		return err
	}
	var answer map[string]*operationPayload
	if err := c.do(ctx, op, map[string]any{"input": input}, &answer); err != nil {
		if e := asError(err); e.unsure {
			e.Hint = strings.TrimPrefix(e.hint()+"; it may have begun all the same: see better-compute operations list", "; ")
			return e
		}
		return err
	}
	var p *operationPayload
	for _, p = range answer { // the operation has one field
	}
	if p == nil {
		return &Error{Code: string(fault.Internal), Message: "the server's answer is empty"}
	}
	for _, w := range p.Warnings {
		a.say("warning: %s", w)
	}
	o := &p.Operation.v
	a.say("%s: %s %s", o.ID, words(o.Control), nodesOf(o.Count))
	if m.detach {
		a.say("watch it with better-compute operations watch %s", o.ID)
		return a.printOne(ctx, p.Operation.raw, o.ID, "", func(w io.Writer, _ bool) error { return describeOperation(w, o) })
	}
	return a.watchOperation(ctx, c, tenant, o.ID)
}

// freeze selects what the filter lets through, if it is as many as are expected.
func (m *several) freeze(ctx context.Context, c *client, tenant string) (string, error) {
	filter, poolName, err := parseFilter(m.filter)
	if err != nil {
		return "", err
	}
	if poolName != "" {
		if filter["poolId"], err = c.pool(ctx, tenant, poolName); err != nil {
			return "", err
		}
	}
	var answer struct {
		NodeSelectionCreate struct {
			Selection struct {
				ID string `json:"id"`
			} `json:"selection"`
		} `json:"nodeSelectionCreate"`
	}
	input := map[string]any{"tenantId": tenant, "filter": filter, "expectCount": m.expect, "requestId": requestID()}
	if err := c.do(ctx, opSelectionCreate, map[string]any{"input": input}, &answer); err != nil {
		e := asError(err)
		if n, ok := e.Details["actual"]; ok && e.Code == string(fault.Conflict) {
			e.Hint = fmt.Sprintf("look at them with better-compute nodes list, then repeat with --expect-count %v", n)
		}
		return "", e
	}
	return answer.NodeSelectionCreate.Selection.ID, nil
}

// operationWatch shows an operation until it has ended.
type operationWatch struct {
	a      *app
	c      *client
	tenant string
	id     string
	cursor string // after which results are still to come; empty before the first
	format string
	last   operationState
	list   []doc[result]
	lines  int // of the progress that stands on the terminal
	waited string
}

// stillGoesOn ends every sentence after which the operation is still there.
const stillGoesOn = "the operation goes on"

// watchOperation gives nil once every node is as it was to be; an error with exit 11 when some were refused.
func (a *app) watchOperation(ctx context.Context, c *client, tenant, operationID string) error {
	w := &operationWatch{a: a, c: c, tenant: tenant, id: operationID, format: a.format(formatTable)}
	err := w.follow(ctx)
	w.clear()
	if err != nil {
		e := asError(err)
		switch e.Code {
		case codeInterrupted:
			return &Error{
				Code: codeInterrupted, Message: "no longer watching; " + stillGoesOn, cause: err,
				Hint: "watch it again with better-compute operations watch " + w.id + ", or end it with better-compute operations stop " + w.id,
			}
		case string(fault.NotFound):
			return e
		}
		e.Hint = strings.TrimPrefix(e.hint()+"; "+stillGoesOn+": better-compute operations watch "+w.id, "; ")
		return e
	}
	if err := w.print(ctx); err != nil {
		return err
	}
	return w.verdict()
}

// follow takes the results as they come, over as many connections as it takes, each once.
func (w *operationWatch) follow(ctx context.Context) error {
	r := returning{
		known: true,
		lost:  func(error) { w.note("connection lost, coming back; " + stillGoesOn) },
		back:  func() { w.note("reconnected, no results missed") },
	}
	return r.again(ctx, func(live func()) error {
		variables := map[string]any{"tenantId": w.tenant, "operationId": w.id}
		if w.cursor != "" {
			variables["after"] = w.cursor
		}
		return w.c.subscribe(ctx, opFollowOperation, variables, live, func(data json.RawMessage) error { return w.take(ctx, data) })
	})
}

func (w *operationWatch) take(ctx context.Context, data json.RawMessage) error {
	var a struct {
		NodesOperation operationState `json:"nodesOperation"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return &Error{Code: string(fault.Internal), Message: "the operation can't be read: " + err.Error(), cause: err}
	}
	w.last, w.cursor = a.NodesOperation, a.NodesOperation.Cursor
	for _, r := range w.last.Results {
		w.list = append(w.list, r)
		if w.format == formatNDJSON {
			if err := w.a.printLine(ctx, r.raw); err != nil {
				return err
			}
		} else if w.asTheyCome() {
			cells := r.v.row()
			for i := range cells {
				cells[i] = clean(cells[i])
			}
			if _, err := fmt.Fprintln(w.a.env.Stdout, strings.TrimRight(strings.Join(cells, "\t"), "\t")); err != nil {
				return fmt.Errorf("write the result: %w", err)
			}
		}
	}
	if w.last.State != "RUNNING" && len(w.list) >= w.last.Done+w.last.Unchanged+w.last.Refused {
		return errEnough
	}
	w.progress()
	return nil
}

// asTheyCome says that results go into a pipe as lines, where nobody waits for aligned columns.
func (w *operationWatch) asTheyCome() bool { return w.format == formatTable && !w.a.env.StdoutTTY }

func (w *operationWatch) redraws() bool { return w.a.env.StderrTTY && w.a.env.get("TERM") != "dumb" }

// progress shows how far the operation is: on a terminal as a block that is drawn again, else a line when it has to wait.
func (w *operationWatch) progress() {
	o := &w.last
	if !w.redraws() {
		if o.Waiting != "" && o.Waiting != w.waited {
			w.a.say("# %s", o.Waiting)
		}
		w.waited = o.Waiting
		return
	}
	w.clear()
	lines := []string{fmt.Sprintf("%s: %s", w.id, o.counts())}
	if o.Waiting != "" {
		lines = append(lines, o.Waiting)
	}
	for _, line := range append(lines, "Ctrl-C stops watching; "+stillGoesOn+".") {
		w.a.say("%s", line)
		w.lines += w.a.rows(clean(line))
	}
}

func (w *operationWatch) clear() {
	if w.lines > 0 {
		_, _ = fmt.Fprintf(w.a.env.Stderr, "\x1b[%dA\x1b[J", w.lines)
		w.lines = 0
	}
}

func (w *operationWatch) note(text string) {
	if !w.redraws() {
		w.a.say("# %s", text)
	}
}

func (o *operationState) counts() string {
	return fmt.Sprintf("%d of %d done, %d unchanged, %d refused, %d left", o.Done, o.Count, o.Unchanged, o.Refused, o.Left)
}

// print shows the results that were not shown as they came.
func (w *operationWatch) print(ctx context.Context) error {
	if w.format == formatNDJSON || w.asTheyCome() || w.format == formatTable && len(w.list) == 0 {
		return nil
	}
	l := listing{
		key: "results", items: raws(w.list), none: "no nodes",
		rows: func(t *table, _ bool) {
			t.header("NODE", "HOSTNAME", "RESULT", "WHY")
			for i := range w.list {
				t.row(w.list[i].v.row()...)
			}
		},
	}
	for _, r := range w.list {
		if r.v.Outcome != "REFUSED" {
			l.names = append(l.names, r.v.NodeID)
		}
	}
	if w.format == formatJSON || w.format == formatYAML {
		o, err := w.c.operation(ctx, w.tenant, w.id)
		if err != nil {
			return err
		}
		l.more = []member{{"operation", o.raw}}
	}
	return w.a.printList(ctx, l)
}

func nodesOf(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func wereNodes(n int) string {
	if n == 1 {
		return "1 node was"
	}
	return nodesOf(n) + " were"
}

// verdict is the exit: 7 when somebody stopped it, 11 when some were refused.
func (w *operationWatch) verdict() error {
	o := &w.last
	w.a.say("%s", o.counts())
	details := fault.Details{"operationId": w.id, "done": o.Done, "unchanged": o.Unchanged, "refused": o.Refused, "left": o.Left}
	switch {
	case o.State == "STOPPED":
		return &Error{Code: codeCancelled, Message: fmt.Sprintf("stopped by %s; %s left alone", o.EndedBy, wereNodes(o.Left)), Details: details}
	case o.Refused > 0:
		return &Error{Code: codePartly, Message: fmt.Sprintf("%d of %s refused", o.Refused, wereNodes(o.Count)), Details: details}
	}
	return nil
}
