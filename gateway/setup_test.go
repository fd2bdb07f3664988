package gateway_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/gateway"
	"github.com/better-compute/better-compute/gateway/wire"
	"github.com/better-compute/better-compute/health"
	"github.com/better-compute/better-compute/iam"
	"github.com/better-compute/better-compute/id"
	"github.com/better-compute/better-compute/liveness"
	"github.com/better-compute/better-compute/node"
	"github.com/better-compute/better-compute/pki"
	"github.com/better-compute/better-compute/pki/pkitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "acme"

// patience is how long a test waits for what must come, on a machine that runs many tests at once.
const patience = 30 * time.Second

// bundle is an installation with one gateway that runs.
type bundle struct {
	db      *db.DB
	nodes   *node.Store
	pki     *pki.Store
	issuer  *pkitest.Issuer
	pool    string
	config  gateway.Config
	gateway *gateway.Gateway
	address string
	from    string // the address that clients come from; empty: the system's choice
	ended   chan error
	stop    func() error
}

// setup starts a gateway whose intervals are those of a test; change, if given, has the last word.
func setup(t *testing.T, change ...func(*gateway.Config)) *bundle {
	t.Helper()
	in := pkitest.NewInstallation(t)
	d, log := in.DB, in.PKI.Log
	b := &bundle{db: d, issuer: in.Issuer, nodes: in.Nodes, pki: in.PKI, pool: in.Pool}
	b.config = gateway.Config{
		ID: id.New(id.Gateway), GetCertificate: in.Gateway(t).GetCertificate, Root: in.Issuer.Root(), Identities: b.pki,
		Sessions: &liveness.Store{DB: d, Nodes: b.nodes, Log: log}, Health: &health.Store{DB: d, Nodes: b.nodes, Log: log}, Log: log,
		Feed:              pki.NewRevocationFeed(d, pki.FeedOptions{Poll: 50 * time.Millisecond, Full: 100 * time.Millisecond, Log: log}),
		ConnectsPerSecond: 1000, // the tests' machines come back at once
		FlushEvery:        100 * time.Millisecond, LookEvery: 50 * time.Millisecond, Gather: 2 * time.Millisecond,
	}
	for _, c := range change {
		c(&b.config)
	}
	b.start(t)
	t.Cleanup(func() { require.NoError(t, b.stop()) })
	return b
}

// start runs a gateway of the bundle's settings; stop ends it, once.
func (b *bundle) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.address, b.gateway = l.Addr().String(), gateway.New(b.config)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	g := b.gateway
	b.ended = ended
	go func() { ended <- g.Serve(ctx, l) }()
	b.stop = func() error {
		cancel()
		err := <-ended
		ended <- nil
		return err
	}
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.db.Pool().Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// one reads one value.
func one[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// until waits until the query gives true.
func (b *bundle) until(t *testing.T, what, sql string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool {
		var v bool
		err := b.db.Pool().QueryRow(t.Context(), sql, args...).Scan(&v)
		return err == nil && v
	}, patience, 10*time.Millisecond, what)
}

func (b *bundle) isNow(t *testing.T, nodeID string, c node.Connectivity) {
	t.Helper()
	b.until(t, "the node must become "+string(c), `select connectivity = $2 from nodes where id = $1`, nodeID, c)
}

// history gives the types of the node's events in order.
func (b *bundle) history(t *testing.T, nodeID string) []string {
	t.Helper()
	return one[[]string](t, b, `select coalesce(array_agg(type order by position), '{}') from events where node_id = $1`, nodeID)
}

// told gives the data of the node's newest event of a type.
func (b *bundle) told(t *testing.T, nodeID, kind string) map[string]any {
	t.Helper()
	return one[map[string]any](t, b, `select data from events where node_id = $1 and type = $2 order by position desc limit 1`, nodeID, kind)
}

// tls gives a client's settings with a certificate, or none.
func (b *bundle) tls(certificates ...tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: b.issuer.CA.RootPool(), ServerName: pki.GatewayName(b.issuer.CA.TrustDomain), Certificates: certificates,
	}
}

// client gives an HTTP client that goes to the gateway whatever the URL says.
func (b *bundle) client(t *testing.T, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	address, settings := b.address, b.tls(certificates...)
	dialer := &net.Dialer{}
	if b.from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(b.from)}
	}
	transport := &http.Transport{DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := tls.Dialer{Config: settings, NetDialer: dialer}
		return d.DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// machine is a machine with its identity.
type machine struct {
	b        *bundle
	identity ed25519.PrivateKey
	key      *ecdsa.PrivateKey
	csr      []byte
	hostname string
	print    wire.JoinPrint

	nodeID      string
	certificate tls.Certificate
}

func (b *bundle) newMachine(t *testing.T, hostname string) *machine {
	t.Helper()
	_, identity, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	m := &machine{b: b, identity: identity, hostname: hostname, print: wire.JoinPrint{MachineID: hostname, BootID: "boot-1"}}
	m.key, m.csr = pkitest.CSR(t)
	return m
}

func (b *bundle) token(t *testing.T) wire.Token {
	t.Helper()
	made, err := b.pki.JoinTokenCreate(t.Context(), iam.System("alex"), pki.JoinTokenCreateInput{TenantID: tenant, PoolID: b.pool})
	require.NoError(t, err)
	token, err := wire.ParseToken(made.Secret)
	require.NoError(t, err)
	return token
}

// request makes the body of a join for a connection.
func (m *machine) request(t *testing.T, token wire.Token, conn *tls.Conn) []byte {
	t.Helper()
	state := conn.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(wire.JoinExporterLabel, nil, wire.ExporterSize)
	require.NoError(t, err)
	body, err := json.Marshal(wire.JoinRequest{
		Token: token.Text(), CSR: m.csr, IdentityKey: m.identity.Public().(ed25519.PublicKey),
		Proof: ed25519.Sign(m.identity, wire.JoinProof(exporter, m.csr, token.ID())), Print: m.print, Hostname: m.hostname, AgentVersion: "1.0.0",
		Clock: time.Now(),
	})
	require.NoError(t, err)
	return body
}

// tryJoin sends a join over a connection of its own.
func (m *machine) tryJoin(t *testing.T, token wire.Token) (int, []byte) {
	t.Helper()
	conn, err := tls.Dial("tcp", m.b.address, m.b.tls())
	require.NoError(t, err)
	defer conn.Close()
	return post(t, conn, "application/json", m.request(t, token, conn))
}

// post sends a join's body over a connection and reads the answer.
func post(t *testing.T, conn *tls.Conn, kind string, body []byte) (int, []byte) {
	t.Helper()
	transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://gateway"+wire.JoinPath, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", kind)
	res, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.EqualValues(t, len(answer), res.ContentLength, "an answer goes out in one piece")
	return res.StatusCode, answer
}

// join makes the machine a node.
func (b *bundle) join(t *testing.T, hostname string) *machine {
	t.Helper()
	m := b.newMachine(t, hostname)
	status, body := m.tryJoin(t, b.token(t))
	require.Equal(t, http.StatusOK, status, string(body))
	m.joined(t, body)
	return m
}

func (m *machine) joined(t *testing.T, body []byte) {
	t.Helper()
	var answer wire.JoinAnswer
	require.NoError(t, json.Unmarshal(body, &answer))
	m.nodeID = answer.NodeID
	m.certificate = tls.Certificate{PrivateKey: m.key, Certificate: chainOf(t, answer.Certificate)}
}

func chainOf(t *testing.T, text string) [][]byte {
	t.Helper()
	var chain [][]byte
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		chain = append(chain, block.Bytes)
	}
	require.NotEmpty(t, chain)
	_, err := x509.ParseCertificate(chain[0])
	require.NoError(t, err)
	return chain
}

// link is a machine's connection to the gateway.
type link struct {
	*websocket.Conn

	m     *machine
	under *net.Conn
}

// raw gives the connection under the websocket.
func (l *link) raw() net.Conn { return *l.under }

// dial opens the websocket, or gives the refusal.
func (m *machine) dial(t *testing.T, certificates ...tls.Certificate) (*link, int, wire.ErrorBody) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, under := m.b.client(t, certificates...), new(net.Conn)
	transport := client.Transport.(*http.Transport)
	dial := transport.DialTLSContext
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		*under = c
		return c, err
	}
	conn, res, err := websocket.Dial(ctx, "wss://gateway"+wire.SessionPath,
		&websocket.DialOptions{HTTPClient: client, Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		require.NotNil(t, res, "the gateway must answer: %v", err)
		var refusal wire.ErrorBody
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, &refusal), string(body))
		return nil, res.StatusCode, refusal
	}
	wire.Prepare(conn)
	t.Cleanup(func() { _ = conn.CloseNow() })
	require.Equal(t, wire.Subprotocol, conn.Subprotocol())
	return &link{Conn: conn, m: m, under: under}, http.StatusSwitchingProtocols, wire.ErrorBody{}
}

// open dials and says Hello.
func (m *machine) open(t *testing.T, change ...func(*wire.Hello)) *link {
	t.Helper()
	l, status, refusal := m.dial(t, m.certificate)
	require.Equal(t, http.StatusSwitchingProtocols, status, refusal.Message)
	h := &wire.Hello{
		BootId: m.print.BootID, Print: &wire.Print{MachineId: m.print.MachineID, BootId: m.print.BootID}, AgentVersion: "1.0.0", Hostname: m.hostname,
		ClockUnixMs: time.Now().UnixMilli(),
	}
	for _, c := range change {
		c(h)
	}
	l.send(t, &wire.Up{Body: &wire.Up_Hello{Hello: h}})
	welcome := l.next(t).GetWelcome()
	require.NotNil(t, welcome)
	require.Equal(t, m.nodeID, welcome.GetNodeId())
	require.Equal(t, int64(10_000), welcome.GetBeatIntervalMs(), "a beat every 10 seconds")
	if m.b.config.Lease == 0 {
		require.Equal(t, int64(40_000), welcome.GetLeaseMs(), "a lease of 40 seconds")
	}
	return l
}

func (l *link) send(t *testing.T, up *wire.Up) {
	t.Helper()
	require.NoError(t, wire.WriteUp(t.Context(), l.Conn, up))
}

// next reads the next frame.
func (l *link) next(t *testing.T) *wire.Down {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	down, err := wire.ReadDown(ctx, l.Conn)
	require.NoError(t, err)
	return down
}

// closed reads until the gateway's Close.
func (l *link) closed(t *testing.T) *wire.Close {
	t.Helper()
	for {
		if c := l.next(t).GetClose(); c != nil {
			return c
		}
	}
}

func (l *link) beat(t *testing.T, seq uint64) {
	t.Helper()
	l.send(t, &wire.Up{Body: &wire.Up_Beat{Beat: &wire.Beat{Seq: seq}}})
}

// leave closes as bcd does when it is stopped.
func (l *link) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, l.Close(websocket.StatusNormalClosure, "bcd stops"))
}

func inventory(change ...func(*wire.Inventory)) *wire.Up {
	i := &wire.Inventory{
		System:    &wire.System{Vendor: "Maker", Model: "M 1", Serial: "S1"},
		Cpu:       &wire.Cpu{Model: "EPYC 7543 (32 cores)", Arch: "amd64", Sockets: 1, Cores: 32, Threads: 64},
		Memory:    &wire.Memory{TotalBytes: 67_345_000_000},
		Gpus:      []*wire.Gpu{{Uuid: "GPU-1", Model: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30}},
		GpuDriver: &wire.GpuDriver{Version: "570.1"}, Kernel: &wire.Kernel{Name: "Linux", Release: "6.1.0"},
		Os:          &wire.OperatingSystem{Id: "debian", Version: "12", Name: "Debian 12"},
		FileSystems: []*wire.FileSystem{{Path: "/", Kind: "ext4", SizeBytes: 1 << 40}},
	}
	for _, c := range change {
		c(i)
	}
	return &wire.Up{Body: &wire.Up_Inventory{Inventory: i}}
}

func without(all []string, what ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(what, s) })
}
