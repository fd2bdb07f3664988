package gateway

import (
	"bytes"
	"net/http"
	"net/http/httptest"

	"github.com/better-compute/better-compute/gateway/wire"
)

// ReadJoin reads a body as the join path does.
func ReadJoin(body []byte) (wire.JoinRequest, error) {
	r := httptest.NewRequest(http.MethodPost, wire.JoinPath, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return readJoin(httptest.NewRecorder(), r)
}
