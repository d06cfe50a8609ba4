package report

import (
	"encoding/xml"
	"flag"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/lab/result"
)

var keep = flag.String("keep", "", "write the synthetic report to this file")

// synthetic is a result with every kind of panel and of verdict.
func synthetic() *result.Result {
	r := result.New("synthetic")
	r.Title = "A mobile host <keeps> its sessions"
	r.Preset, r.Seed, r.Started = "quick", 7, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
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
	r.Figures = []result.Figure{
		{Title: "Throughput per link", Caption: "Received at the correspondents.", XLabel: "time since the start of traffic (s)", Panels: []result.Panel{
			{Title: "Roam", Kind: result.Stack, YLabel: "Mb/s", Series: []string{"net1", "net2", "net3"}, Marks: true},
			{Title: "one by one", Kind: result.Lines, YLabel: "Mb/s", Series: []string{"net1", "net2", "absent"}, Marks: true, Height: 110},
			{Title: "samples", Kind: result.Points, YLabel: "Mb/s", Series: []string{"net3"}, Height: 110}}},
		{Title: "Gaps", XLabel: "gap (ms)", Panels: []result.Panel{{Kind: result.CDF, YLabel: "share of gaps", Series: []string{"gaps"}, LogX: true}}},
	}
	r.Tables = []result.Table{{Title: "Cost of each handoff", Columns: []string{"handoff", "gap"}, Rows: [][]string{{"net1 → net2", "1.2 ms"}}}}
	expect := []result.Expectation{
		{ID: "a", Says: "nothing is lost", Metric: "lost", Op: "==", Kind: result.Correctness, Source: "design"},
		{ID: "b", Says: "short gaps", Metric: "gap_ms", Op: "<=", Bound: 50, Unit: "ms", Kind: result.Timing, Source: "design"},
		{ID: "c", Says: "alive", Metric: "alive", Op: "==", Bound: 1, Unit: "yes", Kind: result.Correctness, Source: "design"},
		{ID: "d", Says: "never tried", Metric: "absent", Op: "==", Bound: 1, Kind: result.Correctness, Source: "design"},
	}
	r.Set("lost", 0)
	r.Set("gap_ms", 61.25)
	r.SetBool("alive", true)
	r.Judge(expect)
	return r
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
	for _, want := range []string{"not measured", "FAIL", "61.25 ms", "&lt;keeps&gt;", "2 of 4 claims hold, 1 do not, 1 not measured", "soft → net2"} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	for _, bad := range []string{"http://", "https://", "<script", "url(", "NaN", "Inf"} {
		if strings.Contains(text, bad) {
			t.Errorf("page holds %q", bad)
		}
	}
}

func TestFiguresAreXML(t *testing.T) {
	r := synthetic()
	for _, f := range append(r.Figures, result.Figure{Title: "empty", Panels: []result.Panel{{Kind: result.Lines, Series: []string{"none"}, Marks: true}}}) {
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
	for v, want := range map[float64]float64{0: 1, 7: 8, 43: 50, 100: 100, 0.31: 0.4} {
		if got := niceCeil(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("niceCeil(%g) = %g, want %g", v, got, want)
		}
	}
}

func TestLabelsDoNotCollide(t *testing.T) {
	events := []result.Event{{T: 1, Label: "a long label here"}, {T: 2, Label: "another long label"}, {T: 90, Label: "third"}, {T: 99.9, Label: "at the very edge"}, {T: 5, Arm: "control", Label: "not ours"}}
	got := placeLabels(events, "", axis{lo: 0, hi: 100, from: left, to: figWidth - right})
	if len(got) != 4 || got[0].row != 0 || got[1].row != 1 || got[2].row != 0 || !got[3].flip || got[3].row != 1 {
		t.Errorf("placed %+v", got)
	}
}
