package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Goal is a bound on a row. Exactly one of Most and Least is set.
type Goal struct {
	Most  float64 `json:"most"`
	Least float64 `json:"least"`
	// Of is the figure that is bounded: the ratio unless it says "p50" or "p99".
	Of string `json:"of"`
	// CPU says that the row counts CPU or memory, which other programs on the machine change little.
	CPU bool `json:"cpu"`
	// More bounds figures of the row's more, by name.
	More map[string]Goal `json:"more,omitempty"`
	// Later says that the goal is one for later: the row is printed and not judged.
	Later bool `json:"later"`
}

//go:embed goals.json
var goalsFile []byte

func readGoals() (map[string]Goal, error) {
	var goals map[string]Goal
	if err := json.Unmarshal(goalsFile, &goals); err != nil {
		return nil, fmt.Errorf("goals.json: %w", err)
	}
	return goals, nil
}

// String is the goal as a row shows it.
func (g Goal) String() string {
	of := ""
	if g.Of != "" {
		of = g.Of + " "
	}
	var text string
	switch {
	case g.Most > 0:
		text = fmt.Sprintf("%s<= %g", of, g.Most)
	case g.Least > 0:
		text = fmt.Sprintf("%s>= %g", of, g.Least)
	}
	for _, name := range slices.Sorted(maps.Keys(g.More)) {
		text += ", " + name + " " + g.More[name].String()
	}
	return text
}

// figure is what of the row is bounded.
func (g Goal) figure(r Row) float64 {
	switch g.Of {
	case "p50":
		return r.P50
	case "p99":
		return r.P99
	}
	return r.Ratio
}

// within says whether the row keeps the goal, and the bounds of its other figures, with some slack: 1 is none.
func (g Goal) within(r Row, slack float64) bool {
	for name, more := range g.More {
		if f, ok := r.More[name]; !ok || !more.bounds(f, slack) {
			return false
		}
	}
	return g.bounds(g.figure(r), slack)
}

func (g Goal) bounds(f, slack float64) bool {
	return (g.Most == 0 || f <= g.Most*slack) && (g.Least == 0 || f >= g.Least/slack)
}

// missed names what of the row can fail a check and does: figures of CPU and memory. Times say too little on a machine that does other things too.
func (g Goal) missed(r Row, slack float64) []string {
	var out []string
	if g.CPU && !g.Later && !g.bounds(g.figure(r), slack) {
		out = append(out, fmt.Sprintf("%s: %g misses the goal %s", r.Name, g.figure(r), g))
	}
	for _, name := range slices.Sorted(maps.Keys(g.More)) {
		more := g.More[name]
		if f, ok := r.More[name]; more.CPU && !more.Later && (!ok || !more.bounds(f, slack)) {
			out = append(out, fmt.Sprintf("%s: %s of %g misses the goal %s", r.Name, name, f, more))
		}
	}
	return out
}
