package node

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/better-compute/better-compute/fault"
)

// MaxLabels is how many labels one call may set, and how many it may remove.
const MaxLabels = 64

// SystemLabels begins the keys that only the system writes: what bcd advertises.
const SystemLabels = "bc.dev/"

// LabelKeyRule is what a label's key looks like.
var LabelKeyRule = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?$`)

var labelValueRule = regexp.MustCompile(`^[A-Za-z0-9._:/@+=-]{0,256}$`)

// CheckLabels says whether an operator may set these labels: INVALID_INPUT naming the argument and the rule. Whether a key belongs to another source on
// a certain node is for the control to say.
func CheckLabels(argument string, labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fault.Invalid(argument, "must be at most 64 labels", len(labels))
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch value := labels[key]; {
		case !LabelKeyRule.MatchString(key):
			return fault.Invalid(argument, "keys must be 1 to 128 letters, digits and . _ / -, starting and ending with a letter or digit", len([]rune(key)))
		case strings.HasPrefix(key, SystemLabels):
			return fault.Invalid(argument, "keys that begin with bc.dev/ belong to the system", len(key))
		case !labelValueRule.MatchString(value):
			return fault.Invalid(argument, "values must be at most 256 letters, digits and . _ : / @ + = -", len([]rune(value)))
		}
	}
	return nil
}
