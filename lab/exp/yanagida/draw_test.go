package yanagida

import "testing"

// TestEveryArmHasTheSteps: what plain IPv6 does cannot be read without the steps of the
// schedule, so they are on the panel of each arm.
func TestEveryArmHasTheSteps(t *testing.T) {
	f := besideFigure(map[string]*outcome{"roam": {Arm: "Roam"}, "plain": {Arm: "plain IPv6"}})
	if len(f.Panels) != 2 {
		t.Fatalf("%d panels", len(f.Panels))
	}
	for _, p := range f.Panels {
		if !p.Marks {
			t.Errorf("%s has no steps", p.Title)
		}
	}
}
