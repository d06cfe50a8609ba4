package stallmonitor

import (
	"maps"
	"testing"
	"time"

	"roam/lab/result"
)

// threads has one thread of each owner on core 1, and of the daemon one on core 0 as well.
func threads(roam, emulator, workload time.Duration) map[int]task {
	return map[int]task{
		10: {result.OwnerRoam, 1, roam, 0},
		11: {result.OwnerRoam, 0, 0, 0},
		20: {result.OwnerEmulator, 1, emulator, 0},
		30: {result.OwnerWorkload, 1, workload, 0},
	}
}

func TestBlame(t *testing.T) {
	const ms = time.Millisecond
	before := sample{steal: map[int]float64{0: 100, 1: 500}, tasks: threads(time.Second, time.Minute, time.Hour)}
	for name, c := range map[string]struct {
		roam, emulator, workload time.Duration // since the sample before
		stolen, queued           float64
		change                   func(map[int]task)
		want                     result.Owner
	}{
		"the daemon ran":                    {60 * ms, 0, 0, 0, 60, nil, result.OwnerRoam},
		"the daemon ran for more than that": {90 * ms, 0, 0, 0, 60, nil, result.OwnerRoam},
		"it ran for half of it":             {30 * ms, 0, 0, 0, 60, nil, result.OwnerRoam},
		"it ran for less than others":       {29 * ms, 0, 0, 0, 60, nil, result.OwnerOthers},
		"as long as the emulator":           {25 * ms, 25 * ms, 0, 0, 60, nil, result.OwnerRoam},
		"nobody that is known ran":          {0, 0, 0, 0, 60, nil, result.OwnerOthers},
		"the emulator ran":                  {5 * ms, 40 * ms, 0, 0, 60, nil, result.OwnerEmulator},
		"a workload ran":                    {5 * ms, 0, 50 * ms, 0, 60, nil, result.OwnerWorkload},
		"the core was stolen":               {0, 0, 0, 60, 60, nil, result.OwnerHypervisor},
		"stolen from the daemon":            {60 * ms, 0, 0, 60, 60, nil, result.OwnerHypervisor},
		"a little was stolen":               {50 * ms, 0, 0, 10, 60, nil, result.OwnerRoam},
		"the timer was late":                {0, 0, 0, 0, 3, nil, result.OwnerHypervisor},
		"the timer was late, after work":    {60 * ms, 0, 0, 0, 3, nil, result.OwnerHypervisor},
		"the kernel tells no queueing":      {60 * ms, 0, 0, 0, unknownQueue, nil, result.OwnerRoam},
		"it tells none, and nobody ran":     {0, 0, 0, 0, unknownQueue, nil, result.OwnerOthers},
		"the daemon ran on the other core": {0, 0, 0, 0, 60, func(m map[int]task) {
			m[11] = task{result.OwnerRoam, 0, 60 * ms, 0}
		}, result.OwnerOthers},
		"it has gone to the other core": {60 * ms, 0, 0, 0, 60, func(m map[int]task) {
			t := m[10]
			t.core = 0
			m[10] = t
		}, result.OwnerRoam},
		"a new thread of it": {0, 0, 0, 0, 60, func(m map[int]task) {
			m[12] = task{result.OwnerRoam, 1, 45 * ms, 0}
		}, result.OwnerRoam},
		"two threads of it, in turn": {16 * ms, 0, 0, 0, 60, func(m map[int]task) {
			m[12] = task{result.OwnerRoam, 1, 16 * ms, 0}
		}, result.OwnerRoam},
	} {
		after := sample{steal: map[int]float64{0: 400, 1: 500 + c.stolen},
			tasks: threads(time.Second+c.roam, time.Minute+c.emulator, time.Hour+c.workload)}
		if c.change != nil {
			c.change(after.tasks)
		}
		got := blame(result.Stall{Core: 1, Ms: 60}, c.queued, before, after)
		if got.Owner != c.want || got.Excuses() != (c.want != result.OwnerRoam) {
			t.Errorf("%s: it was %s, want %s: %v", name, got.Owner, c.want, got.RanMs)
		}
	}
}

// The figures beside the owner are those of the stall, and waiting counts on every core.
func TestBlameFigures(t *testing.T) {
	const ms = time.Millisecond
	before := sample{steal: map[int]float64{0: 7}, tasks: map[int]task{1: {result.OwnerRoam, 0, 0, ms}}}
	after := sample{steal: map[int]float64{0: 17}, tasks: map[int]task{
		1: {result.OwnerRoam, 0, 25 * ms, 6 * ms}, 2: {result.OwnerWorkload, 1, 99 * ms, 33 * ms}}}
	s := blame(result.Stall{Core: 0, Ms: 50}, 50, before, after)
	ran := map[result.Owner]float64{result.OwnerRoam: 25, result.OwnerHypervisor: 10, result.OwnerOthers: 15}
	waited := map[result.Owner]float64{result.OwnerRoam: 5, result.OwnerWorkload: 33}
	more := blame(result.Stall{Core: 0, Ms: 8}, 8, before, after) // than the stall was long
	if want := map[result.Owner]float64{result.OwnerHypervisor: 8}; !maps.Equal(more.RanMs, want) {
		t.Errorf("ran %v, want %v", more.RanMs, want)
	}
	if !maps.Equal(s.RanMs, ran) || !maps.Equal(s.WaitedMs, waited) || s.Ms != 50 {
		t.Errorf("ran %v, waited %v", s.RanMs, s.WaitedMs)
	}
}

func TestAccount(t *testing.T) {
	const ms = time.Millisecond
	totals := map[result.Owner]result.Processes{result.OwnerRoam: {RunMs: 1, WaitMs: 2}}
	account(totals, sample{tasks: map[int]task{1: {result.OwnerRoam, 0, 10 * ms, ms}}}, sample{tasks: map[int]task{
		1: {result.OwnerRoam, 0, 14 * ms, 3 * ms}, 2: {result.OwnerRoam, 0, time.Hour, time.Hour}}})
	if got := totals[result.OwnerRoam]; got != (result.Processes{RunMs: 5, WaitMs: 4}) {
		t.Errorf("totals %+v", got)
	}
}

func TestParseProc(t *testing.T) {
	text := "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 100 200 300 400 1 1 0 0 0 0 0 4096 0 0 0 0 17 3 0 0 0\n"
	if name, parent, core, ok := parseTask(text); name != "a (b) c" || parent != 7 || core != 3 || !ok {
		t.Errorf("%q, parent %d, core %d, %v", name, parent, core, ok)
	}
	for _, broken := range []string{"", "1 (x", "1 x) S 1", "1 (x) S 1 2"} {
		if _, _, _, ok := parseTask(broken); ok {
			t.Errorf("%q accepted", broken)
		}
	}
	if run, wait, ok := parseSchedstat("491527 64376 2\n"); run != 491527 || wait != 64376 || !ok {
		t.Errorf("ran %d, waited %d, %v", run, wait, ok)
	}
	if _, _, ok := parseSchedstat("1"); ok {
		t.Error("half a line accepted")
	}
	stat := "cpu  1 1 1 1 1 1 1 9 0 0\ncpu0 1 1 1 1 1 1 1 4 0 0\ncpu1 1 1 1 1 1 1 1 5 0 0\nintr 1 2\n"
	if line := coreLine(stat, 1); line != "cpu1 1 1 1 1 1 1 1 5 0 0\n" || coreLine(stat, 2) != "" {
		t.Errorf("core 1 is %q", line)
	}
	steal := parseSteal(stat)
	if want := map[int]float64{0: 40, 1: 50}; !maps.Equal(steal, want) {
		t.Errorf("stolen %v", steal)
	}
}
