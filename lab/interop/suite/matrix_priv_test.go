package suite

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"roam/internal/testutil"
	"roam/lab/interop"
	"roam/lab/node"
	"roam/lab/topo"
)

// bin are the programs under test, built once.
var bin node.Binaries

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run() // tests that need root skip by name
	}
	if err := topo.Sweep(); err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return 1
	}
	// A case waits most of its time: all profiles run at once.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(len(interop.Profiles()))); err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "roam-suite")
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if bin, err = node.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return 1
	}
	return m.Run()
}

func needAll(t *testing.T) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, what := range []string{"netns", "cgroup2", "ipv6", "/dev/net/tun", "radvd", "ping"} {
		testutil.Need(t, what)
	}
}

// Every stack that is known sets up TCP and UDP with Roam from either side, and
// what was set up lives through soft moves and reboots, though the hosts line
// says nothing of the stack.
func TestMatrix(t *testing.T) {
	needAll(t)
	var mu sync.Mutex
	results := map[string]map[string]Outcome{}
	var core []string
	for _, c := range Cases() {
		if c.Core {
			core = append(core, c.Name)
		}
	}
	t.Run("profiles", func(t *testing.T) {
		for _, p := range interop.Profiles() {
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				got := map[string]Outcome{}
				for _, name := range core {
					t.Run(name, func(t *testing.T) { got[name] = measured(t, p, name) })
				}
				mu.Lock()
				defer mu.Unlock()
				results[p.Name] = got
			})
		}
	})
	t.Log("\n" + grid(core, results))
}

// measured runs one case, which must pass.
func measured(t *testing.T, p interop.Profile, name string) Outcome {
	t.Helper()
	// The profiles run in parallel, on a machine with other work. The suite itself applies the real bounds.
	busy := os.Getenv("ROAM_LAB_JUDGE") == "correctness"
	opt := Options{Profile: p, Bin: bin, Cases: []string{name}, Logs: t.TempDir(), Busy: busy}
	out, err := Run(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	if o := out[0]; !o.Pass {
		log, _ := os.ReadFile(o.Log)
		t.Errorf("%s: %s: %s (%s)", o.Case.Says, o.Verdict(), o.Why, o.Value)
		t.Logf("roamd said:\n%s", log)
	}
	return out[0]
}

// grid is a table of cases by profiles.
func grid(cases []string, results map[string]map[string]Outcome) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\t"+strings.Join(interop.ProfileNames(), "\t"))
	for _, c := range cases {
		row := []string{c}
		for _, p := range interop.ProfileNames() {
			o, ran := results[p][c]
			if !ran {
				row = append(row, "-")
				continue
			}
			row = append(row, o.Verdict())
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // the writer below is memory
	return b.String()
}
