package graph

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// present translates every error once: the code, the sentence, the details, and the request id by which the log has the rest.
func present(log *slog.Logger) graphql.ErrorPresenterFunc {
	return func(ctx context.Context, err error) *gqlerror.Error {
		out := graphql.DefaultErrorPresenter(ctx, err)
		f := faultOf(ctx, err, out)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			// The client left, which is no fault of ours, or the process stops, which says so by itself.
		case f.Code == fault.Internal, f.Code == fault.Unavailable:
			log.ErrorContext(ctx, "request failed", "code", f.Code, "path", out.Path.String(), "error", cause(f))
		}
		out.Message = f.Message
		out.Extensions = map[string]any{"code": f.Code, "requestId": requestID(ctx)}
		if len(f.Details) > 0 {
			out.Extensions["details"] = f.Details
		}
		out.Rule = ""
		return out
	}
}

// faultOf finds what an error means. A resolver's error carries a fault; what has none was said by gqlgen about the operation or its arguments.
func faultOf(ctx context.Context, err error, out *gqlerror.Error) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	switch code, _ := out.Extensions["code"].(string); code {
	case "COMPLEXITY_LIMIT_EXCEEDED":
		return fault.New(fault.ResourceExhausted, nil, "the operation asks for too much at once: %s; ask for fewer fields or shorter pages", out.Message)
	case "PERSISTED_QUERY_NOT_FOUND":
		return fault.Invalid("extensions.persistedQuery", "is not known here; send the query's text", 0)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return fault.New(fault.Unavailable, nil, "the request took too long or was given up")
	}
	// gqlgen repeats in its sentences what the client sent, which can be the whole body.
	said := out.Message
	if runes := []rune(said); len(runes) > maxSaid {
		said = string(runes[:maxSaid]) + "…"
	}
	details := fault.Details{"rule": said}
	if len(out.Path) > 0 {
		details["argument"] = out.Path.String()
	}
	return fault.New(fault.InvalidInput, details, "%s", said)
}

// maxSaid is how many characters of a sentence of gqlgen's are passed on.
const maxSaid = 300

func cause(f *fault.Error) error {
	if c := errors.Unwrap(f); c != nil {
		return c
	}
	return f
}

// markInternal gives what a resolver failed with, and that carries no code, its code: after it, an error without a fault can only be one of
// gqlgen's about the request.
func markInternal(ctx context.Context, next graphql.Resolver) (any, error) {
	v, err := next(ctx)
	if err != nil {
		err = coded(ctx, err)
	}
	return v, err
}

func coded(ctx context.Context, err error) error {
	var f *fault.Error
	var g *gqlerror.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f), errors.As(err, &g):
		return err
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fault.Because(fault.Unavailable, err, nil, "the request took too long or was given up; a request id tells what became of it")
	case db.Unanswered(err):
		return db.Unavailable(err)
	}
	return fault.From(err)
}

// recovered turns a panic in a resolver into an INTERNAL; the log has the rest.
func recovered(log *slog.Logger) graphql.RecoverFunc {
	return func(ctx context.Context, p any) error {
		log.ErrorContext(ctx, "panic in a resolver", "panic", p)
		return fault.From(errors.New("panic"))
	}
}

type requestKey struct{}

func withRequestID(ctx context.Context) (context.Context, string) {
	text := id.New("req")
	return context.WithValue(ctx, requestKey{}, text), text
}

func requestID(ctx context.Context) string {
	text, _ := ctx.Value(requestKey{}).(string)
	return text
}

// slot is where a subscription leaves why it ended. gqlgen has no way for it that works on both transports: AddSubscriptionError takes the process
// down under SSE, and an error returned later looks like a normal end.
type slot struct {
	mu   sync.Mutex
	err  error
	said bool
}

type slotKey struct{}

// endWith leaves the error with which a subscription ends.
func endWith(ctx context.Context, err error) {
	s, ok := ctx.Value(slotKey{}).(*slot)
	if !ok || ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = coded(ctx, err)
}

func (s *slot) take() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	s.err = nil
	return err
}

// last says whether the end was not said before.
func (s *slot) last() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.said
	s.said = true
	return first
}

// endings is the operation interceptor that turns the end of a subscription into one message with errors, before the end itself, on both
// transports.
func endings(presenter graphql.ErrorPresenterFunc) graphql.OperationMiddleware {
	return func(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
		s := &slot{}
		respond := next(context.WithValue(ctx, slotKey{}, s))
		return func(ctx context.Context) *graphql.Response {
			if r := respond(ctx); r != nil {
				return r
			}
			err := s.take()
			var restart *fault.Error
			if err == nil && errors.As(context.Cause(ctx), &restart) {
				err = restart
			}
			if err != nil && s.last() {
				return &graphql.Response{Errors: gqlerror.List{presenter(ctx, err)}, Data: []byte("null")}
			}
			return nil
		}
	}
}
