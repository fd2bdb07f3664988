import { expect, test } from "vitest";
import { firstTenant } from "../src/api/tenant";

test("the console begins with the tenant that the command line takes", () => {
	expect(firstTenant([{ id: "acme" }, { id: "default" }])).toBe("default");
	expect(firstTenant([{ id: "acme" }, { id: "other" }])).toBe("acme");
	expect(firstTenant([])).toBeUndefined();
});
