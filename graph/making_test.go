package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/better-compute/better-compute/id"
)

// authority writes what the first start writes of a certificate authority: join tokens name it.
func (b *bundle) authority() {
	b.Helper()
	b.exec(`insert into cas (fingerprint, trust_domain) values ($1, 'bc-0123456789abcdef.internal')`, strings.Repeat("ab", 32))
}

func TestJoinTokens(t *testing.T) {
	t.Parallel()
	const create = `mutation($p: ID!, $r: ID) { joinTokenCreate(input: { tenantId: "acme", poolId: $p, requestId: $r }) { secret joinToken { id pool { name } } } }`
	const revoke = `mutation($t: ID!, $r: ID) { joinTokenRevoke(input: { tenantId: "acme", joinTokenId: $t, requestId: $r }) {
		changed cursor joinToken { id revokedAt revokedBy pool { id } } } }`

	t.Run("The list gives each token once, newest first, and no secret", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority()
		var want []any
		var secrets []string
		for range 7 {
			made := b.query(create, object{"p": b.pool}).at(t, "joinTokenCreate").(object)
			want = append([]any{made["joinToken"].(object)["id"]}, want...)
			secrets = append(secrets, made["secret"].(string))
		}
		var got []any
		var after any
		for more := true; more; {
			page := b.query(`query($a: Cursor) { joinTokens(tenantId: "acme", first: 3, after: $a) {
				nodes { id createdBy expiresAt usedAt revokedAt pool { name } } edges { cursor node { id } } pageInfo { hasNextPage endCursor } } }`, object{"a": after})
			for _, e := range page.at(t, "joinTokens", "edges").([]any) {
				got = append(got, e.(object)["node"].(object)["id"])
			}
			require.Equal(t, "gpus", page.at(t, "joinTokens", "nodes").([]any)[0].(object)["pool"].(object)["name"])
			info := page.at(t, "joinTokens", "pageInfo").(object)
			after, more = info["endCursor"], info["hasNextPage"].(bool)
		}
		require.Equal(t, want, got)
		for _, s := range secrets {
			require.NotContains(t, b.log.String(), s)
		}
		require.Equal(t, "INVALID_INPUT", b.query(`{ joinTokens(tenantId: "acme", after: "N.x") { nodes { id } } }`, nil).code(t))
		require.Equal(t, "FORBIDDEN", b.as(b.tokenFor("eve", "other", time.Hour), `{ joinTokens(tenantId: "acme") { nodes { id } } }`, nil).code(t))
	})

	t.Run("Revoking: once, I7 the same request id twice is one act, a used one is refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority()
		token := b.query(create, object{"p": b.pool}).at(t, "joinTokenCreate", "joinToken", "id")
		first := b.query(revoke, object{"t": token, "r": "r1"})
		require.Equal(t, true, first.at(t, "joinTokenRevoke", "changed"))
		require.Equal(t, "alex", first.at(t, "joinTokenRevoke", "joinToken", "revokedBy"))
		require.Equal(t, b.pool, first.at(t, "joinTokenRevoke", "joinToken", "pool", "id"))
		require.Equal(t, first.Data, b.query(revoke, object{"t": token, "r": "r1"}).Data)
		require.Equal(t, false, b.query(revoke, object{"t": token}).at(t, "joinTokenRevoke", "changed"))
		other := b.query(create, object{"p": b.pool}).at(t, "joinTokenCreate", "joinToken", "id")
		require.Equal(t, "INVALID_INPUT", b.query(revoke, object{"t": other, "r": "r1"}).code(t), "another body under the same request id")
		b.exec(`update join_tokens set used_at = now(), used_by = $2 where id = $1`, other, b.node())
		require.Equal(t, "INVALID_STATE", b.query(revoke, object{"t": other}).code(t))
		require.Equal(t, "NOT_FOUND", b.query(revoke, object{"t": id.New(id.JoinToken)}).code(t))
		require.Equal(t, "INVALID_INPUT", b.query(revoke, object{"t": "jt_x"}).code(t))
		types := b.query(`{ events(tenantId: "acme", types: ["join-token.revoked"]) { nodes { type actor ... on JoinTokenEvent { joinTokenId poolId } } } }`, nil).at(t, "events", "nodes").([]any)
		require.Len(t, types, 1)
		require.Equal(t, token, types[0].(object)["joinTokenId"])
	})
}

func TestJoinTokenLabels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.authority()
	create := func(labels ...object) answer {
		return b.query(`mutation($p: ID!, $l: [LabelInput!]) { joinTokenCreate(input: { tenantId: "acme", poolId: $p, labels: $l }) { joinToken { labels { key value source } } } }`,
			object{"p": b.pool, "l": labels})
	}
	made := create(object{"key": "rack", "value": "b7"}, object{"key": "fabric/rail", "value": ""})
	want := []any{object{"key": "fabric/rail", "value": "", "source": "OPERATOR"}, object{"key": "rack", "value": "b7", "source": "OPERATOR"}}
	require.Equal(t, want, made.at(t, "joinTokenCreate", "joinToken", "labels"))
	require.Equal(t, want, b.query(`{ joinTokens(tenantId: "acme") { nodes { labels { key value source } } } }`, nil).at(t, "joinTokens", "nodes").([]any)[0].(object)["labels"])
	require.Empty(t, create().at(t, "joinTokenCreate", "joinToken", "labels"))
	for name, labels := range map[string][]object{
		"a key twice":                      {{"key": "rack", "value": "b7"}, {"key": "rack", "value": "b8"}},
		"H1 a key that begins with a dash": {{"key": "-rack", "value": "b7"}},
		"H1 a label of the system":         {{"key": "bc.dev/x", "value": "1"}},
	} {
		require.Equal(t, "INVALID_INPUT", create(labels...).code(t), name)
	}
}

func TestTenantsAndPools(t *testing.T) {
	t.Parallel()
	b := setup(t)
	root := b.tokenFor("root", "", time.Hour) // holds its role in every tenant
	const tenant = `mutation($t: ID!, $r: ID) { tenantCreate(input: { tenantId: $t, requestId: $r }) { changed cursor tenant { id createdAt } } }`
	const pool = `mutation($t: ID!, $n: String!, $r: ID) { poolCreate(input: { tenantId: $t, name: $n, requestId: $r }) { changed cursor pool { id tenantId name createdAt } } }`

	t.Run("A tenant and its pool are made once, each with its event, and a node can follow", func(t *testing.T) {
		t.Parallel()
		made := b.as(root, tenant, object{"t": "globex"})
		require.Equal(t, true, made.at(t, "tenantCreate", "changed"))
		again := b.as(root, tenant, object{"t": "globex"})
		require.Equal(t, false, again.at(t, "tenantCreate", "changed"))
		require.Equal(t, made.at(t, "tenantCreate", "tenant"), again.at(t, "tenantCreate", "tenant"))
		p := b.as(root, pool, object{"t": "globex", "n": "gpus"})
		require.Equal(t, true, p.at(t, "poolCreate", "changed"))
		same := b.as(root, pool, object{"t": "globex", "n": "gpus"})
		require.Equal(t, false, same.at(t, "poolCreate", "changed"))
		require.Equal(t, p.at(t, "poolCreate", "pool"), same.at(t, "poolCreate", "pool"))
		log := b.as(root, `{ events(tenantId: "globex", order: OLDEST_FIRST) { nodes { type cursor ... on TenantEvent { tenantId } ... on PoolEvent { poolId name } } } }`, nil).at(t, "events", "nodes").([]any)
		require.Len(t, log, 2)
		require.Equal(t, object{"type": "tenant.created", "cursor": made.at(t, "tenantCreate", "cursor"), "tenantId": "globex"}, log[0])
		poolMade := log[1].(object)
		require.Equal(t, []any{"pool.created", p.at(t, "poolCreate", "pool", "id"), "gpus"}, []any{poolMade["type"], poolMade["poolId"], poolMade["name"]})
	})

	t.Run("I7 the same request id twice is one act and one answer, and another body under it is INVALID_INPUT", func(t *testing.T) {
		t.Parallel()
		first := b.as(root, tenant, object{"t": "initech", "r": "t1"})
		require.Equal(t, true, first.at(t, "tenantCreate", "changed"))
		require.Equal(t, first.Data, b.as(root, tenant, object{"t": "initech", "r": "t1"}).Data)
		require.Equal(t, "INVALID_INPUT", b.as(root, tenant, object{"t": "initrode", "r": "t1"}).code(t))
		p := b.as(root, pool, object{"t": "initech", "n": "a", "r": "p1"})
		require.Equal(t, true, p.at(t, "poolCreate", "changed"))
		require.Equal(t, p.Data, b.as(root, pool, object{"t": "initech", "n": "a", "r": "p1"}).Data)
		require.Equal(t, "INVALID_INPUT", b.as(root, pool, object{"t": "initech", "n": "b", "r": "p1"}).code(t))
		require.Len(t, b.as(root, `{ events(tenantId: "initech") { nodes { id } } }`, nil).at(t, "events", "nodes"), 2)
	})

	t.Run("Who may, and what is refused changes nothing", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			token, query string
			variables    object
			code         string
		}{
			"an admin of one tenant makes no tenant": {b.token, tenant, object{"t": "hooli"}, "FORBIDDEN"},
			"nor a pool in another":                  {b.token, pool, object{"t": "other", "n": "a"}, "FORBIDDEN"},
			"H1 a name with a capital":               {root, tenant, object{"t": "Hooli"}, "INVALID_INPUT"},
			"H1 a name of 64 characters":             {root, tenant, object{"t": strings.Repeat("a", 64)}, "INVALID_INPUT"},
			"H1 a pool's name with a space":          {b.token, pool, object{"t": "acme", "n": "a b"}, "INVALID_INPUT"},
			"H1 a request id of 129 characters":      {b.token, pool, object{"t": "acme", "n": "a", "r": strings.Repeat("r", 129)}, "INVALID_INPUT"},
			"a pool in a tenant that is not there":   {root, pool, object{"t": "nowhere", "n": "a"}, "NOT_FOUND"},
			"nobody makes a tenant":                  {"", tenant, object{"t": "hooli"}, "UNAUTHENTICATED"},
		} {
			require.Equal(t, c.code, b.as(c.token, c.query, c.variables).code(t), name)
		}
		made := b.query(pool, object{"t": "acme", "n": "cpus"})
		require.Equal(t, true, made.at(t, "poolCreate", "changed"), "an admin of the tenant makes pools in it")
		var tenants, pools int
		require.NoError(t, b.db.Pool().QueryRow(t.Context(), `select count(*) filter (where id in ('hooli', 'nowhere')),
			(select count(*) from pools where tenant_id = 'acme') from tenants`).Scan(&tenants, &pools))
		require.Equal(t, []int{0, 2}, []int{tenants, pools})
	})
}

func TestNodeParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.node()
	for i, state := range []string{"REVOKED", "SUPERSEDED", "SUPERSEDED", "ACTIVE", "PENDING"} {
		ended := state == "REVOKED" || state == "SUPERSEDED"
		b.exec(`insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, issued_at, not_before, not_after, ended_at, ended_by, reason)
			values ($1, $2, $3, 1, 'key', '', now() + $4 * interval '1 second', now(), now() + interval '1 day',
			        case when $5 then now() end, case when $5 then 'alex' end, case when $5 then 'stolen' end)`,
			"0"+string(rune('a'+i)), n, state, i, ended)
	}
	b.exec(`insert into node_inventory (node_id, session_number, reported_at, facts, hash) values ($1, 1, now(),
		'{"cpu": {"threads": 128}, "memoryBytes": 824633720832, "fileSystems": [{"path": "/", "kind": "ext4", "sizeBytes": 5000000000}]}', '')`, n)
	b.exec(`insert into devices (node_id, uuid, kind, slot, model, memory_bytes, serial, pci_address, first_seen_at, missing_since)
		values ($1, 'GPU-old', 'GPU', 0, 'A100', 42949672960, '', '', now(), now()), ($1, 'GPU-1', 'GPU', 1, 'H100', 85899345920, '15', '0000:17:00.0', now(), null)`, n)
	b.exec(`insert into storage_roots (node_id, path, uuid, fs_type, device, size_bytes, first_seen_at)
		values ($1, '/', '', 'ext4', '/dev/sda1', 5000000000, now())`, n)
	const parts = `query($t: ID!, $n: ID!, $first: Int!, $live: Boolean!, $a: Cursor) { node(tenantId: $t, nodeId: $n) {
		scalarResources { name amount unit } storageRoots { path uuid device fsType sizeBytes missingSince }
		devices { uuid kind slot model memoryBytes serial pciAddress firstSeenAt missingSince } inventory { storageRoots { path fsType sizeBytes missingSince } }
		certificates(first: $first, live: $live, after: $a) { nodes { serial state generation endedBy reason } pageInfo { hasNextPage endCursor } } } }`
	ask := func(token, tenant string, first int, live bool, after any) object {
		return b.as(token, parts, object{"t": tenant, "n": n, "first": first, "live": live, "a": after}).at(t, "node").(object)
	}

	live := ask(b.token, "acme", 50, true, nil)
	require.Equal(t, []any{object{"name": "cpu", "amount": "128", "unit": "threads"}, object{"name": "memory", "amount": "824633720832", "unit": "bytes"}}, live["scalarResources"])
	require.Equal(t, []any{object{"path": "/", "uuid": nil, "device": "/dev/sda1", "fsType": "ext4", "sizeBytes": "5000000000", "missingSince": nil}}, live["storageRoots"])
	require.Equal(t, []any{object{"path": "/", "fsType": "ext4", "sizeBytes": "5000000000", "missingSince": nil}}, live["inventory"].(object)["storageRoots"])
	devices := live["devices"].([]any)
	require.Len(t, devices, 2, "what is missing stands last")
	there, gone := devices[0].(object), devices[1].(object)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, there["firstSeenAt"])
	delete(there, "firstSeenAt")
	require.Equal(t, object{
		"uuid": "GPU-1", "kind": "GPU", "slot": 1.0, "model": "H100", "memoryBytes": "85899345920", "serial": "15", "pciAddress": "0000:17:00.0", "missingSince": nil,
	}, there)
	require.Equal(t, []any{"GPU-old", nil, nil}, []any{gone["uuid"], gone["serial"], gone["pciAddress"]})
	require.NotNil(t, gone["missingSince"])
	require.Equal(t, []any{
		object{"serial": "0e", "state": "PENDING", "generation": 1.0, "endedBy": nil, "reason": nil},
		object{"serial": "0d", "state": "ACTIVE", "generation": 1.0, "endedBy": nil, "reason": nil},
	}, live["certificates"].(object)["nodes"])
	var serials []any
	var after any
	for more := true; more; {
		page := ask(b.token, "acme", 2, false, after)["certificates"].(object)
		for _, c := range page["nodes"].([]any) {
			serials = append(serials, c.(object)["serial"])
		}
		info := page["pageInfo"].(object)
		after, more = info["endCursor"], info["hasNextPage"].(bool)
	}
	require.Equal(t, []any{"0e", "0d", "0c", "0b", "0a"}, serials, "each once, newest first")
	require.Equal(t, "INVALID_INPUT", b.query(`query($n: ID!) { node(tenantId: "acme", nodeId: $n) { certificates(after: "I.x") { nodes { serial } } } }`, object{"n": n}).code(t))

	// A tenant that merely sees the node gets none of it.
	eve := b.tokenFor("eve", "other", time.Hour)
	b.exec(`insert into node_projection (tenant_id, node_id, relation) values ('other', $1, 'SHARED')`, n)
	guest := ask(eve, "other", 50, false, nil)
	require.Empty(t, guest["scalarResources"])
	require.Empty(t, guest["storageRoots"])
	require.Len(t, guest["devices"], 2, "what it can book")
	seen := guest["devices"].([]any)[0].(object)
	require.Equal(t, []any{"GPU-1", nil, nil}, []any{seen["uuid"], seen["serial"], seen["pciAddress"]})
	require.Nil(t, guest["inventory"])
	require.Empty(t, guest["certificates"].(object)["nodes"])
}
