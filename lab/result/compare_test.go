package result

import (
	"testing"
)

func TestCompare(t *testing.T) {
	one := func(gap, ratio float64, delay float64, seed uint64) *Result {
		r := New("x")
		r.Preset, r.Seed, r.Params = "quick", seed, map[string]any{"delay_ms": delay}
		r.Set("gap_ms", gap)
		r.Set("ratio", ratio)
		r.Judge(expectations(t))
		return r
	}
	a, b := one(10, 1, 10, 1), one(60, 1, 10, 2)
	b.Set("new", 3)
	c, err := Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Alike() || len(c.Conditions) != 1 || c.Conditions[0].What != "seed" {
		t.Errorf("conditions %+v", c.Conditions)
	}
	if g := c.Claims[1]; g.A.Verdict() != "pass" || g.B.Verdict() != "FAIL" {
		t.Errorf("claim %+v", g)
	}
	if m := c.Metrics[0]; m.Name != "gap_ms" || *m.Difference != 50 || *m.Percent != 500 {
		t.Errorf("metric %+v", m)
	}
	if m := c.Metrics[1]; m.Name != "new" || m.A != nil || *m.B != 3 || m.Difference != nil {
		t.Errorf("metric of one only %+v", m)
	}
	if c, _ := Compare(a, one(10, 1, 20, 1)); c.Alike() {
		t.Error("another delay went unnoticed")
	}
	a.Claims = a.Claims[:1]
	if c, _ := Compare(a, b); len(c.Claims) != 3 || c.Claims[2].A.Measured || c.Claims[2].ID != "ratio" {
		t.Errorf("claims of one only: %+v", c.Claims)
	}
	if _, err := Compare(a, New("y")); err == nil {
		t.Error("two experiments were compared")
	}
}
