package testenv

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// witness is a testing.TB that remembers how a test ended. Skip and Fatal end the goroutine, as the real ones do.
type witness struct {
	testing.TB
	skipped, failed bool
}

func (*witness) Helper()                 {}
func (w *witness) Skipf(string, ...any)  { w.skipped = true; runtime.Goexit() }
func (w *witness) Fatalf(string, ...any) { w.failed = true; runtime.Goexit() }

func ask(t *testing.T, names ...string) *witness {
	t.Helper()
	w := &witness{TB: t}
	done := make(chan struct{})
	go func() { defer close(done); Need(w, names...) }()
	<-done
	return w
}

func TestNeed(t *testing.T) {
	// A need that is met does nothing; one that is not skips, and fails where BC_TEST_REQUIRE asks; a name that nobody knows always fails.
	needs["nothing"] = need{func() bool { return true }, ""}
	needs["wonder"] = need{func() bool { return false }, "wait for one"}
	for _, c := range []struct {
		require         string
		need            string
		skipped, failed bool
	}{
		{"", "nothing", false, false},
		{"all", "nothing", false, false},
		{"", "wonder", true, false},
		{"all", "wonder", false, true},
		{"root,wonder", "wonder", false, true},
		{"root", "wonder", true, false},
		{"", "never heard of", false, true},
	} {
		t.Setenv("BC_TEST_REQUIRE", c.require)
		w := ask(t, c.need)
		require.Equal(t, []bool{c.skipped, c.failed}, []bool{w.skipped, w.failed}, "%q with BC_TEST_REQUIRE=%q", c.need, c.require)
	}
}
