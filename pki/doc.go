// Package pki says who a machine is: the certificate authority and what it signs, join tokens and the join by them, the certificates as rows,
// and the judgement of a certificate that a machine shows.
//
// An identity and a credential are two things. The identity is an Ed25519 key that a machine makes once; the credential is a P-256 key and a
// certificate of a day. Losing the credential does not lose the identity, and a certificate is good only while the database says so: its
// signature alone proves no more than that we made it once.
//
// What is signed is laid down here, in NodeLeaf and GatewayLeaf, down to the last field; a request contributes its public key and nothing
// else. Who signs is behind Issuer: package issuer does it with smallstep's authority, package pkitest with the standard library for the tests
// of others. Nobody signs while holding a lock or a transaction, and a certificate that was not recorded is never handed out.
package pki
