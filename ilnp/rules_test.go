package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/flowrule"
	"roam/multipath"
)

// lowDelay is a rule that needs the order of paths.
var lowDelay = flowrule.Set{{Policy: flowrule.LowDelay}}

// twoLinks is a session in a mode, with a link in use and another one, both announced and
// acknowledged.
func twoLinks(t *testing.T, mode Mode, change ...func(*Config)) *bench {
	b := newBench(t, append(change, inMode(mode))...)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	b.prefix(2, netB, roam.Infinite)
	b.pass(100 * time.Millisecond)
	return b
}

func (b *bench) setRules(number uint32, set flowrule.Set) {
	b.SetRules(b.now, number, set)
	b.drain()
}

// ruled returns our locators of the paths for flows with rules only.
func (b *bench) ruled() (ls []roam.L64) {
	for _, p := range b.entries[theKey].Ruled {
		ls = append(ls, p.Local.L64)
	}
	return ls
}

// A rule may use a link in reserve once the peer has acknowledged its locator, in the soft
// mode; in duality all links are in use anyway, and the hard mode announces no reserve.
func TestRuledPaths(t *testing.T) {
	stayOnA := func(c *Config) { c.Place = func(link string) int { return int(link[0] - 'a') } }
	for mode, want := range map[Mode][]roam.L64{Soft: {netB}, Hard: nil, Duality: nil} {
		b := newBench(t, stayOnA, inMode(mode))
		b.link(1, "a", netA)
		b.open(netP)
		b.pass(time.Second)
		b.link(2, "b", netB)
		b.setRules(1, lowDelay)
		if got := b.ruled(); len(got) > 0 {
			t.Errorf("%v: %v before the peer has acknowledged them", mode, got)
		}
		if mode != Hard { // which has announced nothing new
			b.acknowledgeLast()
		}
		if got := b.ruled(); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", mode, got, want)
		}
		if got := b.entries[theKey].Rules; got != (RuleUse{Mask: 1, Set: 1}) {
			t.Errorf("%v: rules %+v", mode, got)
		}
		b.setRules(2, nil)
		if e := b.entries[theKey]; len(e.Ruled) > 0 || e.Rules != (RuleUse{}) || e.RuleTables != nil {
			t.Errorf("%v: without rules the entry has %+v", mode, e)
		}
	}
}

// A session has the rules of its peer, by name and by NID, and each change of them gives it
// another number, so that the data plane never mixes two sets.
func TestRulesOfAPeer(t *testing.T) {
	b := twoLinks(t, Soft)
	of := func(peers ...string) flowrule.Rule { return flowrule.Rule{Match: flowrule.Match{Peers: peers}} }
	set := flowrule.Set{of("other"), of("peer"), of(peerNID.String()), {}}
	b.setRules(7, set)
	if got := b.entries[theKey].Rules; got != (RuleUse{Mask: 0b1110, Set: 7}) {
		t.Errorf("rules %+v", got)
	}
	b.sessions[theKey].owned = false
	b.setRules(8, set)
	if got := b.entries[theKey].Rules; got != (RuleUse{Mask: 0b1100, Set: 8}) {
		t.Errorf("rules %+v of a node that only claims the identifier", got)
	}
	seq := b.entries[theKey].Seq
	b.setRules(9, set[:1])
	if got := b.entries[theKey]; got.Rules != (RuleUse{}) || got.Seq != seq+1 {
		t.Errorf("entry %d with rules %+v where no rule is for the peer", got.Seq, got.Rules)
	}
	b.setRules(10, set[:1])
	if got := b.entries[theKey].Seq; got != seq+1 {
		t.Error("an entry without rules was written though none is for its peer")
	}
}

// Flows with rules keep off a path that was found dead, and come back when it answers: it is
// probed although no other packet would take it.
func TestRuledPathThatDies(t *testing.T) {
	level := func(c *Config) { c.Liveness = func(string) multipath.Level { return multipath.Normal } }
	b := twoLinks(t, Soft, level)
	b.acknowledgeLast()
	b.setRules(1, lowDelay)
	alive := map[roam.L64]bool{netA: true, netB: true}
	var told []roam.PathChange
	run := func(d time.Duration, until func() bool) bool {
		for end := b.now.Add(d); b.now.Before(end); {
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, LastRx: b.now, Asks: true}})
			b.drain()
			probes := b.probesSent()
			told = append(told, b.pathsChanged()...)
			b.forget()
			for _, s := range probes {
				if alive[s.Src.L64] {
					b.reply(s, peerNonce)
				}
			}
			if until() {
				return true
			}
			b.pass(10 * time.Millisecond)
		}
		return until()
	}
	if !run(3*time.Second, func() bool { return len(b.entries[theKey].Ruled) == 1 }) {
		t.Fatalf("paths for rules: %v", b.ruled())
	}
	alive[netA] = false
	if !run(2*time.Second, func() bool { return len(b.entries[theKey].Ruled) == 0 }) {
		t.Fatal("flows with rules stay on a dead path")
	}
	if !slices.Contains(told, roam.PathsDied) {
		t.Error("whoever helps their connections is not told")
	}
	if got := b.sources(); !slices.Equal(got, []roam.L64{netB}) {
		t.Errorf("all others send from %v", got)
	}
	run(6*time.Second, func() bool {
		return b.sessions[theKey].bad[Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}]
	})
	alive[netA] = true
	if !run(40*time.Second, func() bool { return len(b.entries[theKey].Ruled) == 1 }) {
		t.Error("flows with rules do not come back to a path that answers")
	}
}

// A rule for low delay takes what is shorter by far, and stays where it is otherwise.
func TestRuleOfLowDelay(t *testing.T) {
	b := twoLinks(t, Duality)
	b.acknowledgeLast()
	b.setRules(1, lowDelay)
	s := b.sessions[theKey]
	viaA := Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}
	viaB := Path{Local: roam.LinkLocator{Link: 2, L64: netB}, Remote: netP}
	for _, step := range []struct {
		a, b  time.Duration
		first Path
	}{
		{50 * time.Millisecond, 20 * time.Millisecond, viaB},
		{19 * time.Millisecond, 20 * time.Millisecond, viaB},
		{15 * time.Millisecond, 20 * time.Millisecond, viaA},
		{20 * time.Millisecond, 15 * time.Millisecond, viaB},
		{400 * time.Microsecond, 1900 * time.Microsecond, viaB},
	} {
		for p, d := range map[Path]time.Duration{viaA: step.a, viaB: step.b} {
			h := s.check.of(p)
			h.Health = multipath.Health{}
			h.Answer(b.now, b.now.Add(-d))
		}
		b.followRules(b.now, s)
		b.drain()
		table := b.entries[theKey].RuleTables[0]
		if table == nil || !slices.Equal(table.Paths, []Path{step.first}) {
			t.Errorf("after %v and %v: %+v", step.a, step.b, table)
		}
	}
	b.setRules(2, flowrule.Set{{Policy: flowrule.Equal}})
	if table := b.entries[theKey].RuleTables[0]; table == nil || len(table.Paths) != 2 || table.Sets[0] != 3 {
		t.Errorf("by turns: %+v", table)
	}
}

// A link that is out of use has no share of a rule; back in use it has it at once. Preferences change
// shares at once, too.
func TestRulesFollowLinks(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.link(1, "a", netA)
	b.open(netP)
	b.pass(time.Second)
	b.link(2, "b", netB)
	b.pass(100 * time.Millisecond)
	b.acknowledgeLast()
	b.setRules(1, flowrule.Set{{Policy: flowrule.Weighted}})
	paths := func() int {
		if table := b.entries[theKey].RuleTables[0]; table != nil {
			return len(table.Paths)
		}
		return 0
	}
	for _, disabled := range []bool{false, true, false} {
		want := 2
		if disabled {
			want = 1
		}
		b.SetLinkDisabled(b.now, 2, disabled)
		b.pass(5 * time.Second)
		b.acknowledgeLast()
		if got := paths(); got != want {
			t.Errorf("disabled: %t, the rule takes %d paths", disabled, got)
		}
	}
	was := slices.Clone(b.entries[theKey].RuleTables[0].Costs)
	b.SetPreferences(b.now, func(link string) uint16 { return 10 * uint16(link[0]-'a'+1) })
	b.drain()
	if now := b.entries[theKey].RuleTables[0].Costs; slices.Equal(now, was) {
		t.Errorf("other preferences, and costs are %v as before", now)
	}
}

// TestRuleReachesItsLinkAmongMany: a rule's link has a path though there are more pairs of links and locators of the
// peer than an entry has places for.
func TestRuleReachesItsLinkAmongMany(t *testing.T) {
	byName := func(c *Config) { c.Place = func(link string) int { return int(link[0] - 'a') } }
	for _, named := range [][]string{{"f"}, {"b", "c", "d", "e", "f"}} {
		b := newBench(t, inMode(Soft), byName)
		for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
			b.link(roam.LinkID(i+1), name, netA+roam.L64(i))
		}
		b.open(netP, netP+1, netP+2, netP+3)
		b.pass(time.Second)
		b.setRules(1, flowrule.Set{{Policy: flowrule.Failover, Links: named}})
		s := b.sessionOf(theKey)
		for _, r := range s.remotes {
			r.validated = true
		}
		for _, l := range s.update.listing {
			s.known = append(s.known, l.l64)
		}
		b.upsert(b.now, s, s.entry.Paths)
		b.drain()
		e := b.entries[theKey]
		for _, name := range named {
			link := roam.LinkID(name[0] - 'a' + 1)
			if !slices.ContainsFunc(e.Ruled, func(p Path) bool { return p.Local.Link == link }) {
				t.Errorf("rule of %v: %s has no path among %v", named, name, e.Ruled)
			}
		}
		if e.RuleTables[0] == nil {
			t.Errorf("rule of %v has no table", named)
		}
	}
}
