package example

import (
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/result"
)

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	p := exptest.Params(t, Experiment.Params, "quick")
	var cases []exptest.Case
	add := func(name string, pause, lost time.Duration, red ...string) {
		gap := exptest.Within(500*time.Millisecond, 700*time.Millisecond+lost)
		up := exptest.UDP(t, p.Seconds("seconds"), pause, 10*time.Millisecond, func(d *exptest.Datagram) {
			d.Lost = gap(d.At)
		})
		cases = append(cases, exptest.Case{Name: name, Red: red, Judge: func(r *result.Result, _ int) {
			judge(r, p, up, exptest.Origin)
		}})
	}
	add("the delay alone", time.Millisecond, 29*time.Millisecond)
	add("more than the cut", time.Millisecond, 32*time.Millisecond, "lost")
	add("a slow flow", 4*time.Millisecond, 29*time.Millisecond, "sent")
	exptest.Claims(t, Experiment, nil, cases...)
}
