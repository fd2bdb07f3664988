package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Goal is a bound on a row. Exactly one of Most and Least is set.
type Goal struct {
	Most  float64 `json:"most"`
	Least float64 `json:"least"`
	// Of is the figure that is bounded: the ratio unless it says "p50".
	Of string `json:"of"`
	// CPU says that the row counts CPU or memory, which other programs on the machine change little.
	CPU bool `json:"cpu"`
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
	switch {
	case g.Most > 0:
		return fmt.Sprintf("%s<= %g", of, g.Most)
	case g.Least > 0:
		return fmt.Sprintf("%s>= %g", of, g.Least)
	}
	return ""
}

// figure is what of the row is bounded.
func (g Goal) figure(r Row) float64 {
	if g.Of == "p50" {
		return r.P50
	}
	return r.Ratio
}

// within says whether the row keeps the goal with some slack: 1 is none.
func (g Goal) within(r Row, slack float64) bool {
	f := g.figure(r)
	return (g.Most == 0 || f <= g.Most*slack) && (g.Least == 0 || f >= g.Least/slack)
}

// judged says whether a row can fail a check: times say too little on a machine that does other things too.
func (g Goal) judged() bool { return g.CPU && !g.Later }
