package quickstart

import (
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
)

func resolve(t *testing.T, preset string, set ...string) exp.Params {
	t.Helper()
	d, err := exp.ParseParams(params)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Resolve(preset, set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlanKeepsALinkUp(t *testing.T) {
	for _, preset := range exp.Presets {
		for _, control := range []bool{false, true} {
			s := plan(resolve(t, preset), control)
			isUp := map[string]bool{"net1": true}
			last := time.Duration(-1)
			for _, step := range s.steps {
				if step.op == mode && step.link == "hard" {
					continue // stands before the step that it prepares
				}
				if step.at < last && step.op != phase {
					t.Errorf("%s: step %+v is earlier than the one before", preset, step)
				}
				last = step.at
				switch step.op {
				case up:
					isUp[step.link] = true
				case down:
					delete(isUp, step.link)
				case swap:
					isUp[step.link] = true
					delete(isUp, step.from)
				}
				if len(isUp) == 0 {
					t.Errorf("%s: no link at %v", preset, step.at)
				}
			}
			if last >= s.length {
				t.Errorf("%s: last step at %v, length %v", preset, last, s.length)
			}
		}
	}
}

func TestPlanHasTheWholeSchedule(t *testing.T) {
	s := plan(resolve(t, "quick"), false)
	count := map[op]int{}
	for _, step := range s.steps {
		count[step.op]++
	}
	if count[swap] != 1 || count[down] != 4 || count[up] != 6 || count[disable] != 2 || count[enable] != 2 || len(s.shares) != 3 {
		t.Errorf("steps %v, shares %d", count, len(s.shares))
	}
	if s.length > 30*time.Second {
		t.Errorf("quick takes %v of traffic: with set-up and control that is over a minute", s.length)
	}
	if standard := plan(resolve(t, "standard"), false).length + plan(resolve(t, "standard"), true).length; standard > 150*time.Second {
		t.Errorf("standard takes %v of traffic: with set-up that is over three minutes", standard)
	}
}

func TestControlLosesItsFirstNetworkAndGetsItBack(t *testing.T) {
	s := plan(resolve(t, "quick"), true)
	tr := trace{start: time.Unix(1000, 0)}
	for _, step := range s.steps {
		tr.steps = append(tr.steps, doneStep{step, tr.start.Add(step.at)})
	}
	from, to, ok := tr.away()
	if !ok || to.Sub(from) < 3*time.Second || s.length < to.Sub(tr.start) {
		t.Errorf("away from %v to %v of %v: %v", from.Sub(tr.start), to.Sub(tr.start), s.length, ok)
	}
}

func TestExpectationsAreOfMetricsThatExist(t *testing.T) {
	e, err := result.ParseExpect(expect)
	if err != nil {
		t.Fatal(err)
	}
	if len(e) < 12 {
		t.Errorf("%d expectations", len(e))
	}
}

func TestParseRoutes(t *testing.T) {
	set := parseRoutes("2001:db8:1::/64 dev net1 proto kernel metric 256 expires 3599sec pref medium\n" +
		"fd69:6c6e:7000:2627::/64 dev roam0 metric 1 pref medium\n" +
		"fe80::/64 dev net2 proto kernel metric 256 linkdown pref medium\n\n")
	if len(set) != 1 || !set["2001:db8:1::/64 dev net1 proto kernel metric 256 pref medium"] {
		t.Errorf("routes %v", set)
	}
}
