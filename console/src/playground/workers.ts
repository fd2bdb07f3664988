// The editor's workers are files of this server, like everything else here: the library's own set-up for this bundler breaks its
// development server, and its default one asks another host.
import EditorWorker from "monaco-editor/esm/vs/editor/editor.worker.js?worker";
import JsonWorker from "monaco-editor/esm/vs/language/json/json.worker.js?worker";
import GraphqlWorker from "monaco-graphql/esm/graphql.worker.js?worker";

self.MonacoEnvironment = {
	getWorker(_: string, label: string) {
		if (label === "json") return new JsonWorker();
		return label === "graphql" ? new GraphqlWorker() : new EditorWorker();
	},
};
