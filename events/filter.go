package events

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/fault"
)

// Filter says which events a reader is after. An event passes only when the tenant is in its audience.
type Filter struct {
	// Tenant is whose view it is. It is needed: there is no reading past the audience.
	Tenant string
	// NodeID picks the events of one node; empty means of all.
	NodeID string
	// Types picks by type: a whole name like "node.drained", or a prefix that ends with a dot, like "security."; none means all.
	Types []string
}

// Visibility is who reads, and what of an event it gets. iam implements it.
type Visibility interface {
	// Check says whether the reader may still read. It is asked when a stream begins, before events are given out when the last answer is
	// older than [Options.Recheck], and now and then while nothing happens. An error ends the stream with it, but UNAVAILABLE means that
	// the answer isn't known now: nothing is given out until it is.
	Check(ctx context.Context) error
	// View gives what the reader sees of an event whose audience its tenant is in; false drops it.
	View(e Event) (Event, bool)
}

var (
	typePattern = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)*\.?$`)
	maxTypes    = 50
)

// CheckTypes says whether the types of a filter can be read; if not, it is INVALID_INPUT naming the argument.
func CheckTypes(argument string, types []string) error {
	if len(types) > maxTypes {
		return fault.Invalid(argument, "must be at most 50 types", len(types))
	}
	for _, t := range types {
		if len(t) > 128 || !typePattern.MatchString(t) {
			return fault.Invalid(argument, `must be types like "node.drained", or prefixes that end with a dot like "security."`, len([]rune(t)))
		}
	}
	return nil
}

// selection is a filter that was checked and taken apart.
type selection struct {
	Filter
	exact, prefixes []string
}

func choose(f Filter) (*selection, error) {
	if f.Tenant == "" {
		return nil, fault.Invalid("tenantId", "must name the tenant whose view it is", 0)
	}
	if err := CheckTypes("types", f.Types); err != nil {
		return nil, err
	}
	s := &selection{Filter: f}
	for _, t := range f.Types {
		if strings.HasSuffix(t, ".") {
			s.prefixes = append(s.prefixes, t)
		} else {
			s.exact = append(s.exact, t)
		}
	}
	return s, nil
}

// has says whether the event passes. It is the same rule as where.
func (s *selection) has(e *Event) bool {
	if s.NodeID != "" && s.NodeID != e.NodeID {
		return false
	}
	if !s.hasType(e.Type) {
		return false
	}
	_, sees := e.Audience.Sees(s.Tenant)
	return sees
}

func (s *selection) hasType(t string) bool {
	return len(s.Types) == 0 || slices.Contains(s.exact, t) ||
		slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(t, p) })
}

// where is has as conditions on a row e of events.
func (s *selection) where() ([]string, pgx.NamedArgs) {
	args := pgx.NamedArgs{"tenant": s.Tenant}
	where := []string{"(@tenant = any(e.full_for) or @tenant = any(e.reduced_for))"}
	if s.NodeID != "" {
		args["node"] = s.NodeID
		where = append(where, "e.node_id = @node")
	}
	if len(s.Types) > 0 {
		likes := make([]string, len(s.prefixes))
		for i, p := range s.prefixes {
			likes[i] = p + "%" // the alphabet of types holds neither % nor _
		}
		args["types"], args["prefixes"] = s.exact, likes
		where = append(where, "(e.type = any(@types::text[]) or e.type like any(@prefixes::text[]))")
	}
	return where, args
}
