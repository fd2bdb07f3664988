// Package events is the append-only log: what happened, to which node, by whom, and who may read it.
//
// # What the log promises
//
// Written with the state. An event commits in the transaction that makes it true, or not at all: [Append] only collects, and the transaction's
// final batch writes.
//
// Order. Every event has a position. Positions are gapless and in the order of commits, since the one clock row hands them out in the moment of
// the commit; a transaction that is rolled back takes none. The events of one transaction stand together, in the order of their Append. So
// whoever has read position p has seen everything up to p, and nothing can commit below p later.
//
// Cursors. A [Cursor] at position p of an epoch means: everything up to and including p has been read. It stays good until retention has
// removed an event that comes after it. The epoch changes when the database is restored from a backup, and then no older cursor is good, since
// the positions after the backup are handed out a second time.
//
// Once or at least once. A [Follower] gives each event exactly once, in order, for as long as it lives. Across a reconnect the reader decides:
// resuming from the cursor of the last event that it has dealt with gives each event once; resuming from an older cursor gives those after it
// again, with the same id and position, by which a reader can drop them.
//
// Who sees what. An event names its audience as it was when it was written, tenants that see the whole and tenants that see a reduced form,
// fixed for ever: sight that a tenant loses later does not hide what it had seen, and sight that it gains opens no past. A tenant that is in
// neither list never gets the event, from no source. A security event has only readers of the whole. What a reader gets of an event in its
// audience is up to its [Visibility].
//
// Catch-up and live are the same loop. A follower sends everything after its position and then waits for a nudge. What it sends comes from the
// ring of the process, which holds the newest events, and else from the database in pages; a reader that falls behind costs no memory.
//
// What ends a stream. Its context; [Follower.Close]; an error of Visibility.Check other than UNAVAILABLE; CURSOR_EXPIRED when the log was
// replaced or retention has passed the reader; RESOURCE_EXHAUSTED when a reader that had been live leaves more than [Options.MaxLag] events
// unread; UNAVAILABLE when the process stops or the database stays away. The last three carry the cursor from which the reader can go on.
// A loss of the database that is shorter than [Options.Patience] ends no stream.
//
// When a notification is lost. NOTIFY only shortens the way between processes. A commit wakes the readers of its own process directly; those of
// other processes hear of it by at most one NOTIFY each 5 ms, and look by themselves once a second. So the loss of any number of
// notifications, of the listening connection or of the notifying process delays an event by about a second, and loses none. A process that no
// other one has told of itself for over a minute sends none.
package events
