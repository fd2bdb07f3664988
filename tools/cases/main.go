// Command cases reads what test runs left behind and counts.
//
//	cases FILE...              passes and failures for each case id and requirement id that stands in a test's name
//	cases -count NAME FILE...  one line `NAME: N passed, N failed, N skipped`, the leaves counted and not the tests that only hold others
//
// A file is the output of `go test -json` or the JSON report of vitest. An id is what a test's own name begins with, as in
// t.Run("D4 expiry is decided by the database clock", …); several may stand there, as in "B4 B7 …".
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	name := flag.String("count", "", "print one counting line under this name instead of the list of ids")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: cases [-count NAME] FILE...")
		os.Exit(2)
	}
	var all []result
	for _, path := range flag.Args() {
		body, err := os.ReadFile(path)
		if err == nil {
			var some []result
			some, err = read(body)
			all = append(all, some...)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "cases: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
	if *name != "" {
		fmt.Println(count(*name, all))
		return
	}
	list(os.Stdout, all)
}

// A result is how one test ended. Its path holds the names from the outermost test to itself.
type result struct {
	pkg     string
	path    []string
	outcome string // pass, fail or skip
}

// read takes either format.
func read(body []byte) ([]result, error) {
	if bytes.Contains(body, []byte(`"testResults"`)) {
		return readVitest(body)
	}
	return readGo(body)
}

// readGo also counts a package that failed outside any test, a build failure above all, as one failure: else a package that doesn't
// compile would look like one without tests.
func readGo(body []byte) ([]result, error) {
	var results []result
	failed := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte("{")) {
			continue
		}
		var line struct{ Action, Package, Test string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("not the output of go test -json: %w", err)
		}
		switch line.Action {
		case "pass", "fail", "skip":
		default:
			continue
		}
		if line.Test == "" {
			if line.Action == "fail" && !failed[line.Package] {
				results = append(results, result{line.Package, []string{"(package)"}, "fail"})
			}
			continue
		}
		if line.Action == "fail" {
			failed[line.Package] = true
		}
		results = append(results, result{line.Package, strings.Split(line.Test, "/"), line.Action})
	}
	return results, lines.Err()
}

func readVitest(body []byte) ([]result, error) {
	var report struct {
		TestResults []struct {
			Name             string
			Status           string
			AssertionResults []struct {
				AncestorTitles []string
				Title          string
				Status         string
			}
		}
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return nil, fmt.Errorf("not a report of vitest: %w", err)
	}
	outcomes := map[string]string{"passed": "pass", "failed": "fail"}
	var results []result
	for _, file := range report.TestResults {
		if file.Status == "failed" && len(file.AssertionResults) == 0 {
			results = append(results, result{file.Name, []string{"(file)"}, "fail"})
		}
		for _, test := range file.AssertionResults {
			outcome, ok := outcomes[test.Status]
			if !ok {
				outcome = "skip"
			}
			results = append(results, result{file.Name, append(slices.Clone(test.AncestorTitles), test.Title), outcome})
		}
	}
	return results, nil
}

// count counts leaves. A failure of a test that holds others counts too when none of those failed: then the failure is its own.
func count(name string, all []result) string {
	holds, failedBelow := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		for n := 1; n < len(r.path); n++ {
			outer := r.pkg + "\x00" + strings.Join(r.path[:n], "/")
			holds[outer] = true
			if r.outcome == "fail" {
				failedBelow[outer] = true
			}
		}
	}
	counts := map[string]int{}
	for _, r := range all {
		key := r.pkg + "\x00" + strings.Join(r.path, "/")
		if !holds[key] || (r.outcome == "fail" && !failedBelow[key]) {
			counts[r.outcome]++
		}
	}
	return fmt.Sprintf("%s: %d passed, %d failed, %d skipped", name, counts["pass"], counts["fail"], counts["skip"])
}

// list prints a line for each id, and how many ids have a failure at the end.
func list(w io.Writer, all []result) {
	counts := map[string]map[string]int{}
	for _, r := range all {
		for _, id := range ids(r.path[len(r.path)-1]) {
			if counts[id] == nil {
				counts[id] = map[string]int{}
			}
			counts[id][r.outcome]++
		}
	}
	names := make([]string, 0, len(counts))
	for id := range counts {
		names = append(names, id)
	}
	slices.SortFunc(names, byNumber)
	failing := 0
	for _, id := range names {
		c := counts[id]
		fmt.Fprintf(w, "%-8s %3d passed", id, c["pass"])
		if c["fail"] > 0 {
			failing++
			fmt.Fprintf(w, "  %d FAILED", c["fail"])
		}
		if c["skip"] > 0 {
			fmt.Fprintf(w, "  %d skipped", c["skip"])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%d ids, %d of them with a failure\n", len(names), failing)
}

var id = regexp.MustCompile(`^(?:[A-I][0-9]{1,2}|(?:ON|NR)-[0-9]{1,2}\.[0-9]{1,2})$`)

// ids takes the ids at the beginning of a name. Go writes the spaces of a name as underscores, vitest leaves them.
func ids(name string) []string {
	var found []string
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '_' || r == ' ' || r == ',' || r == ':' }) {
		if !id.MatchString(word) {
			break
		}
		found = append(found, word)
	}
	return found
}

var digits = regexp.MustCompile(`[0-9]+`)

// byNumber orders B2 before B10, and ON-3.2 before ON-3.10.
func byNumber(a, b string) int {
	if c := strings.Compare(strings.TrimRight(a, "0123456789."), strings.TrimRight(b, "0123456789.")); c != 0 {
		return c
	}
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(id string) []int {
	var found []int
	for _, text := range digits.FindAllString(id, -1) {
		n, _ := strconv.Atoi(text)
		found = append(found, n)
	}
	return found
}
