package video

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/live"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/video"
	"roam/lab/workload/rtpflow"
)

// The paper preset is the published schedule and has all cells.
func TestPaperPresetIsThePublishedSchedule(t *testing.T) {
	for name, s := range map[string]scene.Schedule{
		"mobility": mobilityPlan(exptest.Params(t, mobilityParams, "paper")),
		"duality":  dualityPlan(exptest.Params(t, dualityParams, "paper")),
	} {
		attached := 0
		for _, step := range s.Steps {
			if step.Op == scene.Attach {
				attached++
			}
			if step.At > s.Length {
				t.Errorf("%s: step at %v of %v", name, step.At, s.Length)
			}
		}
		if want := map[string]int{"mobility": 8, "duality": 2}[name]; attached != want {
			t.Errorf("%s: %d networks joined, want %d", name, attached, want)
		}
		if s.Length < 120*time.Second || s.Length > 125*time.Second {
			t.Errorf("%s: lasts %v", name, s.Length)
		}
	}
	gs, err := groups(exptest.Params(t, mobilityParams, "paper"), 120*time.Second)
	if err != nil || len(gs) != 18 || gs[0].clips[0].Seconds != 120 {
		t.Errorf("%d cells, %v", len(gs), err)
	}
	seen := map[string]bool{}
	for _, g := range gs {
		name := cellName{g.rttMs, g.clips[0].Height, g.clips[0].Kind}
		if mobilityTuples[name] == "" || dualityTuples[name] == "" || seen[g.name()] {
			t.Errorf("%v: nothing is published, or it is there twice", name)
		}
		seen[g.name()] = true
	}
	if mobilityTuples[cellName{200, 2160, video.Detail}] != "<0.695, 10.4, 24.3, 30/30>" ||
		dualityMbps[cellName{0, 2160, video.Motion}] != 16.2 {
		t.Error("the published tables are out of order")
	}
}

func TestImpossibleCellsAreRefused(t *testing.T) {
	for _, set := range []string{"heights=480", "clips=motion,sport", "rtts_ms=20,fast", "rtts_ms=-1", "heights="} {
		if _, err := groups(exptest.Params(t, mobilityParams, "quick", set), time.Second); err == nil ||
			!strings.Contains(err.Error(), set[:4]) {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// Without a daemon a host that withdraws from a network leaves it.
func TestTheControlLeaves(t *testing.T) {
	s := withoutCommands(dualityPlan(exptest.Params(t, dualityParams, "quick")))
	ops := map[scene.Op]int{}
	for _, step := range s.Steps {
		ops[step.Op]++
	}
	if ops[scene.Cut] != 4 || ops[scene.Attach] != 4 {
		t.Errorf("%v", ops)
	}
}

func seen(lost int, q video.Quality) Seen {
	return Seen{
		Count:   rtpflow.Count{Sent: 1000, Received: 1000 - lost, Lost: lost, Bytes: (1000 - lost) * 1316},
		Mbps:    2,
		Quality: q,
	}
}

// campaignOf is a measured campaign of one cell.
func campaignOf(static, plain, roam Seen) *campaign {
	clip := video.Clip{Kind: video.Motion, Height: 720, Seconds: 10}
	pass := func(s Seen) Pass {
		return Pass{Streams: map[string]Seen{clip.String(): s},
			Shares: map[string]float64{"net1": 40, "net2": 30, "net3": 30}}
	}
	g, p := group{20, []video.Clip{clip}}, pass(plain)
	return &campaign{
		env:      &exp.Env{Params: exp.Params{"control": true}, Result: result.New("x"), View: &live.View{}},
		groups:   []group{g},
		outcomes: []outcome{{group: g, static: pass(static), plain: &p, roam: []Pass{pass(roam)}}},
	}
}

func TestACellIsJudgedAgainstItsReference(t *testing.T) {
	ideal := video.Quality{Identical: true, Frames: 240}
	bad := video.Quality{Frames: 240, Imperfect: map[int]float64{7: 20}, SSIM: make([]float64, 240)}
	c := campaignOf(seen(0, ideal), seen(500, bad), seen(0, ideal))
	c.metrics()
	m := c.env.Result.Metrics
	for name, want := range map[string]float64{
		"throughput_mbps_720p_motion_20ms": 2, "delivery_min_pct": 100, "cells_not_measured": 0,
		"cells_measured": 1, "bytes_vs_reference_min_pct": 100,
		"perfect_min": 1, "perfect_720p_min": 1,
		"rtp_lost": 0, "cells_not_above_control": 0, "link_share_min_pct": 30, "ssim_mean_min": 1,
	} {
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s = %g (%v), want %g", name, got, ok, want)
		}
	}
	if c.env.Result.Unmeasured["perfect_2160p_min"] == "" || c.env.Result.Unmeasured["mobile_ipv6_throughput_pct"] == "" {
		t.Error("what was not run is not marked")
	}

	c = campaignOf(seen(0, ideal), seen(0, ideal), seen(5, bad))
	c.metrics()
	m = c.env.Result.Metrics
	if m["rtp_lost"] != 5 || m["bytes_vs_reference_min_pct"] != 99.5 || m["perfect_min"] >= 1 ||
		m["cells_not_above_control"] != 1 {
		t.Errorf("a loss with Roam: %v", m)
	}
}

// Of several passes the throughput is the mean, and nothing is divided by nothing.
func TestPassesAreAveraged(t *testing.T) {
	ideal := video.Quality{Identical: true, Frames: 240}
	c := campaignOf(seen(0, ideal), seen(0, ideal), seen(0, ideal))
	more := c.outcomes[0].roam[0]
	more.Streams = map[string]Seen{}
	for name, s := range c.outcomes[0].roam[0].Streams {
		s.Mbps = 3
		more.Streams[name] = s
	}
	c.outcomes[0].roam = append(c.outcomes[0].roam, more)
	if c.metrics(); c.env.Result.Metrics["throughput_mbps_720p_motion_20ms"] != 2.5 {
		t.Errorf("%v", c.env.Result.Metrics)
	}
	empty := Seen{Quality: ideal, Mbps: 1}
	c = campaignOf(empty, empty, empty)
	c.metrics()
	for _, name := range []string{"bytes_vs_reference_min_pct", "disorder_max_pct", "delivery_min_pct"} {
		if v, ok := c.env.Result.Metrics[name]; v != 0 || !ok {
			t.Errorf("of nothing %s is %g, %v", name, v, ok)
		}
	}
}

// A reference that is itself imperfect tells of the machine, not of Roam.
func TestAFlawedReferenceMeasuresNothing(t *testing.T) {
	ideal := video.Quality{Identical: true, Frames: 240}
	bad := video.Quality{Frames: 240, Imperfect: map[int]float64{7: 20}, SSIM: make([]float64, 240)}
	c := campaignOf(seen(1, bad), seen(500, bad), seen(1, bad))
	refused := campaignOf(seen(0, ideal), seen(500, bad), seen(1, bad))
	refused.outcomes[0].roam[0].Drops = map[string]uint64{"queue": 3}
	for _, c := range []*campaign{c, refused} {
		c.metrics()
		r := c.env.Result
		if r.Metrics["cells_not_measured"] != 1 || has(r, "perfect_min") || has(r, "rtp_lost") ||
			r.Unmeasured["perfect_720p_motion_20ms"] == "" {
			t.Errorf("%v, not measured %v", r.Metrics, r.Unmeasured)
		}
	}
}

// A pass is kept on disk between two runs.
func TestAPassSurvivesJSON(t *testing.T) {
	bad := video.Quality{Frames: 3, Missing: 1, Imperfect: map[int]float64{2: 17.25}, SSIM: []float64{0, 1, 0.5}}
	want := campaignOf(seen(0, bad), seen(0, bad), seen(3, bad)).outcomes[0].roam[0]
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Pass
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSSIMOverTime(t *testing.T) {
	x, y := ssim(video.Quality{Identical: true, Frames: 48}, 0.5)
	if len(x) != 48 || x[0] != -0.5 || x[24] != 0.5 || y[47] != 1 {
		t.Errorf("%v %v", x, y)
	}
	long := video.Quality{Frames: 120 * video.FrameRate, SSIM: make([]float64, 120*video.FrameRate)}
	long.SSIM[0] = 0.4
	if x, y = ssim(long, 0); len(x) != 480 || x[4] != 1 || y[0] != 0 {
		t.Errorf("%d points, %v", len(x), x[:5])
	}
}

// Marks are where an arm follows the schedule; a link that is cut says so.
func TestMarks(t *testing.T) {
	attach := scene.Step{Op: scene.Attach, Link: "net2", Name: "soft 1: net2"}
	detach := scene.Step{Op: scene.Detach, Link: "net1"}
	if a, d, s := mark(attach, arm.Roam), mark(detach, arm.Plain), mark(attach, arm.Static); a != "soft 1: net2" ||
		d != "net1 cut" || s != "" {
		t.Errorf("marks %q, %q, %q", a, d, s)
	}
}

// Of a trace a pass keeps the rates towards the mobile host, the marks, and the shares of the links both ways.
func TestObserve(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0) }
	sample := func(s int, a, b uint64) scene.Sample {
		return scene.Sample{At: at(s), Out: map[string]uint64{"net1": 9 * b, "net2": 9 * a},
			In: map[string]uint64{"net1": a, "net2": b}}
	}
	p := Pass{}
	p.observe(&scene.Trace{Start: at(0), End: at(2),
		Samples: []scene.Sample{sample(0, 0, 0), sample(1, 1e6, 0), sample(2, 1e6, 3e6)},
		Steps: []scene.Done{{Step: scene.Step{Op: scene.Attach, Name: "x"}, At: at(1)},
			{Step: scene.Step{Op: scene.Attach}, At: at(2)}}}, arm.Roam)
	if p.Shares["net1"] != 25 || p.Shares["net2"] != 75 || len(p.Rates) != 2 ||
		!strings.Contains(p.Rates[0].Name, " in net1") || !reflect.DeepEqual(p.Rates[0].Y, []float64{8, 0}) ||
		len(p.Marks) != 1 || p.Marks[0].T != 1 || p.Marks[0].Label != "x" {
		t.Errorf("%+v", p)
	}
}

// A stream is read packet by packet: what came, when, and how long the longest silence was.
func TestReadStream(t *testing.T) {
	x := raw{lost: 1, doubled: 2, alien: 3, swapped: 4, slow: 100 * time.Millisecond}
	s := x.read(t)
	if s.Count.Sent != packets || s.Count.Lost != 1 || s.Count.Doubled != 1 || s.Count.Disordered != 4 || s.Unknown != 2 ||
		s.Late != 0 || s.Ahead != 0 || s.LongestGapMs < 100 || s.LongestGapMs > 120 || s.LongestGapAt < 9.9 ||
		s.LongestGapAt > 10.1 {
		t.Errorf("%+v", s)
	}
	seconds := func(i int) time.Duration { return time.Duration(i) * time.Second }
	first := &take{clip: video.Clip{Seconds: 10}, sent: record(t, []int{0, 1, 2, 3}, seconds)}
	late, _, _ := first.read(record(t, []int{2, 3}, seconds), exptest.At(3*time.Second).UnixNano(), time.Second)
	if late.Ahead != 3+5 { // half of the clip was over when its first packet came
		t.Errorf("ahead %g s, want 8", late.Ahead)
	}
	none, _, order := first.read(record(t, nil, nil), 0, time.Second)
	if none.Mbps != 0 || none.Ahead != 0 || len(order) > 0 {
		t.Errorf("nothing came: %+v", none)
	}
	if one, _, _ := first.read(record(t, []int{1}, seconds), 0, time.Second); one.Mbps != 0 {
		t.Errorf("one packet has a rate: %+v", one)
	}
	two, _, _ := first.read(record(t, []int{0, 1}, seconds), 0, time.Second)
	if want := 2 * (40 + 8 + 12) * 8e-6; two.Mbps < want*0.999 || two.Mbps > want*1.001 {
		t.Errorf("%g Mb/s, want %g", two.Mbps, want)
	}
}
