package main

import (
	"context"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Row is the result of one benchmark.
type Row struct {
	Name  string  `json:"name"`
	N     int     `json:"n"`
	Value float64 `json:"value"` // the median of the rounds, in Unit
	Unit  string  `json:"unit"`
	Floor float64 `json:"floor"`     // the floor's, in Unit
	Ratio float64 `json:"ratio"`     // the median of the pairs' ratios, value to floor
	P50   float64 `json:"p50"`       // of one operation, in milliseconds
	P99   float64 `json:"p99"`       // the same
	CPU   float64 `json:"cpu_us"`    // of the server for each operation, in microseconds
	DB    float64 `json:"db_cpu_us"` // of PostgreSQL for each operation
	Load  float64 `json:"load"`      // the machine's, over a minute
	Noisy bool    `json:"noisy"`     // the floor's own spread is over 30 %: times say less
	Goal  string  `json:"goal,omitempty"`
	Holds bool    `json:"holds"`
	// More holds what a row tells besides.
	More map[string]float64 `json:"more,omitempty"`
}

// round is what a side did in one round.
type round struct {
	n       int             // operations
	times   []time.Duration // of single operations; none where they aren't timed
	elapsed time.Duration   // of the whole
	cpu     time.Duration   // of the process that is measured
	db      time.Duration   // of PostgreSQL
}

// side is the work or its floor: clock is the CPU clock of the process that is measured, db that of PostgreSQL, run does one round.
type side struct {
	clock func() time.Duration
	db    func() time.Duration
	run   func(ctx context.Context) (round, error)
}

func (s side) once(ctx context.Context) (round, error) {
	cpu, db, began := s.clock(), s.db(), time.Now()
	done, err := s.run(ctx)
	if done.elapsed == 0 {
		done.elapsed = time.Since(began)
	}
	done.cpu, done.db = s.clock()-cpu, s.db()-db
	return done, err
}

// figure makes one number of a round.
type figure struct {
	unit string
	of   func(round) float64
}

var (
	median    = figure{"ms", func(r round) float64 { return millis(quantile(r.times, 0.5)) }}
	perSecond = figure{"1/s", func(r round) float64 { return float64(r.n) / r.elapsed.Seconds() }}
	cpuEach   = figure{"us cpu", func(r round) float64 { return float64(r.cpu) / 1e3 / float64(r.n) }}
	wholeMs   = figure{"ms", func(r round) float64 { return millis(r.elapsed) }}
)

// pairs runs work and floor in turn, and compares the figure of the two in each pair of rounds. The first pair is not counted.
func pairs(ctx context.Context, name string, rounds int, f figure, work, floor side) (Row, error) {
	var values, floors, ratios []float64
	var all, floorTimes []time.Duration
	var busy, db time.Duration
	var below round // all of the floor's
	row := Row{Name: name, Unit: f.unit}
	for i := range rounds + 1 {
		a, err := work.once(ctx)
		if err != nil {
			return Row{}, err
		}
		b, err := floor.once(ctx)
		if err != nil {
			return Row{}, err
		}
		if i == 0 {
			continue
		}
		values, floors, ratios = append(values, f.of(a)), append(floors, f.of(b)), append(ratios, f.of(a)/f.of(b))
		all, floorTimes = append(all, a.times...), append(floorTimes, b.times...)
		busy += a.cpu
		db += a.db
		below.cpu, below.db, below.n = below.cpu+b.cpu, below.db+b.db, below.n+b.n
		row.N += a.n
	}
	row.Value, row.Floor, row.Ratio = tidy(middle(values)), tidy(middle(floors)), tidy(middle(ratios))
	row.CPU, row.DB = tidy(float64(busy)/1e3/float64(row.N)), tidy(float64(db)/1e3/float64(row.N))
	row.Noisy = spread(floors) > 0.3
	if below.n > 0 && below.db > 0 {
		row.More = map[string]float64{
			"floor_cpu_us": tidy(float64(below.cpu) / 1e3 / float64(below.n)), "floor_db_cpu_us": tidy(float64(below.db) / 1e3 / float64(below.n)),
		}
	}
	if len(all) > 0 {
		row.P50, row.P99 = tidy(millis(quantile(all, 0.5))), tidy(millis(quantile(all, 0.99)))
	}
	if f.unit == median.unit && len(floorTimes) > len(floors) {
		row.Noisy = float64(quantile(floorTimes, 0.75)-quantile(floorTimes, 0.25)) > 0.3*float64(quantile(floorTimes, 0.5))
	}
	return row, nil
}

// timed is a round of each operations, one after the other, each of which tells how long it took.
func timed(each int, fn func(ctx context.Context) (time.Duration, error)) func(context.Context) (round, error) {
	return func(ctx context.Context) (round, error) {
		done := round{n: each, times: make([]time.Duration, each)}
		for i := range done.times {
			var err error
			if done.times[i], err = fn(ctx); err != nil {
				return round{}, err
			}
		}
		return done, nil
	}
}

// together is a round of clients that do each operations at the same time.
func together(clients, each int, fn func(ctx context.Context, client, i int) error) func(context.Context) (round, error) {
	return func(ctx context.Context) (round, error) {
		done := round{n: clients * each, times: make([]time.Duration, clients*each)}
		g, ctx := errgroup.WithContext(ctx)
		for c := range clients {
			g.Go(func() error {
				for i := range each {
					began := time.Now()
					if err := fn(ctx, c, i); err != nil {
						return err
					}
					done.times[c*each+i] = time.Since(began)
				}
				return nil
			})
		}
		return done, g.Wait()
	}
}

// counted is a round of each operations that are not timed one by one.
func counted(each int, fn func(ctx context.Context) error) func(context.Context) (round, error) {
	return func(ctx context.Context) (round, error) {
		for range each {
			if err := fn(ctx); err != nil {
				return round{}, err
			}
		}
		return round{n: each}, nil
	}
}

func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func middle(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}

// spread is how far the middle half of the values reaches, as a part of their median.
func spread(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return (s[min(len(s)-1, 3*len(s)/4)] - s[len(s)/4]) / s[len(s)/2]
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }

func tidy(v float64) float64 { return math.Round(v*1000) / 1000 }

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
