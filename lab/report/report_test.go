package report

import (
	"encoding/xml"
	"flag"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/lab/result"
)

var keep = flag.String("keep", "", "write the synthetic report to this file")

// synthetic is a result of several runs with every kind of panel and of verdict.
func synthetic() *result.Result {
	var runs []*result.Result
	for seed := range uint64(8) {
		r := one(seed)
		r.Judge(expectations())
		runs = append(runs, r)
	}
	r, err := result.Merge(runs)
	if err != nil {
		panic(err)
	}
	return r
}

// one is a run of it.
func one(seed uint64) *result.Result {
	r := result.New("synthetic")
	r.Title = "A mobile host <keeps> its sessions"
	r.Preset, r.Seed, r.Started = "quick", 7+seed, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.Drawing = "MN ==== R1\n   ==== R2 --- CN"
	r.LeftOut = []string{"the long schedule"}
	r.Params["delay_ms"] = 10.0
	var t []float64
	y := make([][]float64, 3)
	for i := range 300 {
		t = append(t, float64(i)/10)
		for l := range y {
			v := 0.0
			if i/40%3 == l {
				v = 45 + 3*math.Sin(float64(i)/3)
			}
			y[l] = append(y[l], v)
		}
	}
	for l, name := range []string{"net1", "net2", "net3"} {
		r.AddSeries(name, "Mb/s", t, y[l])
	}
	gaps := []float64{0.9, 1, 1.1, 1.4, 2.2, 8, 20.5}
	r.AddSeries("gaps", "ms", nil, gaps)
	for i := 1; i < 7; i++ {
		r.Mark(result.Event{T: 4 * float64(i), Kind: "handoff", Label: "soft → net" + string(rune('1'+i%3))})
	}
	r.AddSeries("reference", "Mb/s", t, y[1])
	r.AddSeries("control", "Mb/s", t[:100], y[0][:100])
	r.Mark(result.Event{T: 2, Arm: "control", Kind: "cut", Label: "net1 cut"})
	r.Start("", r.Started)
	r.Engine = "netns"
	r.StallMonitor = result.StallMonitor{LimitMs: 20, WorstMs: 95, Disturbed: true,
		Stalls: []result.Stall{{At: r.Started.Add(5 * time.Second), Ms: 95}}}
	top := 46.0
	r.Figures = []result.Figure{
		{Title: "Throughput per link", Caption: "Received at the correspondents.",
			XLabel: "time since the start of traffic (s)", Panels: []result.Panel{
				{Title: "Roam", Kind: result.Stack, YLabel: "Mb/s", Series: []string{"net1", "net2", "net3"}, Marks: true,
					Refs: []result.Ref{{Label: "published mean 47 Mb/s", At: 47}, {Label: "published range", At: 41, To: &top}}},
				{Title: "one by one", Kind: result.Lines, YLabel: "Mb/s", Series: []string{"net2", "net1", "absent"},
					Marks: true, Height: 110},
				{Title: "control", Kind: result.Lines, YLabel: "Mb/s", Series: []string{"control"}, Arm: "control", Marks: true,
					Height: 110},
				{Title: "samples", Kind: result.Points, YLabel: "Mb/s", Series: []string{"net3"}, Height: 110},
				{Title: "more lines than a row of the legend has room for", Kind: result.Lines, YLabel: "Mb/s", Height: 110,
					Series: []string{"net1", "net2", "net3", "reference", "net1", "net2", "net3", "net1"},
					Labels: []string{"net1", "net2", "net3", "the static reference over the first link", "from the mobile host",
						"to the mobile host", "segments retransmitted", "acknowledgements that came twice"}}}},
		{Title: "Gaps", XLabel: "gap (ms)",
			Panels: []result.Panel{{Kind: result.CDF, YLabel: "share of gaps", Series: []string{"gaps"},
				Labels: []string{"net1"}, LogX: true,
				Refs: []result.Ref{{Label: "published median", At: 2, OnX: true}, {Label: "published worst", At: 25, OnX: true}}}}},
	}
	r.Tables = []result.Table{{Title: "Cost of each handoff", Columns: []string{"handoff", "gap"},
		Rows: [][]string{{"net1 → net2", "1.2 ms"}}}}
	r.Emulator = &result.Emulator{
		DelayMs:  10,
		LoadMbps: 20,
		Sent:     892,
		Received: 892,
		MedianMs: 0.06,
		P99Ms:    0.4,
		MaxMs:    1.7,
	}
	r.Set("lost", 0)
	r.Miss("bytes_vs_reference_pct_1080p_motion_200ms", "no cell of this resolution was measured")
	r.Set("excess_ms", -131.8)
	r.Set("gap_ms", 40+21.25*math.Pow(math.Sin(float64(seed)), 2))
	r.Set("mbps", 9.4+0.01*float64(seed%3))
	r.SetBool("alive", true)
	return r
}

func expectations() []result.Expectation {
	worst := 55.0
	return []result.Expectation{
		{ID: "a", Says: "nothing is lost", Metric: "lost", Op: "==", Kind: result.Correctness, Source: "design",
			Published: &result.Published{Text: "near 0"}, Place: "Fig. 5"},
		{ID: "b", Says: "short gaps", Metric: "gap_ms", Op: "<=", Bound: 50, Unit: "ms", Kind: result.Timing,
			Source: "design", Published: &result.Published{Value: &worst}, Place: "Tab. 2"},
		{ID: "c", Says: "alive", Metric: "alive", Op: "==", Bound: 1, Unit: "yes",
			Kind: result.Correctness, Source: "design"},
		{ID: "d", Says: "never tried", Metric: "absent", Op: "==", Bound: 1, Kind: result.Correctness, Source: "design"},
		{ID: "e", Says: "spread of throughput", Metric: "mbps", Of: result.Spread, Op: "<=", Bound: 0.04, Unit: "Mb/s",
			Kind: result.Timing, Source: "design"},
		{ID: "f", Says: "gap above the control", Metric: "excess_ms", Op: "<=", Bound: 20, Unit: "ms", Kind: result.Timing,
			Source: "design"},
		{ID: "g", Says: "datagrams lost", Metric: "lost", Op: "==", Unit: "datagrams", Kind: result.Correctness,
			Source: "design", Published: &result.Published{Text: "mean 2 %, max 8 %"}, Place: "Fig. 5.7"},
		{ID: "h", Says: "sessions that died", Metric: "alive", Op: "==", Unit: "sessions", Kind: result.Correctness,
			Source: "design"},
	}
}

func TestRenderIsWellFormedAndSelfContained(t *testing.T) {
	b, err := Render(synthetic())
	if err != nil {
		t.Fatal(err)
	}
	if *keep != "" {
		if err := os.WriteFile(*keep, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := string(b)
	for _, want := range []string{"not measured", "FAIL", "1 session", "&lt;keeps&gt;",
		"fail: 3 of 8 claims hold, 1 does not, 3 not judged, 1 not measured", `class="stall"`, "stood still",
		"<dt>stall</dt>",
		"soft → net2",
		"55 ms (Tab. 2)", "near 0 (Fig. 5)", "spread of the runs", "published mean 47", "Spread over the runs",
		`download="synthetic-gaps.csv"`} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	withoutData := regexp.MustCompile(`href="data:[^"]*"`).ReplaceAllString(text, "") // any letters stand in base64
	for _, bad := range []string{"http://", "https://", "<script", "url(", "NaN", "Inf"} {
		if strings.Contains(withoutData, bad) {
			t.Errorf("page holds %q", bad)
		}
	}
}

func TestFiguresAreXML(t *testing.T) {
	r := synthetic()
	for _, f := range append(r.Figures,
		result.Figure{Title: "empty", Panels: []result.Panel{{Kind: result.Lines, Series: []string{"none"}, Marks: true}}}) {
		d := xml.NewDecoder(strings.NewReader(figure(r, f)))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", f.Title, err)
			}
		}
	}
}

func TestDenseSeriesKeepsItsPeak(t *testing.T) {
	x, y := make([]float64, 100000), make([]float64, 100000)
	for i := range x {
		x[i] = float64(i)
	}
	y[54321] = 10
	p := &panel{x: axis{lo: 0, hi: 1e5, from: left, to: figWidth - right}, y: axis{lo: 0, hi: 10, from: 100, to: 0}}
	d := p.path(x, y)
	if !strings.Contains(d, " 0.0") || len(d) > 40000 {
		t.Errorf("peak drawn: %v, %d bytes", strings.Contains(d, " 0.0"), len(d))
	}
}

func TestTicks(t *testing.T) {
	tests := []struct {
		a    axis
		n    int
		want []float64
	}{
		{axis{lo: 0, hi: 10}, 5, []float64{0, 2, 4, 6, 8, 10}},
		{axis{lo: 3, hi: 47}, 5, []float64{10, 20, 30, 40}},
		{axis{lo: 0, hi: 0}, 5, nil},
		{axis{lo: 1, hi: 100, log: true}, 0, []float64{1, 2, 5, 10, 20, 50, 100}},
	}
	for _, tt := range tests {
		if got := tt.a.ticks(tt.n); !slices.Equal(got, tt.want) {
			t.Errorf("ticks of %+v: %v, want %v", tt.a, got, tt.want)
		}
	}
	narrow := axis{lo: 10.0612, hi: 10.0648}
	labels := map[string]bool{}
	for _, v := range narrow.ticks(10) {
		labels[narrow.label(v, 10)] = true
	}
	if len(labels) != len(narrow.ticks(10)) {
		t.Errorf("labels of a narrow axis are the same: %v", labels)
	}
	if got := (axis{lo: 0, hi: 20000}).label(15000, 4) + " " + (axis{lo: 0, hi: 1}).label(0.5, 2) + " " +
		(axis{lo: 0, hi: 50}).label(20, 5); got != "15k 0.5 20" {
		t.Errorf("labels %s", got)
	}
	if got := (axis{lo: -0.001, hi: 20}).label(math.Copysign(0, -1), 4); got != "0" {
		t.Errorf("zero is %q", got)
	}
	for v, want := range map[[2]float64]float64{{13.2, 18.4}: 12, {1, 18}: 0, {5, 5}: 0, {0, 0}: 0} {
		if got := floorNear(v[0], v[1]); got != want {
			t.Errorf("floorNear(%v) = %g, want %g", v, got, want)
		}
	}
	for v, want := range map[float64]float64{0: 1, 7: 8, 43: 50, 100: 100, 0.31: 0.4} {
		if got := niceCeil(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("niceCeil(%g) = %g, want %g", v, got, want)
		}
	}
}

func TestLabelsDoNotCollide(t *testing.T) {
	events := []result.Event{{T: 1, Label: "a long label here"}, {T: 2, Label: "another long label"},
		{T: 90, Label: "third"}, {T: 99.9, Label: "at the very edge"}, {T: 5, Arm: "control", Label: "not ours"}}
	got := placeLabels(events, "", axis{lo: 0, hi: 100, from: left, to: figWidth - right})
	if len(got) != 4 || got[0].row != 0 || got[1].row != 1 || got[2].row != 0 || !got[3].flip || got[3].row != 1 {
		t.Errorf("placed %+v", got)
	}
}

// A link looks the same in every figure, and two lines of a panel never look
// alike while there are colours left.
func TestColoursStay(t *testing.T) {
	r := synthetic()
	paint := palette(r)
	for i, l := range []string{"net1", "net2", "net3"} {
		if paint[l] != colours[i] {
			t.Errorf("%s is %s", l, paint[l])
		}
	}
	got := colourAll([]string{"net3", "other", "net1"}, paint)
	if got[0] != colours[2] || got[2] != colours[0] || got[1] == got[0] || got[1] == got[2] {
		t.Errorf("colours %v", got)
	}
	if many := colourAll(strings.Split(strings.Repeat("x,", 20), ","), nil); slices.Contains(many, "") {
		t.Errorf("colours %v", many)
	}
}

func TestExport(t *testing.T) {
	dir := t.TempDir()
	r := synthetic()
	paths, err := Export(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 2*len(r.Figures)+3 {
		t.Errorf("files %v", paths)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, ".svg") {
			continue
		}
		if !strings.Contains(string(b), `xmlns="http://www.w3.org/2000/svg"`) || strings.Contains(string(b), "var(--") {
			t.Errorf("%s does not stand alone", path)
		}
		if err := xml.Unmarshal(b, new(struct{})); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if raw := string(seriesCSV(r)); !strings.Contains(raw, "\n8,net2,Mb/s,") ||
		!strings.Contains(raw, "\n14,gaps,ms,,20.5") {
		t.Errorf("series %.300s", raw)
	}
	metrics := string(metricsCSV(r))
	if lines := strings.Split(metrics, "\n"); !strings.HasPrefix(lines[0], "metric,seed 7,seed 8") || len(lines) != 7 {
		t.Errorf("metrics %s", metrics)
	}
}

// Values that differ by rounding only are one value, in the middle.
func TestAxisOfOneValue(t *testing.T) {
	r := result.New("x")
	r.AddSeries("a", "Mb/s", nil, []float64{10.06399999999992, 10.064})
	x := xAxis(r, result.Figure{Panels: []result.Panel{{Kind: result.CDF, Series: []string{"a"}}}})
	if x.lo > 10 || x.hi < 10.1 || len(x.ticks(10)) > 15 {
		t.Errorf("axis %+v", x)
	}
}

// A bin has the width that it was measured over, the first one too.
func TestStackIsDrawnInSteps(t *testing.T) {
	p := &panel{x: axis{lo: 0, hi: 2}}
	got := p.steps(result.Series{X: []float64{0.5, 1, 1.5}, Y: []float64{1, 2, 0}})
	if !slices.Equal(got.X, []float64{0, 0.5, 0.5, 1, 1, 1.5}) || !slices.Equal(got.Y, []float64{1, 1, 2, 2, 0, 0}) {
		t.Errorf("%v, %v", got.X, got.Y)
	}
}
