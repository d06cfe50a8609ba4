package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// release is build/release-check in a tree of its own, where neither make nor build/lab does
// anything but end with a status, 0 unless another one is set for what its arguments contain, or a shell cannot read
// the TESTFLAGS in a recipe.
type release struct {
	dir  string
	fail map[string]string // status by word
}

func newRelease(t *testing.T) *release {
	t.Helper()
	r := &release{dir: t.TempDir(), fail: map[string]string{}}
	script, err := os.ReadFile("../../build/release-check")
	if err != nil {
		t.Fatal(err)
	}
	tool, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	const stub = "#!/bin/sh\necho \"$0 $*\"\n" +
		"for w in $FAIL; do case \"$0 $*\" in *${w%=*}*) exit ${w#*=} ;; esac; done\n"
	for name, text := range map[string]string{
		"build/release-check": string(script), "build/lab": stub,
		"path/make": stub + "exec " + tool + " -sf - \"$@\" <<'EOF'\n%:\n\t@: $(TESTFLAGS)\nEOF\n",
		"path/git":  "#!/bin/sh\necho v9.9.9\n",
	} {
		file := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// run returns the status and the page.
func (r *release) run(t *testing.T, environ ...string) (int, string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(r.dir, "build/release-check"), filepath.Join(r.dir, "out"))
	var fail []string
	for word, status := range r.fail {
		fail = append(fail, word+"="+status)
	}
	cmd.Env = append([]string{"PATH=" + filepath.Join(r.dir, "path") + ":" + os.Getenv("PATH"),
		"FAIL=" + strings.Join(fail, " ")}, environ...)
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatal(err)
	}
	page, _ := os.ReadFile(filepath.Join(r.dir, "out/release.md"))
	return cmd.ProcessState.ExitCode(), string(page)
}

var row = regexp.MustCompile(`(?m)^\| (\w+) \| ([^|]*) \| \d+ \| \[`)

// verdicts are those of the page by step.
func verdicts(page string) map[string]string {
	by := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		by[m[1]] = m[2]
	}
	return by
}

// TestReleaseCheckRunsAllSteps: each step that the script has is run unless another choice is made, and
// the page names those that were not.
func TestReleaseCheckRunsAllSteps(t *testing.T) {
	r := newRelease(t)
	status, page := r.run(t)
	got := verdicts(page)
	script, _ := os.ReadFile("../../build/release-check")
	steps := regexp.MustCompile(`(?m)^step (\w+) `).FindAllStringSubmatch(string(script), -1)
	if status != 0 || len(got) != len(steps) || len(steps) < 13 || strings.Contains(page, "Not run") {
		t.Errorf("status %d, %d of %d steps:\n%s", status, len(got), len(steps), page)
	}
	for _, s := range steps {
		if got[s[1]] != "pass" {
			t.Errorf("step %s: %q", s[1], got[s[1]])
		}
	}
	list, err := exec.Command("tar", "-tf", filepath.Join(r.dir, "out.tar.gz")).Output()
	if err != nil || !strings.Contains(string(list), "out/release.md\n") ||
		strings.Count(string(list), ".log\n") != len(steps) {
		t.Errorf("the archive has %s: %v", list, err)
	}
	status, page = r.run(t, "STEPS=race guest")
	if got = verdicts(page); status != 0 || len(got) != 2 || strings.Count(page, "Not run: ") != len(steps)-2 ||
		!strings.Contains(page, "Run with STEPS=race guest.") {
		t.Errorf("two steps: status %d:\n%s", status, page)
	}
	if status, _ = r.run(t, "STEPS=race gest"); status != 2 {
		t.Errorf("a step that does not exist: status %d", status)
	}
}

// TestReleaseCheckShowsFailures: each step that fails is red on the page and makes the status 1, and the
// others run. An inconclusive lab is neither.
func TestReleaseCheckShowsFailures(t *testing.T) {
	for step, word := range map[string]string{
		"race": "test-race", "mutants": "test-mutants", "checks": "-keys", "programs": "-bpf",
		"planted": "TestPlantedFaults", "pairs": "TestPairs",
		"flood": "TestBorderFlood", "borders": "TestBorder(", "lab": "build/lab", "bench": "bench", "fuzz": "fuzz",
		"soak":    "soak",
		"kernels": "test-kernels", "replay": "test-replay", "guest": "test-guest",
	} {
		r := newRelease(t)
		r.fail[word] = "2"
		status, page := r.run(t)
		got := verdicts(page)
		if status != 1 || got[step] != "FAIL (status 2)" || len(got) < 13 {
			t.Errorf("%s: status %d, %q:\n%s", step, status, got[step], page)
		}
	}
	r := newRelease(t)
	r.fail["build/lab"] = "3"
	status, page := r.run(t)
	if got := verdicts(page); status != 0 || got["lab"] != "inconclusive" || got["guest"] != "pass" {
		t.Errorf("inconclusive: status %d:\n%s", status, page)
	}
}
