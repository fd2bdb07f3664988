package graph

import (
	"regexp"
	"strings"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// listKind begins the text of a cursor in a list that is sorted by ids, so that the log's can't be taken for one.
const listKind = "I."

// listCursor gives the place of an entry in a list that is sorted by ids.
func listCursor(entryID string) string { return listKind + entryID }

func parseListCursor(kind id.Kind, s string) (string, error) {
	entry, ok := strings.CutPrefix(s, listKind)
	if !ok || id.Check(kind, "after", entry) != nil {
		return "", fault.Invalid("after", "must be the cursor of an entry of this list", len(s))
	}
	return entry, nil
}

// certificateKind begins the text of a cursor in a list of certificates.
const certificateKind = "C."

var serialRule = regexp.MustCompile(`^[0-9a-f]{1,64}$`)

func parseCertificateCursor(s string) (string, error) {
	serial, ok := strings.CutPrefix(s, certificateKind)
	if !ok || !serialRule.MatchString(serial) {
		return "", fault.Invalid("after", "must be the cursor of an entry of this list", len(s))
	}
	return serial, nil
}
