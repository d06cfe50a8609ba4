package exptest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"roam/lab/result"
)

// Each experiment makes each of its claims fail: a claim whose red side nothing exercises
// could not say no.
func TestEveryExperimentUsesTheFrame(t *testing.T) {
	for _, file := range expectations(t) {
		// A folder of claims without code belongs to the package above it.
		dir := filepath.Dir(file)
		if code, _ := filepath.Glob(filepath.Join(dir, "*.go")); len(code) == 0 {
			dir = filepath.Dir(dir)
		}
		b, err := os.ReadFile(filepath.Join(dir, "claims_test.go"))
		if err != nil || !strings.Contains(string(b), "exptest.Claims(t, ") {
			t.Errorf("%s: no claims_test.go of its package calls exptest.Claims (%v)", file, err)
		}
	}
}

// expectations lists the files of claims of all experiments.
func expectations(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"../*/expect*.json", "../*/*/expect*.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 22 {
		t.Fatalf("%d files of claims", len(files))
	}
	return files
}

// The frame tells of each verdict that is not as a case says, and of each that no case shows.
func TestTheFrameSaysNo(t *testing.T) {
	expect, err := result.ParseExpect([]byte(`{"claims":[
	 {"id":"a","metric":"m","op":"<=","bound":50,"kind":"timing","source":"the rule of a test",
	  "needs":[{"metric":"g","op":"==","bound":0,"reason":"guarded"}]},
	 {"id":"b","metric":"n","op":">=","bound":20,"kind":"timing","source":"the rule of a test"},
	 {"id":"never","metric":"o","op":"==","bound":1,"kind":"timing","source":"the rule of a test"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	run := func(m, n, g float64, red, grey string) Case {
		return Case{Red: strings.Fields(red), Grey: strings.Fields(grey), Judge: func(r *result.Result, _ int) {
			r.Set("m", m)
			r.Set("n", n)
			r.Set("g", g)
		}}
	}
	sound, guarded := run(40, 30, 0, "", ""), run(40, 30, 1, "", "a")
	for name, c := range map[string]struct {
		cases []Case
		want  int
	}{
		"all":                   {[]Case{sound, guarded, run(60, 10, 0, "a b", "")}, 0},
		"not as said":           {[]Case{sound, guarded, run(60, 10, 0, "a b", ""), run(60, 30, 0, "", "")}, 1},
		"red that is green":     {[]Case{sound, guarded, run(60, 10, 0, "a b", ""), run(40, 30, 0, "b", "")}, 1},
		"no guard":              {[]Case{sound, run(60, 10, 0, "a b", "")}, 1},
		"no failure":            {[]Case{sound, guarded, run(60, 30, 0, "a", "")}, 2},
		"far beyond its bound":  {[]Case{sound, guarded, run(501, 10, 0, "a b", "")}, 1},
		"far below its bound":   {[]Case{sound, guarded, run(60, 1, 0, "a b", "")}, 1},
		"an unknown claim":      {[]Case{sound, guarded, run(60, 10, 0, "a b c", "")}, 1},
		"never passed":          {[]Case{run(60, 10, 0, "a b", ""), guarded}, 1},
		"a count one too small": {[]Case{sound, guarded, run(51, 19, 0, "a b", "")}, 0},
	} {
		s := newSight(expect, map[string]string{"never": "not run"})
		var faults []string
		for _, one := range c.cases {
			faults = append(faults, s.judge(one)...)
		}
		if faults = slices.Concat(faults, s.unseen()); len(faults) != c.want {
			t.Errorf("%s: %d faults, want %d: %q", name, len(faults), c.want, faults)
		}
	}
}
