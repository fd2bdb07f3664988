package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"

	"github.com/better-compute/better-compute/fault"
)

// A request without names is about 220 bytes; what is much longer carries something that we would refuse anyway.
const maxCSR = 2048

// ParseCSR reads a certificate request and refuses, as INVALID_INPUT on csr, every one that says more than "this is my key": another key than
// ECDSA on P-256, another kind of signature than SHA-256's, a subject, an extension, an attribute, bytes after its end. The certificate is
// made from the profile alone, so such a request would do no harm; but whoever sends one expects something that they would not get.
//
// The signature itself, whose check costs as much as signing, is the [Issuer]'s to look at: see [CheckCSR].
func ParseCSR(der []byte) (*x509.CertificateRequest, error) {
	if len(der) == 0 || len(der) > maxCSR {
		return nil, fault.Invalid("csr", "must be a PKCS#10 request in DER of at most 2048 bytes", len(der))
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fault.Because(fault.InvalidInput, err, fault.Details{"argument": "csr", "rule": "must be a PKCS#10 request in DER"},
			"csr: must be a PKCS#10 request in DER")
	}
	if err := CheckCSRContent(csr); err != nil {
		return nil, err
	}
	return csr, nil
}

// The part of a request that is signed, read once more because the standard library keeps only the attributes that it understands.
type tbsRequest struct {
	Raw        asn1.RawContent
	Version    int
	Subject    asn1.RawValue
	PublicKey  asn1.RawValue
	Attributes []asn1.RawValue `asn1:"tag:0"`
}

// CheckCSR is the policy of ParseCSR on a request that is already parsed, and the look at its signature.
func CheckCSR(csr *x509.CertificateRequest) error {
	if err := CheckCSRContent(csr); err != nil {
		return err
	}
	if err := csr.CheckSignature(); err != nil {
		return fault.Because(fault.InvalidInput, err, fault.Details{"argument": "csr", "rule": "must be signed by its own key"},
			"csr: must be signed by its own key")
	}
	return nil
}

// CheckCSRContent is CheckCSR without the signature, for an issuer whose library looks at that itself.
func CheckCSRContent(csr *x509.CertificateRequest) error {
	if csr == nil {
		return fault.Invalid("csr", "must be present", 0)
	}
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return fault.Invalid("csr", "must be for an ECDSA key on P-256", 0)
	}
	if csr.SignatureAlgorithm != x509.ECDSAWithSHA256 {
		return fault.Invalid("csr", "must be signed with ECDSA and SHA-256", 0)
	}
	if !bytes.Equal(csr.RawSubject, emptyName) {
		return fault.Invalid("csr", "must have an empty subject", 0)
	}
	var tbs tbsRequest
	if rest, err := asn1.Unmarshal(csr.RawTBSCertificateRequest, &tbs); err != nil || len(rest) > 0 {
		return fault.Invalid("csr", "must be a PKCS#10 request in DER", 0)
	}
	if len(tbs.Attributes) > 0 || len(csr.Extensions) > 0 {
		return fault.Invalid("csr", "must have no names, extensions or attributes", 0)
	}
	return nil
}

// The DER of a name with nothing in it.
var emptyName = func() []byte {
	der, err := asn1.Marshal(pkix.RDNSequence{})
	if err != nil {
		panic("pki: an empty name does not marshal: " + err.Error())
	}
	return der
}()
