package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/better-compute/better-compute/controls"
	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/placement"
)

// Oldest gives for each kind how long the oldest job has waited that is due and that nobody has taken. A kind without one is there with zero.
func Oldest(ctx context.Context, q db.Querier) (map[string]time.Duration, error) {
	oldest := map[string]time.Duration{}
	for _, kind := range []string{
		controls.DrainJob{}.Kind(), placement.DrainWake{}.Kind(), controls.OperationJob{}.Kind(), DrainSweep{}.Kind(), IntervalSweep{}.Kind(), Tidy{}.Kind(),
	} {
		oldest[kind] = 0
	}
	rows, err := q.Query(ctx, `
		select kind, extract(epoch from statement_timestamp() - min(scheduled_at))::float8
		from river_job where state in ('available', 'retryable', 'scheduled') and scheduled_at < statement_timestamp() group by kind`)
	if err != nil {
		return nil, fmt.Errorf("find the oldest jobs: %w", err)
	}
	var kind string
	var seconds float64
	_, err = pgx.ForEachRow(rows, []any{&kind, &seconds}, func() error {
		oldest[kind] = time.Duration(seconds * float64(time.Second))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the oldest jobs: %w", err)
	}
	return oldest, nil
}
