import { Dialog } from "radix-ui";
import { useConnection } from "../nodes/hooks";
import { type Control, differences } from "../nodes/words";
import type { Fleet } from "../store/fleet";
import type { NodeRow } from "../store/nodes";
import { Button } from "../ui/parts";
import { clock } from "../ui/time";
import { titles } from "./specs";

/** What the act will change, and what stays as it is. */
export function Effects({ changes, leaves }: { changes: string[]; leaves: string[] }) {
	return (
		<dl className="grid grid-cols-[6.5rem_1fr] gap-x-3 gap-y-2">
			<dt className="text-muted">Will change</dt>
			<dd className="wrap-anywhere min-w-0">
				{changes.length === 0 && <p className="text-muted">Nothing yet.</p>}
				{changes.map((line) => (
					<p key={line}>{line}</p>
				))}
			</dd>
			<dt className="text-muted">Leaves alone</dt>
			<dd>
				{leaves.map((line) => (
					<p key={line}>{line}</p>
				))}
			</dd>
		</dl>
	);
}

/** Somebody else moved the node meanwhile: what they did, and the way on. */
export function Changed({
	base,
	node,
	more,
	ready,
	onGoOn,
}: {
	base: NodeRow;
	node: NodeRow;
	more: string[];
	ready: boolean;
	onGoOn: () => void;
}) {
	const list = [...differences(base, node), ...more];
	return (
		<div role="alert" className="rounded border border-warn/40 bg-warn-bg px-3 py-2">
			<p className="font-medium text-warn">
				Changed since you opened this (version {base.version} → {node.version})
			</p>
			<ul className="list-disc pl-5">
				{(list.length ? list : ["something that this page does not show"]).map((line) => (
					<li key={line}>{line}</li>
				))}
			</ul>
			<Button className="mt-2" because={ready ? null : "The labels are being read"} onClick={onGoOn}>
				Go on with version {node.version}
			</Button>
		</div>
	);
}

/** It was done, and there is something to know about it all the same. */
export function Warned({
	node,
	control,
	warnings,
	onClose,
}: {
	node: NodeRow;
	control: Control;
	warnings: readonly string[];
	onClose: () => void;
}) {
	return (
		<>
			<Dialog.Title className="border-line border-b px-4 py-3 font-semibold text-base">
				{node.hostname} {titles[control].done}
			</Dialog.Title>
			<div role="alert" className="mx-4 my-3 rounded border border-warn/40 bg-warn-bg px-3 py-2 text-warn">
				{warnings.map((w) => (
					<p key={w}>{w}.</p>
				))}
			</div>
			<footer className="flex justify-end border-line border-t px-4 py-3">
				<Button look="primary" onClick={onClose} autoFocus>
					Close
				</Button>
			</footer>
		</>
	);
}

/** What is decided on may be out of date. */
export function OldData({ fleet }: { fleet: Fleet }) {
	const connection = useConnection(fleet);
	if (connection.state === "live" || connection.dataAt === null) return null;
	return (
		<p className="rounded border border-warn/40 bg-warn-bg px-3 py-2 text-warn">
			You are looking at data from {clock(connection.dataAt)}.
		</p>
	);
}
