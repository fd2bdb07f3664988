package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/better-compute/better-compute/fault"
)

// JoinRequest is the body of a join. Byte fields travel as standard base64.
type JoinRequest struct {
	// Token is the join token's whole text.
	Token string `json:"token"`
	// CSR is the certificate request in DER: P-256, empty subject, no names, no extensions.
	CSR []byte `json:"csr"`
	// IdentityKey is the machine's Ed25519 public key, 32 bytes.
	IdentityKey []byte `json:"identityKey"`
	// Proof is the identity key's signature over JoinProof, 64 bytes.
	Proof []byte `json:"proof"`
	// Print tells this machine from others.
	Print JoinPrint `json:"print"`
	// Hostname is the machine's host name.
	Hostname string `json:"hostname"`
	// AgentVersion is the version of bcd.
	AgentVersion string `json:"agentVersion"`
	// Clock is the machine's time; only its skew is shown.
	Clock time.Time `json:"clock"`
}

// JoinPrint is Print as a join carries it. An unknown part is empty.
type JoinPrint struct {
	// MachineID is /etc/machine-id.
	MachineID string `json:"machineId"`
	// ProductUUID is the SMBIOS product UUID, lower case.
	ProductUUID string `json:"productUuid"`
	// EKHash is the lower-case hex SHA-256 of the TPM's public endorsement key.
	EKHash string `json:"ekHash"`
	// BootID is the kernel's boot id.
	BootID string `json:"bootId"`
}

// JoinAnswer is the body of an accepted join.
type JoinAnswer struct {
	// NodeID is the node that the machine is now ("node_…").
	NodeID string `json:"nodeId"`
	// Key is the identity's fingerprint, as Fingerprint gives it.
	Key string `json:"key"`
	// Certificate is the leaf and its intermediate, PEM, the leaf first.
	Certificate string `json:"certificate"`
	// Root is the trust domain's root certificate, PEM.
	Root string `json:"root"`
	// Serial is the leaf's serial number in lower-case hex.
	Serial string `json:"serial"`
	// Generation is the identity generation that the leaf carries.
	Generation int64 `json:"generation"`
	// NotBefore is when the leaf begins to be valid.
	NotBefore time.Time `json:"notBefore"`
	// NotAfter is when the leaf runs out.
	NotAfter time.Time `json:"notAfter"`
	// TrustDomain is the name of the control plane in all its certificates.
	TrustDomain string `json:"trustDomain"`
	// Time is the database's clock at this answer, so an answer that is given again differs in it.
	Time time.Time `json:"time"`
}

// ErrorBody is the body of every refusal of a gateway.
type ErrorBody struct {
	// Code is the kind of refusal.
	Code fault.Code `json:"code"`
	// Message is one sentence for a person.
	Message string `json:"message"`
	// Details are facts for programs; details.reason tells why a session was refused.
	Details fault.Details `json:"details,omitempty"`
	// RetryAfterMs is how long to wait before the next try, in milliseconds; 0 leaves it to the machine.
	RetryAfterMs int64 `json:"retryAfterMs"`
}

// JoinProof gives the bytes that the identity key signs to join: the purpose, the exporter value of this very TLS connection (JoinExporterLabel,
// nil context, ExporterSize bytes), the request's hash and the token's id. So a proof can be neither replayed nor relayed.
func JoinProof(exporter, csrDER []byte, tokenID string) []byte {
	csr := sha256.Sum256(csrDER)
	b := make([]byte, 0, len(joinPurpose)+len(exporter)+len(csr)+len(tokenID))
	b = append(b, joinPurpose...)
	b = append(b, exporter...)
	b = append(b, csr[:]...)
	return append(b, tokenID...)
}

const joinPurpose = "bc-join-v1"

// Fingerprint is the name of an identity: the lower-case hex SHA-256 of its Ed25519 public key.
func Fingerprint(identityKey []byte) string {
	sum := sha256.Sum256(identityKey)
	return hex.EncodeToString(sum[:])
}
