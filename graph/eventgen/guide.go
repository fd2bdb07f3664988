package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/better-compute/better-compute/events"
)

// intro is the part of the guide that people write.
//
//go:embed intro.md
var intro string

// guide is docs/events.md.
func guide() string {
	var b strings.Builder
	b.WriteString("<!-- Made by just generate: the words from graph/eventgen/intro.md, the catalogue from events/catalogue_*.go. -->\n\n" + intro)
	b.WriteString("\n| type | family | when |\n| --- | --- | --- |\n")
	for _, k := range events.Catalogue() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", k.Type, anchor(k.Type), k.Family, k.When)
	}
	for _, k := range events.Catalogue() {
		b.WriteString(section(k))
	}
	return b.String()
}

// anchor is what a heading of that name is linked by.
func anchor(heading string) string { return strings.ReplaceAll(heading, ".", "") }

func section(k *events.Kind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n%s\n\n- Family: `%s`\n- Actor: %s\n- Who sees it: %s\n", k.Type, k.When, k.Family, k.Actor, k.Readers.Sentence())
	if len(k.Fields) == 0 {
		b.WriteString("- Fields: none beside those of every event\n")
		return b.String()
	}
	b.WriteString("\n| field | type | always | reduced too | what it is |\n| --- | --- | --- | --- | --- |\n")
	for i := range k.Fields {
		f := &k.Fields[i]
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", f.API(), f.Shape, yes(f.Always), yes(f.Reduced), f.Doc)
	}
	fmt.Fprintf(&b, "\n```json\n%s\n```\n", example(k))
	return b.String()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// example shows the event as the API gives it, in the order of its fields.
func example(k *events.Kind) string {
	lines := []string{fmt.Sprintf("  %q: %q", "type", k.Type)}
	for _, f := range k.Fields {
		value := f.Example
		if of, ok := value.(map[string]any); ok && f.Shape == events.ShapeLabels {
			value = pairs(of)
		}
		text, err := json.Marshal(value)
		if err != nil {
			text = []byte("null") // a test reads each
		}
		lines = append(lines, fmt.Sprintf("  %q: %s", f.API(), text))
	}
	return "{\n" + strings.Join(lines, ",\n") + "\n}"
}

func pairs(labels map[string]any) []map[string]any {
	out := make([]map[string]any, 0, len(labels))
	for key, value := range labels {
		out = append(out, map[string]any{"key": key, "value": value})
	}
	slices.SortFunc(out, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a["key"]), fmt.Sprint(b["key"])) })
	return out
}
