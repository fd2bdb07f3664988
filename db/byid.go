package db

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// ByID is a statement that looks for ids by "= any($1)". For a single one it asks by "= $1": how long an array is PostgreSQL can't know ahead, so it would
// plan many of these statements anew each time, which costs more than they do.
type ByID struct{ many, one string }

// LookingFor makes one of the text that looks for many.
func LookingFor(sql string) ByID { return ByID{sql, strings.Replace(sql, "= any($1)", "= $1", 1)} }

// LookingForOne makes one of the text that looks for many and of another that looks for one.
func LookingForOne(many, one string) ByID { return ByID{many, one} }

// Queue adds it to a batch. Its arguments after the ids may be given.
func (s ByID) Queue(b *pgx.Batch, ids []string, more ...any) *pgx.QueuedQuery {
	if len(ids) == 1 {
		return b.Queue(s.one, append([]any{ids[0]}, more...)...)
	}
	return b.Queue(s.many, append([]any{ids}, more...)...)
}
