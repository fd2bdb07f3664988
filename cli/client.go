package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/better-compute/better-compute/fault"
)

const (
	dialTimeout   = 5 * time.Second
	answerTimeout = 30 * time.Second
	// retryFor bounds how long a call goes on trying when the server can't be reached or says that it can't answer now.
	retryFor     = 2 * time.Second
	firstPause   = 50 * time.Millisecond
	longestPause = 500 * time.Millisecond
	// largestAnswer is far above a page of 500 nodes.
	largestAnswer = 64 << 20
)

// client speaks GraphQL with one server as one principal.
type client struct {
	endpoint string
	token    string
	http     *http.Client
	// skew is the server's clock minus ours, so that ages are right on a machine whose clock is wrong.
	skew time.Duration
	// patience bounds one call, and quiet is how long a stream may say nothing before it counts as dead.
	patience, quiet time.Duration
}

func newClient(server, token string) (*client, error) {
	u, err := url.Parse(server)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, Usage("%q is no server: it must look like https://compute.example.org or http://127.0.0.1:8080", server)
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		// The websocket is an upgrade of HTTP/1.1.
		Protocols: new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true)
	return &client{
		endpoint: strings.TrimRight(u.String(), "/") + "/graphql",
		token:    token,
		patience: answerTimeout,
		quiet:    quietFor,
		http: &http.Client{
			Transport: transport,
			// A redirect would take the token elsewhere, or turn the call into another.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// now is the moment by the server's clock.
func (c *client) now() time.Time { return time.Now().Add(c.skew) }

// do sends one operation and reads its data into out. It tries again for a short while when the server isn't reached or says so; mutations carry
// a request id, so that a second delivery of the same act does nothing.
func (c *client) do(ctx context.Context, op operation, variables map[string]any, out any) error {
	body, err := json.Marshal(map[string]any{"query": op.text, "operationName": op.name, "variables": variables})
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	end := time.Now().Add(retryFor)
	unsure := false
	give := func(err error) error {
		if e, ok := errors.AsType[*Error](err); ok && e.unsure != unsure {
			e := *e
			e.unsure = unsure
			return &e
		}
		return err
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := c.once(ctx, body, out)
		if err == nil {
			return nil
		}
		unsure = unsure || asError(err).unsure
		switch {
		case ctx.Err() != nil:
			return give(err)
		case !passing(err):
			return err // an answer, which also says what became of the tries before
		}
		wait := comeBack(pause, retryAfter(asError(err)))
		if time.Now().Add(wait).After(end) {
			return give(err)
		}
		if err := rest(ctx, wait); err != nil {
			return give(err)
		}
	}
}

func (c *client) once(ctx context.Context, body []byte, out any) error {
	bounded, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	request, err := http.NewRequestWithContext(bounded, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/graphql-response+json, application/json")
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return c.unreached(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return c.unreached(ctx, err)
	}
	if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		// The header has whole seconds: a smaller difference is none.
		if c.skew = time.Until(at); c.skew.Abs() < 2*time.Second {
			c.skew = 0
		}
	}
	return c.read(response, text, out)
}

// answer is a GraphQL response, over HTTP or in a frame.
type answer struct {
	Data   json.RawMessage `json:"data"`
	Errors []apiError      `json:"errors"`
}

type apiError struct {
	Message    string `json:"message"`
	Extensions struct {
		Code      string        `json:"code"`
		Details   fault.Details `json:"details"`
		RequestID string        `json:"requestId"`
	} `json:"extensions"`
}

func (c *client) read(response *http.Response, text []byte, out any) error {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || (a.Data == nil && len(a.Errors) == 0) {
		return c.byStatus(response.StatusCode, text)
	}
	if len(a.Errors) > 0 {
		return refusal(a.Errors)
	}
	if err := json.Unmarshal(a.Data, out); err != nil {
		return &Error{Code: string(fault.Internal), Message: "the server's answer can't be read: " + err.Error(), cause: err}
	}
	return nil
}

// refusal translates the server's first error. The others of one operation follow from it.
func refusal(errs []apiError) error {
	one := errs[0]
	e := &Error{Code: one.Extensions.Code, Message: one.Message, Details: one.Extensions.Details, RequestID: one.Extensions.RequestID}
	switch fault.Code(e.Code) {
	case fault.Unavailable, fault.ResourceExhausted:
		e.passing = true
	case "":
		e.Code = string(fault.Internal)
	default: // another try gives the same
	}
	return e
}

// byStatus is for an answer that is no GraphQL: a proxy's, or that of another server altogether.
func (c *client) byStatus(status int, text []byte) error {
	var body struct {
		Code    string        `json:"code"`
		Message string        `json:"message"`
		Details fault.Details `json:"details"`
	}
	if json.Unmarshal(text, &body) == nil && body.Code != "" && body.Message != "" {
		one := apiError{Message: body.Message}
		one.Extensions.Code, one.Extensions.Details = body.Code, body.Details
		return refusal([]apiError{one})
	}
	says := fmt.Sprintf("%s answers %d %s", c.endpoint, status, http.StatusText(status))
	switch {
	case status == http.StatusUnauthorized:
		return &Error{Code: string(fault.Unauthenticated), Message: says}
	case status == http.StatusForbidden:
		return &Error{Code: string(fault.Forbidden), Message: says}
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout:
		return unavailable(nil, "%s", says)
	case status >= http.StatusInternalServerError:
		return &Error{Code: string(fault.Internal), Message: says}
	}
	return &Error{Code: string(fault.Unavailable), Message: says + ": is that a better-compute server?"}
}

// unreached puts a failure of the network in one sentence.
func (c *client) unreached(ctx context.Context, err error) error {
	dialing, ok := errors.AsType[*net.OpError](err)
	sent := !ok || dialing.Op != "dial"
	if ctx.Err() != nil {
		e := *asError(ended(ctx))
		e.unsure = sent
		return &e
	}
	var (
		dns        *net.DNSError
		untrusted  *tls.CertificateVerificationError
		netTimeout net.Error
	)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e := unavailable(err, "nothing listens at %s (connection refused)", c.endpoint)
		e.Hint = "is better-compute serve running there?"
		return e
	case errors.As(err, &dns):
		return &Error{Code: string(fault.Unavailable), Message: fmt.Sprintf("the host of %s is not known", c.endpoint), cause: err}
	case errors.As(err, &untrusted):
		return &Error{Code: string(fault.Unavailable), Message: fmt.Sprintf("the certificate of %s is not trusted: %v", c.endpoint, untrusted.Err), cause: err}
	case errors.As(err, &netTimeout) && netTimeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		// It passes, perhaps; but a call that has waited that long is not made again.
		e := unavailable(err, "%s does not answer", c.endpoint)
		e.unsure = sent
		return e
	}
	if plain, ok := errors.AsType[*url.Error](err); ok {
		err = plain.Err
	}
	e := unavailable(err, "the connection to %s broke: %v", c.endpoint, err)
	e.unsure = sent
	return e
}

// ended says why a context ended: its cause where that is an end of ours, like a wait's own bound, else an interruption.
func ended(ctx context.Context) error {
	var e *Error
	if cause := context.Cause(ctx); errors.As(cause, &e) {
		return e
	}
	return &Error{Code: codeInterrupted, Message: "interrupted", cause: ctx.Err()}
}

// longestAsked bounds the pause that a server can ask for.
const longestAsked = 15 * time.Minute

func retryAfter(e *Error) time.Duration {
	ms, _ := e.Details["retryAfterMs"].(float64)
	return time.Duration(max(0, min(ms, float64(longestAsked.Milliseconds())))) * time.Millisecond
}

// jitter gives a random share of d: clients that lost one server at once must not come back at once.
func jitter(d time.Duration) time.Duration {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d)+1))
	if err != nil {
		return d
	}
	return time.Duration(n.Int64())
}

// comeBack gives the pause before another try: what the server asked for, and then a random share of a span, the first time too. A server that asks
// many to stay away for the same time must not get them back in the same moment.
func comeBack(span, asked time.Duration) time.Duration { return asked + jitter(max(span, asked)) }

// rest waits, but no longer than ctx lives.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// requestID makes the id under which the server does an act once, however often it arrives.
func requestID() string { return rand.Text() }
