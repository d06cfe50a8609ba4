package quickstart

import (
	"slices"
	"testing"
	"time"

	"roam/lab/arm"
	"roam/lab/exp"
	"roam/lab/exp/exptest"
	"roam/lab/result"
	"roam/lab/scene"
)

func TestPlanKeepsALinkUp(t *testing.T) {
	for _, preset := range exp.Presets {
		for _, control := range []bool{false, true} {
			s := plan(exptest.Params(t, Experiment.Params, preset), control)
			isUp := map[string]bool{"net1": true}
			last := time.Duration(-1)
			for _, step := range s.Steps {
				if step.Op == scene.Mode && step.Link == "hard" {
					continue // stands before the step that it prepares
				}
				if step.At < last && step.Op != scene.Mark {
					t.Errorf("%s: step %+v is earlier than the one before", preset, step)
				}
				last = step.At
				switch step.Op {
				case scene.Attach:
					isUp[step.Link] = true
				case scene.Detach:
					delete(isUp, step.Link)
				case scene.Swap:
					isUp[step.Link] = true
					delete(isUp, step.From)
				}
				if len(isUp) == 0 {
					t.Errorf("%s: no link at %v", preset, step.At)
				}
			}
			if last >= s.Length {
				t.Errorf("%s: last step at %v, length %v", preset, last, s.Length)
			}
		}
	}
}

func TestPlanHasTheWholeSchedule(t *testing.T) {
	s := plan(exptest.Params(t, Experiment.Params, "quick"), false)
	count := map[scene.Op]int{}
	for _, step := range s.Steps {
		count[step.Op]++
	}
	if count[scene.Swap] != 1 || count[scene.Detach] != 4 || count[scene.Attach] != 6 || count[scene.Disable] != 2 ||
		count[scene.Enable] != 2 || len(s.shares) != 3 {
		t.Errorf("steps %v, shares %d", count, len(s.shares))
	}
	if s.Length > 30*time.Second {
		t.Errorf("quick takes %v of traffic: with set-up and control that is over a minute", s.Length)
	}
	if standard := plan(exptest.Params(t, Experiment.Params, "standard"),
		false).Length + plan(exptest.Params(t, Experiment.Params, "standard"), true).Length; standard > 150*time.Second {
		t.Errorf("standard takes %v of traffic: with set-up that is over three minutes", standard)
	}
}

func TestControlLosesItsFirstNetworkAndGetsItBack(t *testing.T) {
	s := plan(exptest.Params(t, Experiment.Params, "quick"), true)
	tr := trace{Trace: &scene.Trace{Start: time.Unix(1000, 0)}}
	for _, step := range s.Steps {
		tr.Steps = append(tr.Steps, scene.Done{Step: step, At: tr.Start.Add(step.At)})
	}
	from, to, ok := tr.away()
	if !ok || to.Sub(from) < 3*time.Second || s.Length < to.Sub(tr.Start) {
		t.Errorf("away from %v to %v of %v: %v", from.Sub(tr.Start), to.Sub(tr.Start), s.Length, ok)
	}
}

func TestExpectationsAreOfMetricsThatExist(t *testing.T) {
	e, err := result.ParseExpect(Experiment.Expect)
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
		"local 2001:db8:1::1 dev net1 table local proto kernel metric 0 pref medium\n" +
		"fe80::/64 dev net2 proto kernel metric 256 linkdown pref medium\n\n")
	if len(set) != 1 || !set["2001:db8:1::/64 dev net1 proto kernel metric 256 pref medium"] {
		t.Errorf("routes %v", set)
	}
}

// What of the routes differs is said in words, of both sides.
func TestDifferences(t *testing.T) {
	before := parseRoutes("a dev net1\nb dev net1 expires 9sec\n")
	now := parseRoutes("b dev net1 expires 5sec\nc dev net2\n")
	want := []string{"then: lost a dev net1", "then: new c dev net2"}
	if got := differences(before, now, "then"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := differences(before, before, "then"); len(got) > 0 {
		t.Errorf("the same routes differ: %q", got)
	}
}

// Each pass has the links of the parameters; only one has Roam.
func TestConfig(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "quick", "rate_mbps=20", "delay_ms=5", "queue_packets=77")
	for name, want := range map[string]scene.Config{
		"": {Name: "roam", Arm: arm.Roam}, "control": {Name: "control", Arm: arm.Plain},
	} {
		c := (&round{env: &exp.Env{Params: p, Seed: 3}, name: name}).config()
		if c.Name != want.Name || c.Arm != want.Arm || c.Seed != 3 || len(c.Mobile) != 3 || len(c.Correspondents) != 2 {
			t.Errorf("%q: %+v", name, c)
		}
		for _, a := range c.Mobile {
			if a.Out.Rate != 20e6 || a.In.Delay != 5*time.Millisecond || a.In.QueuePackets != 77 {
				t.Errorf("%q: link %+v", name, a)
			}
		}
	}
}
