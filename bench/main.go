// Command bench measures what the product does against a floor: the least that the same work can cost on this machine. Both are measured in
// one run, in turn, and the answer is the median of their ratios, so that it holds on a slow or a busy machine too.
//
// Each row is one line of JSON. Goals stand in goals.json; with -check a ratio over 1.5 times its goal is a failure.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Row is the result of one benchmark.
type Row struct {
	Name  string  `json:"name"`
	N     int     `json:"n"`
	Value float64 `json:"value"` // the median, in Unit
	Unit  string  `json:"unit"`
	Floor float64 `json:"floor"` // the floor's median, in Unit
	Ratio float64 `json:"ratio"` // the median of the ratios of the pairs
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	CPU   float64 `json:"cpu_us"` // of the server for each operation, in microseconds
	Load  float64 `json:"load"`   // the machine's, over a minute
	Noisy bool    `json:"noisy"`  // the floor's own spread is over 30 %: the ratio says less
	Goal  float64 `json:"goal"`
}

//go:embed goals.json
var goals []byte

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	small := flag.Bool("small", false, "few operations, for CI")
	check := flag.Bool("check", false, "fail when a ratio is over 1.5 times its goal")
	server := flag.String("server", "bin/better-compute", "the program to measure")
	flag.Parse()

	var goal map[string]float64
	if err := json.Unmarshal(goals, &goal); err != nil {
		fmt.Fprintln(os.Stderr, "goals.json:", err)
		return 1
	}
	names := flag.Args()
	for _, name := range names {
		if _, ok := benchmarks[name]; !ok {
			fmt.Fprintf(os.Stderr, "no benchmark %q; there are: %s\n", name, strings.Join(sortedNames(), ", "))
			return 2
		}
	}
	if len(names) == 0 {
		names = sortedNames()
	}
	rig, err := start(ctx, *server)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer rig.stop()
	rounds, each := 10, 40
	if *small {
		rounds, each = 5, 15
	}
	failed := 0
	out := json.NewEncoder(os.Stdout)
	for _, name := range names {
		rows, err := benchmarks[name](ctx, rig, rounds, each)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			return 1
		}
		for _, r := range rows {
			r.Goal, r.Load = goal[r.Name], load()
			if *check && r.Goal > 0 && r.Ratio > 1.5*r.Goal {
				failed++
				fmt.Fprintf(os.Stderr, "%s: ratio %.2f is over 1.5 times the goal %.2f\n", r.Name, r.Ratio, r.Goal)
			}
			if err := out.Encode(r); err != nil {
				return 1
			}
		}
	}
	if failed > 0 {
		return 1
	}
	return 0
}

func sortedNames() []string {
	var names []string
	for name := range benchmarks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// benchmarks are the rows by the name of their recipe.
var benchmarks = map[string]func(ctx context.Context, r *rig, rounds, each int) ([]Row, error){
	"cordon": cordon,
	"drain":  drain,
}

// pairs runs work and floor in turn, round by round, and tells their medians and the median of the rounds' ratios.
func pairs(name string, rounds, each int, cpu func() time.Duration, work, floor func() (time.Duration, error)) (Row, error) {
	var all, floors []time.Duration
	var ratios []float64
	var busy time.Duration
	if _, err := work(); err != nil { // the first of each is not counted
		return Row{}, err
	}
	if _, err := floor(); err != nil {
		return Row{}, err
	}
	for range rounds {
		before := cpu()
		a, err := repeat(each, work)
		if err != nil {
			return Row{}, err
		}
		busy += cpu() - before
		b, err := repeat(each, floor)
		if err != nil {
			return Row{}, err
		}
		all, floors = append(all, a...), append(floors, b...)
		ratios = append(ratios, float64(quantile(a, 0.5))/float64(quantile(b, 0.5)))
	}
	slices.Sort(ratios)
	return Row{
		Name: name, N: len(all), Unit: "ms", Value: ms(quantile(all, 0.5)), Floor: ms(quantile(floors, 0.5)), Ratio: round(ratios[len(ratios)/2]),
		P50: ms(quantile(all, 0.5)), P99: ms(quantile(all, 0.99)), CPU: round(float64(busy.Microseconds()) / float64(len(all))),
		Noisy: float64(quantile(floors, 0.75)-quantile(floors, 0.25)) > 0.3*float64(quantile(floors, 0.5)),
	}, nil
}

func repeat(n int, fn func() (time.Duration, error)) ([]time.Duration, error) {
	out := make([]time.Duration, n)
	for i := range out {
		var err error
		if out[i], err = fn(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func ms(d time.Duration) float64 { return round(float64(d.Microseconds()) / 1000) }

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

func load() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(b), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return v
}
