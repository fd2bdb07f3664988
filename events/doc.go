// Package events is the append-only log: what happened, to which node, by whom, and who may read it.
//
// What the log promises:
//
//   - An event commits in the transaction that makes it true, or not at all.
//   - Positions are gapless and in commit order. A reader at position p has seen everything up to p and can never miss a late commit.
//   - An event names its audience as it was when it was written, fixed for ever.
package events
