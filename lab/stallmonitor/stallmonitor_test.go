package stallmonitor

import (
	"io"
	"math"
	"testing"
	"time"

	"roam/lab/result"
)

func TestParseStat(t *testing.T) {
	before := parseStat("cpu  100 0 100 1000 0 0 0 50 0 0\ncpu0 1 2 3\n")
	after := parseStat("cpu  150 10 120 1060 20 5 5 60 0 0\n")
	steal, busy := after.since(before)
	if steal != 100 || busy != 50 {
		t.Errorf("steal %g ms, busy %g %%", steal, busy)
	}
	if soft := after.softSince(before); math.Abs(soft-100.0/18) > 1e-9 {
		t.Errorf("in interrupts %g %%, want 10 of 180 ticks", soft)
	}
}

func TestWatch(t *testing.T) {
	in, hold := io.Pipe()
	time.AfterFunc(50*time.Millisecond, func() { hold.Close() })
	told := 0
	s := watch(in, 1e-6, nil, func(result.Stall) { told++ })
	if s.Cores == 0 || s.WorstMs <= 0 || len(s.Stalls) == 0 || told != len(s.Stalls) {
		t.Errorf("figures %+v, %d told", s, told)
	}
}

func TestMainRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"x"}, {"-1"}, {"1", "x"}, {"1", "0"}, {"1", "2", "3"}} {
		if err := Main(args); err == nil {
			t.Errorf("arguments %v accepted", args)
		}
	}
}

// Two cores that were busy for 90 % of 10 s, of which the run had 6 s.
func TestOthersPct(t *testing.T) {
	s := result.StallMonitor{Cores: 2, BusyPct: 90, Processes: map[result.Owner]result.Processes{
		result.OwnerRoam: {RunMs: 1000, WaitMs: 9000}, result.OwnerEmulator: {RunMs: 2000},
		result.OwnerWorkload: {RunMs: 3000},
	}}
	if got := othersPct(&s, 5, 10*time.Second); math.Abs(got-55) > 1e-9 {
		t.Errorf("%g %%, want 55", got)
	}
	s.BusyPct = 29 // less than its threads say: ticks are coarse
	if got := othersPct(&s, 5, 10*time.Second); got != 0 {
		t.Errorf("%g %%, want 0", got)
	}
	s.BusyPct, s.Processes = 99, nil
	if got := othersPct(&s, 5, 10*time.Second); got != 0 {
		t.Errorf("%g %% where nobody looked, want 0", got)
	}
}
