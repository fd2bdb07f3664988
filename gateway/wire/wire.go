// Package wire is what bcd and a gateway agree on: the frames of a session (session.proto), how a frame is read and written within limits, the
// JSON of a join, the bytes that a join's proof signs, and the text of a join token. It holds no state, and both sides use the same code.
package wire

import "time"

//go:generate go -C ../../tools run ./protogen ../gateway/wire session.proto

// The two endpoints of a gateway's TLS listener, and the words that both sides must spell alike.
const (
	// JoinPath takes a JoinRequest by POST and answers with a JoinAnswer or an ErrorBody.
	JoinPath = "/v1/join"
	// SessionPath is upgraded to the websocket of a session.
	SessionPath = "/v1/session"
	// Subprotocol names the session's protocol in the upgrade.
	Subprotocol = "bc.session.v1"
	// JoinExporterLabel names the TLS exporter value that binds a join's proof to its connection.
	JoinExporterLabel = "EXPORTER-better-compute-join-v1"
	// ExporterSize is the length of that value in bytes.
	ExporterSize = 32
	// GatewayPrefix stands before the trust domain in the one DNS name of a gateway's certificate.
	GatewayPrefix = "gateway."
)

// The limits of what is read from the other side.
const (
	// MaxJoinBody bounds the body of a join request and of its answer, in bytes.
	MaxJoinBody = 16 << 10
	// JoinTimeout bounds a whole join request.
	JoinTimeout = 10 * time.Second
	// MaxFrame bounds every frame but an Inventory, in bytes.
	MaxFrame = 64 << 10
	// MaxInventory bounds a frame that carries an Inventory, in bytes.
	MaxInventory = 1 << 20
	// HelloTimeout is how long a gateway waits for the first frame.
	HelloTimeout = 10 * time.Second
	// WriteTimeout bounds the sending of one frame; the connection is given up when it passes.
	WriteTimeout = 10 * time.Second
)

// The rhythm that a gateway tells in its Welcome.
const (
	// BeatInterval is how often a machine beats.
	BeatInterval = 10 * time.Second
	// Lease is how long a node counts as connected after its last beat.
	Lease = 40 * time.Second
)

// Reasons that a gateway gives in details.reason when it refuses a session with 401.
const (
	// ReasonRevoked: the certificate was revoked.
	ReasonRevoked = "revoked"
	// ReasonSuperseded: a newer certificate of the node was used already.
	ReasonSuperseded = "superseded"
	// ReasonDeleted: the node was deleted.
	ReasonDeleted = "deleted"
	// ReasonGeneration: the node's identity has moved on to a newer generation.
	ReasonGeneration = "generation"
	// ReasonUnknown: no certificate was shown, or none that the control plane has on record.
	ReasonUnknown = "unknown"
	// ReasonExpired: the certificate ran out.
	ReasonExpired = "expired"
	// ReasonQuarantined: the certificate was used by two machines.
	ReasonQuarantined = "quarantined"
)

// GatewayName is the one DNS name in the certificate of a gateway of the trust domain.
func GatewayName(trustDomain string) string { return GatewayPrefix + trustDomain }

// NodeURI is the one URI name in the certificate of a node.
func NodeURI(trustDomain, nodeID string) string { return "spiffe://" + trustDomain + "/node/" + nodeID }
