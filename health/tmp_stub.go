package health
import ("context";"time";"github.com/better-compute/better-compute/db")
type Inventory struct{ ReportedAt time.Time }
func InventoryOf(ctx context.Context, q db.Querier, ids []string) (map[string]Inventory, error) { return nil, nil }
