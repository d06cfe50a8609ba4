package result

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const expectDoc = `{"claims": [
 {"id": "loss", "says": "nothing is lost", "metric": "lost", "op": "==", "bound": 0, "kind": "correctness",
  "source": "the rule of a test", "key": true,
  "needs": [{"metric": "rcvbuf_errors", "op": "==", "bound": 0, "reason": "the receiver overflowed"}]},
 {"id": "gap", "says": "short gap", "metric": "gap_ms", "op": "<=", "bound": 50, "kind": "timing",
  "source": "the rule of a test"},
 {"id": "ratio", "says": "fast", "metric": "ratio", "op": ">=", "bound": 0.98, "kind": "timing",
  "source": "the rule of a test"}
]}`

func expectations(t *testing.T) []Expectation {
	t.Helper()
	e, err := ParseExpect([]byte(expectDoc))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestJudge(t *testing.T) {
	const no, unsure = Failed, Inconclusive
	tests := []struct {
		name      string
		metrics   map[string]float64
		disturbed bool
		verdicts  string
		all       Verdict
		correct   Verdict
	}{
		{"all hold", map[string]float64{"lost": 0, "rcvbuf_errors": 0, "gap_ms": 50, "ratio": 0.98}, false,
			"pass pass pass", Passed, Passed},
		{"one fails", map[string]float64{"lost": 0, "rcvbuf_errors": 0, "gap_ms": 50.1, "ratio": 1}, false,
			"pass FAIL pass", no, Passed},
		{"correctness fails", map[string]float64{"lost": 1, "rcvbuf_errors": 0, "gap_ms": 1, "ratio": 1}, false,
			"FAIL pass pass", no, no},
		{"guard of the key claim fails", map[string]float64{"lost": 0, "rcvbuf_errors": 3, "gap_ms": 1, "ratio": 1}, false,
			"not measured pass pass", unsure, unsure},
		{"guard unknown, and another fails", map[string]float64{"lost": 0, "gap_ms": 51}, false,
			"not measured FAIL not measured", no, unsure},
		{"one that is not key is missing", map[string]float64{"lost": 0, "rcvbuf_errors": 0, "gap_ms": 1}, false,
			"pass pass not measured", Passed, Passed},
		{"nothing measured", nil, false, "not measured not measured not measured", unsure, unsure},
		{"not finite", map[string]float64{"lost": 0, "rcvbuf_errors": 0, "gap_ms": math.NaN(), "ratio": math.Inf(1)}, false,
			"pass not measured not measured", Passed, Passed},
		{"times of a machine that stood still",
			map[string]float64{"lost": 0, "rcvbuf_errors": 0, "gap_ms": 80, "ratio": 1}, true,
			"pass not judged not judged", unsure, Passed},
		{"loss on a machine that stood still",
			map[string]float64{"lost": 1, "rcvbuf_errors": 0, "gap_ms": 8, "ratio": 1}, true,
			"FAIL not judged not judged", no, no},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := New("x")
			r.StallMonitor.Disturbed = tt.disturbed
			for k, v := range tt.metrics {
				r.Set(k, v)
			}
			r.Judge(expectations(t))
			var got []string
			for _, c := range r.Claims {
				got = append(got, c.Verdict())
				if !c.Measured && (c.Pass || c.Value != nil || c.Reason == "") {
					t.Errorf("claim %s is not measured but has pass %v, value %v, reason %q", c.ID, c.Pass, c.Value, c.Reason)
				}
			}
			if v := strings.Join(got, " "); v != tt.verdicts {
				t.Errorf("verdicts %q, want %q", v, tt.verdicts)
			}
			if r.Verdict != tt.all || r.Pass != (tt.all == Passed) || r.Correctness() != tt.correct {
				t.Errorf("%s, pass %v, correctness %s; want %s, %s", r.Verdict, r.Pass, r.Correctness(), tt.all, tt.correct)
			}
			pass, fail, missed := r.Count()
			if count := func(v string) (n int) {
				for _, word := range got {
					if word == v {
						n++
					}
				}
				return n
			}; pass != count("pass") || fail != count("FAIL") || missed != count("not measured")+count("not judged") {
				t.Errorf("%d pass, %d fail, %d missed of %q", pass, fail, missed, got)
			}
			if n := len(r.Undecided()); (n > 0) != (tt.all == unsure) && tt.all != no {
				t.Errorf("%s, though %d claims are undecided", r.Verdict, n)
			}
		})
	}
}

// A run that the machine disturbed decides no claim about time; another one does.
func TestMergeOfADisturbedRun(t *testing.T) {
	run := func(gap float64, disturbed bool) *Result {
		r := New("x")
		r.StallMonitor.Disturbed = disturbed
		r.Set("lost", 0)
		r.Set("rcvbuf_errors", 0)
		r.Set("gap_ms", gap)
		r.Judge(expectations(t))
		return r
	}
	for _, c := range []struct {
		runs []*Result
		want Verdict
		gap  string
	}{
		{[]*Result{run(10, false), run(80, true)}, Passed, "pass"},
		{[]*Result{run(80, true), run(60, false)}, Failed, "FAIL"},
		{[]*Result{run(80, true), run(10, true)}, Inconclusive, "not judged"},
	} {
		out, err := Merge(c.runs)
		if err != nil {
			t.Fatal(err)
		}
		if out.Verdict != c.want || out.Claims[1].Verdict() != c.gap {
			t.Errorf("%s, gap %s; want %s, %s", out.Verdict, out.Claims[1].Verdict(), c.want, c.gap)
		}
	}
}

// Zero is zero; another bound allows for the rounding of decimal fractions.
func TestHolds(t *testing.T) {
	for _, c := range []struct {
		v    float64
		op   string
		b    float64
		want bool
	}{
		{0, "==", 0, true}, {0.5, "==", 0, false}, {1e-12, "==", 0, false}, {-1, "==", 0, false},
		{0.1 + 0.2, "==", 0.3, true}, {0.3001, "==", 0.3, false}, {1, "==", 2, false}, {1000000.5, "==", 1000000, false},
		{3, "<=", 3, true}, {3.1, "<=", 3, false}, {3, ">=", 3, true}, {2.9, ">=", 3, false},
	} {
		if got := holds(c.v, c.op, c.b); got != c.want {
			t.Errorf("%g %s %g: %v", c.v, c.op, c.b, got)
		}
	}
}

func TestMissOverridesSet(t *testing.T) {
	r := New("x")
	r.Set("gap_ms", 1)
	r.Miss("gap_ms", "the machine stalled")
	r.Judge(expectations(t))
	if c := r.Claims[1]; c.Measured || c.Reason != "the machine stalled" {
		t.Errorf("claim after Miss: measured %v, reason %q", c.Measured, c.Reason)
	}
}

// Of the machine's stalls those stay that count, and the worst is one of them, or
// below the limit.
func TestStallMonitorKeeps(t *testing.T) {
	for _, tt := range []struct {
		stalls      []float64
		below, kept float64 // stalls shorter than below are kept; the worst then
		worst       float64 // before
	}{
		{[]float64{30, 25, 40}, 0, 20, 40},
		{[]float64{30, 25, 40}, 35, 30, 40},
		{[]float64{30, 25, 40}, 100, 40, 40},
		{nil, 100, 7, 7},
	} {
		s := StallMonitor{LimitMs: 20, WorstMs: tt.worst}
		var want []float64
		for _, ms := range tt.stalls {
			s.Stalls = append(s.Stalls, Stall{Ms: ms})
			if ms < tt.below {
				want = append(want, ms)
			}
		}
		s.Keep(func(stall Stall) bool { return stall.Ms < tt.below })
		if !slices.EqualFunc(s.Stalls, want, func(s Stall, ms float64) bool { return s.Ms == ms }) || s.WorstMs != tt.kept {
			t.Errorf("of %v below %v: %v, the worst %v", tt.stalls, tt.below, s.Stalls, s.WorstMs)
		}
	}
}

func TestMergeTakesTheWorst(t *testing.T) {
	var runs []*Result
	for _, m := range []map[string]float64{
		{"lost": 0, "rcvbuf_errors": 0, "gap_ms": 10, "ratio": 0.99, "other": 1},
		{"lost": 2, "rcvbuf_errors": 0, "gap_ms": 30, "ratio": 0.985, "other": 3},
		{"rcvbuf_errors": 0, "gap_ms": 20, "ratio": 1.01, "other": 2},
	} {
		r := New("x")
		for k, v := range m {
			r.Set(k, v)
		}
		r.Judge(expectations(t))
		runs = append(runs, r)
	}
	out, err := Merge(runs)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"lost": 2, "gap_ms": 30, "ratio": 0.985, "other": 2}
	for k, v := range want {
		if out.Metrics[k] != v {
			t.Errorf("%s = %g, want %g", k, out.Metrics[k], v)
		}
	}
	if s := out.Stats["other"]; s.Min != 1 || s.Max != 3 || s.Q1 != 1.5 || s.N != 3 || math.Abs(*s.CIHigh-4.484) > 1e-3 {
		t.Errorf("statistics %+v, the interval ends at %g", s, *s.CIHigh)
	}
	if len(out.Each) != 3 || out.Each[1].Metrics["gap_ms"] != 30 {
		t.Errorf("runs %+v", out.Each)
	}
	if out.Pass || out.Runs != 3 || out.Claims[0].Pass || !out.Claims[1].Pass {
		t.Errorf("pass %v, runs %d, claims %+v", out.Pass, out.Runs, out.Claims)
	}
}

// The time and the stalls of several runs are those of all.
func TestMergeOfStalls(t *testing.T) {
	run := func(seconds, worst float64, disturbed bool) *Result {
		r := New("x")
		r.Seconds, r.StallMonitor = seconds, StallMonitor{WorstMs: worst, RoamMs: worst / 2, Disturbed: disturbed,
			Repeats: 1, Cells: []string{"a"}, Stalls: []Stall{{Ms: worst}}, StealMs: worst, BusyPct: seconds,
			StealByCoreMs: map[int]float64{1: worst}, Processes: map[Owner]Processes{OwnerRoam: {worst, 2 * worst}}}
		return r
	}
	for _, c := range []struct {
		runs      []*Result
		worst     float64
		disturbed bool
	}{
		{[]*Result{run(10, 30, true), run(20, 5, false)}, 30, true},
		{[]*Result{run(10, 5, false), run(20, 30, true)}, 30, true},
		{[]*Result{run(10, 5, false), run(20, 4, false)}, 5, false},
	} {
		out, err := Merge(c.runs)
		if err != nil {
			t.Fatal(err)
		}
		if out.Seconds != 30 || out.StallMonitor.WorstMs != c.worst || out.StallMonitor.Disturbed != c.disturbed {
			t.Errorf("%g s, %+v", out.Seconds, out.StallMonitor)
		}
		s, sum := out.StallMonitor, 0.0
		for _, r := range c.runs {
			sum += r.StallMonitor.WorstMs
		}
		if s.RoamMs != c.worst/2 || s.Repeats != 2 || len(s.Cells) != 2 || len(s.Stalls) != 2 || s.StealMs != sum ||
			s.StealByCoreMs[1] != sum || s.Processes[OwnerRoam] != (Processes{sum, 2 * sum}) {
			t.Errorf("sums %+v", s)
		}
		if math.Abs(s.BusyPct-(10*10+20*20)/30.0) > 1e-9 {
			t.Errorf("%g %% busy", s.BusyPct)
		}
	}
	one, err := Merge([]*Result{run(10, 5, false)})
	if err != nil || len(one.Each) != 0 || one.Stats != nil {
		t.Errorf("of one run: %+v, %v", one, err)
	}
}

// A claim about all runs says why too few decide it.
func TestClaimsAboutFewRuns(t *testing.T) {
	e, err := ParseExpect([]byte(`{"claims":[
	 {"id":"a","metric":"mbps","of":"median","op":">=","bound":9,"kind":"timing",
	  "source":"the rule of a test"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	run := func(disturbed bool) *Result {
		r := New("x")
		r.StallMonitor.Disturbed = disturbed
		r.Set("mbps", 10)
		r.Judge(e)
		return r
	}
	if c := run(false).Claims[0]; c.Measured {
		t.Error("a single run decided about a median")
	}
	for _, c := range []struct {
		runs      []*Result
		want      Verdict
		reason    string
		disturbed bool
	}{
		{[]*Result{run(false), run(false)}, Passed, "", false},
		{[]*Result{run(true), run(false)}, Inconclusive, "stood still", true},
		{[]*Result{run(false), run(true)}, Inconclusive, "stood still", true},
		{[]*Result{run(true), run(false), run(false)}, Passed, "", false},
	} {
		out, err := Merge(c.runs)
		if err != nil {
			t.Fatal(err)
		}
		if o := out.Claims[0]; out.Verdict != c.want || !strings.Contains(o.Reason, c.reason) || o.Disturbed != c.disturbed {
			t.Errorf("%s, disturbed %v: %q; want %s", out.Verdict, o.Disturbed, o.Reason, c.want)
		}
	}
}

// Of claims that no run measured, that of a disturbed one is shown.
func TestMergeShowsTheDisturbedClaim(t *testing.T) {
	run := func(disturbed bool) *Result {
		r := New("x")
		if r.StallMonitor.Disturbed = disturbed; disturbed {
			r.Set("gap_ms", 3)
		}
		r.Judge(expectations(t))
		return r
	}
	for _, runs := range [][]*Result{{run(true), run(false)}, {run(false), run(true)}} {
		out, err := Merge(runs)
		if err != nil || !out.Claims[1].Disturbed || out.Claims[2].Disturbed {
			t.Errorf("%+v, %v", out.Claims, err)
		}
	}
}

// A published value is written as it was read.
func TestPublishedRoundTrip(t *testing.T) {
	for _, text := range []string{"2.5", `"about equal"`} {
		var p Published
		if err := p.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := p.MarshalJSON(); err != nil || string(b) != text {
			t.Errorf("%s became %s, %v", text, b, err)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	r := New("x")
	r.Set("gap_ms", 12.5)
	r.Judge(expectations(t))
	r.AddSeries("a", "Mb/s", []float64{0, 1}, []float64{2, 3})
	path := filepath.Join(t.TempDir(), "sub", "r.json")
	if err := r.WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	back, err := ReadJSON(path)
	if err != nil {
		t.Fatal(err)
	}
	if back.Metrics["gap_ms"] != 12.5 || len(back.Claims) != 3 || *back.Claims[1].Value != 12.5 {
		t.Errorf("read back %+v", back)
	}
	if s, ok := back.Find("a"); !ok || s.Y[1] != 3 {
		t.Errorf("series %+v, %v", s, ok)
	}
	if _, err := ReadJSON(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file was read")
	}
}

// A claim about all runs is judged by what they have in common, and by none of
// them alone.
func TestClaimsAboutAllRuns(t *testing.T) {
	e, err := ParseExpect([]byte(`{"claims":[
	 {"id":"a","metric":"mbps","of":"spread","runs":3,"op":"<=","bound":0.04,"kind":"timing",
	  "source":"the rule of a test"},
	 {"id":"b","metric":"mbps","of":"median","op":">=","bound":9.2,"kind":"timing",
	  "source":"the rule of a test","published":9.1,"place":"Tab. 1"},
	 {"id":"c","metric":"mbps","of":"mean","runs":4,"op":">=","bound":9,"kind":"timing",
	  "source":"the rule of a test","published":"about equal"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var runs []*Result
	for _, v := range []float64{9.21, 9.2, 9.23} {
		r := New("x")
		r.Set("mbps", v)
		r.Judge(e)
		if r.Claims[0].Measured {
			t.Error("a single run decided about a spread")
		}
		runs = append(runs, r)
	}
	out, err := Merge(runs)
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := out.Claims[0], out.Claims[1], out.Claims[2]
	if !a.Pass || math.Abs(*a.Value-0.03) > 1e-9 || !b.Pass || *b.Value != 9.21 || c.Measured || c.Reason == "" {
		t.Errorf("claims %+v", out.Claims)
	}
	if b.Published.String() != "9.1" || c.Published.String() != "about equal" {
		t.Errorf("published %v, %v", b.Published, c.Published)
	}
	if out.Metrics["mbps"] != 9.21 {
		t.Errorf("the metric is %g, not the median", out.Metrics["mbps"])
	}
}

func TestStudent(t *testing.T) {
	for n, want := range map[int]float64{1: 12.706, 19: 2.093, 30: 2.042, 40: 2.021, 120: 1.980} {
		if got := student(n); math.Abs(got-want) > 1e-3 {
			t.Errorf("%d degrees of freedom: %g, want %g", n, got, want)
		}
	}
}

func TestPublishedRange(t *testing.T) {
	two := 2.0
	for _, tt := range []struct {
		p      *Published
		unit   string
		lo, hi float64
		ok     bool
	}{
		{nil, "ms", 0, 0, false},
		{&Published{Value: &two}, "ms", 2, 2, true},
		{&Published{Text: "97.8 to 100.3"}, "%", 97.8, 100.3, true},
		{&Published{Text: "55 to 60 s"}, "s", 55, 60, true},
		{&Published{Text: "55 to 60 s"}, "ms", 0, 0, false},
		{&Published{Text: "< 1 %"}, "%", 0, 1, true},
		{&Published{Text: "< 1 %"}, "datagrams", 0, 0, false},
		{&Published{Text: "mean 2 %, max 8 %"}, "%", 0, 0, false},
		{&Published{Text: "near 1"}, "", 0, 0, false},
	} {
		if lo, hi, ok := tt.p.Range(tt.unit); lo != tt.lo || hi != tt.hi || ok != tt.ok {
			t.Errorf("%v in %q: %g, %g, %v", tt.p, tt.unit, lo, hi, ok)
		}
	}
}

// TestReadJSONOfAnOlderLab: a result without a verdict gets one from its claims.
func TestReadJSONOfAnOlderLab(t *testing.T) {
	r := New("x")
	r.Set("kept", 1)
	r.Judge([]Expectation{
		{ID: "h", Says: "kept", Metric: "kept", Op: "==", Bound: 1, Kind: Correctness, Source: "s"},
		{ID: "k", Says: "lost", Metric: "lost", Op: "==", Kind: Correctness, Source: "s", Key: true},
	})
	r.Verdict, r.Pass = "", true
	path := filepath.Join(t.TempDir(), "r.json")
	if err := r.WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadJSON(path); err != nil || got.Verdict != Inconclusive || got.Pass {
		t.Errorf("%v: verdict %q, pass %v", err, got.Verdict, got.Pass)
	}
}
