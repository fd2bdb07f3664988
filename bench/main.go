// Command bench measures what the product does against a floor: the least that the same work can cost on this machine. Both are measured in
// one run, in turn, and the answer is the median of their ratios, so that it holds on a slow or a busy machine too.
//
// Each row is one line of JSON. Goals stand in goals.json. With -check a row of CPU or memory that misses its goal by more than half is a failure.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// slack is by how much a check lets a goal be missed.
const slack = 1.5

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	small := flag.Bool("small", false, "few operations, for CI")
	check := flag.Bool("check", false, "fail when a goal for CPU or memory is missed by more than half")
	server := flag.String("server", "bin/better-compute", "the program to measure")
	machines := flag.Int("machines", 0, "print by how much rows grow beside so many simulated machines that beat")
	nodes := flag.Int("nodes", 0, "make so many nodes first, and say at the end what they take")
	floor := flag.String("floor", "", "be a floor's server instead; bench starts it itself")
	flag.Parse()
	if *floor != "" {
		if err := serveFloor(*floor, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}

	names := flag.Args()
	if *machines > 0 && len(names) == 0 {
		names = spine
	}
	chosen, err := choose(names)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	goals, err := readGoals()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	rig, err := start(ctx, *server)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer rig.stop()
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	sizeOf := func(b benchmark) size {
		if *small {
			return b.small
		}
		return b.full
	}
	if *machines > 0 {
		if err := growth(ctx, rig, chosen, sizeOf, *machines, goals, out); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if err := rig.fill(ctx, *nodes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	missed := 0
	for _, b := range chosen {
		rows, err := b.run(ctx, rig, sizeOf(b))
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", b.name, err)
			return 1
		}
		for _, r := range rows {
			goal := goals[r.Name]
			r.Load, r.Goal, r.Holds = load(), goal.String(), goal.within(r, 1)
			if *check {
				for _, what := range goal.missed(r, slack) {
					missed++
					fmt.Fprintln(os.Stderr, what+" by more than half")
				}
			}
			if err := out.Encode(r); err != nil {
				return 1
			}
		}
	}
	if *nodes > 0 {
		row, err := held(ctx, rig, *nodes)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if err := out.Encode(row); err != nil {
			return 1
		}
	}
	if missed > 0 {
		return 1
	}
	return 0
}

// size is how much a benchmark does: rounds pairs of work and floor, each of them so many operations, on n things.
type size struct{ rounds, each, n int }

// benchmark makes one or more rows.
type benchmark struct {
	name        string
	full, small size
	run         func(ctx context.Context, r *rig, s size) ([]Row, error)
}

// benchmarks are in the order in which they run; those that leave much in the database come last.
var benchmarks = []benchmark{
	{"cordon", size{10, 40, 0}, size{5, 15, 0}, cordon},
	{"cordon-least", size{10, 40, 0}, size{5, 15, 0}, least},
	{"cordon-16", size{10, 40, 16}, size{5, 8, 16}, cordon16},
	{"drain", size{10, 40, 0}, size{5, 8, 0}, drain},
	{"log", size{7, 60, 16}, size{5, 8, 16}, ceiling},
	{"drain-job", size{10, 40, 0}, size{5, 8, 0}, drainJob},
	{"list100", size{10, 20, 100}, size{5, 4, 100}, list},
	{"get", size{10, 200, 100}, size{5, 50, 100}, get},
	{"fanout", size{5, 20, 1000}, size{5, 4, 200}, fanout},
	{"jobs", size{5, 200, 50}, size{5, 20, 20}, jobs},
	{"join", size{5, 50, 8}, size{5, 16, 8}, join},
	{"renew", size{5, 1, 400}, size{5, 1, 60}, renew},
	{"renew-least", size{5, 1, 400}, size{5, 1, 60}, renewLeast},
	{"heartbeat", size{6, 40, 300}, size{5, 20, 60}, heartbeat},
	{"sessions", size{1, 0, 2000}, size{1, 0, 200}, sessions},
	{"delete", size{10, 20, 0}, size{5, 4, 0}, remove},
	{"bulk", size{10, 2, 1000}, size{5, 1, 200}, bulk},
	{"fleet", size{5, 4, 10_000}, size{5, 2, 500}, wholeFleet},
	{"embedded-start", size{1, 5, 0}, size{1, 1, 0}, embeddedStart},
	{"flush", size{7, 1, 100_000}, size{5, 1, 5_000}, flush},
}

// choose gives the named benchmarks, or all.
func choose(names []string) ([]benchmark, error) {
	if len(names) == 0 {
		return benchmarks, nil
	}
	var chosen []benchmark
	for _, name := range names {
		found := false
		for _, b := range benchmarks {
			if b.name == name {
				chosen, found = append(chosen, b), true
			}
		}
		if !found {
			var all []string
			for _, b := range benchmarks {
				all = append(all, b.name)
			}
			return nil, fmt.Errorf("no benchmark %q; there are: %s", name, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}
