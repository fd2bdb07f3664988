package main

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// machine is a node as the two reading benchmarks ask for it: everything but what is paged by itself. Encoding it is their floor.
type machine struct {
	ID             string  `json:"id"`
	Key            string  `json:"key"`
	TenantID       string  `json:"tenantId"`
	Pool           named   `json:"pool"`
	Hostname       string  `json:"hostname"`
	Version        int     `json:"version"`
	ProvisionState string  `json:"provisionState"`
	Failure        *failed `json:"failure"`
	Cordoned       bool    `json:"cordoned"`
	Cordon         *struct {
		Reason *string   `json:"reason"`
		By     string    `json:"by"`
		At     time.Time `json:"at"`
	} `json:"cordon"`
	NoScheduleReasons []string `json:"noScheduleReasons"`
	Holds             []struct {
		Reason string     `json:"reason"`
		Owner  string     `json:"owner"`
		Since  *time.Time `json:"since"`
	} `json:"holds"`
	Maintenance        bool       `json:"maintenance"`
	Connectivity       string     `json:"connectivity"`
	ConnectivitySince  *time.Time `json:"connectivitySince"`
	IdentityGeneration int        `json:"identityGeneration"`
	Labels             []struct {
		Key    string `json:"key"`
		Value  string `json:"value"`
		Source string `json:"source"`
	} `json:"labels"`
	Drain *struct {
		ID    string `json:"id"`
		State string `json:"state"`
	} `json:"drain"`
	LastSeen  *time.Time `json:"lastSeen"`
	Placeable struct {
		Placeable bool     `json:"placeable"`
		Because   []string `json:"because"`
	} `json:"placeable"`
	PlaceableFor   string     `json:"placeableFor"`
	StatusSentence string     `json:"statusSentence"`
	OutSince       *time.Time `json:"outSince"`
	Controls       []struct {
		Control string  `json:"control"`
		Action  string  `json:"action"`
		Enabled bool    `json:"enabled"`
		Because *string `json:"because"`
	} `json:"controls"`
	LiveAllocationCount int       `json:"liveAllocationCount"`
	CreatedAt           time.Time `json:"createdAt"`
}

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type failed struct {
	Phase   string    `json:"phase"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

const machineFields = `id key tenantId pool { id name } hostname version provisionState failure { phase message at } cordoned cordon { reason by at }
	noScheduleReasons holds { reason owner since } maintenance connectivity connectivitySince identityGeneration labels { key value source }
	drain { id state } lastSeen placeable { placeable because } placeableFor statusSentence outSince controls { control action enabled because }
	liveAllocationCount createdAt`

// labelled makes nodes with labels; every tenth is cordoned.
func (r *rig) labelled(ctx context.Context, n int) ([]string, error) {
	ids, err := r.nodes(ctx, n)
	if err != nil {
		return nil, err
	}
	_, err = r.pool.Exec(ctx, `
		insert into node_labels (node_id, key, value, source)
		select id, key, value, 'INVENTORY' from unnest($1::text[]) as id,
		  (values ('cpu-model', 'EPYC 7543'), ('gpu-model', 'A100-SXM4-40GB'), ('gpu-count', '8'), ('zone', 'hall-2')) as l (key, value)`, ids)
	if err != nil {
		return nil, err
	}
	_, err = r.pool.Exec(ctx, `
		update nodes set cordoned = true, cordon_by = 'bench', cordon_reason = 'bench', cordon_at = now()
		where id in (select id from unnest($1::text[]) with ordinality as x (id, place) where place % 10 = 0)`, ids)
	return ids, err
}

// list measures the server's CPU for a page of nodes with all their fields, against encoding/json of the same value in this process.
func list(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.labelled(ctx, s.n)
	if err != nil {
		return nil, err
	}
	var answer struct{ Nodes struct{ Nodes []machine } }
	row, err := r.reading(ctx, "list100", s, `query($t: ID!, $ids: [ID!], $n: Int!) { nodes(tenantId: $t, filter: { nodeIds: $ids }, first: $n) { nodes { `+machineFields+` } } }`,
		map[string]any{"t": tenant, "ids": ids, "n": s.n}, &answer, func() any { return answer.Nodes.Nodes })
	return []Row{row}, err
}

// get is the same for one node.
func get(ctx context.Context, r *rig, s size) ([]Row, error) {
	ids, err := r.labelled(ctx, 1)
	if err != nil {
		return nil, err
	}
	var answer struct{ Node machine }
	row, err := r.reading(ctx, "get", s, `query($t: ID!, $n: ID!) { node(tenantId: $t, nodeId: $n) { `+machineFields+` } }`,
		map[string]any{"t": tenant, "n": ids[0]}, &answer, func() any { return answer.Node })
	return []Row{row}, err
}

// encodings is how often the floor encodes for each request, so that its clock has something to count.
const encodings = 20

func (r *rig) reading(ctx context.Context, name string, s size, query string, variables map[string]any, into any, value func() any) (Row, error) {
	if err := r.call(ctx, query, variables, into); err != nil {
		return Row{}, err
	}
	v := value()
	text, err := json.Marshal(v)
	if err != nil {
		return Row{}, err
	}
	work := timed(s.each, func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := r.call(ctx, query, variables, nil)
		return time.Since(began), err
	})
	floor := counted(s.each*encodings, func(context.Context) error { return json.NewEncoder(io.Discard).Encode(v) })
	row, err := pairs(ctx, name, s.rounds, cpuEach, side{r.cpu, r.dbCPU, work}, side{ownCPU, zero, floor})
	row.More = map[string]float64{"bytes": float64(len(text))}
	return row, err
}
