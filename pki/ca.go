package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// How long the authority's own certificates live. The root is pinned by every machine, so it outlives them; the intermediate signs day by day
// and can be made anew under the same root at any time (issuer.Renew), since each chain carries the intermediate that it hangs on.
const (
	// RootLifetime is the life of the root.
	RootLifetime = 10 * 365 * 24 * time.Hour
	// IntermediateLifetime is the life of an intermediate.
	IntermediateLifetime = 365 * 24 * time.Hour
)

// The files of an authority. Root key and both certificates are enough to make a new intermediate; a gateway on another machine has all but
// the root key.
const (
	RootFile            = "root.crt"
	RootKeyFile         = "root.key"
	IntermediateFile    = "intermediate.crt"
	IntermediateKeyFile = "intermediate.key"
)

// ErrNoCA says that a directory holds no authority. A damaged one is another error, never this one: whoever takes damage for absence makes a
// second authority, and every machine is locked out.
var ErrNoCA = errors.New("there is no certificate authority here")

// CA is a certificate authority: a root, and an intermediate with the key that signs.
type CA struct {
	TrustDomain  string
	Root         *x509.Certificate
	Intermediate *x509.Certificate
	// Signer is the intermediate's key.
	Signer crypto.Signer
	// RootKey is present only in an authority that was made just now. Read from disk it is nil: nothing that runs needs it.
	RootKey crypto.Signer
}

// NewTrustDomain makes a name that no other installation has, under a top-level domain that is kept for private use.
func NewTrustDomain() string {
	return "bc-" + randomHex() + ".internal"
}

func randomHex() string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("pki: no randomness: " + err.Error()) // cannot happen: without randomness the runtime ends the process
	}
	return hex.EncodeToString(b[:])
}

// RootTemplate is the whole of a root but its serial and its key.
func RootTemplate(trustDomain string, now time.Time) *x509.Certificate {
	now = now.UTC().Truncate(time.Second)
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: "better-compute root " + trustDomain},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(RootLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            1,
	}
}

// IntermediateTemplate is the whole of an intermediate but its serial, its issuer and its key. It may sign leaves only, for client or server
// authentication, and only names in the trust domain; network and mail addresses are ruled out, so even its stolen key names nothing else.
func IntermediateTemplate(trustDomain string, now time.Time, root *x509.Certificate) *x509.Certificate {
	now = now.UTC().Truncate(time.Second)
	notBefore, notAfter := now.Add(-time.Hour), now.Add(IntermediateLifetime)
	if notBefore.Before(root.NotBefore) {
		notBefore = root.NotBefore
	}
	if notAfter.After(root.NotAfter) {
		notAfter = root.NotAfter
	}
	return &x509.Certificate{
		Subject:                     pkix.Name{CommonName: "better-compute intermediate " + trustDomain},
		NotBefore:                   notBefore,
		NotAfter:                    notAfter,
		KeyUsage:                    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid:       true,
		IsCA:                        true,
		MaxPathLen:                  0,
		MaxPathLenZero:              true,
		PermittedDNSDomainsCritical: true,
		PermittedURIDomains:         []string{trustDomain},
		PermittedDNSDomains:         []string{trustDomain},
		ExcludedIPRanges:            []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}},
		PermittedEmailAddresses:     []string{"nobody@" + trustDomain},
	}
}

// Check says whether the parts belong together: the intermediate is the root's, good now, bound to the trust domain, and the key is its key.
func (ca *CA) Check(now time.Time) error {
	if ca.Root == nil || ca.Intermediate == nil || ca.Signer == nil {
		return errors.New("a certificate authority has a root, an intermediate and its key")
	}
	if !trustDomainRule.MatchString(ca.TrustDomain) {
		return fmt.Errorf("%q is no trust domain", ca.TrustDomain)
	}
	if err := ca.Root.CheckSignatureFrom(ca.Root); err != nil {
		return fmt.Errorf("the root is not signed by its own key: %w", err)
	}
	if err := ca.Intermediate.CheckSignatureFrom(ca.Root); err != nil {
		return fmt.Errorf("the intermediate is not the root's: %w", err)
	}
	c := ca.Intermediate
	if len(c.PermittedURIDomains) != 1 || c.PermittedURIDomains[0] != ca.TrustDomain || !c.MaxPathLenZero || !c.PermittedDNSDomainsCritical {
		return fmt.Errorf("the intermediate is not bound to the trust domain %s", ca.TrustDomain)
	}
	if pub, ok := ca.Signer.Public().(*ecdsa.PublicKey); !ok || !pub.Equal(c.PublicKey) {
		return errors.New("the key is not the intermediate's")
	}
	if now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return fmt.Errorf("the intermediate is good from %s to %s only; make a new one with the root key",
			c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// RootPool is the pool that node and gateway certificates are verified against.
func (ca *CA) RootPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Root)
	return pool
}

// RootPEM is the root as machines store it.
func (ca *CA) RootPEM() string { return string(ChainPEM([]*x509.Certificate{ca.Root})) }

// ChainPEM writes certificates one after the other.
func ChainPEM(chain []*x509.Certificate) []byte {
	var out []byte
	for _, c := range chain {
		out = appendPEM(out, c.Raw)
	}
	return out
}

// appendPEM writes a certificate as encoding/pem does, into one piece of memory and without a block to be made for it.
func appendPEM(out, der []byte) []byte {
	const line = 48 // bytes, in 64 characters
	out = slices.Grow(out, len(der)*65/line+64)
	out = append(out, "-----BEGIN CERTIFICATE-----\n"...)
	for part := range slices.Chunk(der, line) {
		out = append(base64.StdEncoding.AppendEncode(out, part), '\n')
	}
	return append(out, "-----END CERTIFICATE-----\n"...)
}

// ReadCA reads the authority in a directory. The root's key is not opened. No root.crt is ErrNoCA; everything else that is missing, readable by
// others or does not fit is an error that says what.
func ReadCA(dir string, now time.Time) (*CA, error) {
	root, err := readCertificate(filepath.Join(dir, RootFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoCA)
	}
	if err != nil {
		return nil, err
	}
	intermediate, err := readCertificate(filepath.Join(dir, IntermediateFile))
	if err != nil {
		return nil, err
	}
	key, err := readKey(filepath.Join(dir, IntermediateKeyFile))
	if err != nil {
		return nil, err
	}
	ca := &CA{Root: root, Intermediate: intermediate, Signer: key}
	if len(intermediate.PermittedURIDomains) == 1 {
		ca.TrustDomain = intermediate.PermittedURIDomains[0]
	}
	if err := ca.Check(now); err != nil {
		return nil, fmt.Errorf("the certificate authority in %s: %w", dir, err)
	}
	return ca, nil
}

// ReadRootKey reads the root and its key, for the one act that needs them: making a new intermediate.
func ReadRootKey(dir string) (*x509.Certificate, crypto.Signer, error) {
	root, err := readCertificate(filepath.Join(dir, RootFile))
	if err != nil {
		return nil, nil, err
	}
	key, err := readKey(filepath.Join(dir, RootKeyFile))
	if err != nil {
		return nil, nil, err
	}
	if pub, ok := key.Public().(*ecdsa.PublicKey); !ok || !pub.Equal(root.PublicKey) {
		return nil, nil, fmt.Errorf("%s is not the key of %s", RootKeyFile, RootFile)
	}
	return root, key, nil
}

// WriteCA writes a new authority into a directory that holds none. root.crt comes last and is the mark that all is there: a process killed in
// between leaves a directory that ReadCA calls empty and the next WriteCA writes over. One that holds an authority is left as it is.
func WriteCA(dir string, ca *CA) error {
	if ca.RootKey == nil {
		return errors.New("this certificate authority was not made here: it has no root key")
	}
	if _, err := os.Lstat(filepath.Join(dir, RootFile)); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return fmt.Errorf("write the certificate authority: %s: %w", filepath.Join(dir, RootFile), err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write the certificate authority: %w", err)
	}
	if err := writeKey(dir, RootKeyFile, ca.RootKey); err != nil {
		return err
	}
	if err := WriteIntermediate(dir, ca); err != nil {
		return err
	}
	if err := writeFile(dir, RootFile, ChainPEM([]*x509.Certificate{ca.Root})); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(filepath.Clean(dir))); err != nil {
		return fmt.Errorf("write the certificate authority: %w", err)
	}
	return nil
}

// WriteIntermediate puts an intermediate and its key in the place of the present ones. The key comes first: killed in between, the directory
// holds a key and a certificate that don't fit, which ReadCA says, and doing it again mends it.
func WriteIntermediate(dir string, ca *CA) error {
	if err := writeKey(dir, IntermediateKeyFile, ca.Signer); err != nil {
		return err
	}
	return writeFile(dir, IntermediateFile, ChainPEM([]*x509.Certificate{ca.Intermediate}))
}

func readCertificate(path string) (*x509.Certificate, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a certificate: %w", err)
	}
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != "CERTIFICATE" || len(rest) != 0 {
		return nil, fmt.Errorf("%s holds no single certificate", path)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func readKey(path string) (crypto.Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s may be read by others (mode %04o): chmod 600 it, and if others were on this machine, make a new authority", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != "PRIVATE KEY" || len(rest) != 0 {
		return nil, fmt.Errorf("%s holds no single key", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s holds no key that can be read", path) // the parser's error could quote the key
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds no ECDSA key", path)
	}
	return key, nil
}

func writeKey(dir, name string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	return writeFile(dir, name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// writeFile leaves either the old file or the whole new one, whatever happens in between: a temporary of its own, 0600 from its first byte,
// synced, renamed, and the directory synced.
func writeFile(dir, name string, content []byte) (err error) {
	tmp := filepath.Join(dir, "."+name+"."+randomHex())
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(tmp))
		}
	}()
	if err = f.Chmod(0o600); err != nil { // the umask may have taken our own bits
		return errors.Join(err, f.Close())
	}
	if _, err = f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
