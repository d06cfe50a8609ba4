package exp

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"roam/lab/live"
)

func TestCellIsMeasuredOnce(t *testing.T) {
	env := &Env{View: &live.View{}, Cells: OpenStore(filepath.Join(t.TempDir(), "s"))}
	measured := 0
	cell := func(*Window) (map[string]float64, error) {
		return Cell(env, "TCP, 20 ms/out", func(*Window) (map[string]float64, error) {
			measured++
			return map[string]float64{"gap_ms": 1.5}, nil
		})
	}
	for range 2 {
		if v, err := cell(&Window{}); err != nil || v["gap_ms"] != 1.5 {
			t.Fatalf("%v, %v", v, err)
		}
	}
	if measured != 1 || env.Cells.Len() != 1 {
		t.Errorf("measured %d times, %d kept", measured, env.Cells.Len())
	}
	if err := env.Cells.Clear(); err != nil {
		t.Fatal(err)
	}
	if _, err := cell(&Window{}); err != nil || measured != 2 {
		t.Errorf("after Clear: measured %d times, %v", measured, err)
	}
}

func TestCellThatFailsIsNotKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	env := &Env{View: &live.View{}, Cells: OpenStore(dir)}
	boom := errors.New("boom")
	if _, err := Cell(env, "a", func(*Window) (int, error) { return 0, boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if _, err := Cell(env, "b", func(*Window) (float64, error) { return math.NaN(), nil }); err == nil {
		t.Error("a figure that JSON cannot hold was kept")
	}
	if n := env.Cells.Len(); n != 0 {
		t.Errorf("%d cells kept", n)
	}
	// A file cut short, as by a full disk, is measured again.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.json"), []byte("{\"value\""), 0o644); err != nil {
		t.Fatal(err)
	}
	if v, err := Cell(env, "c", func(*Window) (string, error) { return "new", nil }); err != nil || v != "new" {
		t.Errorf("%q, %v", v, err)
	}
}

func TestCellWithoutStore(t *testing.T) {
	if v, err := Cell(&Env{View: &live.View{}}, "a", func(*Window) (int, error) { return 7, nil }); err != nil || v != 7 {
		t.Errorf("%d, %v", v, err)
	}
}

func TestEngines(t *testing.T) {
	if e := (Experiment{}); !e.Supports(Netns) || e.Supports(Sim) {
		t.Error("without a list an experiment runs in netns only")
	}
	if e := (Experiment{Engines: []string{Sim}}); e.Supports(Netns) || !e.Supports(Sim) {
		t.Error("the list is not what is supported")
	}
}

// A cell is repeated for a stall of the machine and for nothing else, and what
// is still disturbed says so, after an interruption too.
func TestDisturbedCellIsRepeated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	stalls := []float64{30, 0}
	env := &Env{View: &live.View{}, Cells: OpenStore(dir), Repeats: 2, Stalled: func(Span) float64 {
		ms := stalls[0]
		stalls = stalls[1:]
		return ms
	}}
	n := 0
	if v, err := Cell(env, "a", func(*Window) (int, error) { n++; return n, nil }); err != nil || v != 2 {
		t.Errorf("%d, %v", v, err)
	}
	if len(env.Kept.Disturbed) != 0 || env.Kept.Repeats != 1 || env.Kept.Used != 1 {
		t.Errorf("%+v", &env.Kept)
	}
	stalls = []float64{30, 40, 50}
	if v, err := Cell(env, "b", func(*Window) (int, error) { n++; return n, nil }); err != nil || v != 5 {
		t.Errorf("%d, %v", v, err)
	}
	again := &Env{View: &live.View{}, Cells: OpenStore(dir)}
	if v, err := Cell(again, "b", func(*Window) (int, error) { return 0, nil }); err != nil || v != 5 {
		t.Errorf("%d, %v", v, err)
	}
	for _, e := range []*Env{env, again} {
		if d := e.Kept.Disturbed; len(d) != 1 || d[0] != "b" {
			t.Errorf("disturbed: %v", d)
		}
	}
}

func TestPruneTakesTheOld(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"old", "new"} {
		if err := OpenStore(filepath.Join(dir, name)).Save("a", 1); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "old"), past, past); err != nil {
		t.Fatal(err)
	}
	if err := Prune(dir, time.Minute); err != nil {
		t.Fatal(err)
	}
	if OpenStore(filepath.Join(dir, "old")).Len() != 0 || OpenStore(filepath.Join(dir, "new")).Len() != 1 {
		t.Error("the wrong store is gone")
	}
	if err := Prune(filepath.Join(dir, "none"), 0); err != nil {
		t.Error(err)
	}
}

// Stalls while the lab builds a network or reads captures are no reason to measure again,
// and do not mark the run as disturbed.
func TestStallsOutsideOfTheWindow(t *testing.T) {
	var stalls []Span
	now := time.Now()
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	env := &Env{View: &live.View{}, Repeats: 2, Stalled: func(in Span) float64 {
		for _, s := range stalls {
			if s.Meets(in) {
				return 30
			}
		}
		return 0
	}}
	for _, c := range []struct {
		name  string
		stall Span
		runs  int
	}{
		{"while it is built", Span{at(-40), at(-10)}, 1},
		{"while captures are read", Span{at(200), at(230)}, 1},
		{"while it is measured", Span{at(50), at(80)}, 3},
		{"from the building into it", Span{at(-10), at(20)}, 3},
	} {
		n := 0
		stalls = []Span{c.stall}
		if _, err := Cell(env, c.name, func(w *Window) (int, error) {
			n++
			w.From, w.To = at(0), at(100)
			return n, nil
		}); err != nil || n != c.runs {
			t.Errorf("a stall %s: measured %d times, want %d (%v)", c.name, n, c.runs, err)
		}
	}
	if d := env.Kept.Disturbed; len(d) != 2 {
		t.Errorf("disturbed: %v", d)
	}
}

// In a run without cells a stall counts during a schedule: before it the lab builds networks,
// and after it reads logs.
func TestCountsInSchedules(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var kept Tally
	kept.Ran(Span{at(100), at(200)})
	kept.Ran(Span{at(300), at(400)})
	for _, c := range []struct {
		stall Span
		want  bool
	}{
		{Span{at(10), at(90)}, false}, {Span{at(90), at(110)}, true}, {Span{at(190), at(210)}, true},
		{Span{at(210), at(290)}, false}, {Span{at(320), at(350)}, true}, {Span{at(400), at(450)}, false},
	} {
		if kept.Counts(c.stall) != c.want {
			t.Errorf("stall %v to %v: counts %v", c.stall.From.Sub(began), c.stall.To.Sub(began), !c.want)
		}
	}
	kept.Used, kept.windows = 1, []Span{{at(0), at(50)}}
	if !kept.Counts(Span{at(10), at(90)}) || kept.Counts(Span{at(110), at(120)}) {
		t.Error("with cells their windows do not decide")
	}
}

// A stall counts for the run where it reaches into what was measured and is used,
// and everywhere in a run without cells.
func TestCounts(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	env := &Env{View: &live.View{}, Cells: OpenStore(t.TempDir()), Repeats: 1}
	if !env.Kept.Counts(Span{at(0), at(1)}) {
		t.Error("without cells a stall does not count")
	}
	first := 30.0
	env.Stalled = func(Span) float64 { ms := first; first = 0; return ms }
	windows := []Span{{at(100), at(190)}, {at(10), at(90)}, {at(110), at(120)}} // the first attempt is discarded
	for _, name := range []string{"a", "b"} {                                   // in parallel, as far as they know
		if _, err := Cell(env, name, func(w *Window) (int, error) {
			w.Span, windows = windows[0], windows[1:]
			return 0, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		from, to int
		want     bool
	}{
		{-20, -10, false}, // before any cell
		{-20, 10, false},  // up to the first window
		{0, 11, true},
		{20, 30, true},
		{89, 111, true}, // from one window into the next
		{91, 109, false},
		{130, 150, false}, // in the discarded attempt only
		{5, 300, true},
	} {
		if got := env.Kept.Counts(Span{at(c.from), at(c.to)}); got != c.want {
			t.Errorf("a stall from %d to %d ms: counts %v", c.from, c.to, got)
		}
	}
	again := &Env{View: &live.View{}, Cells: env.Cells}
	if _, err := Cell(again, "a", func(*Window) (int, error) { return 0, nil }); err != nil ||
		again.Kept.Counts(Span{at(20), at(30)}) {
		t.Errorf("a stall while nothing but cells of before were read counts (%v)", err)
	}
}

// A store that cannot be reached is empty.
func TestClear(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := OpenStore(filepath.Join(file, "below")).Clear(); err != nil {
		t.Errorf("below a file: %v", err)
	}
}

// The worst cut of a run is that of its cells, also of those kept from before, but not of an
// attempt that was discarded; without cells it is that of the schedules.
func TestCuts(t *testing.T) {
	env := &Env{Cells: OpenStore(t.TempDir()), View: &live.View{}, Repeats: 1}
	if c := env.Kept.Cuts(); c != nil {
		t.Errorf("of nothing: %v", *c)
	}
	env.Kept.Cut(Cuts{LateMs: 1, StillCameMs: 30})
	env.Kept.Cut(Cuts{LateMs: 2, StillCameMs: 20})
	if c := env.Kept.Cuts(); c == nil || *c != (Cuts{2, 30}) {
		t.Errorf("of schedules: %v", c)
	}
	attempts := 0
	env.Stalled = func(Span) float64 { return float64(2 - min(attempts, 2)) }
	for name, late := range map[string]float64{"a": 5, "b": 7} {
		if _, err := Cell(env, name, func(*Window) (int, error) {
			attempts++
			env.Kept.Cut(Cuts{LateMs: late + 100*env.Stalled(Span{}), StillCameMs: 10})
			return 0, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if c := env.Kept.Cuts(); c == nil || *c != (Cuts{7, 10}) {
		t.Errorf("of cells: %v", c)
	}
	later := &Env{Cells: env.Cells, View: env.View}
	for _, name := range []string{"a", "b"} {
		if _, err := Cell(later, name, func(*Window) (int, error) { return 0, errors.New("measured again") }); err != nil {
			t.Fatal(err)
		}
	}
	if c := later.Kept.Cuts(); c == nil || *c != (Cuts{7, 10}) {
		t.Errorf("of cells from before: %v", c)
	}
}
