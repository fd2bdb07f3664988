package liveness

import "context"

// Rest is what is left of a sweep that stood still after it had taken the controller in that term.
func (s *Sweeper) Rest(ctx context.Context, term int64) (int, error) {
	return s.many(ctx, term, true, staleSQL, s.giveUp)
}
