package dataplane

import (
	"fmt"
	"testing"

	"roam/internal/testutil"
)

// Programs of several sets on one link run in the order of their places, whichever of
// them comes first, on tcx and on clsact: on ingress from the wire inwards, on egress
// outwards. Replacing one leaves the order, and detaching one leaves the others.
func TestOrderOnALink(t *testing.T) {
	places := map[string]int{"wire": -7, "middle": 0, "inside": 5}
	digits := map[string]int32{"wire": 1, "middle": 2, "inside": 3}
	for _, classic := range []bool{false, true} {
		for _, order := range [][]string{
			{"wire", "middle", "inside"}, {"wire", "inside", "middle"}, {"middle", "wire", "inside"},
			{"middle", "inside", "wire"}, {"inside", "wire", "middle"}, {"inside", "middle", "wire"},
		} {
			t.Run(fmt.Sprint("classic ", classic, " ", order), func(t *testing.T) {
				r := newRig(t)
				sets := map[string]*Set{}
				attach := func(name string, digit int32) {
					t.Helper()
					s, o := r.open(Options{Name: name, NoTCX: classic, Places: places}, 1, r.spec(digit, 8))
					defer o.close()
					testutil.NeedKernel(t, "tcx links", s.TCX() || classic)
					r.attach(s, o)
					sets[name] = s
				}
				want := func(what, ingress, egress string) {
					t.Helper()
					if got := r.passed(true, len(ingress)); got != ingress {
						t.Errorf("%s: ingress in the order %s, want %s", what, got, ingress)
					}
					if got := r.passed(false, len(egress)); got != egress {
						t.Errorf("%s: egress in the order %s, want %s", what, got, egress)
					}
				}
				for _, name := range order {
					attach(name, digits[name])
				}
				want("attached", "123", "321")
				for _, name := range order {
					attach(name, digits[name]+8)
				}
				want("replaced", "9ab", "ba9")
				r.must(sets["middle"].Detach(r.link()))
				want("without one", "9b", "b9")
				attach("middle", 2)
				want("it is back", "92b", "b29")
				for name, s := range sets {
					if links, err := s.Attached(); err != nil || len(links) != 1 || links[0] != r.link() {
						t.Errorf("%s is attached to %v, %v", name, links, err)
					}
				}
			})
		}
	}
}

// What a set that is not in Places would do is not left to chance: each has a place of
// its own.
func TestPlacesDiffer(t *testing.T) {
	at := map[int]string{}
	for name, place := range Places {
		if other, taken := at[place]; taken {
			t.Errorf("%s and %s have the place %d", name, other, place)
		}
		at[place] = name
	}
	if Places[flatSet] != 0 {
		t.Errorf("%s has place %d: successors would not find the filters of builds before", flatSet, Places[flatSet])
	}
}
