// Package agent is bcd, the daemon on a machine: it joins the machine to a control plane, keeps the machine's identity on disk, holds one session
// to a gateway, and tells what the machine is made of.
//
// What it guarantees:
//
//   - The identity and the credential are two things. The identity is an Ed25519 key that is made once and never sent; the credential is a
//     certificate of a day with its own key. Without the credential a fresh join token gives the same node a new one.
//   - A write of either ends with the old or the new content, never with none, wherever it is cut off. A file that can't be read is not an
//     absent one: bcd stops and enrols nothing.
//   - It trusts a gateway only by a root certificate whose SHA-256 it was given, and names the join token only to such a gateway.
//   - A refused or lost session leaves the workloads of the machine alone.
//
// The package knows the control plane only through gateway/wire.
package agent
