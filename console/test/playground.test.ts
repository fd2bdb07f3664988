import { readFileSync } from "node:fs";
import { buildSchema, parse, validate } from "graphql";
import { describe, expect, test } from "vitest";
import { examples } from "../src/playground/examples";

const schema = buildSchema(readFileSync("../schema.graphqls", "utf8"));

describe("the playground's examples", () => {
	// An example that the API would refuse teaches the wrong thing.
	for (const example of examples("acme", "node_01k5w0000nfj6v7gq0w6vbn9dd"))
		test(`${example.title}: is valid, and its variables are what it declares`, () => {
			const document = parse(example.query);
			expect(validate(schema, document).map((e) => e.message)).toEqual([]);
			const declared = document.definitions.flatMap((d) => ("variableDefinitions" in d ? (d.variableDefinitions ?? []) : []));
			const names = declared.map((v) => v.variable.name.value);
			for (const name of Object.keys(JSON.parse(example.variables))) expect(names).toContain(name);
		});
});
