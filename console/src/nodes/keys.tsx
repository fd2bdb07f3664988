import { Dialog } from "radix-ui";
import { useState } from "react";
import { Button, Key } from "../ui/parts";

const stored = "better-compute.shortcuts";

/** Whether single keys act. Some people's software sends keys that they did not press: they can be turned off, and stay off. */
export function useShortcuts(): [boolean, (on: boolean) => void] {
	const [on, setOn] = useState(() => {
		try {
			return localStorage.getItem(stored) !== "off";
		} catch {
			return true;
		}
	});
	return [
		on,
		(next) => {
			setOn(next);
			try {
				localStorage.setItem(stored, next ? "on" : "off");
			} catch {
				// Without storage the choice holds for this page alone.
			}
		},
	];
}

const keys: [string[], string][] = [
	[["j", "↓"], "next node"],
	[["k", "↑"], "node before"],
	[["Home", "End"], "first, last"],
	[["Enter"], "open the node"],
	[["Esc"], "close it"],
	[["c"], "cordon"],
	[["u"], "uncordon"],
	[["d"], "drain"],
	[["/"], "filter"],
	[["?"], "these keys"],
];

export function Keys({
	shortcuts,
	onShortcuts,
	onClose,
}: {
	shortcuts: boolean;
	onShortcuts: (on: boolean) => void;
	onClose: () => void;
}) {
	return (
		<Dialog.Root open onOpenChange={(open) => !open && onClose()}>
			<Dialog.Portal>
				<Dialog.Overlay className="fixed inset-0 z-30 bg-shade" />
				<Dialog.Content
					aria-describedby={undefined}
					className="fixed top-1/2 left-1/2 z-30 w-80 max-w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 rounded-lg border border-line bg-bg p-4 shadow-2xl"
				>
					<Dialog.Title className="mb-3 font-semibold text-base">Keys</Dialog.Title>
					<dl className="grid grid-cols-[6rem_1fr] gap-y-1.5">
						{keys.map(([names, what]) => (
							<div key={what} className="contents">
								<dt className="flex gap-1">
									{names.map((name) => (
										<Key key={name}>{name}</Key>
									))}
								</dt>
								<dd>{what}</dd>
							</div>
						))}
					</dl>
					<label className="mt-4 flex items-center gap-2">
						<input type="checkbox" checked={shortcuts} onChange={(e) => onShortcuts(e.target.checked)} />
						Single-key shortcuts
					</label>
					<div className="mt-4 flex justify-end">
						<Button onClick={onClose}>Close</Button>
					</div>
				</Dialog.Content>
			</Dialog.Portal>
		</Dialog.Root>
	);
}
