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
	cell := func() (map[string]float64, error) {
		return Cell(env, "TCP, 20 ms/out", func() (map[string]float64, error) {
			measured++
			return map[string]float64{"gap_ms": 1.5}, nil
		})
	}
	for range 2 {
		if v, err := cell(); err != nil || v["gap_ms"] != 1.5 {
			t.Fatalf("%v, %v", v, err)
		}
	}
	if measured != 1 || env.Cells.Len() != 1 {
		t.Errorf("measured %d times, %d kept", measured, env.Cells.Len())
	}
	if err := env.Cells.Clear(); err != nil {
		t.Fatal(err)
	}
	if _, err := cell(); err != nil || measured != 2 {
		t.Errorf("after Clear: measured %d times, %v", measured, err)
	}
}

func TestCellThatFailsIsNotKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	env := &Env{View: &live.View{}, Cells: OpenStore(dir)}
	boom := errors.New("boom")
	if _, err := Cell(env, "a", func() (int, error) { return 0, boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if _, err := Cell(env, "b", func() (float64, error) { return math.NaN(), nil }); err == nil {
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
	if v, err := Cell(env, "c", func() (string, error) { return "new", nil }); err != nil || v != "new" {
		t.Errorf("%q, %v", v, err)
	}
}

func TestCellWithoutStore(t *testing.T) {
	if v, err := Cell(&Env{View: &live.View{}}, "a", func() (int, error) { return 7, nil }); err != nil || v != 7 {
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
	env := &Env{View: &live.View{}, Cells: OpenStore(dir), Repeats: 2, Stalled: func(time.Time) float64 {
		ms := stalls[0]
		stalls = stalls[1:]
		return ms
	}}
	n := 0
	if v, err := Cell(env, "a", func() (int, error) { n++; return n, nil }); err != nil || v != 2 {
		t.Errorf("%d, %v", v, err)
	}
	if len(env.Kept.Disturbed) != 0 || len(env.Kept.Discarded) != 1 || !env.Kept.Covers(env.Kept.Discarded[0].From) || env.Kept.Covers(time.Now()) {
		t.Errorf("%+v", &env.Kept)
	}
	stalls = []float64{30, 40, 50}
	if v, err := Cell(env, "b", func() (int, error) { n++; return n, nil }); err != nil || v != 5 {
		t.Errorf("%d, %v", v, err)
	}
	again := &Env{View: &live.View{}, Cells: OpenStore(dir)}
	if v, err := Cell(again, "b", func() (int, error) { return 0, nil }); err != nil || v != 5 {
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
