package runner

import (
	"encoding/json"
	"testing"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
)

// Every experiment that can be carried out in virtual time is, in every run of
// the tests: what it claims must hold there to the last packet, and the same seed
// must show the same. Among them is yanagida-duality-udp at a round trip of 200 ms, where
// repeats of an update counted as early refreshes once.
func TestExperimentsInVirtualTime(t *testing.T) {
	count := 0
	for _, e := range experiments() {
		if !e.Supports(exp.Sim) {
			continue
		}
		count++
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			opt := Options{Preset: "quick", Engine: exp.Sim, State: t.TempDir()}
			first := virtually(t, e.Name, opt)
			for _, c := range first.Claims {
				if c.Measured && !c.Pass {
					t.Errorf("%s: %v, want %s %v", c.ID, *c.Value, c.Op, c.Bound)
				}
			}
			if again := virtually(t, e.Name, opt); digest(t, first) != digest(t, again) {
				t.Error("the same seed showed something else")
			}
		})
	}
	if count < 3 {
		t.Errorf("%d experiments run in virtual time", count)
	}
}

func virtually(t *testing.T, name string, opt Options) *result.Result {
	t.Helper()
	res, err := Run(t.Context(), name, opt)
	if err != nil {
		t.Fatal(err)
	}
	if res.Verdict != result.Passed {
		t.Errorf("%s: %s", name, res.Verdict)
	}
	return res
}

// digest is all of a result but when it was made.
func digest(t *testing.T, r *result.Result) string {
	t.Helper()
	c := *r
	c.Started, c.Seconds, c.Machine = time.Time{}, 0, result.Machine{}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
