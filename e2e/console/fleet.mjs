// Makes nodes by SQL, as a fleet would have left them: without daemons, but with all that the console shows of them.

export const nodeId = (i) => `node_01k5w${i.toString(16).padStart(21, "0")}`;
const q = (s) => `'${String(s).replaceAll("'", "''")}'`;

/** n nodes in service: gpu-00000 and on. */
export async function plain(plane, n, { prefix = "gpu-", from = 0 } = {}) {
	for (let i = from; i < from + n; i += 5_000) {
		const to = Math.min(i + 5_000, from + n) - 1;
		await plane.sql(`
			with made as (
				insert into nodes (id, key, owner_tenant_id, pool_id, hostname, provision_state, credential, connectivity, connectivity_since, changed_by)
				select 'node_01k5w' || lpad(to_hex(i), 21, '0'), encode(sha256(i::text::bytea), 'hex'), 'default',
					(select id from pools where tenant_id = 'default' and name = case when i % 4 = 3 and exists (select from pools where name = 'spot') then 'spot' else 'default' end),
					${q(prefix)} || lpad(i::text, 5, '0'), 'ADOPTED', 'TRUSTED', 'CONNECTED', now() - interval '3 days', 'system'
				from generate_series(${i}, ${to}) i returning id, connectivity_since),
			seen as (insert into node_projection (tenant_id, node_id, relation) select 'default', id, 'OWNER' from made)
			insert into node_sessions (node_id, id, number, gateway_id, boot_id, agent_version, print, clock_skew_ms, connected_at)
			select id, 'ses_' || id, 1, 'gw-1', 'boot', '0.1.0', '{}', 12, connectivity_since from made`);
	}
	await plane.sql("analyze nodes");
	await plane.sql("analyze node_projection");
}

const devices = async (plane, i, slots) =>
	(await plane.sql(`select uuid from devices where node_id = ${q(nodeId(i))} and slot in (${slots.join()}) order by slot`)).map((d) => d.uuid);

/** 260 nodes in every state that the console shows, with bookings, devices and a history. Gives the ids of those that a test or a picture names. */
export async function varied(plane) {
	await plane.api('mutation { poolCreate(input: { tenantId: "default", name: "spot" }) { changed } }');
	await plane.api('mutation { tenantCreate(input: { tenantId: "acme" }) { changed } }');
	await plain(plane, 260);
	const id = (i) => q(nodeId(i));
	const some = (rule) => `(select 'node_01k5w' || lpad(to_hex(i), 21, '0') from generate_series(0, 259) i where ${rule})`;
	await plane.sql(`
		insert into devices (node_id, uuid, kind, slot, model, memory_bytes, serial, pci_address, first_seen_at)
		select n.id, 'GPU-' || substr(n.key, 1, 8) || '-' || substr(n.key, 9, 4) || '-4b2c-9f' || lpad(s::text, 2, '0') || '-' || substr(n.key, 13, 12), 'GPU', s,
			case when n.hostname < 'gpu-00160' then 'NVIDIA H100 80GB HBM3' else 'NVIDIA A100-SXM4-40GB' end,
			case when n.hostname < 'gpu-00160' then 85899345920 else 42949672960 end, '165' || lpad(s::text, 8, '0'), '0000:' || lpad(to_hex(16 + s * 8), 2, '0') || ':00.0', now() - interval '90 days'
		from nodes n, generate_series(0, 7) s`);
	await plane.sql(`
		insert into node_labels (node_id, key, value, source)
		select n.id, l.key, l.value, l.source from nodes n, lateral (values
			('rack', 'b' || (ascii(right(n.id, 1)) % 9), 'OPERATOR'), ('fabric/rail', '3', 'OPERATOR'), ('cpu.arch', 'amd64', 'INVENTORY'),
			('gpu.model', case when n.hostname < 'gpu-00160' then 'h100-80gb' else 'a100-40gb' end, 'INVENTORY'), ('gpu.count', '8', 'INVENTORY'), ('bc.dev/nvidia', '580.95', 'SYSTEM')) l (key, value, source)`);
	await plane.sql(`
		insert into node_inventory (node_id, session_number, reported_at, facts, hash)
		select id, 1, now() - interval '2 hours', '{"system":{"vendor":"Supermicro","model":"SYS-821GE-TNHR","serial":"A512345X4B00981"},"cpu":{"model":"Intel Xeon Platinum 8480+","arch":"amd64","sockets":2,"cores":112,"threads":224},"memoryBytes":2164663517184,"kernel":{"release":"6.8.0-79-generic"},"os":{"name":"Ubuntu","version":"24.04.3 LTS"}}', '\\x00'
		from nodes`);
	await plane.sql(`
		insert into storage_roots (node_id, path, uuid, fs_type, device, size_bytes, first_seen_at)
		select n.id, p.path, p.uuid, 'ext4', p.device, p.size, now() - interval '90 days' from nodes n, (values
			('/', '8a5e1f0c-0d4e-4b71-9c55-1f0e2f7f9a11', '/dev/nvme0n1p2', 1920383410176), ('/var/lib/data', '2f7f9a11-9c55-4b71-0d4e-8a5e1f0c1f0e', '/dev/md0', 30725970923520)) p (path, uuid, device, size)`);
	await plane.sql(`
		insert into node_certs (serial, node_id, state, generation, key_fingerprint, csr_hash, chain, issued_at, not_before, not_after, first_used_at, ended_at, ended_by, reason)
		select md5(n.id || s.state), n.id, s.state, 1, n.key, '\\x00', '', now() - s.age, now() - s.age, now() - s.age + interval '24 hours', now() - s.age, s.ended, s.by, s.reason
		from nodes n, (values ('ACTIVE', interval '5 hours', null::timestamptz, null, null), ('SUPERSEDED', interval '21 hours', now() - interval '5 hours', 'node', 'renewed')) s (state, age, ended, by, reason)`);
	// What people did, by the API, so that the log tells of it.
	for (let i = 0; i < 24; i++) await plane.book(nodeId(i), { reason: `train run ${i}`, ...(i % 3 === 1 ? { devices: await devices(plane, i, [0, 1, 2, 3]) } : {}), ...(i % 5 === 4 ? {} : { durationSeconds: 1_800 + 977 * i }) });
	for (const i of [1, 2, 3]) await plane.book(nodeId(i), { reason: "eval", durationSeconds: 5_400 + 600 * i });
	const early = await plane.book(nodeId(1), { reason: "short job", durationSeconds: 9_000 });
	for (const [i, reason] of [[1, "replace PSU"], [2, "BIOS update window"], [4, "rack move"], [9, "firmware 1.14 on all NICs of the row, ticket OPS-4711"]]) await plane.drain(nodeId(i), reason);
	await plane.release(early);
	for (const [i, reason] of [[30, "replace PSU"], [31, "BIOS update window"]]) await plane.drain(nodeId(i), reason);
	for (const [i, reason] of [[40, "BIOS update window"], [41, ""], [42, "waits for a cable"]]) await plane.cordon(nodeId(i), reason || undefined);
	await plane.cordon(nodeId(43), "by mistake");
	await plane.uncordon(nodeId(43));
	// Out of reach, out of order, not there yet.
	await plane.sql(`update nodes set connectivity = 'DISCONNECTED', connectivity_since = now() - interval '50 seconds' where id in ${some("i % 61 = 5")}`);
	await plane.sql(`update nodes set connectivity = 'UNREACHABLE', connectivity_since = now() - interval '26 minutes' where id in ${some("i % 43 = 7")}`);
	await plane.sql(`update node_sessions set disconnected_at = now() - interval '28 minutes' where node_id in ${some("i % 61 = 5 or i % 43 = 7")}`);
	await plane.sql(`insert into node_reasons (node_id, reason, owner, by, message, since)
		select x, 'unreachable', 'liveness', 'liveness', 'not heard of since 28 minutes', now() - interval '26 minutes' from ${some("i % 43 = 7")} t (x)`);
	await plane.sql(`update nodes set maintenance = true where id in ${some("i % 97 = 11")}`);
	await plane.sql(`update nodes set provision_state = 'FAILED', failure_phase = 'ACCEPTANCE', failure_message = 'gpu 3: 61 uncorrectable ECC errors, 0 allowed', failure_at = now() - interval '40 minutes' where id in ${some("i % 89 = 13")}`);
	await plane.sql(`update nodes set provision_state = 'ADOPTING', connectivity = 'PENDING', connectivity_since = null where id in ${some("i % 83 = 17")}`);
	await plane.sql(`delete from node_sessions where node_id in ${some("i % 83 = 17")}`);
	await plane.sql(`insert into node_reasons (node_id, reason, owner, by, message, since)
		select x, 'taint:rma-pending', 'operator', 'alex', null, now() - interval '2 days' from ${some("i % 53 = 19")} t (x)`);
	await plane.sql(`insert into node_reasons (node_id, reason, owner, by, message, since)
		select x, 'taint:dedicated=acme', 'operator', 'alex', null, now() - interval '9 days' from ${some("i % 47 = 23")} t (x)`);
	// A cordon that is past its end, and somebody else's.
	await plane.sql(`update nodes set cordon_by = 'sam', cordon_at = now() - interval '26 hours', cordon_until = now() - interval '2 hours' where id = ${id(42)}`);
	await plane.sql(`update nodes set cordon_by = 'sam' where id = ${id(41)}`);
	await plane.sql(`insert into node_checks (node_id, name, run_id, boot_id, status, message, evidence, started_at, ended_at)
		select n.id, c.name, '', 'boot', c.status, c.message, c.evidence, now() - interval '41 minutes', case when c.status in ('PASSED', 'FAILED') then now() - interval '40 minutes' end
		from nodes n, lateral (values ('session', 'PASSED', 'its daemon holds a session', array['gateway=gw-1', 'boot=boot']), ('inventory', 'PASSED', 'its inventory of this session is in', array[]::text[]),
			('clock', 'PASSED', 'its clock is right', array['skewMs=12']),
			('devices', case when n.provision_state = 'FAILED' then 'FAILED' when n.provision_state = 'ADOPTING' then 'WAITING' else 'PASSED' end,
				case when n.provision_state = 'FAILED' then 'gpu 3: 61 uncorrectable ECC errors, 0 allowed' else 'every device that is booked is there' end, array['booked=4', 'there=4'])) c (name, status, message, evidence)`);
	// A device that the machine no longer shows.
	await plane.sql(`update devices set missing_since = now() - interval '3 hours' where node_id = ${id(1)} and slot = 5`);
	return { draining: nodeId(1), endless: nodeId(4), drained: nodeId(30), cordoned: nodeId(40), failed: nodeId(13), unreachable: nodeId(7), busy: nodeId(6), free: nodeId(50), tainted: nodeId(19), overdue: nodeId(42) };
}
