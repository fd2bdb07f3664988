package node

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/better-compute/better-compute/fault"
)

// maxLabels is how many labels one call may set.
const maxLabels = 64

// systemLabels begins the keys that only the system writes: what bcd advertises.
const systemLabels = "bc.dev/"

var (
	labelKeyRule   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?$`)
	labelValueRule = regexp.MustCompile(`^[A-Za-z0-9._:/@+=-]{0,256}$`)
)

// CheckLabels says whether an operator may set these labels: INVALID_INPUT naming the argument and the rule. Whether a key belongs to another source on
// a certain node is for the control to say.
func CheckLabels(argument string, labels map[string]string) error {
	if len(labels) > maxLabels {
		return fault.Invalid(argument, "must be at most 64 labels", len(labels))
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch value := labels[key]; {
		case !labelKeyRule.MatchString(key):
			return fault.Invalid(argument, "keys must be 1 to 128 letters, digits and . _ / -, starting and ending with a letter or digit", len([]rune(key)))
		case strings.HasPrefix(key, systemLabels):
			return fault.Invalid(argument, "keys that begin with bc.dev/ belong to the system", len(key))
		case !labelValueRule.MatchString(value):
			return fault.Invalid(argument, "values must be at most 256 letters, digits and . _ : / @ + = -", len([]rune(value)))
		}
	}
	return nil
}
