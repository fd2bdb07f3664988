package id_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/fault"
	"github.com/better-compute/better-compute/id"
)

// FuzzTenant: a tenant is a slug of at most 63 characters, and everything else is INVALID_INPUT.
func FuzzTenant(f *testing.F) {
	for _, s := range []string{"acme", "a", "-a", "a-", "A", "", "a\n", "ä", "0-0", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		f.Add(s)
	}
	slug := regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\z`)
	f.Fuzz(func(t *testing.T, s string) {
		err := id.Tenant("tenantId", s)
		require.Equal(t, slug.MatchString(s), err == nil)
		if err != nil {
			require.Equal(t, fault.InvalidInput, fault.CodeOf(err))
		}
	})
}
