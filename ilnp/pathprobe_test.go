package ilnp

import (
	"slices"
	"testing"
	"time"

	ilnpwire "roam/wire/ilnp"

	"roam"
)

func TestCheckTellsEveryAnswer(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP, netQ)
	b.prefix(2, netB, roam.Infinite)
	b.answerProbes()
	b.acknowledgeLater()
	paths := b.Check(b.now, peerNID, nil)
	b.drain()
	probes := b.probesSent()
	if len(paths) != 4 || len(probes) != 4 {
		t.Fatalf("%d paths and %d probes, want 4", len(paths), len(probes))
	}
	b.now = b.now.Add(30 * time.Millisecond)
	b.reply(probes[0], peerNonce)
	b.reply(probes[0], peerNonce) // a second answer to one question is none
	if got := b.count(PathAnswered); got != 1 {
		t.Fatalf("%d answers were told, want 1", got)
	}
	for _, e := range b.events {
		if e.Kind == PathAnswered && (e.RTT != 30*time.Millisecond || e.Path.Remote != probes[0].Dst.L64 || e.Key != theKey) {
			t.Errorf("answer: %+v", e)
		}
	}
	done := paths[:3]
	b.forget()
	b.Check(b.now, peerNID, func(p Path, _ ProbeForm) bool { return slices.Contains(done, p) })
	b.drain()
	if got := b.probesSent(); len(got) != 1 || got[0].Dst.L64 != paths[3].Remote || got[0].Src.L64 != paths[3].Local.L64 {
		t.Errorf("the second round has %d probes, want one on %v", len(got), paths[3])
	}
}

// acknowledgeLater lets the correspondent acknowledge what it is told.
func (b *bench) acknowledgeLater() {
	b.repeatUpdate(b.now, b.sessions[theKey])
	b.drain()
	b.acknowledgeLast()
	b.forget()
}

func TestCheckOpensASession(t *testing.T) {
	b := newBench(t)
	if got := b.Check(b.now, peerNID, nil); got != nil {
		t.Errorf("a pending peer has paths: %v", got)
	}
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	if got := b.Check(b.now, peerNID, nil); got != nil {
		t.Errorf("there are paths without a locator of ours: %v", got)
	}
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.forget()
	paths := b.Check(b.now, peerNID, nil)
	b.drain()
	probes := slices.DeleteFunc(b.probesSent(), func(p ilnpwire.Packet) bool { return p.Src.L64 != paths[0].Local.L64 })
	if asked := b.told(); len(paths) != 2 || asked != 1 {
		t.Fatalf("%d paths, %d asked at once before there is a nonce, want 2 and 1", len(paths), asked)
	}
	if len(probes) == 0 || b.entries[theKey].State != Initiated {
		t.Fatalf("%d probes, session %v", len(probes), b.entries[theKey].State)
	}
	b.now = b.now.Add(10 * time.Millisecond)
	for _, p := range probes {
		b.reply(p, peerNonce)
	}
	if b.entries[theKey].State != Established || b.count(PathAnswered) != 1 {
		t.Errorf("session %v, %d answers told", b.entries[theKey].State, b.count(PathAnswered))
	}
}

// told counts the probes under way whose answers are told.
func (b *bench) told() (n int) {
	for _, p := range b.probes {
		if p.told {
			n++
		}
	}
	return n
}

func TestWhyPlain(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	why := func() string { return b.Peers(b.now)[0].WhyPlain }
	if got := why(); got != "" {
		t.Errorf("at first: %q", got)
	}
	b.pass(2 * time.Second)
	if got := why(); got != "no answer" {
		t.Errorf("in silence: %q", got)
	}
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now}})
	if got := why(); got != "no answer" {
		t.Errorf("at the first packet without nonce: %q, want probes to go on", got)
	}
	b.pass(plainDoubt)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now}})
	if got := why(); got != "answers without a nonce" {
		t.Errorf("after packets without nonce: %q", got)
	}
}

// TestPlainIsAskedAgain: whoever never said that it has no ILNP may have been away
// while somebody else wrote packets without nonce in its name.
func TestPlainIsAskedAgain(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.pass(2 * time.Second)
	forge := func() {
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
		b.drain()
	}
	forge()
	b.pass(plainDoubt)
	forge()
	b.forget()
	b.pass(plainAgain / 4)
	forge()
	if n := len(b.probesSent()); n != 0 {
		t.Fatalf("asked again at once: %d packets", n)
	}
	b.pass(plainAgain / 2)
	forge()
	if n := len(b.probesSent()); n != 1 {
		t.Fatalf("asked again with %d packets, want 1", n)
	}
	b.answerProbesTo(netP, peerNonce)
	if p := b.entries[theKey]; p.State != Established {
		t.Errorf("after its answer: %v", p.State)
	}
}

// TestPlainThatComesBackIsAskedAtOnce: a session that became plain as its correspondent
// was away cannot move until it is asked, and the questions have become rare by then.
func TestPlainThatComesBackIsAskedAtOnce(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.pass(5*time.Minute + time.Second)
	if p := b.entries[theKey]; p.State != Plain {
		t.Fatalf("the session is %v, want plain", p.State)
	}
	b.forget()
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
	b.drain()
	b.answerProbes()
	if p := b.entries[theKey]; p.State != Established {
		t.Errorf("the session is %v behind the first plain packet, want established", p.State)
	}
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
	b.drain()
}

// TestAnsweredElsewhere: a peer's stack answers probes by the path that its data take. Its answer validates
// the locator that was probed if it comes from a validated one, with the session's nonce and the
// token; no other answer does.
func TestAnsweredElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		from  roam.L64
		nonce Nonce
		want  bool
	}{
		"from a validated locator":    {netP, peerNonce, true},
		"with another nonce":          {netP, Nonce{Len: 4, Bytes: [12]byte{4, 3, 2, 1}}, false},
		"without nonce":               {netP, Nonce{}, false},
		"from an unvalidated locator": {netR, peerNonce, false},
		"from nowhere that is listed": {netS, peerNonce, false},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		b.forget()
		b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ, 10, 300), entry(netP, 20, 300), entry(netR, 30, 300))))
		i := slices.IndexFunc(b.probesSent(), func(p ilnpwire.Packet) bool { return p.Dst.L64 == netQ })
		if i < 0 {
			t.Fatal("the new locator is not probed")
		}
		probe := b.probesSent()[i]
		probe.Dst.L64 = c.from
		b.reply(probe, c.nonce)
		if got := b.sessions[theKey].remotes.find(netQ).validated; got != c.want {
			t.Errorf("%s: validated %t", name, got)
		}
	}
}
