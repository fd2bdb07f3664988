import type { CodegenConfig } from "@graphql-codegen/cli";

// Types and documents from the contract with the world. Documents stay strings: the page ships no GraphQL parser.
const config: CodegenConfig = {
	schema: "../schema.graphqls",
	documents: "src/**/*.{ts,tsx}",
	ignoreNoDocuments: false,
	generates: {
		"src/gql/": {
			preset: "client",
			presetConfig: { fragmentMasking: false },
			config: {
				documentMode: "string",
				enumsAsTypes: true,
				useTypeImports: true,
				scalars: { DateTime: "string", Cursor: "string", JSON: "unknown" },
				strictScalars: true,
			},
		},
	},
};

export default config;
