package testutil

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Results names the file to which benchmarks write their figures, if it is set.
const Results = "ROAM_RESULTS"

// HalfWidth is how well a ratio must be known to be judged.
const HalfWidth = 0.015

// The verdicts on a figure. Only Pass is success.
const (
	Pass        = "pass"
	Fail        = "fail"
	NotMeasured = "not measured"
)

// Figure is one result of a benchmark with what it was measured on.
type Figure struct {
	Name  string  `json:"name"`           // of the benchmark and what it asks: "UDPPackets/settled"
	Says  string  `json:"says"`           // what was measured, in words
	Unit  string  `json:"unit,omitempty"` // "" is a ratio
	Value float64 `json:"value"`
	Half  float64 `json:"half_width"` // of the 95 % interval; 0 for a count or a worst case
	// Op compares with Bound: "<=" or ">="; "" has no bound and no verdict.
	Op    string  `json:"op,omitempty"`
	Bound float64 `json:"bound,omitempty"`
	// Within is the greatest half-width with which the figure is judged; 0 is HalfWidth.
	Within  float64            `json:"within,omitempty"`
	Verdict string             `json:"verdict,omitempty"`
	Rounds  int                `json:"rounds"`
	Details map[string]float64 `json:"details,omitempty"` // units in the names
	// Build is the version that was measured; "" in figures from before it was kept.
	Build  string `json:"build,omitempty"`
	When   string `json:"when"`
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	// Load is the machine's load average: absolute times of a loaded machine are upper bounds.
	Load float64 `json:"load"`
	// Raw is what each round measured, by contender, in the order of the rounds; nil for a count or
	// a single run. It is kept beside the file of figures, not in it.
	Raw map[string][]float64 `json:"-"`
}

// Judge compares the figure with its bound. A value that is not known well enough is not
// measured, unless its whole interval lies beyond the bound.
func (f Figure) Judge() string {
	holds := func(v float64) bool { return f.Op == ">=" && v >= f.Bound || f.Op == "<=" && v <= f.Bound }
	switch known := f.Half <= cmp.Or(f.Within, HalfWidth); { // false for NaN
	case f.Op == "":
		return ""
	case known && holds(f.Value):
		return Pass
	case known, f.Value+f.Half < f.Bound && !holds(f.Value), f.Value-f.Half > f.Bound && !holds(f.Value):
		return Fail
	}
	return NotMeasured
}

// String is the figure in one line.
func (f Figure) String() string {
	s := f.Name + ": " + f.measured()
	if f.Op != "" {
		s += fmt.Sprintf(", %s %s: %s", f.Op, f.number(f.Bound), f.Verdict)
	}
	return s + fmt.Sprintf(" (%d rounds)", f.Rounds)
}

// measured writes the value with its interval, if it has one: a count has none.
func (f Figure) measured() string {
	if f.Half == 0 {
		return f.number(f.Value)
	}
	value := f.number(f.Value)
	if f.Unit != "" {
		value = strings.TrimSuffix(value, " "+f.Unit)
	}
	return value + " ± " + f.number(f.Half)
}

// number writes a value of the figure with its unit.
func (f Figure) number(v float64) string {
	if f.Unit == "" {
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.4g %s", v, f.Unit)
}

// Report judges a figure, logs it, keeps it in the file that Results names, and fails the
// benchmark unless it passes or has no bound.
func Report(b testing.TB, f Figure) {
	b.Helper()
	f.Verdict = f.Judge()
	build, err := measuredBuild()
	if err != nil {
		b.Error(err)
	}
	f.Build, f.When, f.Cores = build, time.Now().UTC().Format("2006-01-02 15:04"), runtime.NumCPU()
	f.Kernel, f.CPU, f.Load = machine()
	if path := os.Getenv(Results); path != "" {
		if err := keep(path, f); err != nil {
			b.Error(err)
		}
	}
	if f.Verdict == Fail || f.Verdict == NotMeasured {
		b.Error(f)
		return
	}
	b.Log(f)
}

// Build names the variable that has the version which benchmarks measure, if it is not that of this tree.
const Build = "ROAM_BUILD"

// measuredBuild returns the version that is measured: one for all figures of a process, whose results change the tree.
var measuredBuild = sync.OnceValues(func() (string, error) {
	if v := os.Getenv(Build); v != "" {
		return v, nil
	}
	return treeVersion()
})

// treeVersion returns the version of this tree, in any directory of which tests run.
func treeVersion() (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the tree that is measured: %w", err)
	}
	for !exists(filepath.Join(root, "go.mod")) && root != filepath.Dir(root) {
		root = filepath.Dir(root)
	}
	out, err := exec.Command(filepath.Join(root, "build/version"), ":!docs/results.json", ":!docs/results.md").Output()
	if err != nil {
		return "", fmt.Errorf("find the version that is measured: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// machine describes what a figure was measured on.
func machine() (kernel, cpu string, load float64) {
	read := func(path string) string { b, _ := os.ReadFile(path); return strings.TrimSpace(string(b)) }
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(model)
			break
		}
	}
	_, _ = fmt.Sscan(read("/proc/loadavg"), &load)
	return read("/proc/sys/kernel/osrelease"), cpu, load
}

// ReadFigures reads a file of figures; a file that does not exist has none.
func ReadFigures(path string) (all []Figure, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	return all, nil
}

// keep writes a figure to a file in place of an older one of its name. The others stay, so
// that one benchmark can be repeated alone.
func keep(path string, f Figure) error {
	all, err := ReadFigures(path)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(old Figure) bool { return old.Name == f.Name })
	all = append(all, f)
	slices.SortFunc(all, func(a, b Figure) int { return cmp.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return fmt.Errorf("keep figure %s: %w", f.Name, err)
	}
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(part, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep figure %s: %w", f.Name, err)
	}
	return errors.Join(os.Rename(part, path), keepRaw(path, f))
}

// keepRaw writes what the rounds of a figure measured to a file of its own in NAME.raw beside NAME.json.
func keepRaw(path string, f Figure) error {
	if f.Raw == nil {
		return nil
	}
	b, err := json.Marshal(struct {
		Figure
		Raw map[string][]float64 `json:"raw"`
	}{f, f.Raw})
	if err != nil {
		return fmt.Errorf("keep rounds of %s: %w", f.Name, err)
	}
	dir := strings.TrimSuffix(path, ".json") + ".raw"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep rounds of %s: %w", f.Name, err)
	}
	return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(f.Name, "/", "_")+".json"), append(b, '\n'), 0o644)
}

// Table draws figures as a table in Markdown. A figure that does not pass is set in bold.
func Table(all []Figure) string {
	var t strings.Builder
	t.WriteString("| figure | what it compares | bound | measured | rounds, load | build | |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, f := range all {
		bound, verdict := "", f.Verdict
		if f.Op != "" {
			bound = f.Op + " " + f.number(f.Bound)
		}
		if verdict == Fail || verdict == NotMeasured {
			verdict = "**" + verdict + "**"
		}
		fmt.Fprintf(&t, "| `%s` | %s%s | %s | %s | %d, %.1f | %s | %s |\n",
			f.Name, f.Says, f.details(), bound, f.measured(), f.Rounds, f.Load, f.Build, verdict)
	}
	return t.String()
}

// details lists the figure's other values.
func (f Figure) details() string {
	var all []string
	for name, v := range f.Details {
		all = append(all, fmt.Sprintf("%s %.4g", name, v))
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return "; " + strings.Join(all, ", ")
}
