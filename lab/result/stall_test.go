package result

import (
	"strings"
	"testing"
)

// A stall that the daemon under test made excuses nothing: it is neither the worst of the
// machine's, nor does it keep a claim about time from being judged.
func TestStallsOfTheDaemonExcuseNothing(t *testing.T) {
	for name, c := range map[string]struct {
		stalls      []Stall
		worst, roam float64
		excused     bool
		whose       string
	}{
		"none":                          {nil, 7, 0, false, ""},
		"of nobody that was looked for": {[]Stall{{Ms: 30}}, 30, 0, true, ""},
		"the daemon's": {[]Stall{{Ms: 90, Owner: OwnerRoam}, {Ms: 60, Owner: OwnerRoam}}, 7, 90, false,
			"2 by Roam's daemon"},
		"the hypervisor's beside it": {[]Stall{{Ms: 90, Owner: OwnerRoam}, {Ms: 40, Owner: OwnerHypervisor},
			{Ms: 50, Owner: OwnerOthers}}, 50, 90, true, "1 by Roam's daemon, 1 by the hypervisor, 1 by other processes"},
	} {
		s := StallMonitor{LimitMs: 20, WorstMs: 7, RoamMs: 7, Stalls: c.stalls}
		s.Keep(func(Stall) bool { return true })
		if s.WorstMs != c.worst || s.RoamMs != c.roam || s.Excused() != c.excused || s.Whose() != c.whose {
			t.Errorf("%s: worst %g, Roam's %g, excused %v, %q", name, s.WorstMs, s.RoamMs, s.Excused(), s.Whose())
		}
		text := strings.Join(s.InWords(), "\n")
		if strings.Contains(text, "excuses no figure") != (c.roam > 0) || strings.Contains(text, "not judged") {
			t.Errorf("%s: %q", name, text)
		}
		s.Disturbed = s.Excused()
		if text := strings.Join(s.InWords(), "\n"); strings.Contains(text, "not judged") != c.excused ||
			strings.Count(text, c.whose) != 1 && c.whose != "" {
			t.Errorf("%s, disturbed: %q", name, text)
		}
	}
	s := StallMonitor{Processes: map[Owner]Processes{OwnerEmulator: {10, 2}, OwnerRoam: {30, 4}}}
	want := "Roam's daemon ran for 30 ms and waited for 4 ms; the emulator ran for 10 ms and waited for 2 ms"
	if q := s.Queued(); q != want {
		t.Error(q)
	}
}
