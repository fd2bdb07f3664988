package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// api speaks the public GraphQL API.
type api struct {
	endpoint string
	token    string
	http     *http.Client
}

func newAPI(server, token string) *api {
	return &api{
		endpoint: strings.TrimRight(server, "/") + "/graphql", token: token,
		http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
	}
}

// tries is how often a call is made when the control plane can't answer now. Who calls sees to it that a repeat does no harm.
const tries = 6

// do makes one call and reads its data into out. What the control plane refuses is a fault with its code.
func (a *api) do(ctx context.Context, query string, variables map[string]any, out any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return fmt.Errorf("write the call: %w", err)
	}
	for try := 1; ; try++ {
		err := a.once(ctx, body, out)
		f := fault.From(err)
		if err == nil || try == tries || ctx.Err() != nil || f.Code != fault.Unavailable && f.Code != fault.ResourceExhausted {
			return err
		}
		pause := 100 * time.Millisecond << try
		if ms, ok := f.Details["retryAfterMs"].(float64); ok {
			pause = time.Duration(ms) * time.Millisecond
		}
		if err := rest(ctx, pause/2+rand.N(pause)); err != nil { //nolint:gosec // jitter, no secret
			return err
		}
	}
}

func (a *api) once(ctx context.Context, body []byte, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.endpoint, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the call: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.http.Do(request)
	if err != nil {
		return fault.Because(fault.Unavailable, err, nil, "the control plane can't be reached")
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return fault.Because(fault.Unavailable, err, nil, "the control plane's answer was cut off")
	}
	var answer struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct {
				Code    fault.Code
				Details map[string]any
			}
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fault.Because(fault.Unavailable, err, nil, "what answered is no control plane: HTTP %d", response.StatusCode)
	}
	if len(answer.Errors) > 0 {
		e := answer.Errors[0]
		if e.Extensions.Code == "" {
			return fmt.Errorf("the control plane answered: %w", errors.New(e.Message))
		}
		return fault.New(e.Extensions.Code, e.Extensions.Details, "%s", e.Message)
	}
	if err := json.Unmarshal(answer.Data, out); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// act makes a mutation whose payload nobody needs.
func (a *api) act(ctx context.Context, name, inputType string, input map[string]any) error {
	var out map[string]json.RawMessage
	return a.do(ctx, fmt.Sprintf(`mutation($input: %s!) { %s(input: $input) { cursor } }`, inputType, name), map[string]any{"input": input}, &out)
}

// rest waits, but not beyond ctx.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
