package model_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/better-compute/better-compute/id"
)

// letters are the verbs, and the controllers' look.
var letters = []string{"cordon", "uncordon", "drain", "taint", "label", "adopt", "delete", "book", "release", "look"}

// words gives every sequence of that many letters.
func words(length int) [][]string {
	if length == 0 {
		return [][]string{nil}
	}
	var out [][]string
	for _, w := range words(length - 1) {
		for _, l := range letters {
			out = append(out, append(slices.Clip(w), l))
		}
	}
	return out
}

func TestEveryOrder(t *testing.T) {
	t.Parallel()
	// Every order of any three verbs on a machine that nobody has touched, with the controllers looking before, between or after: each answer, each entry of
	// the log and everything that is stored is what the model has after each step.
	length := 3
	if raced {
		length = 2
	}
	h := newHall(t, 0)
	all := words(length)
	const together = 8 // machines at a time; they have nothing to do with each other
	for begin := 0; begin < len(all); begin += 25 * together {
		var g errgroup.Group
		g.SetLimit(together)
		for i, word := range all[begin:min(begin+25*together, len(all))] {
			g.Go(func() error {
				if err := h.spell(t.Context(), fmt.Sprint("machine-", begin+i), word); err != nil {
					return fmt.Errorf("%v: %w", word, err)
				}
				return nil
			})
		}
		require.NoError(t, g.Wait())
		require.NoError(t, h.compare(t.Context()))
	}
	require.NoError(t, h.all(t.Context()))
	h.report()
}

// spell does one word on a new machine. A verb that comes again does the other half of what it can: a taint comes, then goes.
func (h *hall) spell(ctx context.Context, key string, word []string) error {
	s := &slot{key: key}
	if err := h.renew(ctx, s, ""); err != nil {
		return err
	}
	times := map[string]int{}
	run, booked := "", ""
	for i, verb := range word {
		c := call{Verb: verb, Node: s.node, Who: caller(i), Tenant: owner, Reason: fmt.Sprint("why ", i)}
		first := times[verb]%2 == 0
		times[verb]++
		switch verb {
		case "taint":
			if c.Add, c.Remove = []string{"rma", "unreachable"}, []string{"burn-in"}; !first {
				c.Add, c.Remove = []string{dedicated + owner}, []string{"rma", "unreachable"}
			}
		case "label":
			if c.Set = map[string]string{"rack": "b7", "row": ""}; !first {
				c.Set, c.Remove = map[string]string{"rack": "b8"}, []string{"row", "gpu.model"}
			}
		case "book":
			if c.Device = gpus[0]; !first {
				c.Device = ""
			}
		case "release":
			if c.Reservation = booked; booked == "" {
				c.Reservation = id.New(id.Reservation)
			}
		}
		done, err := h.step(ctx, c)
		if err == nil && verb == "look" && run != "" {
			_, err = h.step(ctx, call{Verb: "accept", Node: s.node, Run: run})
		}
		if err != nil {
			return err
		}
		if verb == "adopt" && done.got.Changed {
			run = done.run
		}
		if verb == "book" && done.got.Changed {
			booked = done.reservation
		}
	}
	return nil
}
