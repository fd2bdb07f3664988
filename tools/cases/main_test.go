package main

import (
	"strings"
	"testing"
)

const goRun = `{"Action":"start","Package":"p"}
not json: what a package printed before its first test
{"Action":"pass","Package":"p","Test":"TestDrain/B4_B7_an_empty_node"}
{"Action":"fail","Package":"p","Test":"TestDrain/B10_late"}
{"Action":"fail","Package":"p","Test":"TestDrain"}
{"Action":"fail","Package":"p"}
{"Action":"skip","Package":"p","Test":"TestTPM"}
{"Action":"fail","Package":"broken"}
{"Action":"pass","Package":"q","Test":"TestB4_is_no_id_here"}
`

const vitestRun = `{"testResults":[{"name":"a.test.ts","status":"passed","assertionResults":[
  {"ancestorTitles":["store"],"title":"B4 keeps the newer version","status":"passed"},
  {"ancestorTitles":["store"],"title":"later","status":"pending"}]},
  {"name":"broken.test.ts","status":"failed","assertionResults":[]}]}`

// A test that only holds others is not counted, a package that does not compile is.
func TestCount(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ run, line string }{
		"go":     {goRun, "unit: 2 passed, 2 failed, 1 skipped"},
		"vitest": {vitestRun, "unit: 1 passed, 1 failed, 1 skipped"},
	} {
		results, err := read([]byte(want.run))
		if err != nil {
			t.Fatal(err)
		}
		if got := count("unit", results); got != want.line {
			t.Errorf("%s: got %q, want %q", name, got, want.line)
		}
	}
}

// A failure of a test that holds only passing ones is its own, and counts.
func TestCountOwnFailure(t *testing.T) {
	t.Parallel()
	results, err := read([]byte(`{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := count("unit", results), "unit: 1 passed, 1 failed, 0 skipped"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every id of a name is counted, in the order of their numbers, from both runners together.
func TestList(t *testing.T) {
	t.Parallel()
	var all []result
	for _, run := range []string{goRun, vitestRun} {
		results, err := read([]byte(run))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, results...)
	}
	var out strings.Builder
	list(&out, all)
	want := "B4         2 passed\nB7         1 passed\nB10        0 passed  1 FAILED\n3 ids, 1 of them with a failure\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// A cut line is a sentence, never a silent zero.
func TestReadRefusesGarbage(t *testing.T) {
	t.Parallel()
	if _, err := read([]byte(`{"Action":"pass","Pack`)); err == nil {
		t.Error("a cut line was taken")
	}
}
