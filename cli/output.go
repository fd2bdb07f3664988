package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// The formats of -o.
const (
	formatTable  = "table"
	formatWide   = "wide"
	formatJSON   = "json"
	formatNDJSON = "ndjson"
	formatYAML   = "yaml"
	formatName   = "name"
)

var formats = []string{formatTable, formatWide, formatJSON, formatNDJSON, formatYAML, formatName}

const outputHelp = `-o chooses what a command prints on stdout. Nothing but data ever goes there: notes, progress and errors go to stderr.

  table   aligned columns for people; the default of lists
  wide    the same with more columns: reason, who, version, labels
  json    one document; keys are the names of the GraphQL schema, an empty list is []
  ndjson  one object a line; the default of nodes events --follow where no terminal is
  yaml    the same document as YAML
  name    ids only, one a line

A list is {"nodes": […], "pageInfo": {…}} under its noun's name; a single thing is the thing itself. Commands that change something print a line on
stderr, and on stdout the thing as it is now when -o is given.

--jq FILTER prints what the jq filter makes of the JSON, a line each; a string is printed as it is, without quotes:

  better-compute nodes list --jq '.nodes[] | select(.cordoned) | .hostname'
  better-compute join-tokens create --jq .secret

With -o json, -o ndjson or --jq an error is one JSON object on stderr: {"error": {"code", "message", "details", "hint", "requestId", "exitCode"}}.
`

func outputTopic() *cobra.Command {
	return &cobra.Command{Use: "output", Short: "What commands print: formats and jq filters", Long: outputHelp}
}

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "The numbers that commands end with", Long: exitCodesHelp()}
}

// formatFlag is -o.
type formatFlag string

// Set accepts one of the formats.
func (f *formatFlag) Set(s string) error {
	if !slices.Contains(formats, s) {
		return errors.New("must be one of " + strings.Join(formats, ", "))
	}
	*f = formatFlag(s)
	return nil
}

// String gives what was set.
func (f *formatFlag) String() string { return string(*f) }

// Type is shown in the help.
func (f *formatFlag) Type() string { return "format" }

// jqFlag is --jq. A filter that can't be read is refused before anything is sent.
type jqFlag struct {
	text string
	code *gojq.Code
}

// Set reads the filter.
func (j *jqFlag) Set(s string) error {
	query, err := gojq.Parse(s)
	if err != nil {
		return fmt.Errorf("no jq filter: %w", err)
	}
	if j.code, err = gojq.Compile(query); err != nil {
		return fmt.Errorf("no jq filter: %w", err)
	}
	j.text = s
	return nil
}

// String gives what was set.
func (j *jqFlag) String() string { return j.text }

// Type is shown in the help.
func (j *jqFlag) Type() string { return "filter" }

// print writes each result on a line of its own, strings as they are.
func (j *jqFlag) print(ctx context.Context, w io.Writer, document []byte) error {
	var input any
	if err := json.Unmarshal(document, &input); err != nil {
		return fmt.Errorf("read the JSON for --jq: %w", err)
	}
	for results := j.code.RunWithContext(ctx, input); ; {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, ok := result.(error); ok {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil
			}
			return Usage("--jq %s: %v", j.text, err)
		}
		line, ok := result.(string)
		if !ok {
			b, err := gojq.Marshal(result)
			if err != nil {
				return fmt.Errorf("write the result of --jq: %w", err)
			}
			line = string(b)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("write the result of --jq: %w", err)
		}
	}
}

// checkOutput refuses flags that don't go together, before anything is sent.
func (a *app) checkOutput() error {
	if a.flags.jq.code != nil && a.flags.output != "" && !isJSON(a.flags.output) {
		return Usage("--jq goes with -o json or -o ndjson, not with -o %s", a.flags.output)
	}
	return nil
}

// format is what to print: absent is what the command prints by itself.
func (a *app) format(absent string) string {
	switch {
	case a.flags.output != "":
		return a.flags.output
	case a.flags.jq.code != nil:
		return formatJSON
	}
	return absent
}

// listing is a list of things as a command prints it.
type listing struct {
	// key is the noun under which the things stand in the JSON document.
	key   string
	items []json.RawMessage
	names []string
	// more are further members of the document, in order.
	more []member
	// none is said on stderr when a table would be empty.
	none string
	rows func(t *table, wide bool)
}

type member struct {
	key   string
	value any
}

func (a *app) printList(ctx context.Context, l listing) error {
	switch format := a.format(formatTable); format {
	case formatTable, formatWide:
		if len(l.items) == 0 {
			a.say("%s", l.none)
			return nil
		}
		t := &table{paint: a.paint()}
		l.rows(t, format == formatWide)
		return t.write(a.env.Stdout)
	case formatName:
		return a.printNames(l.names...)
	case formatNDJSON:
		for _, item := range l.items {
			if err := a.printLine(ctx, item); err != nil {
				return err
			}
		}
		return nil
	}
	document, err := l.document()
	if err != nil {
		return err
	}
	return a.printDocument(ctx, document)
}

// marshal writes JSON as people can read it: without escapes for HTML, which nothing here is.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// document writes the members in their order, which a map would lose.
func (l *listing) document() ([]byte, error) {
	var b bytes.Buffer
	items := l.items
	if items == nil {
		items = []json.RawMessage{}
	}
	b.WriteByte('{')
	for i, m := range append([]member{{l.key, items}}, l.more...) {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := marshal(m.value)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", m.key, err)
		}
		fmt.Fprintf(&b, "%q:%s", m.key, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// printOne prints a single thing; table is called for the formats that are for people.
func (a *app) printOne(ctx context.Context, raw json.RawMessage, name, absent string, people func(w io.Writer, wide bool) error) error {
	switch format := a.format(absent); format {
	case "":
		return nil
	case formatTable, formatWide:
		return people(a.env.Stdout, format == formatWide)
	case formatName:
		return a.printNames(name)
	case formatNDJSON:
		return a.printLine(ctx, raw)
	}
	return a.printDocument(ctx, raw)
}

func (a *app) printNames(names ...string) error {
	for _, name := range names {
		if _, err := fmt.Fprintln(a.env.Stdout, name); err != nil {
			return fmt.Errorf("write the names: %w", err)
		}
	}
	return nil
}

func (a *app) printDocument(ctx context.Context, raw []byte) error {
	if a.flags.jq.code != nil {
		return a.flags.jq.print(ctx, a.env.Stdout, raw)
	}
	var b bytes.Buffer
	if a.flags.output == formatYAML {
		if err := writeYAML(&b, raw); err != nil {
			return err
		}
	} else {
		if err := json.Indent(&b, raw, "", "  "); err != nil {
			return fmt.Errorf("write the JSON: %w", err)
		}
		b.WriteByte('\n')
	}
	if _, err := b.WriteTo(a.env.Stdout); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// printLine prints one object on one line.
func (a *app) printLine(ctx context.Context, raw []byte) error {
	if a.flags.jq.code != nil {
		return a.flags.jq.print(ctx, a.env.Stdout, raw)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("write the line: %w", err)
	}
	b.WriteByte('\n')
	if _, err := b.WriteTo(a.env.Stdout); err != nil {
		return fmt.Errorf("write the line: %w", err)
	}
	return nil
}

// writeYAML keeps the order of the keys: JSON is YAML in another style.
func writeYAML(w io.Writer, raw []byte) error {
	var root yaml.Node
	if err := yaml.Unmarshal(raw, &root); err != nil {
		return fmt.Errorf("write the YAML: %w", err)
	}
	plain(&root)
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return fmt.Errorf("write the YAML: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return fmt.Errorf("write the YAML: %w", err)
	}
	return nil
}

func plain(n *yaml.Node) {
	n.Style = 0
	if len(n.Content) == 0 && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	for _, below := range n.Content {
		plain(below)
	}
}

// Colours mean something or are not there: red is broken, yellow wants a look, green is well.
const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	off    = "\x1b[0m"
)

// paint gives nil where no colour may be: off a terminal, with NO_COLOR, on a dumb one.
func (a *app) paint() func(column, text string) string {
	if !a.env.StdoutTTY || a.env.get("NO_COLOR") != "" || a.env.get("TERM") == "dumb" {
		return nil
	}
	return func(column, text string) string {
		colour := ""
		switch column {
		case "CONNECTIVITY", "STATE":
			colour = map[string]string{
				"Connected": green, "Adopted": green, "Active": green,
				"Disconnected": yellow, "Adopting": yellow, "Enrolling": yellow,
				"Unreachable": red, "Lost": red, "Failed": red,
			}[text]
		case "STATUS":
			if text != "in service" {
				colour = yellow
			}
		}
		if colour == "" {
			return text
		}
		return colour + text + off
	}
}
