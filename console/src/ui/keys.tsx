import { Dialog } from "radix-ui";
import { Button, Key } from "./parts";
import { choose, useSettings } from "./settings";

const groups: [string, [string[], string][]][] = [
	[
		"Everywhere",
		[
			[["g", "n"], "nodes"],
			[["g", "d"], "drains"],
			[["g", "e"], "events"],
			[["?"], "these keys"],
		],
	],
	[
		"Nodes",
		[
			[["j", "↓"], "next node"],
			[["k", "↑"], "node before"],
			[["Home", "End"], "first, last"],
			[["Enter"], "open the node"],
			[["o"], "look at it beside the list"],
			[["Esc"], "close what is beside"],
			[["x"], "select, or not"],
			[["/"], "filter"],
		],
	],
	[
		"A node",
		[
			[["c"], "cordon"],
			[["u"], "uncordon"],
			[["d"], "drain"],
			[["t"], "change its taints"],
			[["l"], "change its labels"],
			[["y"], "copy its id"],
		],
	],
	["Events", [[["Space"], "pause, go on"]]],
];

/** The keys that act, and the switch that turns single letters off. */
export function Keys({ onClose }: { onClose: () => void }) {
	const { shortcuts } = useSettings();
	return (
		<Dialog.Root open onOpenChange={(open) => !open && onClose()}>
			<Dialog.Portal>
				<Dialog.Overlay className="fixed inset-0 z-30 bg-shade" />
				<Dialog.Content
					aria-describedby={undefined}
					className="fixed top-1/2 left-1/2 z-30 max-h-[calc(100vh-2rem)] w-[34rem] max-w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 overflow-auto rounded-lg border border-line bg-bg p-5 shadow-2xl"
				>
					<Dialog.Title className="mb-3 font-semibold text-base">Keys</Dialog.Title>
					<div className="grid grid-cols-2 gap-x-8 gap-y-4 max-sm:grid-cols-1">
						{groups.map(([title, keys]) => (
							<section key={title}>
								<h3 className="mb-1.5 font-semibold text-muted text-xs">{title}</h3>
								<dl className="grid grid-cols-[5.5rem_1fr] gap-y-1.5">
									{keys.map(([names, what]) => (
										<div key={what} className="contents">
											<dt className="flex items-start gap-1">
												{names.map((name) => (
													<Key key={name}>{name}</Key>
												))}
											</dt>
											<dd>{what}</dd>
										</div>
									))}
								</dl>
							</section>
						))}
					</div>
					<div className="mt-5 flex items-center justify-between">
						<label className="flex items-center gap-2">
							<input
								type="checkbox"
								checked={shortcuts === "on"}
								onChange={(e) => choose("shortcuts", e.target.checked ? "on" : "off")}
							/>
							Single-key shortcuts
						</label>
						<Button onClick={onClose}>Close</Button>
					</div>
				</Dialog.Content>
			</Dialog.Portal>
		</Dialog.Root>
	);
}
