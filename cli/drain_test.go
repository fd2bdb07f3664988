package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAllocationSentence(t *testing.T) {
	t.Parallel()
	// Of another tenant's allocation the caller isn't told when it begins, so the sentence names no time.
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for want, a := range map[string]allocation{
		"another tenant's  begins later, no end: release it to finish":                      {Future: true},
		"another tenant's  no end: release it to finish":                                    {},
		"res_1 acme  begins 2026-05-01T13:00:00Z, no end: release it to finish":             {ReservationID: "res_1", TenantID: "acme", Future: true, StartsAt: "2026-05-01T13:00:00Z"},
		"another tenant's  begins later, ends " + moment("2026-05-01T14:00:00Z").until(now): {Future: true, EndsAt: "2026-05-01T14:00:00Z"},
	} {
		require.Equal(t, want, a.sentence(now))
	}
}
