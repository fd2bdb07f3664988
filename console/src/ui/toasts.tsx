import { Toast } from "radix-ui";
import { createContext, type ReactNode, useCallback, useContext, useState } from "react";

type Item = { id: number; text: string };

const Context = createContext<(text: string) => void>(() => undefined);

/** Says what this page's own act did. Others' changes never toast. */
export const useToast = () => useContext(Context);

export function Toasts({ children }: { children: ReactNode }) {
	const [items, setItems] = useState<Item[]>([]);
	const say = useCallback((text: string) => setItems((old) => [...old.slice(-2), { id: (old.at(-1)?.id ?? 0) + 1, text }]), []);
	return (
		<Context value={say}>
			<Toast.Provider duration={6_000} swipeDirection="down">
				{children}
				{items.map((item) => (
					<Toast.Root
						key={item.id}
						onOpenChange={(open) => !open && setItems((old) => old.filter((other) => other.id !== item.id))}
						className="flex items-center gap-3 rounded border border-line bg-bg px-3 py-2 shadow-lg"
					>
						<Toast.Description className="flex-1">{item.text}</Toast.Description>
						<Toast.Close aria-label="Dismiss" className="rounded px-1 text-muted hover:bg-hover hover:text-text">
							✕
						</Toast.Close>
					</Toast.Root>
				))}
				<Toast.Viewport className="fixed bottom-8 left-4 z-40 flex w-96 max-w-[calc(100vw-2rem)] flex-col gap-2 outline-none" />
			</Toast.Provider>
		</Context>
	);
}
