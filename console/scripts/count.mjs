// Closes a test run with the one line that every recipe that counts prints.
export default class Count {
	onTestRunEnd(modules) {
		const n = { passed: 0, failed: 0, skipped: 0 };
		for (const module of modules) {
			if (module.state() === "failed" && [...module.children.allTests()].length === 0) n.failed++;
			for (const test of module.children.allTests()) n[test.result().state] = (n[test.result().state] ?? 0) + 1;
		}
		console.log(`console: ${n.passed} passed, ${n.failed} failed, ${n.skipped} skipped`);
	}
}
