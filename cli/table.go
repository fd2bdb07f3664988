package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// table aligns columns for people. Nothing is ever cut off: ids are there to be copied.
type table struct {
	head []string
	rows [][]string
	// paint, where set, colours a cell after it was aligned.
	paint func(column, text string) string
}

func (t *table) header(cells ...string) { t.head = cells }

func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = clean(cells[i])
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.head))
	for _, cells := range append([][]string{t.head}, t.rows...) {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	line := func(cells []string, paint func(column, text string) string) {
		last := len(cells) - 1
		for last > 0 && cells[last] == "" {
			last--
		}
		for i, cell := range cells[:last+1] {
			pad := ""
			if i < last {
				pad = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
			if paint != nil {
				cell = paint(t.head[i], cell)
			}
			b.WriteString(cell + pad)
		}
		b.WriteByte('\n')
	}
	line(t.head, nil)
	for _, cells := range t.rows {
		line(cells, t.paint)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// fields writes names and values under one another, for a single thing.
type fields struct{ rows [][2]string }

func (f *fields) add(name, value string) {
	if value != "" {
		f.rows = append(f.rows, [2]string{name, clean(value)})
	}
}

func (f *fields) write(w io.Writer) error {
	width := 0
	for _, row := range f.rows {
		width = max(width, utf8.RuneCountInString(row[0]))
	}
	for _, row := range f.rows {
		if _, err := fmt.Fprintf(w, "%-*s  %s\n", width, row[0], row[1]); err != nil {
			return fmt.Errorf("write the fields: %w", err)
		}
	}
	return nil
}

// clean makes text that somebody else wrote harmless on a terminal: a reason can hold escape sequences and line ends.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r) {
			return '·'
		}
		return r
	}, s)
}

// words gives an enum's value as people write it: ONE_TENANT is One tenant.
func words(enum string) string {
	s := strings.ToLower(strings.ReplaceAll(enum, "_", " "))
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// stamp gives a moment to the second, in UTC and saying so.
func (m moment) stamp() string {
	t := m.time()
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// span gives a length of time in its largest one or two units.
func span(d time.Duration) string {
	if d = d.Round(time.Second); d < time.Minute {
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	}
	d = d.Round(time.Minute)
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		if minutes := int(d.Minutes()) % 60; minutes > 0 {
			return fmt.Sprintf("%dh%dm", int(d.Hours()), minutes)
		}
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// fresh is a node's liveness lease: below it, seconds since it was last heard of are noise.
const fresh = 40 * time.Second

func (m moment) ago(now time.Time) string {
	t := m.time()
	switch {
	case t.IsZero():
		return "never"
	case now.Sub(t) < fresh:
		return "now"
	}
	return span(now.Sub(t)) + " ago"
}

// until says when something ends, and how far away that is.
func (m moment) until(now time.Time) string {
	t := m.time()
	switch {
	case t.IsZero():
		return "open-ended"
	case t.After(now):
		return m.stamp() + " (in " + span(t.Sub(now)) + ")"
	}
	return m.stamp() + " (passed)"
}
