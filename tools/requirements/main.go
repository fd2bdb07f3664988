// Command requirements checks docs/requirements.md against the tree and prints how many rows are shown, open or deviations.
//
// A row is `| id | sentence | status | evidence |`. A shown row names at least one test as `path: test`, several divided by `;`:
//
//	controls: TestDrain/B4 an empty node     a Go test of that package; the words after the slash stand in its test files
//	e2e/main-job                             a script; with `: words`, these stand in it
//
// The id of a field case stands in the name of a test of those files, where just cases finds it. A deviation names its ADR by path, as adr/0007-….md. What is named has to exist, so a test that is renamed or removed shows here.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	counts, err := check(root)
	if err != nil {
		fmt.Fprintf(os.Stderr, "docs/requirements.md:\n%v\n", err)
		os.Exit(1)
	}
	fmt.Printf("docs/requirements.md: %d rows: %d shown, %d deviations, %d open\n",
		counts["shown"]+counts["deviation"]+counts["open"], counts["shown"], counts["deviation"], counts["open"])
}

var (
	row    = regexp.MustCompile(`^\|\s*((?:ON|NR)-\d+\.\d+|[A-I]\d+)\s*\|(.*)\|\s*$`)
	caseID = regexp.MustCompile(`^[A-I]\d+$`)
	adr    = regexp.MustCompile(`adr/\d{4}-[a-z0-9-]+\.md`)
)

// check reads the document below root and counts its rows by status; the error joins everything that is wrong with it.
func check(root string) (map[string]int, error) {
	file, err := os.Open(filepath.Join(root, "docs", "requirements.md"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	counts, seen := map[string]int{}, map[string]bool{}
	var wrong []error
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := row.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		id, cells := m[1], strings.Split(m[2], " | ")
		fail := func(format string, args ...any) {
			wrong = append(wrong, fmt.Errorf("%s: "+format, append([]any{id}, args...)...))
		}
		if seen[id] {
			fail("stands there twice")
		}
		seen[id] = true
		if len(cells) != 3 {
			fail("has %d cells after the id, not 3 (sentence, status, evidence)", len(cells))
			continue
		}
		sentence, status, evidence := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		if sentence == "" {
			fail("has no sentence")
		}
		switch status {
		case "open":
		case "shown":
			if evidence == "" {
				fail("is shown, but names no test")
				continue
			}
			named := !caseID.MatchString(id)
			for ref := range strings.SplitSeq(evidence, ";") {
				text, err := exists(root, strings.Trim(strings.TrimSpace(ref), "`"))
				if err != nil {
					fail("%w", err)
				}
				named = named || regexp.MustCompile(`(?:\b|Test)`+id+`(?:\b|[A-Z_])`).MatchString(text)
			}
			if !named {
				fail("is shown by tests whose names don't hold its id, so just cases can't count it")
			}
		case "deviation":
			named := adr.FindString(evidence)
			if named == "" {
				fail("is a deviation, but names no ADR")
			} else if _, err := os.Stat(filepath.Join(root, "docs", named)); err != nil {
				fail("names docs/%s, which is not there", named)
			}
		default:
			fail("has the status %q; it is shown, open or deviation", status)
			continue
		}
		counts[status]++
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(seen) == 0 {
		return nil, errors.New("no rows found")
	}
	return counts, errors.Join(wrong...)
}

// exists says whether the tree has the test that a reference names, and gives the text of the files where it is.
func exists(root, ref string) (string, error) {
	path, name, named := strings.Cut(ref, ": ")
	path = filepath.Join(root, filepath.FromSlash(path))
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("names %q, and there is no such path", ref)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*_test.go")); err != nil {
			return "", err
		}
		if !named {
			return "", fmt.Errorf("names the folder %q and no test in it", ref)
		}
	}
	var text strings.Builder
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text.Write(body)
	}
	test, words, _ := strings.Cut(name, "/")
	if info.IsDir() {
		test = "func " + test + "("
	}
	if !strings.Contains(text.String(), test) || !strings.Contains(text.String(), words) {
		return "", fmt.Errorf("names %q, and there is no such test", ref)
	}
	return text.String(), nil
}
