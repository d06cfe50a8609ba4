package bench

import (
	"math"
	"testing"

	"roam/internal/testutil"
)

// Each contender has each turn as often, and follows each other one.
func TestTurnsAreFair(t *testing.T) {
	for of := 2; of <= 4; of++ {
		first, after := map[int]int{}, map[[2]int]int{}
		for n := range 2 * of * 10 {
			seen := map[int]bool{}
			for i := range of {
				at := turn(i, n, of)
				if seen[at] = true; i == 0 {
					first[at]++
				} else {
					after[[2]int{turn(i-1, n, of), at}]++
				}
			}
			if len(seen) != of {
				t.Fatalf("round %d of %d: %v", n, of, seen)
			}
		}
		for at := range of {
			if first[at] != 20 || after[[2]int{at, (at + 1) % of}] != after[[2]int{(at + 1) % of, at}] {
				t.Errorf("of %d: first %v, after %v", of, first, after)
			}
		}
	}
}

// A quotient of times over / under is the rate of under over that of over, and only what
// must be known is waited for.
func TestAnswer(t *testing.T) {
	plain, now := &contender{name: "plain"}, &contender{name: "now"}
	for i := range 300 {
		slow := 1 + float64(i%7) // the machine, which meets both
		plain.add(map[string]float64{"out": 90 * slow, "in": 10 * slow}, 1e9)
		now.add(map[string]float64{"out": 100 * slow, "in": float64(1 + i%100)}, 1e9)
	}
	all := []*contender{plain, now}
	out := question{testutil.Figure{Name: "out", Op: ">=", Bound: 0.9}, "plain", "now", "out", 10, "datagram", 0.01}
	f := out.answer(all)
	if math.Abs(f.Value-0.9) > 1e-9 || f.Judge() != testutil.Pass || f.Rounds != 300 {
		t.Errorf("out is %+v", f)
	}
	if d := f.Details["ns/datagram now"]; d != 40 {
		t.Errorf("a datagram takes %v ns, want 40", d)
	}
	if got := plain.times[whole][1]; got != 200 {
		t.Errorf("the parts take %v together, want 200", got)
	}
	in := question{testutil.Figure{Name: "in"}, "plain", "now", "in", 10, "datagram", 0}
	if !settled(all, []question{out, in}) {
		t.Error("waits for what may be as it is")
	}
	if in.known = 0.01; settled(all, []question{out, in}) {
		t.Errorf("does not wait for what scatters by %+v", in.estimate(all))
	}
}
