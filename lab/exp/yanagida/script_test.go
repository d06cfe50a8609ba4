package yanagida

import (
	"math"
	"testing"
	"time"

	"roam/lab/result"
	"roam/lab/scene"
)

// A value that could not be measured is not forgotten when another could.
func TestWorstOfTheUnmeasured(t *testing.T) {
	for _, list := range [][]float64{{math.Inf(1), 1}, {1, math.Inf(1), 2}, {math.NaN(), 0}, {3, math.NaN()}} {
		r := result.New("")
		for _, v := range list {
			worst(r, "x", v)
		}
		if v, ok := r.Metrics["x"]; ok {
			t.Errorf("the worst of %v is %g", list, v)
		}
	}
}

// A change too many after one step makes up for none that is missing after another.
func TestOffScript(t *testing.T) {
	step := func(at int, op scene.Op, from string) scene.Done {
		return scene.Done{Step: scene.Step{Op: op, From: from}, At: after(at)}
	}
	steps := []scene.Done{step(0, scene.Mark, ""), step(1000, scene.Attach, "net1"), step(2000, scene.Detach, ""),
		step(2500, scene.Mark, ""), step(3000, scene.Attach, "net2"), step(4000, scene.Detach, "")}
	all := func(scene.Done) bool { return true }
	soft := func(d scene.Done) bool { return d.From != "" }
	for name, c := range map[string]struct {
		wanted func(scene.Done) bool
		at     []int
		want   int
	}{
		"as it should be":           {all, []int{1010, 2010, 3010, 4010}, 0},
		"at the same moment":        {all, []int{1000, 2000, 3000, 4000}, 0},
		"none":                      {all, nil, 4},
		"one missing":               {all, []int{1010, 3010, 4010}, 1},
		"one more":                  {all, []int{1010, 2010, 2600, 3010, 4010}, 1},
		"one more, and one missing": {all, []int{1010, 1500, 3010, 4010}, 2},
		"one before the first":      {all, []int{500, 1010, 2010, 3010, 4010}, 1},
		"one after the last":        {all, []int{1010, 2010, 3010, 4010, 9000}, 1},
		"handoffs":                  {soft, []int{1010, 3010}, 0},
		"back and forth":            {soft, []int{1010, 2600, 2700, 3010}, 2},
		"too late":                  {soft, []int{2010, 3010}, 2},
	} {
		var at []time.Time
		for _, ms := range c.at {
			at = append(at, after(ms))
		}
		if n := offScript(steps, at, c.wanted); n != c.want {
			t.Errorf("%s: %d off, want %d", name, n, c.want)
		}
	}
}
