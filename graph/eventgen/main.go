// Command eventgen writes what is made of the catalogue of events, from the root of the repository: the event types in schema.graphqls and their
// bindings in gqlgen.yml, both between marks; graph/events_gen.go, cli/events.graphql and docs/events.md as a whole. `just generate` runs it.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"strings"
	"unicode"

	"github.com/better-compute/better-compute/events"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "eventgen:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := known(); err != nil {
		return err
	}
	if err := between("schema.graphqls", schema()); err != nil {
		return err
	}
	if err := between("gqlgen.yml", bindings()); err != nil {
		return err
	}
	source, err := format.Source([]byte(goTypes()))
	if err != nil {
		return fmt.Errorf("graph/events_gen.go: %w", err)
	}
	for _, f := range []struct {
		name string
		text []byte
	}{
		{"graph/events_gen.go", source},
		{"cli/events.graphql", []byte(fragment())},
		{"docs/events.md", []byte(guide())},
	} {
		if err := os.WriteFile(f.name, f.text, 0o644); err != nil { //nolint:gosec // source files are for everybody
			return err
		}
	}
	return nil
}

// known says whether each kind's family is listed, and each family has a kind.
func known() error {
	families := map[string]bool{}
	for _, f := range events.Families() {
		families[f.Name] = true
		if len(events.FamilyKinds(f.Name)) == 0 {
			return fmt.Errorf("no type of event is of the family %s", f.Name)
		}
	}
	for _, k := range events.Catalogue() {
		if !families[k.Family] {
			return fmt.Errorf("%s is of the family %q, which events.Families doesn't list", k.Type, k.Family)
		}
	}
	return nil
}

// The marks between which a file is generated.
const (
	begin = "# Made from events/catalogue_*.go by just generate: change it there."
	end   = "# So far from the catalogue."
)

// between puts the text between the marks of a file, at their indentation.
func between(name, text string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := bytes.Cut(b, []byte(begin+"\n"))
	if !ok {
		return fmt.Errorf("%s has no line %q", name, begin)
	}
	indent := head[bytes.LastIndexByte(head, '\n')+1:]
	_, tail, ok := bytes.Cut(rest, []byte(end))
	if !ok {
		return fmt.Errorf("%s has no line %q", name, end)
	}
	out := string(head) + begin + "\n" + text + string(indent) + end + string(tail)
	return os.WriteFile(name, []byte(out), 0o644) //nolint:gosec // source files are for everybody
}

// typesOf names a family's types as a sentence does.
func typesOf(family string) string {
	var names []string
	for _, k := range events.FamilyKinds(family) {
		names = append(names, k.Type)
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func schema() string {
	var b strings.Builder
	for _, f := range events.Families() {
		fmt.Fprintf(&b, `
"%s"
type %s implements Event {
  "evt_ and 26 characters; drop what you have seen by it."
  id: ID!
  "The place just after it: resume with it."
  cursor: Cursor!
  "%s."
  type: String!
  "When it was written."
  at: DateTime!
  "The node it is about."
  nodeId: ID
  "Who did it; 'operator' for tenants that don't own the node."
  actor: String!
  "The reason its author gave."
  reason: String
  "The node as it is now; null when the caller no longer sees it."
  node: ComputeNode
  "The request id that its author sent."
  requestId: ID
`, f.Doc, f.Name, typesOf(f.Name))
		for _, field := range events.FamilyFields(f.Name) {
			must := ""
			if field.Promised {
				must = "!"
			}
			fmt.Fprintf(&b, "  %q\n  %s: %s%s\n", field.Doc, field.API(), field.Shape, must)
		}
		b.WriteString("}\n")
	}
	return b.String() + "\n"
}

func bindings() string {
	var b strings.Builder
	for _, f := range events.Families() {
		fmt.Fprintf(&b, "  %s: { model: github.com/better-compute/better-compute/graph.%s }\n", f.Name, f.Name)
	}
	return b.String()
}

// initials are written in capitals in Go.
var initials = map[string]string{"Id": "ID", "Ids": "IDs", "Cpu": "CPU", "Gpu": "GPU"}

// goName gives the name of a field in Go.
func goName(name string) string {
	var words []string
	start := 0
	for i, r := range name {
		if unicode.IsUpper(r) {
			words, start = append(words, name[start:i]), i
		}
	}
	words = append(words, name[start:])
	for i, w := range words {
		w = strings.ToUpper(w[:1]) + w[1:]
		if c, ok := initials[w]; ok {
			w = c
		}
		words[i] = w
	}
	return strings.Join(words, "")
}

func goType(f events.Field) string {
	switch f.Shape {
	case events.ShapeIDs, events.ShapeStrings:
		return "[]string"
	case events.ShapeLabels:
		return "map[string]string"
	default: // one value
	}
	name := map[events.Shape]string{
		events.ShapeID: "string", events.ShapeString: "string", events.ShapeInt: "int", events.ShapeBoolean: "bool", events.ShapeDateTime: "time.Time",
		events.ShapePrint: "MachinePrint", events.ShapeTokenRefusal: "pki.JoinTokenRefusal",
	}[f.Shape]
	if name == "" {
		name = "node." + string(f.Shape)
	}
	if f.Promised {
		return name
	}
	return "*" + name
}

func goTypes() string {
	var b, cases strings.Builder
	for _, f := range events.Families() {
		fmt.Fprintf(&b, "\n// %s is %s.\ntype %s struct {\n\ttold `json:\"-\"`\n\n", f.Name, typesOf(f.Name), f.Name)
		var methods strings.Builder
		for _, field := range events.FamilyFields(f.Name) {
			name := goName(field.API())
			if field.Shape == events.ShapeLabels {
				fmt.Fprintf(&methods, "\n// %s gives them by key.\nfunc (e *%s) %s() []*LabelPair { return pairs(e.%sByKey) }\n", name, f.Name, name, name)
				name += "ByKey"
			}
			fmt.Fprintf(&b, "\t%s %s `json:%q`\n", name, goType(field), field.Name)
		}
		b.WriteString("}\n" + methods.String())
		var types []string
		for _, k := range events.FamilyKinds(f.Name) {
			types = append(types, fmt.Sprintf("%q", k.Type))
		}
		fmt.Fprintf(&cases, "\tcase %s:\n\t\tf := &%s{told: t}\n\t\treturn f, read(e, f)\n", strings.Join(types, ", "), f.Name)
	}
	imports := "import (\n"
	if strings.Contains(b.String(), "time.Time") {
		imports += "\t\"time\"\n\n"
	}
	imports += "\t\"github.com/better-compute/better-compute/events\"\n"
	if strings.Contains(b.String(), "node.") {
		imports += "\t\"github.com/better-compute/better-compute/node\"\n"
	}
	if strings.Contains(b.String(), "pki.") {
		imports += "\t\"github.com/better-compute/better-compute/pki\"\n"
	}
	return "// Code generated by graph/eventgen from events/catalogue_*.go. DO NOT EDIT.\n\npackage graph\n\n" + imports + ")\n" + b.String() + `
// typed gives an event the type of its family.
func typed(e events.Event, of *tellings) (Event, error) {
	t := of.envelope(e)
	switch e.Type {
` + cases.String() + "\t}\n\treturn &GenericEvent{told: t, Data: e.Data}, nil\n}\n"
}

// fragment asks for every field of every family.
func fragment() string {
	var b strings.Builder
	b.WriteString("# Made from events/catalogue_*.go by just generate: change it there.\n\nfragment EventFields on Event {\n" +
		"  id cursor type at nodeId actor reason requestId\n")
	for _, f := range events.Families() {
		var names []string
		for _, field := range events.FamilyFields(f.Name) {
			name := field.API()
			switch field.Shape {
			case events.ShapeLabels:
				name += " { key value }"
			case events.ShapePrint:
				name += " { machineId productUuid ekHash bootId }"
			default: // a leaf
			}
			names = append(names, name)
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "  ... on %s { %s }\n", f.Name, strings.Join(names, " "))
		}
	}
	b.WriteString("  ... on GenericEvent { data }\n}\n")
	return b.String()
}
