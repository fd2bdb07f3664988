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
	if !bare(csr) {
		return fault.Invalid("csr", "must have no names, extensions or attributes", 0)
	}
	return nil
}

// bare says that the part of a request that is signed is the version, an empty subject, the key and no attribute, byte for byte. The standard library
// keeps only the attributes that it understands, so they are looked for in what it has read.
func bare(csr *x509.CertificateRequest) bool {
	key := csr.RawSubjectPublicKeyInfo
	want := make([]byte, 0, 128)
	want = append(want, 0x30, byte(3+len(emptyName)+len(key)+2), 2, 1, 0)
	want = append(want, emptyName...)
	want = append(want, key...)
	want = append(want, 0xa0, 0)
	return len(want) < 128 && bytes.Equal(want, csr.RawTBSCertificateRequest)
}

// The DER of a name with nothing in it.
var emptyName = func() []byte {
	der, err := asn1.Marshal(pkix.RDNSequence{})
	if err != nil {
		panic("pki: an empty name does not marshal: " + err.Error())
	}
	return der
}()
