package gateway

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"

	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/liveness"
)

// ReadJoin reads a body as the join path does.
func ReadJoin(body []byte) (wire.JoinRequest, error) {
	r := httptest.NewRequest(http.MethodPost, wire.JoinPath, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return readJoin(httptest.NewRecorder(), r)
}

// OpenFull gives what a Hello gets when the queue of those that wait for the database is full.
func OpenFull(ctx context.Context) error {
	o := opener{queue: make(chan hello)} // nobody takes from it
	_, err := o.open(ctx, liveness.Hello{})
	return err
}
