package yanagida

import (
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/scene"
)

// up walks through a schedule and returns the links in use at its end; every step
// must leave one.
func up(t *testing.T, pl plan) map[string]bool {
	t.Helper()
	used := map[string]bool{"net1": true}
	for _, s := range pl.Steps {
		switch s.Op {
		case scene.Attach, scene.Enable:
			used[s.Link] = true
		case scene.Detach, scene.Disable:
			delete(used, s.Link)
		}
		if len(used) == 0 || s.At >= pl.Length {
			t.Errorf("%d links in use after %+v of %v", len(used), s, pl.Length)
		}
	}
	return used
}

func TestMobilityPlan(t *testing.T) {
	for _, preset := range exp.Presets {
		p := exptest.Params(t, mobilityParams, preset)
		pl := mobilityPlan(p)
		up(t, pl)
		// A network has to be away for longer than its locator lives.
		away := 2*p.Seconds("period_s") - p.Seconds("overlap_s")
		if away <= p.Seconds("preferred_s") {
			t.Errorf("%s: a network is away for %v only", preset, away)
		}
		if back := untilBack(pl); back.Length >= pl.Length || back.Steps[len(back.Steps)-1].Link != "net1" {
			t.Errorf("%s: the control ends at %v", preset, back.Length)
		}
	}
	pl := mobilityPlan(exptest.Params(t, mobilityParams, "paper"))
	if pl.handoffs != 8 || pl.changes != 16 || pl.Length != 125*time.Second {
		t.Errorf("published schedule: %d handoffs in %v", pl.handoffs, pl.Length)
	}
}

func TestDualityPlan(t *testing.T) {
	pl := dualityPlan(exptest.Params(t, dualityParams, "paper"))
	if end := up(t, pl); len(end) != 1 || !end["net1"] || pl.Length != 120*time.Second {
		t.Errorf("ends on %v at %v", end, pl.Length)
	}
	at := time.Duration(0)
	var sizes []int
	for _, p := range pl.phases {
		if p.from != at {
			t.Errorf("phase at %v begins at %v", at, p.from)
		}
		at = p.to
		sizes = append(sizes, len(p.links))
	}
	want := []int{1, 2, 3, 2, 1, 2, 3, 2, 1}
	for i := range want {
		if sizes[i] != want[i] {
			t.Fatalf("links per phase %v", sizes)
		}
	}
	if at != pl.Length || pl.changes != len(pl.phases)-1 {
		t.Errorf("phases end at %v, %d changes", at, pl.changes)
	}
}

func TestParseRTTs(t *testing.T) {
	if l, err := parseRTTs("0, 20,2000,20"); err != nil || len(l) != 3 || l[2] != 2000 {
		t.Errorf("%v, %v", l, err)
	}
	for _, bad := range []string{"", "x", "-1", "2001"} {
		if _, err := parseRTTs(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
