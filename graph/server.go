package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/better-compute/better-compute/fault"
)

// Options are what a server needs beside the API.
type Options struct {
	Hosts Hosts
	// Secure marks cookies for TLS only.
	Secure bool
	// Console serves everything that is not the API.
	Console http.Handler
	// Jobs serves the pages about jobs under /jobs to who may manage jobs; nil: there are none.
	Jobs http.Handler
	// Ready gives the parts that the process needs to serve. One with an error makes it not ready.
	Ready func(ctx context.Context) []Part
	// Metrics serves /metrics to who may read them; nil: there are none.
	Metrics http.Handler
	// Meter counts; nil: nobody does.
	Meter Meter
	// RefusedAtOnce is how many operations that can't be run a caller may send in a row before each further refusal takes a second; 0: 100.
	RefusedAtOnce int
	// Sockets counts the open websockets, which http.Server does not wait for; nil: nobody waits.
	Sockets *sync.WaitGroup
	// Stopping ends when the process begins to stop: streams then end with a code that tells clients to come back.
	Stopping context.Context //nolint:containedctx // says whether the process stops
}

// Part is something that a process needs to serve: its name, and, when it is not ready, a fault that says why.
type Part struct {
	Name string
	Err  error
}

// Handler serves the API, sign-in, health and the console.
func Handler(a *API, o Options) http.Handler {
	if o.Sockets == nil {
		o.Sockets = &sync.WaitGroup{}
	}
	seen := newObserver(o.Meter, a.Slog, o.RefusedAtOnce)
	mux := http.NewServeMux()
	api := asked(authenticate(o.Hosts, a.Issuer, seen, bodies(isRequest, streams(o.Stopping, o.Sockets, operations(o.Stopping, o.Sockets, a, seen)))))
	mux.Handle("/graphql", api)
	mux.Handle("/session/link", authenticate(o.Hosts, a.Issuer, seen, bodies(json.Valid, signInLinks(a))))
	mux.Handle("/session/", authenticate(o.Hosts, a.Issuer, seen, bodies(json.Valid, sessions(a.Issuer, o.Secure, seen))))
	if o.Jobs != nil {
		mux.Handle("/jobs", jobs(a, o.Hosts, seen, o.Jobs))
		mux.Handle("/jobs/", jobs(a, o.Hosts, seen, o.Jobs))
	}
	if o.Metrics != nil {
		mux.Handle("GET /metrics", metrics(a, seen, o.Metrics))
	}
	vitals(mux, o.Ready)
	mux.HandleFunc("GET /.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, a.Issuer.Keys()) })
	mux.Handle("/", o.Console)
	return guard(o.Hosts, mux)
}

// Health serves /healthz, /readyz and /metrics alone, to whoever reaches it: for a process that has no API.
func Health(ready func(ctx context.Context) []Part, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	vitals(mux, ready)
	mux.Handle("GET /metrics", metrics)
	return mux
}

// vitals say whether the process lives, and whether it can serve.
func vitals(mux *http.ServeMux, ready func(ctx context.Context) []Part) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
		defer cancel()
		status, text := http.StatusOK, "ready"
		parts := map[string]string{}
		for _, p := range ready(ctx) {
			parts[p.Name] = "ok"
			if p.Err != nil {
				status, text = http.StatusServiceUnavailable, "not ready"
				parts[p.Name] = fault.From(p.Err).Message
			}
		}
		writeJSON(w, status, map[string]any{"status": text, "parts": parts})
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// operations is GraphQL itself on its four transports.
func operations(stopping context.Context, open *sync.WaitGroup, a *API, seen *observer) http.Handler {
	presenter := present(a.Slog)
	h := handler.New(NewExecutableSchema(Config{Resolvers: a, Complexity: complexities()}))
	limit := int64(readLimit)
	h.AddTransport(transport.Websocket{
		Implementation: sockets{stopping: stopping, open: open}, InitFunc: initSocket(a.Issuer, seen), InitTimeout: bodyBound, PingPongInterval: pingEvery,
		PayloadReadLimit: &limit,
	})
	h.AddTransport(transport.SSE{KeepAlivePingInterval: pingEvery})
	h.AddTransport(transport.POST{})
	h.AddTransport(transport.GET{})
	h.SetQueryCache(parsed{lru.New[*ast.QueryDocument](cachedQueries)})
	h.SetParserTokenLimit(maxTokens)
	h.SetErrorPresenter(presenter)
	h.SetRecoverFunc(recovered(a.Slog))
	h.Use(extension.Introspection{})
	h.Use(shape{})
	h.Use(extension.FixedComplexityLimit(maxComplexity))
	h.AroundFields(markInternal)
	h.AroundResponses(seen.refused)
	h.AroundOperations(seen.operation)
	h.AroundOperations(endings(presenter))
	h.AroundOperations(fewSubscriptions(presenter))
	h.AroundOperations(admission(presenter))
	h.AroundOperations(inTurn(newTurns()))
	return h
}

// fewSubscriptions bounds how many subscriptions one socket runs.
func fewSubscriptions(presenter graphql.ErrorPresenterFunc) graphql.OperationMiddleware {
	return func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
		op := graphql.GetOperationContext(ctx)
		l := lifeOf(ctx)
		if op.Operation == nil || op.Operation.Operation != ast.Subscription || l == nil {
			return next(ctx)
		}
		if !l.begin() {
			err := fault.New(fault.ResourceExhausted, fault.Details{"limit": maxOpen}, "a socket runs at most %d subscriptions at once", maxOpen)
			return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{presenter(ctx, err)}, Data: []byte("null")})
		}
		context.AfterFunc(ctx, l.end)
		return next(ctx)
	}
}
