package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/cli"
	"roam/lab/result"
)

// stored writes a result of a made-up experiment.
func stored(t *testing.T, dir, name string, seed uint64, delay, gap float64) string {
	t.Helper()
	r := result.New("moves")
	r.Title, r.Preset, r.Seed, r.Params = "A host moves", "quick", seed, map[string]any{"delay_ms": delay}
	r.Set("gap_ms", gap)
	nine := 9.0
	r.Judge([]result.Expectation{{
		ID: "gap", Says: "short gaps", Metric: "gap_ms", Op: "<=", Bound: 50, Unit: "ms", Kind: result.Timing, Source: "s",
		Published: &result.Published{Value: &nine}, Place: "Tab. 1",
	}})
	r.AddSeries("net1", "Mb/s", []float64{0, 1}, []float64{3, 4})
	r.Figures = []result.Figure{{Title: "Throughput", Panels: []result.Panel{{Kind: result.Lines, Series: []string{"net1"}}}}}
	path := filepath.Join(dir, name)
	if err := r.WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestShow(t *testing.T) {
	_, out, errs := newWorld(t).try("show", "quickstart")
	for _, want := range []string{"[ MN ]", "delay_ms", "0 to 1000 ms", "carrier, locator", "quick ", "leaves out:", "udp_soft_lost", "== 0", "engines: netns"} {
		if !strings.Contains(out, want) {
			t.Errorf("lab show lacks %q: %s%s", want, out, errs)
		}
	}
}

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	a, b := stored(t, dir, "a.JSON", 1, 10, 20), stored(t, dir, "b.json", 2, 10, 60)
	status, out, errs := newWorld(t).try("compare", a, b)
	for _, want := range []string{"seed", "short gaps", "20 ms", "60 ms", "pass", "FAIL", "+40", "+200.0"} {
		if !strings.Contains(out, want) {
			t.Errorf("lab compare lacks %q:\n%s", want, out)
		}
	}
	if status != cli.StatusOK || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	if _, _, errs := newWorld(t).try("compare", a, stored(t, dir, "c.json", 1, 30, 20)); !strings.Contains(errs, "not measured under the same") {
		t.Errorf("another delay: %q", errs)
	}
	var c result.Comparison
	if _, out, _ := newWorld(t).try("compare", a, b, "--json"); json.Unmarshal([]byte(out), &c) != nil || *c.Metrics[0].Difference != 40 {
		t.Errorf("--json: %s", out)
	}
}

func TestReportAndExport(t *testing.T) {
	dir := t.TempDir()
	a := stored(t, dir, "moves.json", 1, 10, 20)
	if err := os.WriteFile(filepath.Join(dir, "broken.error"), []byte("roam: a program is missing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stray.json"), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	status, out, errs := newWorld(t).try("report", dir)
	if status != cli.StatusOK || !strings.Contains(out, "index.html") {
		t.Fatalf("lab report: %d, %q, %q", status, out, errs)
	}
	page, _ := os.ReadFile(filepath.Join(dir, "index.html"))
	for _, want := range []string{`href="moves.html"`, "9 ms (Tab. 1)", "20 ms", "a program is missing", "could not be measured", "not a result of the lab"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("overview lacks %q", want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "moves.html")); err != nil {
		t.Error(err)
	}
	to := filepath.Join(dir, "figures")
	if status, out, errs := newWorld(t).try("export", a, to); status != cli.StatusOK || strings.Count(out, "\n") != 5 {
		t.Fatalf("lab export: %d, %q, %q", status, out, errs)
	}
	data, _ := os.ReadFile(filepath.Join(to, "01-throughput.csv"))
	if !strings.Contains(string(data), ",net1,Mb/s,1,4") {
		t.Errorf("data %q", data)
	}
	if claims, _ := os.ReadFile(filepath.Join(to, "claims.csv")); !strings.Contains(string(claims), "gap,short gaps,20,<= 50,ms,9,Tab. 1,pass") {
		t.Errorf("claims %q", claims)
	}
}
