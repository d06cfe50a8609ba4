package report

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/lab/result"
)

func float(v float64) *float64 { return &v }

// TestKeyClaimsAreInSight: a key claim that was not measured stands among the claims, before
// those that hold, in the report and in the overview; others that were not measured are folded.
func TestKeyClaimsAreInSight(t *testing.T) {
	r := result.New("x")
	r.Set("kept", 1)
	r.Judge([]result.Expectation{
		{ID: "h", Says: "sessions were kept", Metric: "kept", Op: "==", Bound: 1, Kind: result.Correctness, Source: "s"},
		{ID: "k", Says: "datagrams lost", Metric: "lost", Op: "==", Kind: result.Correctness, Source: "s", Key: true},
		{ID: "o", Says: "a side figure", Metric: "side", Op: "==", Kind: result.Correctness, Source: "s"},
	})
	dir := t.TempDir()
	if err := r.WriteJSON(filepath.Join(dir, "x.json")); err != nil {
		t.Fatal(err)
	}
	index, err := Overview(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(dir, "x.html"), index} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shown, folded, _ := strings.Cut(string(b), "<details>")
		if file == index {
			folded = "a side figure"
		}
		key, kept := strings.Index(shown, "datagrams lost"), strings.Index(shown, "sessions were kept")
		if key < 0 || kept < key || strings.Contains(shown, "a side figure") || !strings.Contains(folded, "a side figure") ||
			!strings.Contains(shown, "key claim") {
			t.Errorf("%s: key claim at %d, kept at %d:\n%s", filepath.Base(file), key, kept, shown)
		}
	}
	b, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 further claim was not measured", "0 of 1 experiments pass, 1 inconclusive."} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the overview lacks %q", want)
		}
	}
}

// The experiment that shows what Roam is for comes first, then papers, then what has no group.
func TestFirstOfTheOverview(t *testing.T) {
	item := func(name, group string, published bool) Item {
		r := result.New(name)
		r.Group = group
		return Item{Result: r, Name: name, HasPublished: published}
	}
	var got []string
	for _, p := range papers([]Item{item("x", "", false), item("flood", "Beyond", false), item("moves", "Paper", true),
		item(first, "Try it", false)}) {
		got = append(got, p.Name)
	}
	if want := []string{"Try it", "Paper", "Beyond", "Others"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// claimOf is a measured claim of one value.
func claimOf(v float64, e result.Expectation) result.Claim {
	return result.Claim{Expectation: e, Measured: true, Value: &v, Pass: true}
}

// A reader meets no number that a machine wrote: no exponent, no rounding error, no gap of
// less than nothing, no "1 yes".
func TestValuesReadWell(t *testing.T) {
	above := result.Expectation{Says: "gap above the control", Op: "<=", Bound: 20, Unit: "ms"}
	flag := result.Expectation{Op: "==", Bound: 1, Unit: "yes", Published: &result.Published{Value: float(1)}, Place: "§5.4"}
	for _, tt := range []struct{ got, want string }{
		{num(1.765e-14), "0"},
		{num(-2e-12), "0"},
		{num(0.000012), "0.000012"},
		{num(0.1101), "0.1101"},
		{value(claimOf(-131.8, above)), "none"},
		{note(claimOf(-131.8, above)), "131.8 ms below what it is compared with"},
		{value(claimOf(-1e-12, above)), "0 ms"},
		{value(claimOf(9.4, above)), "9.4 ms"},
		{published(claimOf(1, flag)), "yes (§5.4)"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}

func TestSpanOf(t *testing.T) {
	text := func(s string) *result.Published { return &result.Published{Text: s} }
	for _, tt := range []struct {
		name   string
		value  float64
		unit   string
		op     string
		says   *result.Published
		ok     bool
		lo, hi float64
		met    bool
	}{
		{"a number", 9, "ms", "<=", &result.Published{Value: float(10)}, true, 10, 10, true},
		{"a worse one", 11, "ms", "<=", &result.Published{Value: float(10)}, true, 10, 10, false},
		{"a span", 98, "%", ">=", text("97.8 to 100.3 %"), true, 97.8, 100.3, true},
		{"below it", 97, "%", ">=", text("97.8 to 100.3 %"), true, 97.8, 100.3, false},
		{"mean and maximum", 5, "%", "<=", text("mean 2 %, max 8 %"), true, 2, 8, true},
		{"nothing counted is no per cent", 0, "datagrams", "==", text("mean 2 %, max 8 %"), true, 2, 8, true},
		{"something counted is unknown per cent", 3, "datagrams", "==", text("mean 2 %, max 8 %"), false, 0, 0, false},
		{"words", 3, "ms", "<=", text("around 10 Mb/s"), false, 0, 0, false},
	} {
		e := result.Expectation{Unit: tt.unit, Op: tt.op, Published: tt.says}
		s, ok := spanOf(claimOf(tt.value, e))
		if ok != tt.ok || ok && (s.lo != tt.lo || s.hi != tt.hi || s.met(tt.op) != tt.met) {
			t.Errorf("%s: %+v, %v, met %v", tt.name, s, ok, s.met(tt.op))
		}
	}
}

func TestLead(t *testing.T) {
	r := result.New("x")
	r.Title, r.Engine, r.Preset, r.Seconds, r.Runs = "Handoffs", "sim", "quick", 0.3, 1
	r.Summary = "7 of 7 sessions lived."
	r.Metrics["gap_ms"], r.Metrics["lost"] = 60, 0
	r.Judge([]result.Expectation{
		{ID: "a", Says: "longest gap", Metric: "gap_ms", Op: "<=", Bound: 50, Unit: "ms", Kind: result.Timing},
		{ID: "b", Says: "datagrams lost. The paper drops them", Metric: "lost", Op: "==", Kind: result.Correctness,
			Published: &result.Published{Text: "mean 2 %, max 8 %"}, Place: "Fig. 5.7"},
		{ID: "c", Says: "never tried", Metric: "absent", Op: "==", Kind: result.Correctness},
	})
	want := "The experiment ran in a simulated network in virtual time, without a kernel (preset quick, " +
		"less than a second). " +
		"7 of 7 sessions lived. 1 of the 2 claims that it measured hold; not: longest gap (60 ms, bound ≤\u00a050 ms), " +
		"and 1 could not be measured. Published numbers that it meets or betters: 1 of 1; " +
		"the widest difference: datagrams lost, 0 here, mean 2 %, max 8 % (Fig. 5.7) published."
	if got := lead(r); got != want {
		t.Errorf("lead:\n%s\nwant:\n%s", got, want)
	}
	r.Claims[0].Disturbed, r.Claims[0].Measured = true, false
	if got := lead(r); !strings.Contains(got, "hold, and 1 of time was not judged, and 1 could not be measured.") {
		t.Errorf("lead of a disturbed machine: %s", got)
	}
	r.Claims = r.Claims[2:]
	if got := lead(r); !strings.Contains(got, "measured none of its claims") || !strings.Contains(got, "Roam's own") {
		t.Errorf("lead of nothing measured: %s", got)
	}
}

func TestFailedClaimsStandFirst(t *testing.T) {
	r := synthetic()
	list := unfolded(r).Claims
	if len(list) != 4 || list[0].ID != "h" || list[1].ID != "a" || list[2].ID != "c" {
		t.Errorf("order %v", list)
	}
	// Times of a machine that stood still count as not measured.
	if open := folded(r).Claims; len(open) != 4 || open[0].ID != "b" || open[1].ID != "d" {
		t.Errorf("not measured %v", open)
	}
}

func TestGlossaryHasTheTermsOfTheReport(t *testing.T) {
	r := synthetic()
	r.Tables = append(r.Tables, result.Table{Columns: []string{"LU to ack"}})
	have := map[string]bool{}
	for _, w := range glossary(r) {
		have[w.Key] = true
	}
	for term, want := range map[string]bool{"gap": true, "soft handoff": true, "Locator Update (LU)": true, "stall": true,
		"nonce": false, "duality": false} {
		if have[term] != want {
			t.Errorf("term %q: %v, want %v", term, have[term], want)
		}
	}
}

// Figures over the same time have one axis; one that would be lost on it keeps its own.
func TestFiguresShareTheirTime(t *testing.T) {
	r := result.New("x")
	const label = "time since the start of traffic (s)"
	for name, end := range map[string]float64{"long": 10.5, "short": 8.5, "tiny": 2} {
		r.AddSeries(name, "Mb/s", []float64{0, end}, []float64{1, 1})
		r.Figures = append(r.Figures, result.Figure{Title: name, XLabel: label,
			Panels: []result.Panel{{Kind: result.Lines, Series: []string{name}}}})
	}
	for _, f := range r.Figures {
		want := map[string]float64{"long": 10.5, "short": 10.5, "tiny": 2}[f.Title]
		if x := sharedAxis(r, f); x.hi != want {
			t.Errorf("%s ends at %g, want %g", f.Title, x.hi, want)
		}
	}
}

// A stall is shaded where it was: in the arm whose time it fell in.
func TestStallsAreShaded(t *testing.T) {
	r := one(0)
	drawn := figure(r, r.Figures[0])
	if n := strings.Count(drawn, `class="stall"`); n != 4 { // the panels of the first arm
		t.Errorf("%d shades", n)
	}
	r.Start("control", r.Started.Add(-10*time.Second)) // its values end at 9.9 s
	if n := strings.Count(figure(r, r.Figures[0]), `class="stall"`); n != 4 {
		t.Errorf("%d shades with a control that was over", n)
	}
	list := stallsOf(r, "")
	if len(list) != 1 || list[0].to != 5 || list[0].from != 4.905 {
		t.Errorf("stalls %+v", list)
	}
	if why := shaded(r, r.Figures[0]); why != "Grey: the measuring machine itself stood still." {
		t.Errorf("of the machine: %q", why)
	}
	r.StallMonitor.Stalls[0].Owner = result.OwnerRoam
	if n := strings.Count(figure(r, r.Figures[0]), `class="stall own"`); n != 4 {
		t.Errorf("%d shades of a stall that the daemon made", n)
	}
	if why := shaded(r, r.Figures[0]); why != "Red: Roam's daemon kept a core from others." {
		t.Errorf("of the daemon: %q", why)
	}
	r.StallMonitor.Stalls[0].At = r.Started.Add(31 * time.Second) // after the last value, 29.9 s
	if shaded(r, r.Figures[0]) != "" || strings.Contains(figure(r, r.Figures[0]), `class="stall"`) {
		t.Error("a stall after the end is shown")
	}
}

// Each arm's first panel says what its marks are.
func TestEachArmLabelsItsMarks(t *testing.T) {
	r := synthetic()
	drawn := figure(r, r.Figures[0])
	for _, label := range []string{"soft → net2", "net1 cut"} {
		if !strings.Contains(drawn, ">"+label+"<") {
			t.Errorf("no label %q", label)
		}
	}
}

func TestAmounts(t *testing.T) {
	for want, got := range map[string]string{
		"1 window": amount(1, "windows"), "2 windows": amount(2, "windows"), "0 windows": amount(0, "windows"),
		"1 ms": amount(1, "ms"), "1 Mb/s": amount(1, "Mb/s"), "1 s": amount(1, "s"), "1": amount(1, ""),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
