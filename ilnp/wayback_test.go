package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// newWayBack returns a host that has left its newest locator netB, from which the probes of the
// path in use stayed without an answer, in favour of netA.
func newWayBack(t *testing.T, mode Mode) (b *bench, left Path) {
	t.Helper()
	b = newBench(t, inMode(mode))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	left = Path{Local: roam.LinkLocator{Link: 2, L64: netB}, Remote: netP}
	s := b.sessions[theKey]
	s.bad[left] = true
	b.refresh(b.now, s)
	b.drain()
	b.acknowledgeLast()
	b.wantSources("the newest one is dead", netA)
	return b, left
}

// probeOf has the host probe its dead paths, and returns the probe that left from netB.
func (b *bench) probeOf(left Path) ilnpwire.Packet {
	b.t.Helper()
	b.forget()
	b.validateRound(b.now, b.sessions[theKey])
	b.drain()
	probes := b.probesSent()
	i := slices.IndexFunc(probes, func(p ilnpwire.Packet) bool {
		return p.Src.L64 == left.Local.L64 && p.Dst.L64 == left.Remote
	})
	if i < 0 {
		b.t.Fatal("the dead path is not probed")
	}
	b.pass(20 * time.Millisecond)
	return probes[i]
}

// An answer that comes to another locator than the probe left from does not bring a path back: nothing
// might arrive there. The acknowledgement of an update that came along the path does.
func TestAnswerToAnotherLocator(t *testing.T) {
	for _, mode := range []Mode{Hard, Soft} {
		for name, c := range map[string]struct {
			answered, acked roam.L64 // where it comes to
			want            roam.L64
		}{
			"answered along the path":    {netB, 0, netB},
			"answered elsewhere":         {netA, 0, netA},
			"acknowledged along it":      {netA, netB, netB},
			"acknowledged elsewhere too": {netA, netA, netA},
		} {
			b, left := newWayBack(t, mode)
			probe := b.probeOf(left)
			probe.Src.L64 = c.answered
			b.reply(probe, peerNonce)
			if c.acked != 0 {
				asked := b.updates()
				if len(asked) != 1 {
					t.Fatalf("%v, %s: %d updates leave, want one along the dead path", mode, name, len(asked))
				}
				p := b.parse(b.sent[len(b.sent)-1])
				if p.Src.L64 != netB {
					t.Fatalf("%v, %s: the update leaves from %v", mode, name, p.Src.L64)
				}
				to := roam.ILV{NID: p.Src.NID, L64: c.acked}
				ack, err := ilnpwire.BuildUpdate(p.Dst, to, peerNonce, asked[0].Ack())
				if err != nil {
					t.Fatal(err)
				}
				b.receive(2, ack)
			}
			if got := b.sessions[theKey].bad[left]; got != (c.want == netA) {
				t.Errorf("%v, %s: held for dead %t", mode, name, got)
			}
			b.acknowledgeLast()
			b.wantSources(name, c.want)
		}
	}
}

// A path that was left comes back with an answer of the peer's stack from another locator: it has
// received there.
func TestAnswerFromAnotherLocatorBringsAPathBack(t *testing.T) {
	b := newBench(t, inMode(Soft))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ, 10, 300), entry(netP, 20, 300))))
	b.answerProbes()
	left := Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netQ}
	s := b.sessions[theKey]
	s.bad[left] = true
	b.refresh(b.now, s)
	b.drain()
	b.wantTargets(netP)
	probe := b.probeOf(left)
	probe.Dst.L64 = netP
	b.reply(probe, peerNonce)
	b.wantTargets(netQ)
}

// A host whose locator in use receives nothing leaves it with all its paths: those to other locators of the
// correspondent have answered as little.
func TestDeadLocatorIsLeftWhole(t *testing.T) {
	b := newBench(t, inMode(Hard))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 300), entry(netQ, 20, 300))))
	b.answerProbes()
	b.pass(time.Second)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.answerProbes()
	b.wantSources("moved", netB)
	b.forget()
	b.handleSilence(b.now, b.sessions[theKey])
	for range 100 {
		b.drain()
		probes := b.probesSent()
		b.forget()
		b.pass(20 * time.Millisecond)
		for _, p := range probes {
			if p.Src.L64 == netA {
				b.reply(p, peerNonce)
			}
		}
		if b.drain(); !slices.Equal(b.sources(), []roam.L64{netB}) || !slices.Equal(b.targets(), []roam.L64{netP}) {
			break
		}
	}
	b.wantSources("nothing comes there", netA)
}

// A correspondent that was held for dead is heard along a path that is not in use. The host does not announce
// the locator in use again, at which nothing has arrived, before it has judged the path there.
func TestDeadLocatorIsNotAnnouncedAgain(t *testing.T) {
	b := newBench(t, inMode(Hard))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	b.see(Observation{Trigger: SeenSilence, Key: theKey})
	for i := 0; b.count(PeerDead) == 0; i++ {
		if b.pass(100 * time.Millisecond); i == 100 {
			t.Fatal("the correspondent is not held for dead")
		}
	}
	var probes []ilnpwire.Packet
	for i := 0; len(probes) == 0; i++ {
		b.forget()
		b.pass(20 * time.Millisecond)
		probes = slices.DeleteFunc(b.probesSent(), func(p ilnpwire.Packet) bool { return p.Src.L64 != netA })
		if i == 100 {
			t.Fatal("netA is not probed")
		}
	}
	b.forget()
	b.see(Observation{Trigger: SeenLife, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}}) // the programs are first
	b.reply(probes[0], peerNonce)
	b.pass(time.Second)
	b.wantSources("only netA answers", netA)
	for _, lu := range b.updates() {
		if !slices.ContainsFunc(lu.Locators, func(e ilnpwire.LocatorEntry) bool { return e.L64 == netA }) {
			t.Errorf("announces %v, where nothing arrives", lu.Locators)
		}
	}
}
