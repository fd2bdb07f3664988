package agenttest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/id"
)

type token struct {
	secret [sha256.Size]byte
	used   []byte // the request that used it, for its repeat
	answer wire.JoinAnswer
}

type failure struct {
	status int
	body   string
}

func (g *Gateway) join(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.joins++
	if len(g.fail) > 0 {
		next := g.fail[0]
		g.fail = g.fail[1:]
		w.WriteHeader(next.status)
		_, _ = io.WriteString(w, next.body)
		return
	}
	var request wire.JoinRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, wire.MaxJoinBody)).Decode(&request); err != nil {
		answer(w, http.StatusBadRequest, wire.ErrorBody{Code: fault.InvalidInput, Message: "the body is not a join request"})
		return
	}
	joined, err := g.claim(r.TLS, request)
	if err != nil {
		answer(w, http.StatusUnauthorized, wire.ErrorBody{Code: fault.Unauthenticated, Message: "join token refused: it is unknown, used, expired or revoked; ask for a new one"})
		return
	}
	if g.lose > 0 {
		g.lose--
		panic(http.ErrAbortHandler)
	}
	answer(w, http.StatusOK, joined)
}

var errRefused = errors.New("refused")

func (g *Gateway) claim(state *tls.ConnectionState, request wire.JoinRequest) (wire.JoinAnswer, error) {
	given, err := wire.ParseToken(request.Token)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	known := g.tokens[given.ID()]
	if known == nil || known.secret != given.SecretHash() {
		return wire.JoinAnswer{}, errRefused
	}
	exporter, err := state.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	if len(request.IdentityKey) != ed25519.PublicKeySize ||
		!ed25519.Verify(request.IdentityKey, wire.JoinProof(exporter, request.CSR, given.ID()), request.Proof) {
		return wire.JoinAnswer{}, errRefused
	}
	if same := append(append([]byte{}, request.CSR...), request.IdentityKey...); known.used != nil {
		if !bytes.Equal(known.used, same) {
			return wire.JoinAnswer{}, errRefused
		}
		return known.answer, nil
	}
	csr, err := x509.ParseCertificateRequest(request.CSR)
	if err != nil || csr.CheckSignature() != nil || len(csr.Subject.Names)+len(csr.Extensions) > 0 {
		return wire.JoinAnswer{}, errRefused
	}
	key := wire.Fingerprint(request.IdentityKey)
	nodeID := g.nodes[key]
	if nodeID == "" {
		nodeID = id.New(id.Node)
	}
	leaf, chain, err := g.sign(nodeID, csr.PublicKey)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	g.nodes[key] = nodeID
	known.used = append(append([]byte{}, request.CSR...), request.IdentityKey...)
	known.answer = wire.JoinAnswer{
		NodeID: nodeID, Key: key, Certificate: chain, Root: encode(g.ca.root), Serial: leaf.SerialNumber.Text(16), Generation: 1,
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, TrustDomain: g.TrustDomain, Time: time.Now().UTC(),
	}
	return known.answer, nil
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
