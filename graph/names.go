package graph

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
)

// frame is a message of graphql-transport-ws.
type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// fromClient are the types that a client may send.
var fromClient = []string{"connection_init", "subscribe", "complete", "ping", "pong"}

// names are the ids of a socket's operations. gqlgen takes a second operation under the id of one that runs, of which it then loses sight; and a client
// may use an id again as soon as it has ended the operation, while gqlgen's last words on that are still to come. So the first is refused, and the
// second goes by another name here, until the words on the first are known to be over.
type names struct {
	mu      sync.Mutex
	begun   bool              // the client has said connection_init
	running map[string]string // gqlgen's id of an operation, by the client's
	over    map[string]bool   // gqlgen's ids of those that the client need not hear of any more
	client  map[string]string // the client's id, by gqlgen's where they differ
	serial  int
}

// refusal is with what a socket is closed; the zero value is none.
type refusal struct {
	code   int
	reason string
}

// read gives a message from the client as gqlgen is to have it. A message that is none of the protocol's is given as it is, and ok is false.
func (n *names) read(data []byte) (out []byte, ok bool, no refusal) {
	if nests(data) {
		return nil, false, refusal{closeMalformed, "the message nests too deep"}
	}
	var f frame
	if json.Unmarshal(data, &f) != nil || !slices.Contains(fromClient, f.Type) {
		return data, false, no
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	id := f.ID
	switch f.Type {
	case "connection_init":
		if n.begun {
			return nil, true, refusal{closeTwice, "Too many initialisation requests"}
		}
		n.begun = true
	case "subscribe":
		switch under, taken := n.running[id]; {
		case !n.begun:
			return nil, true, refusal{closeUnauthorized, "Unauthorized: say connection_init first"}
		case id == "":
			return nil, true, refusal{closeMalformed, "subscribe needs an id"}
		case taken && !n.over[under]:
			return nil, true, refusal{closeTaken, "Subscriber for " + short(id) + " already exists"}
		case taken:
			n.serial++
			f.ID = id + "\x00" + strconv.Itoa(n.serial)
			n.client[f.ID] = id
		}
		if n.running == nil {
			n.running, n.over, n.client = map[string]string{}, map[string]bool{}, map[string]string{}
		}
		n.running[id] = f.ID
	case "complete":
		if under, known := n.running[id]; known {
			f.ID = under
			n.over[under] = true
		}
	}
	if f.ID == id {
		return data, true, no
	}
	out, err := json.Marshal(f)
	return out, err == nil, no
}

var (
	lastWord  = []byte(`"type":"complete"}`)
	errorWord = []byte(`"type":"error"}`)
)

// write gives a message to the client as the client is to have it; nil when it need not have it.
func (n *names) write(data []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, failed := bytes.HasSuffix(data, lastWord), bytes.HasSuffix(data, errorWord)
	if !last && !failed && len(n.over) == 0 && len(n.client) == 0 {
		return data
	}
	var f frame
	if json.Unmarshal(data, &f) != nil || f.ID == "" {
		return data
	}
	under, over := f.ID, n.over[f.ID]
	if other, differs := n.client[under]; differs {
		f.ID = other
	}
	switch {
	case last:
		delete(n.over, under)
		delete(n.client, under)
		if n.running[f.ID] == under {
			delete(n.running, f.ID)
		}
	case failed:
		n.over[under] = true // a complete follows, which after an error says nothing
	}
	switch {
	case over:
		return nil
	case f.ID == under:
		return data
	}
	out, err := json.Marshal(f)
	if err != nil {
		return data
	}
	return out
}

// short is what of a client's id goes into a close reason, which has 123 bytes at most.
func short(id string) string {
	const most = 40
	if len(id) > most {
		return strconv.QuoteToASCII(id[:most])[:most] + "…"
	}
	return id
}
