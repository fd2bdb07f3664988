package socket

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 has it for telling a websocket from anything else; nothing depends on its strength
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// The end of the text whose hash proves to a client that a server knows websockets: RFC 6455, section 1.3.
const proof = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// Check says whether a request may become a websocket of that subprotocol: INVALID_INPUT with the header that stands against it, and FORBIDDEN for
// one that a web page made, since no machine sends an Origin.
func Check(r *http.Request, subprotocol string) error {
	h := r.Header
	key, err := base64.StdEncoding.DecodeString(h.Get("Sec-Websocket-Key"))
	switch {
	case r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1):
		return fault.Invalid("method", "must be GET by HTTP/1.1", 0)
	case h.Get("Origin") != "":
		return fault.New(fault.Forbidden, nil, "this is for machines, and not for web pages")
	case !has(h, "Connection", "upgrade"):
		return fault.Invalid("Connection", "must be Upgrade", 0)
	case !has(h, "Upgrade", "websocket"):
		return fault.Invalid("Upgrade", "must be websocket", 0)
	case h.Get("Sec-Websocket-Version") != "13":
		return fault.Invalid("Sec-WebSocket-Version", "must be 13", 0)
	case err != nil || len(key) != 16 || len(h.Values("Sec-Websocket-Key")) != 1:
		return fault.Invalid("Sec-WebSocket-Key", "must be 16 bytes in base64", 0)
	case !has(h, "Sec-Websocket-Protocol", strings.ToLower(subprotocol)):
		return fault.Invalid("Sec-WebSocket-Protocol", "must offer "+subprotocol, 0)
	}
	return nil
}

// has says whether a header has the word among those that commas part.
func has(h http.Header, name, word string) bool {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), word) {
				return true
			}
		}
	}
	return false
}

// Accept answers a request that Check has passed, and takes its connection over; see [New].
func Accept(w http.ResponseWriter, r *http.Request, subprotocol string, now func() time.Duration) (*Conn, error) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + proof)) //nolint:gosec // as above
	h := w.Header()
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", "websocket")
	h.Set("Sec-Websocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
	h.Set("Sec-Websocket-Protocol", subprotocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says all
	}
	c := New(conn, now)
	// A machine waits for the answer before it sends a frame, so nothing is buffered; what is, is taken as far as it fits.
	n := buffered.Reader.Buffered()
	if n > len(c.in) {
		_ = conn.Close()
		return nil, fault.Invalid("body", "must be empty before the answer", 0)
	}
	if n > 0 {
		early, err := buffered.Peek(n)
		if err != nil {
			return nil, err //nolint:wrapcheck // what is buffered is there
		}
		c.to = copy(c.in[:], early)
	}
	return c, nil
}
