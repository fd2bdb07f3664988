package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"riverqueue.com/riverui"

	"github.com/better-compute/better-compute/db"
)

// UIPrefix is where the pages about jobs lie.
const UIPrefix = "/jobs"

// NewUI makes River's own pages about queues and jobs, as a handler for what lies under UIPrefix. It asks nobody who they are: whoever mounts it does.
// What it counts in the background ends with ctx.
func NewUI(ctx context.Context, d *db.DB, log *slog.Logger) (http.Handler, error) {
	client, err := river.NewClient(riverpgxv5.New(d.Pool()), &river.Config{Logger: quiet(log)})
	if err != nil {
		return nil, fmt.Errorf("make the pages about jobs: %w", err)
	}
	ui, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Logger: quiet(log), Prefix: UIPrefix})
	if err != nil {
		return nil, fmt.Errorf("make the pages about jobs: %w", err)
	}
	if err := ui.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the pages about jobs: %w", err)
	}
	return ui, nil
}
