package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/db"
	"github.com/better-compute/better-compute/db/dbtest"
	"github.com/better-compute/better-compute/placement"
)

type sent struct {
	Text string `json:"text"`
}

func (sent) Kind() string { return "sent" }

type sentWorker struct {
	river.WorkerDefaults[sent]

	worked chan string
}

func (w *sentWorker) Work(_ context.Context, job *river.Job[sent]) error {
	w.worked <- job.Args.Text
	return nil
}

func TestSendJob(t *testing.T) {
	t.Parallel()
	send := func(tx *db.Tx, text string) error {
		return placement.SendJob(tx, sent{Text: text}, placement.QueueDrains)
	}

	t.Run("Its row is the one that this version of River writes", func(t *testing.T) {
		t.Parallel()
		d := dbtest.New(t)
		client, err := river.NewClient(riverpgxv5.New(d.Pool()), &river.Config{})
		require.NoError(t, err)
		_, err = d.Do(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if _, err := client.InsertTx(ctx, tx.Lib(), sent{Text: `"ü`}, &river.InsertOpts{Queue: placement.QueueDrains}); err != nil {
				return err
			}
			return send(tx, `"ü`)
		})
		require.NoError(t, err)
		rows, err := d.Pool().Query(t.Context(), `select to_jsonb(j) - 'id' - 'created_at' - 'scheduled_at' from river_job j order by id`)
		require.NoError(t, err)
		all, err := pgx.CollectRows(rows, pgx.RowTo[map[string]any])
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Equal(t, all[0], all[1])
	})

	t.Run("A River client works it as soon as it commits, and never what was rolled back", func(t *testing.T) {
		t.Parallel()
		// The client looks by itself only once an hour: it works the job because it was told.
		d := dbtest.New(t)
		w := &sentWorker{worked: make(chan string, 10)}
		workers := river.NewWorkers()
		river.AddWorker(workers, w)
		client, err := river.NewClient(riverpgxv5.New(d.Pool()), &river.Config{
			FetchCooldown: fetchCooldown, FetchPollInterval: time.Hour, Workers: workers,
			Queues: map[string]river.QueueConfig{placement.QueueDrains: {MaxWorkers: 2}},
		})
		require.NoError(t, err)
		require.NoError(t, client.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, client.Stop(context.WithoutCancel(t.Context()))) })
		_, err = d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error {
			require.NoError(t, send(tx, "rolled back"))
			return errors.New("changed my mind")
		})
		require.Error(t, err)
		for _, text := range []string{"one", "two"} {
			_, err = d.Do(t.Context(), func(_ context.Context, tx *db.Tx) error { return send(tx, text) })
			require.NoError(t, err)
			select {
			case got := <-w.worked:
				require.Equal(t, text, got)
			case <-time.After(20 * time.Second):
				t.Fatal("nobody worked it")
			}
		}
	})
}
