package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// planted plants faults of one file, as a target whose conditions are replaced.
func planted(t *testing.T, code string) (list []*mutant, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate.go")
	if err := os.WriteFile(path, []byte("package gate\n"+code), 0o600); err != nil {
		t.Fatal(err)
	}
	p, files, names, err := load(filepath.Dir(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.check = true
	b, err := p.file(names[0], files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range p.list {
		m.file = filepath.Base(m.file)
	}
	return p.list, string(b)
}

// TestOneSurvivorIsRed: one survivor without a reason makes the run fail, and is named, however many were killed.
// So does a reason that has outlived its code, as it would excuse what is written there next.
func TestOneSurvivorIsRed(t *testing.T) {
	list, _ := planted(t, "func f(a, b bool) bool {\n\tif a {\n\t\treturn b\n\t}\n\treturn false\n}\n")
	var all []string
	for _, m := range list {
		all = append(all, m.key())
	}
	want := []string{"gate.go: f: never a", "gate.go: f: always a", "gate.go: f: never b", "gate.go: f: always b"}
	if !slices.Equal(all, want) {
		t.Fatalf("planted %q, want %q", all, want)
	}
	const reason = "it cannot occur"
	for name, c := range map[string]struct {
		alive   []int // numbers in the list
		reasons map[string]string
		most    float64
		red     string
	}{
		"all are killed":           {nil, nil, 0, ""},
		"one survives":             {[]int{2}, nil, 100, "gate.go:4: f: never b"},
		"one of two has a reason":  {[]int{0, 2}, map[string]string{all[0]: reason}, 100, "gate.go:4: f: never b"},
		"each has one":             {[]int{0, 2}, map[string]string{all[0]: reason, all[2]: reason}, 100, ""},
		"too many":                 {[]int{0}, map[string]string{all[0]: reason}, 24, "1 of 4 faults are alive"},
		"as many as may be":        {[]int{0}, map[string]string{all[0]: reason}, 25, ""},
		"a reason for no fault":    {nil, map[string]string{"gate.go: f: never c": reason}, 100, "gate.go: f: never c"},
		"another file's reason":    {nil, map[string]string{"door.go: f: never c": reason}, 100, ""},
		"a reason that is no text": {[]int{1}, map[string]string{all[1]: ""}, 100, "gate.go:3: f: always a"},
	} {
		for i, m := range list {
			m.killed = !slices.Contains(c.alive, i)
		}
		var out strings.Builder
		err := judge(&out, list, c.reasons, c.most)
		if (err != nil) != (c.red != "") || err != nil && !strings.Contains(err.Error(), c.red) {
			t.Errorf("%s: %v, want %q", name, err, c.red)
		}
		if n := strings.Count(out.String(), reason); n != len(c.alive) && c.red == "" {
			t.Errorf("%s: %d reasons in\n%s", name, n, out.String())
		}
	}
	if err := judge(&strings.Builder{}, nil, nil, 100); err == nil {
		t.Error("a run that has planted nothing is green")
	}
}

// TestAlikeConditions: two conditions of one text in one function have two names, so that the reason of one does
// not excuse the other.
func TestAlikeConditions(t *testing.T) {
	list, text := planted(t, `func f(a, b error) bool {
	err := a
	if err != nil {
		return false
	}
	err = b
	return err == nil || err != nil
}
`)
	var all []string
	for _, m := range list {
		all = append(all, m.what)
	}
	want := []string{"never err != nil", "always err != nil", "never err == nil", "always err == nil",
		"never err != nil #2", "always err != nil #2"}
	if !slices.Equal(all, want) {
		t.Errorf("planted %q, want %q", all, want)
	}
	if want := "if mutantIs(1, err != nil) {"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}
