package ilnp

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

func TestNewRefusesBadConfigurations(t *testing.T) {
	nids := []roam.NID{ownNID}
	for _, cfg := range []Config{
		{},
		{NIDs: nids},
		{Rand: seeded{}},
		{NIDs: nids, Rand: seeded{}, NonceLength: 8},
		{NIDs: nids, Rand: seeded{}, Mode: 3},
	} {
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, want ErrConfig", cfg, err)
		}
	}
}

func TestUnknownIdentifier(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID}) // known, but not where it is
	for _, key := range []SessionKey{theKey, {ownNID, 99}} {
		b.forget()
		b.see(Observation{Trigger: SeenMiss, Key: key})
		if !slices.Equal(b.other, []Output{Reject{key}}) || len(b.entries) != 0 {
			t.Errorf("%v, want the packets rejected", b.other)
		}
	}
}

func TestInitiator(t *testing.T) {
	for _, length := range []uint8{4, 12} {
		b := newBench(t, func(c *Config) { c.NonceLength = length })
		b.prefix(1, netA, roam.Infinite)
		b.AddPeer(b.now, Peer{NID: peerNID, Rule: RuleRFC6741, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
		b.see(Observation{Trigger: SeenMiss, Key: theKey})
		p := b.entries[theKey]
		if p.State != Initiated || p.LocalNonce.Len != length || p.RemoteNonce.Present() || p.Rule != RuleRFC6741 {
			t.Errorf("entry %+v, want initiated with a nonce of %d bytes", p, length)
		}
		if !slices.Equal(b.other, []Output{Release{theKey}}) {
			t.Errorf("%v, want the packets released", b.other)
		}
		if probes := b.probesSent(); len(probes) != 1 || probes[0].Nonce != p.LocalNonce {
			t.Error("no probe goes beside the first packets")
		}
		b.answerProbes()
		if p := b.entries[theKey]; p.State != Established || p.RemoteNonce != peerNonce || len(p.Unvalidated) != 0 {
			t.Errorf("entry %+v after the probe's reply, want established and validated", p)
		}
	}
}

func TestMissOfAnExistingSession(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	if !slices.Equal(b.other, []Output{Release{theKey}}) || b.count(SessionStarted) != 0 {
		t.Errorf("%v, want the packets released and nothing made anew", b.other)
	}
}

func TestNoRandomness(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.cfg.Rand = io.LimitReader(seeded{}, 0)
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	if !slices.Equal(b.other, []Output{Reject{theKey}}) || b.RejectedInput()[reasonRandom] != 1 {
		t.Errorf("%v, want no session without an unpredictable nonce", b.other)
	}
}

// TestParameterProblem: only one that quotes our nonce, from where we sent it,
// while nothing has come back, means that there is no ILNP.
func TestParameterProblem(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  roam.L64
		code  uint8
		wrong bool
		want  SessionState
	}{
		{"option not known", netP, 2, false, Plain},
		{"header not known", netP, 1, false, Plain},
		{"erroneous field", netP, 0, false, Initiated},
		{"code beyond", netP, 3, false, Initiated},
		{"wrong nonce", netP, 2, true, Initiated},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
		b.see(Observation{Trigger: SeenMiss, Key: theKey})
		n := b.entries[theKey].LocalNonce
		if c.wrong {
			n.Bytes[0] ^= 1
		}
		b.receive(1, problem(b, c.from, n, c.code))
		if got := b.entries[theKey].State; got != c.want {
			t.Errorf("%s: session is %v, want %v", c.name, got, c.want)
		}
		if released := len(b.other) == 2; released != (c.want == Plain) {
			t.Errorf("%s: outputs %v", c.name, b.other)
		}
	}
}

// TestPlainUntilItShowsANonce: the memory of a fallback ends with the first
// nonce of that correspondent.
func TestPlainUntilItShowsANonce(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	own := b.entries[theKey].LocalNonce
	b.receive(1, problem(b, netP, own, 2))
	b.forget()
	b.see(Observation{
		Trigger: SeenOtherNonce, Key: theKey, LocalNID: ownNID, Local: roam.LinkLocator{Link: 1, L64: netA},
		Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce, OwnNonce: Nonce{Len: 4, Bytes: [12]byte{7}},
	})
	b.answerProbes()
	if p := b.entries[theKey]; p.State != Established || p.LocalNonce != own || p.RemoteNonce != peerNonce {
		t.Errorf("entry %+v, want established with our nonce and the one that was shown", p)
	}
	if !b.known[peerNID].plainUntil.IsZero() {
		t.Error("still remembered as plain")
	}
}

func pending(at roam.L64, n Nonce) Observation {
	return Observation{
		Trigger: SeenPending, Key: theKey, LocalNID: ownNID, Local: roam.LinkLocator{Link: 1, L64: netA},
		Remote: roam.ILV{NID: peerNID, L64: at}, Nonce: n, OwnNonce: Nonce{Len: 4, Bytes: [12]byte{8}}, Bytes: 100,
	}
}

func TestResponder(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.see(pending(netP, peerNonce))
	b.see(pending(netP, peerNonce))
	probes := b.probesSent()
	if len(probes) != 1 || probes[0].Nonce.Bytes[0] != 8 || len(b.entries) != 0 {
		t.Fatalf("%d probes and %d sessions, want one probe with the pending peer's nonce and no session yet", len(probes), len(b.entries))
	}
	b.answerProbes()
	p := b.entries[theKey]
	if p.State != Established || p.LocalNonce.Bytes[0] != 8 || p.RemoteNonce != peerNonce {
		t.Errorf("entry %+v, want established with both nonces", p)
	}
	b.see(pending(netP, peerNonce)) // told late
	if len(b.pending.byKey) != 0 || len(b.entries) != 1 {
		t.Error("a late pending peer made something")
	}
}

// TestLateTimerOfTheLastLocator: what comes between the end of its lifetime and
// the timer that tells finds a host that still uses it.
func TestLateTimerOfTheLastLocator(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, 5*time.Second)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	b.pass(2 * time.Second)
	if b.entries[theKey].State != Plain {
		t.Fatal("not plain")
	}
	b.forget()
	b.now = b.now.Add(5 * time.Second)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netQ, Lifetime: roam.Infinite}}})
	b.drain()
	if probes := b.probesSent(); len(probes) == 0 || probes[0].Src.L64 != netA {
		t.Errorf("%d probes, want some from the locator that is in use", len(probes))
	}
}

// TestDecidedPendingPeerAreForgotten: in a year of sessions nothing is kept of how
// each began.
func TestDecidedPendingPeerAreForgotten(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	for range 1000 {
		b.see(pending(netP, peerNonce))
		b.answerProbes()
		b.RemovePeer(b.now, peerNID)
		b.drain()
		b.forget()
	}
	if n := len(b.pending.queue); n > queueSlack+2 || len(b.pending.byKey) != 0 {
		t.Errorf("%d in the queue and %d pending peers after 1000 sessions", n, len(b.pending.byKey))
	}
}

// TestEarlyUpdate: a correspondent that contacts us has its session a round trip
// before we have ours, and may announce its locators meanwhile. That is acknowledged
// once (RFC 6743 §2), and applied when the correspondent is validated.
func TestEarlyUpdate(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.see(pending(netP, peerNonce))
	lu := b.update(netP, peerNonce, updateOf(entry(netQ, 10, 60), entry(netP, 20, 60)))
	b.receive(1, lu)
	if acks := b.messages(ilnpwire.Acknowledgement); len(acks) != 1 {
		t.Fatalf("%d acknowledgements before there is a session, want one", len(acks))
	}
	b.reply(b.probesSent()[0], peerNonce)
	b.wantTargets(netQ)
	if acks := b.messages(ilnpwire.Acknowledgement); len(acks) != 1 {
		t.Errorf("%d acknowledgements, want one", len(acks))
	}
}

func TestPendingThatAreRefused(t *testing.T) {
	without := pending(netP, Nonce{})
	noOwn := pending(netP, peerNonce)
	noOwn.OwnNonce = Nonce{}
	for _, c := range []struct {
		o      Observation
		reason string
	}{
		{pending(roam.DefaultSessionPrefix, peerNonce), reasonLocator},
		{pending(0xfe80<<48, peerNonce), reasonLocator},
		{without, reasonNoNonce},
		{noOwn, reasonNoNonce},
		{pending(netP, peerNonce), reasonAccept},
	} {
		b := newBench(t, func(cfg *Config) { cfg.Accept = Known })
		b.prefix(1, netA, roam.Infinite)
		b.see(c.o)
		if b.RejectedInput()[c.reason] != 1 || len(b.sent) != 0 {
			t.Errorf("refusals %v, want one for %q and no probe", b.RejectedInput(), c.reason)
		}
	}
}

// pending peer returns the one entry with the correspondent's NID under another alias.
func (b *bench) unlisted() Entry {
	b.t.Helper()
	var found []Entry
	for key, p := range b.entries {
		if p.RemoteNID == peerNID && key != theKey {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		b.t.Fatalf("%d sessions of nodes that claim the identifier, want one", len(found))
	}
	return found[0]
}

// TestFloodOfPending: forged first packets cost bounded memory, make no
// session, and go away.
func TestFloodOfPending(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	for i := range maxPending + 2000 {
		o := pending(netQ+roam.L64(i)<<16, Nonce{Len: 4, Bytes: [12]byte{byte(i), byte(i >> 8), 3}})
		o.Remote.NID += 5 + roam.NID(i)
		o.Key.Remote = o.Remote.NID
		b.see(o)
	}
	if len(b.pending.byKey) != maxPending || len(b.entries) != 1 {
		t.Errorf("%d pending peers and %d sessions, want %d and 1", len(b.pending.byKey), len(b.entries), maxPending)
	}
	b.pass(pendingFirst)
	b.forget()
	b.see(pending(netR, Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}))
	if len(b.pending.byKey) != maxPending || len(b.probesSent()) == 0 {
		t.Errorf("%d pending peers, and the next one is not asked", len(b.pending.byKey))
	}
	b.pass(time.Minute)
	if len(b.pending.byKey) != 0 || len(b.probes) != 0 {
		t.Errorf("%d pending peers and %d probes a minute later, want none", len(b.pending.byKey), len(b.probes))
	}
}

// TestPeerWithoutItsState: at a known locator, the old nonce silent. Our own
// nonce stays, also in what asks it; the entry is never away.
func TestPeerWithoutItsState(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	fresh := Nonce{Len: 4, Bytes: [12]byte{5, 5}}
	o := pending(netP, fresh)
	o.Trigger = SeenOtherNonce
	own := b.entries[theKey].LocalNonce
	b.see(o)
	probe := b.probesSent()[0]
	if probe.Nonce != own {
		t.Errorf("asked with %v, want the session's own nonce %v", probe.Nonce.Bytes, own.Bytes)
	}
	b.now = b.now.Add(20 * time.Millisecond)
	b.reply(probe, fresh)
	if b.entries[theKey].RemoteNonce != peerNonce {
		t.Fatal("replaced without waiting for the old nonce")
	}
	b.pass(199 * time.Millisecond)
	if b.entries[theKey].RemoteNonce != peerNonce {
		t.Fatal("replaced too early")
	}
	b.pass(time.Millisecond)
	p := b.entries[theKey]
	if p.RemoteNonce != fresh || p.LocalNonce != own || b.count(SessionReplaced) != 1 {
		t.Errorf("entry %+v, want our nonce and the new one", p)
	}
	for _, o := range b.other {
		if _, removed := o.(Delete); removed {
			t.Error("the entry was removed on the way")
		}
	}
}

// TestPeerWithoutItsStateElsewhere: nothing but the NID says that it is the one
// that we know, so it is shown the nonce of a pending peer.
func TestPeerWithoutItsStateElsewhere(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	fresh, own := Nonce{Len: 4, Bytes: [12]byte{5, 5}}, b.entries[theKey].LocalNonce
	o := pending(netQ, fresh)
	o.Trigger = SeenOtherNonce
	b.see(o)
	b.reply(b.probesSent()[0], fresh)
	b.pass(time.Minute)
	if b.entries[theKey].RemoteNonce != peerNonce {
		t.Fatal("replaced by who was validated elsewhere")
	}
	if p := b.unlisted(); p.RemoteNonce != fresh || p.LocalNonce != o.OwnNonce {
		t.Errorf("entry %+v, want the nonces of the pending peer", p)
	}
	for _, p := range b.probesSent() {
		if p.Dst.L64 == netQ && p.Nonce == own {
			t.Error("the session's own nonce was shown to a pending peer")
		}
	}
}

// TestForgedReturn: the old nonce is heard after all.
func TestForgedReturn(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Second)
	other := Nonce{Len: 4, Bytes: [12]byte{5, 5}}
	o := pending(netP, other)
	o.Trigger = SeenOtherNonce
	b.see(o)
	b.now = b.now.Add(20 * time.Millisecond)
	b.reply(b.probesSent()[0], other)
	b.pass(100 * time.Millisecond)
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastNonceRx: b.now}})
	b.drain()
	b.pass(time.Second)
	if b.entries[theKey].RemoteNonce != peerNonce || b.RejectedInput()[reasonForged] != 1 || len(b.pending.byKey) != 0 {
		t.Errorf("refusals %v, want the session kept and the forgery counted", b.RejectedInput())
	}
}

func TestPeerMovesAheadOfItsUpdate(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP, netR)
	b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}, Local: roam.LinkLocator{Link: 1, L64: netA}})
	b.wantTargets(netQ)
	if p := b.entries[theKey]; !slices.Equal(p.Unvalidated, []roam.L64{netQ}) || !slices.Contains(p.Accept, netP) {
		t.Errorf("entry %+v, want the new locator unvalidated and the old ones accepted", p)
	}
	if p := b.entries[theKey]; len(p.Reserve) != 2 || p.Reserve[0].Remote != netP || p.Reserve[1].Remote != netR {
		t.Errorf("in reserve %v, want what is proven and listed", p.Reserve)
	}
	b.answerProbes()
	if p := b.entries[theKey]; len(p.Unvalidated) != 0 {
		t.Error("not proven by the reply to the probe")
	}
	if p := b.entries[theKey]; len(p.Reserve) != 0 {
		t.Errorf("in reserve %v after the proof", p.Reserve)
	}
	b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: roam.DefaultSessionPrefix}})
	b.wantTargets(netQ)
}

// TestLostProbeIsSentAgainAtOnce: where nothing validated is in use, a second probe
// leaves a round trip after the first, as long as the rate before is allowed; the
// third one takes its time.
func TestLostProbeIsSentAgainAtOnce(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	rtt := b.sessions[theKey].rtt
	b.see(Observation{Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}, Local: roam.LinkLocator{Link: 1, L64: netA}, Bytes: 100})
	b.forget()
	b.pass(max(rtt, probeSoon))
	if n := len(b.probesSent()); n != 1 {
		t.Errorf("%d probes a round trip after the first, want 1", n)
	}
	b.forget()
	b.pass(probeMin - time.Millisecond)
	if n := len(b.probesSent()); n != 0 {
		t.Errorf("%d more in the next %v, want none", n, probeMin)
	}
}

// TestUnvalidatedLocatorIsNotWaitedFor: after three probes without a reply, a
// validated locator of worse preference is used.
func TestUnvalidatedLocatorIsNotWaitedFor(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	s := b.sessions[theKey]
	s.remotes.put(netQ, 5, time.Time{})
	s.remotes.sort()
	b.remotesChanged(b.now, s)
	b.drain()
	b.wantTargets(netQ)
	b.pass(2 * time.Second)
	b.wantTargets(netP)
	b.forget()
	b.pass(20 * time.Second)
	if n := len(b.probesSent()); n != 0 {
		t.Fatalf("%d more probes to where nothing came from, want none", n)
	}
	b.see(Observation{Trigger: SeenMore, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}, Bytes: 200, Packets: 2})
	b.pass(20 * time.Second)
	b.answerProbes()
	b.wantTargets(netQ)
}

func TestObservationsOfNoSession(t *testing.T) {
	b := newBench(t)
	for _, trigger := range []Trigger{SeenNonce, SeenLocator, SeenSilence, SeenLife} {
		b.see(Observation{Trigger: trigger, Key: theKey})
	}
	b.HandleActivity(b.now, []Activity{{Key: theKey}})
	if b.RejectedInput()[reasonNoSession] != 4 || len(b.sent) != 0 {
		t.Errorf("refusals %v, want 4", b.RejectedInput())
	}
}
