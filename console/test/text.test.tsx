import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { EventText } from "../src/events/text";
import { eventTone } from "../src/nodes/words";
import type { EventLine } from "../src/store/feed";

function text(e: Partial<EventLine>) {
	const line = {
		id: "evt_1",
		cursor: "c",
		at: "2026-11-29T12:00:00Z",
		nodeId: null,
		actor: "join",
		reason: null,
		node: null,
		...e,
	} as EventLine;
	const box = document.createElement("div");
	box.innerHTML = renderToStaticMarkup(<EventText e={line} />);
	return box.textContent;
}

it("a refused join token says why, by which machine, and which token", () => {
	const e = {
		__typename: "JoinTokenSecurityEvent",
		type: "security.join-token.refused",
		joinTokenId: "jt_01k5wjb4s8fpvb0q9f6m3h2c7d",
		hostname: "gpu-b7-05",
	} as const;
	expect(text({ ...e, refusal: "EXPIRED" })).toBe("join token refused · join · it has expired · by gpu-b7-05 · token …6m3h2c7d");
	expect(text({ ...e, refusal: "OTHER_NODE" })).toContain("it is for another node");
	// A server that is newer than the page may know more.
	expect(text({ ...e, refusal: "OTHER_PLANET" as "EXPIRED" })).toContain("other planet");
	expect(text({ ...e, type: "security.join-token.reused", refusal: null })).toBe(
		"used join token shown again · join · by gpu-b7-05 · token …6m3h2c7d",
	);
	expect(eventTone(e.type)).toBe("bad");
});
