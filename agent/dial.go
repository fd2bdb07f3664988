package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/gateway/wire"
)

// connectTimeout bounds one connect with its handshakes.
const connectTimeout = 10 * time.Second

// trust is what a gateway is measured against.
type trust struct {
	root        *x509.Certificate
	trustDomain string
	// clock is the machine's, which may be wrong.
	clock func() time.Time
	// cable dials; nil: the network itself.
	cable Dial
}

// Dial opens a connection to a gateway, as net.Dialer's DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// learnTrust finds the root with the configured fingerprint at a gateway that nothing else is known of yet. The root is only found here, not believed:
// the next dial verifies the gateway against it, so whoever merely shows the right root gains nothing.
func (a *Agent) learnTrust(ctx context.Context, server string) (trust, error) {
	caFingerprint := a.config.CAFingerprint
	// No root is trusted, so this handshake always fails, and its error carries what the gateway showed.
	probe := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: wire.GatewayPrefix + "invalid", MinVersion: tls.VersionTLS13, Time: a.clock}
	conn, err := handshake(ctx, a.cable, server, probe)
	if err == nil {
		_ = conn.Close()
		return trust{}, fmt.Errorf("%s passed a check that nothing can pass", server)
	}
	shown := unverified(err)
	if len(shown) == 0 {
		return trust{}, dialFault(server, err)
	}
	for _, cert := range shown {
		if fingerprint(cert) != caFingerprint || !cert.IsCA {
			continue
		}
		names := shown[0].DNSNames
		if len(names) != 1 || !strings.HasPrefix(names[0], wire.GatewayPrefix) || names[0] == wire.GatewayPrefix {
			return trust{}, fault.New(fault.Unauthenticated, nil, "%s is no gateway of this control plane: its certificate has another name", server)
		}
		return trust{root: cert, trustDomain: strings.TrimPrefix(names[0], wire.GatewayPrefix), clock: a.clock, cable: a.cable}, nil
	}
	return trust{}, fault.New(fault.Unauthenticated, nil,
		"%s does not show the root certificate with the fingerprint %s; check server and ca_fingerprint; the token was not sent", server, caFingerprint)
}

// dial opens a verified TLS connection to a gateway, with the machine's certificate when there is one. When the machine's clock lies outside the
// validity of the gateway's certificate, it is moved to the nearer end of it: a machine may wake in 1970, and the short life of gateway
// certificates protects against other things than a wrong clock.
func (t trust) dial(ctx context.Context, server string, credential *Credential) (*tls.Conn, error) {
	config := &tls.Config{
		RootCAs: pool(t.root), ServerName: wire.GatewayName(t.trustDomain), MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		Time: t.clock,
	}
	if credential != nil {
		certificate := credential.tls()
		// Shown whatever issuers the gateway names: a refusal with its reason is worth more than a connection without a certificate.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
	conn, err := handshake(ctx, t.cable, server, config)
	var invalid x509.CertificateInvalidError
	if shown := unverified(err); len(shown) > 0 && errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		at := within(t.clock(), shown[0])
		config.Time = func() time.Time { return at }
		conn, err = handshake(ctx, t.cable, server, config)
	}
	if err != nil {
		return nil, dialFault(server, err)
	}
	return conn, nil
}

// within moves a time into the validity of a certificate.
func within(now time.Time, cert *x509.Certificate) time.Time {
	if now.Before(cert.NotBefore) {
		return cert.NotBefore
	}
	if now.After(cert.NotAfter) {
		return cert.NotAfter
	}
	return now
}

func handshake(ctx context.Context, cable Dial, server string, config *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if cable == nil {
		cable = (&net.Dialer{}).DialContext
	}
	conn, err := cable(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// unverified gives the certificates of a handshake that failed on them.
func unverified(err error) []*x509.Certificate {
	if failed, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return failed.UnverifiedCertificates
	}
	return nil
}

// dialFault turns a failed connect into one sentence with what to do.
func dialFault(server string, err error) error {
	var record tls.RecordHeaderError
	var failed *tls.CertificateVerificationError
	var name *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &record):
		return fault.Because(fault.Unavailable, err, nil, "%s answers, but not with TLS; is it the gateway's address and not the API's?", server)
	case errors.As(err, &failed):
		return fault.Because(fault.Unauthenticated, err, nil, "%s is not a gateway that this machine may trust: %v", server, failed.Err)
	case isAlert(err):
		return fault.Because(fault.Unavailable, err, nil, "%s ended the TLS connection: %v", server, err)
	case errors.As(err, &name):
		return fault.Because(fault.Unavailable, err, nil, "the host of %s is not known here: %s", server, name.Err)
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return fault.Because(fault.Unavailable, err, nil, "%s does not answer within %s", server, connectTimeout)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fault.Because(fault.Unavailable, err, nil, "%s can't be reached: %v", server, op.Err)
	}
	return fault.Because(fault.Unavailable, err, nil, "the connection to %s broke: %v", server, err)
}

// isAlert says whether the other side ended TLS with an alert.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// oneConnection gives an HTTP client that speaks over this connection and no other. Redirects are not followed: a gateway sends none, and what
// is sent is for this gateway alone.
func oneConnection(conn *tls.Conn) *http.Client {
	first := make(chan net.Conn, 1)
	first <- conn
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
				select {
				case conn := <-first:
					return conn, nil
				default:
					return nil, errors.New("the connection was used already")
				}
			},
			DisableKeepAlives:  true,
			DisableCompression: true,
			ForceAttemptHTTP2:  false,
		},
	}
}
