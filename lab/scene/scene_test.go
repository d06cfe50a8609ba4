package scene

import (
	"testing"
	"time"
)

func TestSoftGoesAroundTheRing(t *testing.T) {
	var s Schedule
	last := s.Soft(5*time.Second, 4, 15*time.Second, 10*time.Second, "net1", "net2", "net3")
	if last != "net2" || len(s.Steps) != 8 {
		t.Fatalf("ends on %s after %d steps", last, len(s.Steps))
	}
	up, isUp := 0, map[string]bool{"net1": true}
	for _, step := range s.Steps {
		switch step.Op {
		case Attach:
			up++
			isUp[step.Link] = true
			if !isUp[step.From] {
				t.Errorf("handoff from %s, which is down", step.From)
			}
		case Detach:
			delete(isUp, step.Link)
		}
		if len(isUp) == 0 {
			t.Errorf("no link after %+v", step)
		}
	}
	if up != 4 || s.Steps[6].At != 50*time.Second || s.Steps[7].At != 60*time.Second {
		t.Errorf("%d handoffs, the last at %v", up, s.Steps[6].At)
	}
}

func TestDualityGoesThereAndBack(t *testing.T) {
	var s Schedule
	s.Duality(10*time.Second, "net1", "net2", "net3")
	used, want := map[string]bool{"net1": true}, []int{2, 3, 2, 1, 2, 3, 2, 1}
	for i, step := range s.Steps {
		if used[step.Link] = step.Op != Disable; !used[step.Link] {
			delete(used, step.Link)
		}
		if len(used) != want[i] {
			t.Errorf("%d links after %s, want %d", len(used), step.Name, want[i])
		}
	}
	if len(s.Steps) != 8 || !used["net1"] || s.Length != 120*time.Second {
		t.Errorf("%d steps in %v, ends with %v", len(s.Steps), s.Length, used)
	}
}

func TestShares(t *testing.T) {
	tr := Trace{Start: time.Unix(1000, 0)}
	for i := range 21 {
		n := uint64(i) * 1000
		tr.Samples = append(tr.Samples, Sample{
			At:  tr.At(time.Duration(i) * time.Second),
			Out: map[string]uint64{"net1": n, "net2": 2 * n, "net3": n},
			In:  map[string]uint64{"net1": n, "net3": 0},
		})
	}
	out, in := tr.Shares(tr.At(2*time.Second), tr.At(12*time.Second))
	if out["net1"] != 25 || out["net2"] != 50 {
		t.Errorf("shares out %v", out)
	}
	if in["net1"] != 100 || in["net3"] != 0 {
		t.Errorf("shares in %v", in)
	}
}

func TestNIDs(t *testing.T) {
	if NID("cn2") != 0x1000_0000_0000_00c2 || NID("mn") == NID("cn1") {
		t.Errorf("NIDs %v, %v", NID("mn"), NID("cn2"))
	}
}
