package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// fake stands in for roam-lab: it lists three experiments, of which the
// first holds, the second fails a claim, and the third cannot be measured.
const fake = `#!/bin/sh
case "$1 $2" in
"list ")
	[ -z "$ONLY" ] || { printf '  %s  title\n' "$ONLY"; exit; }
	printf 'A paper\n  good-one  title\n  bad-one   title\n\nOther\n  no-tool  title\n' ;;
"run good-one") echo '{}' >"$6"; printf 'VERDICT       CLAIM\npass          a claim\nnot measured  another\n' ;;
"run bad-one") echo '{}' >"$6"; printf 'VERDICT  CLAIM\nFAIL     a claim\n'; exit 1 ;;
"run no-tool") echo 'roam-lab: programs are missing: apt-get install it' >&2; exit 1 ;;
report*) : >"$2/index.html"; echo "$2/index.html" ;;
esac
`

// TestAllExperiments goes through build/lab, which `make lab` runs.
func TestAllExperiments(t *testing.T) {
	dir := t.TempDir()
	lab, look, out := filepath.Join(dir, "roam-lab"), filepath.Join(dir, "look"), filepath.Join(dir, "out")
	for path, text := range map[string]string{
		lab: fake, look: `#!/bin/sh
ls "$1"
[ -z "$UNREADABLE" ] || { echo "    browser_test.go:1: $UNREADABLE"; exit 1; }
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "stale.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(minutes string, environ ...string) (string, error) {
		cmd := exec.Command("../../build/lab", out)
		cmd.Env = append(append(os.Environ(), "ROAM_LAB="+lab, "LAB_LOOK="+look, "LAB_MINUTES="+minutes), environ...)
		b, err := cmd.CombinedOutput()
		return string(b), err
	}
	text, err := run("1")
	if err == nil {
		t.Error("a failed experiment ended with status 0")
	}
	for _, want := range []string{"good-one", "1 pass, 0 FAIL, 1 not measured", "0 pass, 1 FAIL, 0 not measured",
		"could not be measured: roam-lab: programs are missing", "overview: " + out} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	left, _ := filepath.Glob(out + "/*.json")
	reasons, _ := filepath.Glob(out + "/*.error")
	if len(left) != 2 || len(reasons) != 1 {
		t.Errorf("results %v, reasons %v", left, reasons)
	}
	looked, _ := os.ReadFile(out + "/pages.log")
	if !strings.Contains(string(looked), "index.html\n") {
		t.Errorf("the pages that were opened: %s", looked)
	}
	if text, err = run("1", "ONLY=good-one"); err != nil {
		t.Errorf("one that passes: %v\n%s", err, text)
	}
	text, err = run("1", "ONLY=good-one", "UNREADABLE=scrolls sideways")
	if err == nil || !strings.Contains(text, "scrolls sideways") {
		t.Errorf("a page that cannot be read: %v\n%s", err, text)
	}
	if text, err = run("0"); err == nil || strings.Count(text, "not run:") != 3 {
		t.Errorf("without any time: %v\n%s", err, text)
	}
}

// TestAllQuickPresetsFit: `make lab` has time to begin and end every experiment.
func TestAllQuickPresetsFit(t *testing.T) {
	script, err := os.ReadFile("../../build/lab")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`\$\{LAB_MINUTES:-(\d+)\}`).FindSubmatch(script)
	if m == nil {
		t.Fatal("build/lab does not say how many minutes it takes")
	}
	minutes, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, e := range List() {
		seconds := e.PresetValues["quick"].Seconds
		if seconds <= 0 {
			t.Errorf("%s does not say how long its quick preset takes", e.Name)
		}
		t.Logf("%4.0f s  %s", seconds, e.Name)
		sum += seconds
	}
	if limit := float64(60 * minutes); sum > limit {
		t.Errorf("all quick presets take %.0f s, want %.0f s at most", sum, limit)
	}
}
