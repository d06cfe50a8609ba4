package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/flowrule"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

func onNormal(c *Config) { c.Liveness = func(string) multipath.Level { return multipath.Normal } }

// The probes of a host ask for answers on the paths of its rules, if one of them has a path for
// each flow.
func TestAnswersAreAskedFor(t *testing.T) {
	b := twoLinks(t, Soft, onNormal)
	b.acknowledgeLast()
	asked := func() (all []bool) {
		for _, p := range b.askReports() {
			e, err := ilnpwire.ParseEcho(p.Payload)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := ilnpwire.ParseReport(e.Data)
			all = append(all, r.Answers)
		}
		return all
	}
	for i, c := range []struct {
		policy flowrule.Policy
		want   bool
	}{
		{flowrule.Failover, true}, {flowrule.Equal, false}, {flowrule.LowDelay, true}, {flowrule.Adaptive, false},
		{flowrule.Flow, true}, {flowrule.Weighted, false},
	} {
		b.forget()
		b.setRules(uint32(i+1), flowrule.Set{{Policy: c.policy}})
		if got := asked(); slices.Contains(got, !c.want) {
			t.Errorf("policy %v: probes ask %v, want %v", c.policy, got, c.want)
		}
	}
}

// A correspondent that asks for answers gets them also at locators that it holds in reserve, once
// they are validated, while these paths work; nothing else goes there.
func TestPathsBack(t *testing.T) {
	b := newBench(t, inMode(Soft), onNormal)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	b.receive(1, b.update(netP, peerNonce, ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{
		entry(netP, 10, 3600), entry(netQ, 30, 3600),
	}}))
	alive, asks := map[roam.L64]bool{netP: true}, true
	run := func(d time.Duration, until func() bool) bool {
		for end := b.now.Add(d); b.now.Before(end) && !until(); {
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, LastRx: b.now, Asks: true, AsksAnswers: asks}})
			b.drain()
			probes := b.probesSent()
			b.forget()
			for _, p := range probes {
				if alive[p.Dst.L64] {
					b.reply(p, peerNonce)
				}
			}
			b.pass(10 * time.Millisecond)
		}
		return until()
	}
	back := func(want ...roam.L64) func() bool {
		return func() bool {
			e := b.entries[theKey]
			same := slices.EqualFunc(e.Back, want, func(p Path, l roam.L64) bool { return p.Remote == l })
			return same && e.Answers == asks && len(e.Paths) == 1 && e.Paths[0].Remote == netP
		}
	}
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, LastRx: b.now, Asks: true, AsksAnswers: asks}})
	if b.drain(); !back()() {
		t.Errorf("to a locator that is not validated: %+v", b.entries[theKey].Back)
	}
	alive[netQ] = true
	for _, c := range []struct {
		when string
		what func()
		want []roam.L64
	}{
		{"validated", func() {}, []roam.L64{netQ}},
		{"dead", func() { alive[netQ] = false }, nil},
		{"alive again", func() { alive[netQ] = true }, []roam.L64{netQ}},
		{"not asked for any more", func() { asks = false }, nil},
	} {
		if c.what(); !run(10*time.Second, back(c.want...)) {
			t.Errorf("%s: paths %+v, back %+v", c.when, b.entries[theKey].Paths, b.entries[theKey].Back)
		}
	}
}
