package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/events"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/jobs"
	"github.com/better-compute/better-compute/node"
)

// metrics are the figures of one process, in a registry of its own.
type metrics struct {
	registry      *prometheus.Registry // of the process
	installation  *prometheus.Registry // what the database counts
	operations    *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	subscriptions prometheus.Gauge
	refused       prometheus.Counter
	fleet         *fleet
}

// newMetrics makes the registry with what every process has.
func newMetrics(d *db.DB, log *slog.Logger) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), installation: prometheus.NewRegistry(),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bc_api_operations_total", Help: "GraphQL operations that were answered, by type and by the code of their first error.",
		}, []string{"type", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bc_api_operation_seconds", Help: "How long GraphQL queries and mutations took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"type"}),
		subscriptions: prometheus.NewGauge(prometheus.GaugeOpts{Name: "bc_api_subscriptions", Help: "GraphQL subscriptions that run."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bc_api_sign_ins_refused_total", Help: "Tokens and sign-in links that were shown and do not count.",
		}),
		fleet: &fleet{read: func(ctx context.Context) (reading, error) { return readFleet(ctx, d.Pool()) }, log: log},
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.operations, m.seconds, m.subscriptions, m.refused)
	m.installation.MustRegister(m.fleet)
	return m
}

// Operation counts an operation.
func (m *metrics) Operation(kind, code string, took time.Duration) {
	m.operations.WithLabelValues(kind, code).Inc()
	if kind == "query" || kind == "mutation" {
		m.seconds.WithLabelValues(kind).Observe(took.Seconds())
	}
}

// Subscriptions counts those that run.
func (m *metrics) Subscriptions(delta int) { m.subscriptions.Add(float64(delta)) }

// SignInRefused counts a refused sign-in.
func (m *metrics) SignInRefused() { m.refused.Inc() }

// log adds the figures of the process's reading end of the log.
func (m *metrics) log(l *events.Log) {
	m.gauge("bc_follow_lag_seconds", "For how long this process has not known whether the log has more than it has read.",
		func() float64 { return l.Stats().Unseen.Seconds() })
	m.gauge("bc_followers", "Readers that follow the log in this process.", func() float64 { return float64(l.Stats().Followers) })
	m.gauge("bc_followers_lagging", "Readers that have fallen out of the ring and read from the database.", func() float64 { return float64(l.Stats().Lagging) })
}

// gateway adds the figures of the process's gateway and of the certificate authority that it signs with.
func (m *metrics) gateway(g *gateway.Gateway, notAfter func() time.Time) {
	began := time.Now()
	m.gauge("bc_gateway_sessions", "Machines that hold a session at this gateway.", func() float64 { return float64(g.Stats().Sessions) })
	m.gauge("bc_gateway_connections", "Connections at this gateway, with those that hold no session yet.", func() float64 { return float64(g.Stats().Connections) })
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "bc_gateway_beats_total", Help: "Beats that came to this gateway."},
		func() float64 { return float64(g.Stats().Beats) }))
	m.gauge("bc_flush_age_seconds", "How long ago this gateway last wrote the ages of its sessions, or started.", func() float64 {
		if age := g.Stats().FlushAge; age >= 0 {
			return age.Seconds()
		}
		return time.Since(began).Seconds()
	})
	m.gauge("bc_ca_not_after_seconds", "When the certificate that signs ends, in seconds since 1970.", func() float64 { return float64(notAfter().Unix()) })
}

func (m *metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// scrapeBound is how long a scrape waits for the database; then it is answered without the database's figures.
const scrapeBound = 2 * time.Second

// process answers a scrape with the figures of the process alone.
func (m *metrics) process() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// handler answers a scrape with all figures.
func (m *metrics) handler() http.Handler {
	serve := promhttp.HandlerFor(prometheus.Gatherers{m.registry, m.installation}, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), scrapeBound)
		m.fleet.refresh(ctx)
		cancel()
		serve.ServeHTTP(w, r)
	})
}

// reading is what the database says of the whole installation.
type reading struct {
	nodes  []node.Census
	drains node.DrainCount
	head   int64
	jobs   map[string]time.Duration
}

func readFleet(ctx context.Context, q db.Querier) (r reading, err error) {
	if r.nodes, err = node.TakeCensus(ctx, q); err != nil {
		return r, err
	}
	if r.drains, err = node.CountDrains(ctx, q); err != nil {
		return r, err
	}
	head, err := events.Head(ctx, q)
	if err != nil {
		return r, err
	}
	r.head = head.Position
	r.jobs, err = jobs.Oldest(ctx, q)
	return r, err
}

// fleetFor is how long a reading is good: several scrapers, or a scraper in a hurry, cost the database one reading.
const fleetFor = 5 * time.Second

// fleet collects what the database counts. Counts are read anew at a scrape and never added up in memory, so that a label whose last node is gone
// goes with it. While the database does not answer there are none, rather than old ones.
type fleet struct {
	read func(ctx context.Context) (reading, error)
	log  *slog.Logger

	mu   sync.Mutex
	at   time.Time
	last *reading
}

func (f *fleet) refresh(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && time.Since(f.at) < fleetFor {
		return
	}
	f.last = nil
	r, err := f.read(ctx)
	if err != nil {
		f.log.WarnContext(ctx, "the database's figures are missing in this scrape", "error", err)
		return
	}
	f.last, f.at = &r, time.Now()
}

var (
	nodesDesc = prometheus.NewDesc("bc_nodes", "Nodes that are not deleted.", []string{"pool", "connectivity", "provision_state", "placeable"}, nil)
	drainDesc = prometheus.NewDesc("bc_drains", "Drains that run, and those that ended within the last hour, by state.", []string{"state"}, nil)
	ageDesc   = prometheus.NewDesc("bc_drain_oldest_seconds", "How long the oldest running drain has run; 0 when none does.", nil, nil)
	lateDesc  = prometheus.NewDesc("bc_drains_overdue", "Drains that run past the deadline that their authors gave.", nil, nil)
	heldDesc  = prometheus.NewDesc("bc_cordons_overdue", "Cordons that hold past the end that their authors gave.", nil, nil)
	headDesc  = prometheus.NewDesc("bc_log_head", "The newest position of the log.", nil, nil)
	jobDesc   = prometheus.NewDesc("bc_river_oldest_job_seconds", "How long the oldest due job has waited; 0 when none is due.", []string{"kind"}, nil)
	upDesc    = prometheus.NewDesc("bc_database_up", "Whether the database answered this scrape.", nil, nil)
)

// Describe names the figures.
func (f *fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{nodesDesc, drainDesc, ageDesc, lateDesc, heldDesc, headDesc, jobDesc, upDesc} {
		ch <- d
	}
}

// Collect gives the last reading.
func (f *fleet) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	r := f.last
	f.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if r == nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	for _, n := range r.nodes {
		gauge(nodesDesc, float64(n.Nodes), n.Pool, string(n.Connectivity), string(n.ProvisionState), string(n.Placeable))
	}
	for state, drains := range r.drains.States {
		gauge(drainDesc, float64(drains), string(state))
	}
	gauge(ageDesc, r.drains.Oldest.Seconds())
	gauge(lateDesc, float64(r.drains.Overdue))
	gauge(heldDesc, float64(r.drains.OverdueCordons))
	gauge(headDesc, float64(r.head))
	for kind, age := range r.jobs {
		gauge(jobDesc, age.Seconds(), kind)
	}
}
