package graph

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/iam"
)

// cookieName is the browser's session. Its value is a token like any other, which scripts can't read and other sites can't send.
const cookieName = "bc_session"

// authenticate puts who asks into the context: by the bearer token, else by the cookie, which counts only from our own pages. Nobody is let through
// too: each operation says UNAUTHENTICATED by itself, so that every transport says it in its own shape.
func authenticate(hosts Hosts, issuer *iam.Issuer, seen *observer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bearer, ok := bearerOf(r.Header.Get("Authorization")); ok {
			who, err := issuer.Verify(bearer)
			if err == nil {
				r = r.WithContext(withActor(r.Context(), who))
			}
			seen.signIn(r.Context(), "bearer token", addressOf(r), err)
			next.ServeHTTP(w, r)
			return
		}
		cookie, err := r.Cookie(cookieName)
		if err != nil {
			next.ServeHTTP(w, r)
			return
		}
		if origin := r.Header.Get("Origin"); origin == "" || !hosts.same(r, origin) {
			refuse(w, r, http.StatusForbidden, fault.New(fault.Forbidden, nil, "a signed-in browser must send its Origin; programs use a bearer token"))
			return
		}
		who, err := issuer.Verify(cookie.Value)
		if err == nil {
			r = r.WithContext(withActor(r.Context(), who))
		}
		seen.signIn(r.Context(), "session", addressOf(r), err)
		next.ServeHTTP(w, r)
	})
}

func bearerOf(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "bearer")
}

// initSocket takes the token that a client shows in connection_init, else what the upgrade request had, and sees that it still counts. The socket
// ends a moment after the token does.
func initSocket(issuer *iam.Issuer, seen *observer) transport.WebsocketInitFunc {
	return func(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
		refused := transport.WithWebsocketCloseCode(ctx, closeUnauthorized)
		who, err := actor(ctx)
		if bearer, ok := bearerOf(payload.Authorization()); ok {
			if who, err = issuer.Verify(bearer); err == nil {
				ctx = withActor(ctx, who)
			}
			seen.signIn(ctx, "bearer token of a socket", lifeOf(ctx).from, err)
		}
		if err != nil {
			return refused, nil, err
		}
		if err := coded(ctx, issuer.Live(ctx, who)); err != nil {
			seen.signIn(ctx, "token of a socket", lifeOf(ctx).from, err)
			if fault.CodeOf(err) != fault.Unauthenticated {
				refused = transport.WithWebsocketCloseCode(ctx, closeTryLater)
			}
			return refused, nil, err
		}
		lifeOf(ctx).set(who.ExpiresAt)
		// The deadline ends with the connection: gqlgen derives everything of the socket from this context, and the request's own ends it.
		ctx, cancel := context.WithDeadline(ctx, who.ExpiresAt.Add(expiryMargin))
		context.AfterFunc(ctx, cancel)
		return ctx, nil, nil
	}
}

// expiryMargin lets the subscriptions of a socket say UNAUTHENTICATED by themselves before the socket is closed.
const expiryMargin = 3 * time.Second

// sessions lets a browser sign in by a one-time link and sign out.
func sessions(issuer *iam.Issuer, secure bool, seen *observer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /session/claim", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Secret string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Secret == "" || len(body.Secret) > 128 {
			refuse(w, r, http.StatusBadRequest, fault.Invalid("secret", "must be the part of the sign-in link after #sign-in=", len(body.Secret)))
			return
		}
		token, expiresAt, err := issuer.ClaimSignIn(r.Context(), body.Secret)
		if err != nil {
			seen.signIn(r.Context(), "link", addressOf(r), err)
			refuseSignIn(w, r, err)
			return
		}
		http.SetCookie(w, sessionCookie(token, secure, time.Until(expiresAt)))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /session/end", func(w http.ResponseWriter, r *http.Request) {
		if who, err := actor(r.Context()); err == nil {
			if err := issuer.RevokeToken(r.Context(), who.TokenID); err != nil {
				refuseSignIn(w, r, err)
				return
			}
		}
		http.SetCookie(w, sessionCookie("", secure, -time.Second))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// signInLinks makes a one-time sign-in link for whoever shows a bearer token: the command line's sign-in.
func signInLinks(a *API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := actor(r.Context())
		if err == nil {
			err = a.Issuer.Live(r.Context(), who)
		}
		if _, bearer := bearerOf(r.Header.Get("Authorization")); err == nil && (!bearer || r.Method != http.MethodPost) {
			err = iam.Unauthenticated()
		}
		var secret string
		if err == nil {
			secret, err = a.Issuer.SignInLink(r.Context(), who.Name)
		}
		if err != nil {
			refuseSignIn(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"secret": secret})
	})
}

// refuseSignIn answers who can't sign in or out: what was shown does not count, or the database does not answer, which is no reason to sign in anew.
func refuseSignIn(w http.ResponseWriter, r *http.Request, err error) {
	f, status := fault.From(coded(r.Context(), err)), http.StatusServiceUnavailable
	if f.Code == fault.Unauthenticated {
		status = http.StatusUnauthorized
	}
	refuse(w, r, status, f)
}

func sessionCookie(value string, secure bool, life time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure follows the scheme: on the loopback there is no TLS
		Name: cookieName, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure, MaxAge: int(life.Seconds()),
	}
}
