package ilnp

import (
	"maps"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// What a border has told stands in updates and exports in place of what Config.Outside says, and a
// change of it is told at once.
func TestSiteTold(t *testing.T) {
	const netD = netC + 1<<16
	b := newBench(t, func(c *Config) { c.Outside = map[roam.L64][]roam.L64{netA: {netC}} })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	for _, c := range []struct{ told, want []roam.L64 }{
		{[]roam.L64{netB, netD}, []roam.L64{netB, netD}},
		{[]roam.L64{netD}, []roam.L64{netD}},
		{nil, []roam.L64{netC}},
	} {
		b.forget()
		sites := map[roam.L64][]roam.L64{}
		if c.told != nil {
			sites[netA] = c.told
		}
		b.HandleSite(b.now, sites)
		b.drain()
		if got := slices.Sorted(maps.Keys(b.announced())); !slices.Equal(got, slices.Sorted(slices.Values(c.want))) {
			t.Errorf("told %v, announced %v, want %v", c.told, got, c.want)
		}
		if got := b.SeenOutside(netA); !slices.Equal(got, c.want) {
			t.Errorf("told %v, seen as %v, want %v", c.told, got, c.want)
		}
		b.acknowledgeLast()
		b.forget()
		b.HandleSite(b.now, maps.Clone(sites))
		if b.drain(); len(b.updates()) != 0 {
			t.Error("the same again is told again")
		}
	}
	b.HandleSite(b.now, map[roam.L64][]roam.L64{netA: {netD}})
	b.drain()
	b.acknowledgeLast()
	next := newBench(t)
	if err := next.Restore(b.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	if next.drain(); len(next.updates()) != 0 || !slices.Equal(next.SeenOutside(netA), []roam.L64{netD}) {
		t.Errorf("after a restart %d updates are sent, and the locator is seen as %v", len(next.updates()), next.SeenOutside(netA))
	}
	if got := b.SeenOutside(netB); !slices.Equal(got, []roam.L64{netB}) {
		t.Errorf("another locator is seen as %v", got)
	}
}

// For a border each session in use sends its nonce once, at a pace; those that are idle, and those
// over other links, do not.
func TestNoncesForBorder(t *testing.T) {
	const all, inUse = 200, 100
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.many(all, inUse)
	b.pass(showUsed)
	var acts []Activity
	for _, s := range b.byUse()[:inUse] {
		acts = append(acts, Activity{Key: s.key, LastTx: b.now})
	}
	b.HandleActivity(b.now, acts)
	b.drain()
	b.forget()
	b.HandleBorder(b.now, 2, false)
	if b.pass(100 * time.Millisecond); len(b.probesSent()) != 0 {
		t.Fatalf("%d probes for a border on another link", len(b.probesSent()))
	}
	b.HandleBorder(b.now, 1, false)
	b.drain()
	if n := len(b.probesSent()); n != showBatch {
		t.Errorf("%d probes at once, want %d", n, showBatch)
	}
	b.pass(showEvery * inUse / showBatch)
	asked := map[roam.NID]int{}
	for _, p := range b.probesSent() {
		if asked[p.Dst.NID]++; !p.Nonce.Present() || p.Src.L64 != netA {
			t.Fatalf("a probe is %+v", p)
		}
	}
	if len(asked) != inUse || len(b.probesSent()) != inUse {
		t.Errorf("%d probes to %d correspondents, want %d", len(b.probesSent()), len(asked), inUse)
	}
}

// For a border that began anew a keyed session announces its set once more, with the answer to the first probe that
// has shown it the nonces; one without keys does not, as the border does so itself.
func TestSetForBorderAnew(t *testing.T) {
	k := openKeyed(t)
	k.HandleBorder(k.now, 1, false)
	if k.answerNext(); len(k.updates()) != 0 {
		t.Errorf("%d updates for a border that knows the set", len(k.updates()))
	}
	k.HandleBorder(k.now, 2, true)
	k.HandleBorder(k.now, 1, true)
	k.drain()
	if n := len(k.updates()); n != 0 {
		t.Errorf("%d updates before the border knows the nonces", n)
	}
	k.answerNext()
	if n := len(k.updates()); n != 1 {
		t.Errorf("%d updates with the answer, want 1", n)
	}
	k.acknowledgeSealed()
	k.HandleBorder(k.now, 1, true)
	k.sessions[theKey].borderAnew.link = 2
	if k.answerNext(); len(k.updates()) != 0 {
		t.Errorf("%d updates with an answer by another border", len(k.updates()))
	}
	k.sessions[theKey].borderAnew = borderAnew{}
	k.HandleBorder(k.now, 1, false)
	if k.answerNext(); len(k.updates()) != 0 {
		t.Errorf("%d updates with a later answer", len(k.updates()))
	}
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(5 * time.Second)
	b.forget()
	b.HandleBorder(b.now, 1, true)
	b.drain()
	b.answerProbes()
	if n := len(b.updates()); n != 0 {
		t.Errorf("%d updates without keys", n)
	}
}

// answerNext has the peer answer the probes that are sent now.
func (k *keyedBench) answerNext() {
	k.t.Helper()
	k.drain()
	k.answerProbesTo(netP, peerNonce)
	k.drain()
}

// acknowledgeSealed has the peer acknowledge the last update.
func (k *keyedBench) acknowledgeSealed() {
	k.t.Helper()
	k.receive(1, k.ackOf(k.lastSent(ilnpwire.Advertisement)))
	k.drain()
	k.forget()
}
