import { type Sign, toneClass } from "./words";

/** Glyph and word of a state. What is well speaks softly, so that what is not stands out. */
export function Said({ sign, plain = false }: { sign: Sign; plain?: boolean }) {
	return (
		<>
			<span aria-hidden="true" className={`mr-1.5 inline-block w-3 text-center ${toneClass[sign.tone]}`}>
				{sign.glyph}
			</span>
			<span className={plain || sign.tone === "muted" || sign.tone === "ok" ? "" : toneClass[sign.tone]}>{sign.word}</span>
		</>
	);
}
