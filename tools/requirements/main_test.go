package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The document in the repository holds against the tree.
func TestRepository(t *testing.T) {
	t.Parallel()
	counts, err := check(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if counts["shown"]+counts["open"]+counts["deviation"] < 150 {
		t.Errorf("only %v rows: were sentences dropped?", counts)
	}
}

// Each kind of wrong row is named; right ones are counted.
func TestCheck(t *testing.T) {
	t.Parallel()
	const tests = `package node
func TestGate(t *testing.T) { t.Run("B4 an empty node", nil) }`
	for name, tc := range map[string]struct{ row, want string }{
		"a test that exists":       {"| ON-1.1 | A sentence. | shown | node: TestGate |", ""},
		"a subtest that exists":    {"| ON-1.1 | A sentence. | shown | node: TestGate/B4 an empty node |", ""},
		"a script and a test":      {"| B4 | A sentence. | shown | e2e/main-job; node: TestGate |", ""},
		"words in a script":        {"| B4 | A sentence. | shown | e2e/main-job: once within |", ""},
		"an ADR":                   {"| NR-1.1 | A sentence. | deviation | adr/0001-a.md |", ""},
		"open":                     {"| NR-1.1 | A sentence. | open | |", ""},
		"a test that is gone":      {"| ON-1.1 | A sentence. | shown | node: TestGone |", "no such test"},
		"the beginning of a name":  {"| ON-1.1 | A sentence. | shown | node: TestGat |", "no such test"},
		"a subtest that is gone":   {"| ON-1.1 | A sentence. | shown | node: TestGate/B5 |", "no such test"},
		"a package that is gone":   {"| ON-1.1 | A sentence. | shown | gone: TestGate |", "no such path"},
		"a folder without a test":  {"| ON-1.1 | A sentence. | shown | node |", "no test in it"},
		"shown by nothing":         {"| ON-1.1 | A sentence. | shown | |", "names no test"},
		"words not in the script":  {"| B4 | A sentence. | shown | e2e/main-job: twice |", "no such test"},
		"an ADR that is not there": {"| NR-1.1 | A sentence. | deviation | adr/0002-b.md |", "not there"},
		"a deviation by decree":    {"| NR-1.1 | A sentence. | deviation | because |", "names no ADR"},
		"another status":           {"| NR-1.1 | A sentence. | done | |", "status"},
		"a cell too few":           {"| NR-1.1 | A sentence. | open |", "cells"},
		"a case without its id":    {"| B5 | A sentence. | shown | node: TestGate |", "don't hold its id"},
		"twice":                    {"| B1 | A sentence. | open | |\n| B1 | A sentence. | open | |", "twice"},
		"no rows":                  {"nothing", "no rows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for path, body := range map[string]string{
				"docs/requirements.md": tc.row + "\n",
				"docs/adr/0001-a.md":   "# A\n",
				"node/gate_test.go":    tests,
				"e2e/main-job":         "B4 node.drained once within 2 s\n",
			} {
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := check(root)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("a right row was refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
