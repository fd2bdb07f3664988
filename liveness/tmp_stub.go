package liveness
import ("context";"time";"github.com/better-compute/better-compute/db")
type Session struct{ Gateway string; Since time.Time; EndedAt *time.Time; AgentVersion, BootID string; ClockSkewMs int }
func SessionsOf(ctx context.Context, q db.Querier, ids []string) (map[string]Session, error) { return nil, nil }
func LastSeen(ctx context.Context, q db.Querier, ids []string) (map[string]time.Time, error) { return nil, nil }
