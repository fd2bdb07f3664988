package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestComeBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ span, asked, most time.Duration }{
		"G7 the first return of a thousand is spread out":            {firstReturn, 0, firstReturn},
		"G7 so is a late one, up to the cap":                         {longestReturn, 0, longestReturn},
		"G7 and one after a pause that the server asked all to make": {firstReturn, time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pauses := make([]time.Duration, 1000)
			for i := range pauses {
				pauses[i] = comeBack(c.span, c.asked)
				require.GreaterOrEqual(t, pauses[i], c.asked)
				require.LessOrEqual(t, pauses[i], c.most)
			}
			slices.Sort(pauses)
			// No tenth of the span holds more than a fifth of them: by chance that is less likely than a broken machine.
			tenth := (c.most - c.asked) / 10
			for i := range 10 {
				from := c.asked + time.Duration(i)*tenth
				first, _ := slices.BinarySearch(pauses, from)
				last, _ := slices.BinarySearch(pauses, from+tenth)
				require.Less(t, last-first, 200)
			}
		})
	}
}
