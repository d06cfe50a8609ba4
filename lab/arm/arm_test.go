package arm

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArms holds the arms apart: each has a name that cells and files can have,
// and a title of its own.
func TestArms(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range []Arm{Roam, Plain, Static, MPTCP} {
		if !regexp.MustCompile(`^[a-z]{1,8}$`).MatchString(a.Name()) || a.Title() == "" || seen[a.Name()] || seen[a.Title()] {
			t.Errorf("%q, %q", a.Name(), a.Title())
		}
		seen[a.Name()], seen[a.Title()] = true, true
		if tr := a.Traits(); tr.Updates && !tr.Moves || tr.Commands && !tr.Moves {
			t.Errorf("%s: %+v", a.Name(), tr)
		}
		for _, tool := range a.Wrap()[:min(1, len(a.Wrap()))] {
			if a.Tools()[tool] == "" {
				t.Errorf("%s wraps programs in %s, of which no package is named", a.Name(), tool)
			}
		}
	}
	if Roam.Traits() == Plain.Traits() || Static.Traits().Moves || Plain.Traits().Survives {
		t.Error("the controls are as the arms that they control")
	}
}

// comparison is a question which arm it is, where its traits or the arm itself
// should be asked.
var comparison = regexp.MustCompile(
	`(case |[!=]= *)arm\.(Roam|Plain|Static|MPTCP)\b|\barm\.(Roam|Plain|Static|MPTCP) *[!=]=|\.Arm\(?\)?\.Name\(\) *[!=]=`)

// TestNobodyAsksWhichArmItIs holds that an arm is added with its file alone.
func TestNobodyAsksWhichArmItIs(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for n, line := range strings.Split(string(text), "\n") {
			if comparison.MatchString(line) {
				t.Errorf("%s:%d asks which arm it is: %s", path, n+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}
