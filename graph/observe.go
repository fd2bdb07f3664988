package graph

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"golang.org/x/time/rate"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
)

// Meter counts what the API does. Its methods must not block.
type Meter interface {
	// Operation is an operation that was answered: its type (query, mutation, subscription, or invalid for what could not be read), the code of
	// its first error or OK, and how long the answer took; of a subscription, how long its beginning took.
	Operation(kind, code string, took time.Duration)
	// Subscriptions says that so many more run, or fewer.
	Subscriptions(delta int)
	// SignInRefused is a token, link or socket that was shown and does not count.
	SignInRefused()
}

// nobody counts nothing.
type nobody struct{}

func (nobody) Operation(string, string, time.Duration) {}
func (nobody) Subscriptions(int)                       {}
func (nobody) SignInRefused()                          {}

const codeOK = "OK"

// codeOf gives the code of the first error.
func codeOf(errs gqlerror.List) string {
	if len(errs) == 0 {
		return codeOK
	}
	code, ok := errs[0].Extensions["code"].(fault.Code)
	if !ok {
		return string(fault.Internal)
	}
	return string(code)
}

// observer sees every operation and every refused sign-in, counts them, and tells the log of the mutations and the refusals: who did what with which
// outcome, and never a variable, a document or a secret.
type observer struct {
	meter Meter
	log   *slog.Logger
	// refusals bounds the warnings: whoever tries tokens must not fill the disk.
	refusals *rate.Limiter
	// tarpit holds up who is refused too often.
	tarpit *tarpit
}

func newObserver(meter Meter, log *slog.Logger, refusedAtOnce int) *observer {
	if meter == nil {
		meter = nobody{}
	}
	return &observer{meter: meter, log: log, refusals: rate.NewLimiter(1, 20), tarpit: newTarpit(refusedAtOnce)}
}

type observedKey struct{}

// operation is the outermost operation interceptor.
func (o *observer) operation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	op := graphql.GetOperationContext(ctx)
	ctx = context.WithValue(ctx, observedKey{}, true)
	kind := string(op.Operation.Operation)
	if op.Operation.Operation == ast.Subscription {
		o.meter.Subscriptions(1)
		context.AfterFunc(ctx, func() { o.meter.Subscriptions(-1) })
		o.meter.Operation(kind, codeOK, time.Since(op.Stats.OperationStart))
		return o.ends(kind, next(ctx))
	}
	respond := next(ctx)
	var once sync.Once
	return func(ctx context.Context) *graphql.Response {
		r := respond(ctx)
		if r == nil {
			return nil
		}
		once.Do(func() {
			code, took := codeOf(r.Errors), time.Since(op.Stats.OperationStart)
			o.meter.Operation(kind, code, took)
			if op.Operation.Operation == ast.Mutation {
				o.log.InfoContext(ctx, "mutation", "operation", fields(op), "code", code, "ms", float64(took.Microseconds())/1000, "actor", nameOf(ctx))
			}
		})
		return r
	}
}

// ends counts the codes with which subscriptions end or are refused.
func (o *observer) ends(kind string, respond graphql.ResponseHandler) graphql.ResponseHandler {
	return func(ctx context.Context) *graphql.Response {
		r := respond(ctx)
		if r != nil && len(r.Errors) > 0 {
			o.meter.Operation(kind, codeOf(r.Errors), 0)
		}
		return r
	}
}

// refused is the response interceptor that sees what never became an operation: what can't be read, is invalid, or asks for too much.
func (o *observer) refused(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	r := next(ctx)
	if r == nil || ctx.Value(observedKey{}) != nil || !graphql.HasOperationContext(ctx) {
		return r
	}
	op := graphql.GetOperationContext(ctx)
	kind := "invalid"
	if op.Operation != nil {
		kind = string(op.Operation.Operation)
	}
	code := codeOf(r.Errors)
	o.meter.Operation(kind, code, time.Since(op.Stats.OperationStart))
	if kind == string(ast.Mutation) {
		o.log.InfoContext(ctx, "mutation", "operation", fields(op), "code", code, "actor", nameOf(ctx))
	}
	if code != codeOK {
		o.tarpit.hold(ctx, callerOf(ctx))
	}
	return r
}

// signIn warns of a token, link or socket that does not count. What was shown is never said.
func (o *observer) signIn(ctx context.Context, how, from string, err error) {
	if fault.CodeOf(err) != fault.Unauthenticated {
		return
	}
	o.meter.SignInRefused()
	if o.refusals.Allow() {
		o.log.WarnContext(ctx, "sign-in refused", "how", how, "from", from, "because", fault.From(err).Message)
	}
}

// fields names the mutations that an operation runs: names of the schema, not words of the caller.
func fields(op *graphql.OperationContext) string {
	const most = 5
	var names []string
	for _, f := range graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Mutation"}) {
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, f.Name)
	}
	return strings.Join(names, ",")
}

func nameOf(ctx context.Context) string {
	who, err := actor(ctx)
	if err != nil {
		return ""
	}
	return who.Name
}

// addressOf gives where a request came from, without its port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// metrics lets in whoever shows a bearer token with a grant in every tenant: the figures tell of all of them.
func metrics(a *API, o *observer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer, _ := bearerOf(r.Header.Get("Authorization"))
		who, err := a.Issuer.Verify(bearer)
		if bearer != "" {
			o.signIn(r.Context(), "bearer token", addressOf(r), err)
		}
		if err == nil {
			err = a.Authority.Everywhere(r.Context(), a.DB.Pool(), who, iam.MetricsRead)
		}
		switch fault.CodeOf(err) {
		case "":
			next.ServeHTTP(w, r)
		case fault.Unauthenticated:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, r, http.StatusUnauthorized, fault.From(err))
		case fault.Forbidden:
			refuse(w, r, http.StatusForbidden, fault.From(err))
		default:
			refuseSignIn(w, r, err)
		}
	})
}

// LogHandler adds to each record the id of the request in whose context it was written.
func LogHandler(h slog.Handler) slog.Handler { return withRequest{h} }

type withRequest struct{ slog.Handler }

// Handle writes the record.
func (h withRequest) Handle(ctx context.Context, r slog.Record) error {
	if request := requestID(ctx); request != "" {
		r.AddAttrs(slog.String("request_id", request))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the id.
func (h withRequest) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withRequest{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the id.
func (h withRequest) WithGroup(name string) slog.Handler {
	return withRequest{h.Handler.WithGroup(name)}
}
