package ilnp

import (
	"math"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/flowrule"
	"roam/multipath"
)

// viewsBy returns the views of the session by the locator of this host. Each has one path.
func (b *bench) viewsBy() map[roam.L64]PathView {
	by := make(map[roam.L64]PathView)
	for _, v := range b.PeersWith(b.now, peerNID)[0].Views {
		by[v.Local.L64] = v
	}
	return by
}

// TestPathsOfRulesAreInUse: paths that rules use are in use, with the rules and their shares; others are not.
func TestPathsOfRulesAreInUse(t *testing.T) {
	stayOnA := func(c *Config) { c.Place = func(link string) int { return int(link[0] - 'a') } }
	b := newBench(t, stayOnA, inMode(Soft))
	b.link(1, "a", netA)
	b.open(netP)
	b.pass(time.Second)
	b.link(2, "b", netB)
	b.acknowledgeLast()
	failover := func(links ...string) flowrule.Rule { return flowrule.Rule{Policy: flowrule.Failover, Links: links} }
	weighted := func(a, b int) flowrule.Rule {
		shares := []flowrule.Share{{Link: "a", PerCent: a}, {Link: "b", PerCent: b}}
		return flowrule.Rule{Policy: flowrule.Weighted, Shares: shares}
	}
	isNear := func(a, b RuleShare) bool { return a.Rule == b.Rule && math.Abs(a.Share-b.Share) < 0.01 }
	const own, other = "in use", "others preferred"
	for i, c := range []struct {
		set       flowrule.Set
		whyA      string
		whyB      string
		rulesOfB  []RuleShare
		countsOnB int // paths in use over link b
	}{
		{nil, own, "", nil, 0},
		{flowrule.Set{failover("b")}, own, "in use, only for rule 1", []RuleShare{{0, 1}}, 1},
		{flowrule.Set{failover("a", "b")}, "in use, also for rule 1", other, nil, 0},
		{flowrule.Set{{}, failover("absent", "b", "a")}, own, "in use, only for rule 2", []RuleShare{{1, 1}}, 1},
		{flowrule.Set{failover("b"), weighted(80, 20)}, "in use, also for rule 2 (80 %)",
			"in use, only for rules 1 and 2 (20 %)", []RuleShare{{0, 1}, {1, 0.2}}, 1},
	} {
		b.setRules(uint32(i+1), c.set)
		by := b.viewsBy()
		if v := by[netA]; !v.InUse || v.Why != c.whyA || v.Share != 1 {
			t.Errorf("set %d: the path in use is %+v", i, v)
		}
		v := by[netB]
		if v.InUse != (c.countsOnB > 0) || v.Why != c.whyB || v.Share != 0 || !slices.EqualFunc(v.Rules, c.rulesOfB, isNear) {
			t.Errorf("set %d: the other path is %+v", i, v)
		}
		if o := b.Overview(b.now); o.Links()["b"].InUse != c.countsOnB {
			t.Errorf("set %d: %d paths over the other link are in use", i, o.Links()["b"].InUse)
		}
	}
	if got := rulesText(make([]RuleShare, 7)); got != "rules 1 (0 %), 1 (0 %), 1 (0 %), 1 (0 %) and 3 more" {
		t.Errorf("seven rules are %q", got)
	}
}

// TestPathOfAnswersIsInUse: a path for answers to rules of the peer is in use while packets leave by it, also if they
// are acknowledgements without data. The answers are listed where they have a choice of paths.
func TestPathOfAnswersIsInUse(t *testing.T) {
	b := newBench(t, inMode(Soft), onNormal)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	s := b.sessions[theKey]
	own := s.entry.Paths[0]
	back := Path{Local: own.Local, Remote: netQ}
	if s.entry.Answers = true; len(s.entry.answerPaths()) > 0 {
		t.Errorf("with one path, answers leave by %v", s.entry.answerPaths())
	}
	s.entry.Back = []Path{back}
	if got := s.entry.answerPaths(); !slices.Equal(got, []Path{own, back}) {
		t.Errorf("answers leave by %v", got)
	}
	if s.entry.Unvalidated = []roam.L64{netP}; !slices.Equal(s.entry.answerPaths(), []Path{back}) {
		t.Errorf("answers leave by %v, also to a locator that is not validated", s.entry.answerPaths())
	}
	if s.entry.Unvalidated, s.entry.Answers = nil, false; s.entry.answerPaths() != nil {
		t.Error("answers are listed that the peer does not ask for")
	}
	idle := Path{Local: roam.LinkLocator{Link: 2, L64: netB}, Remote: netP}
	s.entry.Ruled = []Path{idle} // of a rule that prefers another one
	want := func(when string, inUse bool, why string) {
		t.Helper()
		order := []Path{own, idle, back} // those in use first
		if inUse {
			order = []Path{own, back, idle}
		}
		views := s.views(b.now, nil)
		for i, v := range views {
			if v.Path != order[i] || v.Path == back && (v.InUse != inUse || v.Why != why) {
				t.Errorf("%s: views %+v", when, views)
			}
		}
	}
	want("no report", false, "others preferred")
	for n := range uint64(3) {
		sent := multipath.Traffic{Packets: 10 * n}
		err := s.estimateOf(b.now, back).HandleReport(multipath.PathReport{
			Sent: b.now, Clock: uint32(200_000 * n), Came: b.now.Add(20 * time.Millisecond), Epoch: 1, OwnEpoch: 1,
			Left: sent, LeftNow: sent, Arrived: sent,
		})
		if err != nil {
			t.Fatal(err)
		}
		b.now = b.now.Add(200 * time.Millisecond)
	}
	want("with answers", true, "in use, for answers to the peer's rules")
	b.now = b.now.Add(multipath.LossOver + time.Second)
	want("without answers since", false, "others preferred")
}
