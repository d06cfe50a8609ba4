package ilnp

import (
	"testing"
	"time"

	"roam"
)

// forged is a nonce that somebody off the path made up.
var forged = Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}

// forgedFirst is a host whose first packets to netP were answered, by a nonce that
// its correspondent did not send.
func forgedFirst(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: forged})
	if p := b.entries[theKey]; p.State != Established || !p.Unconfirmed {
		t.Fatalf("entry %+v, want an unconfirmed one", p)
	}
	return b
}

// at is where a packet with a nonce comes from that the data plane has for theKey.
func at(l roam.L64, n Nonce) Observation {
	return Observation{
		Trigger: SeenLocator, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: l}, Local: roam.LinkLocator{Link: 1, L64: netA},
		LocalNID: ownNID, Nonce: n, Bytes: 100,
	}
}

// TestForgedFirstNonceMovesNothing: it neither moves the session nor changes its
// locators. Who answers under it elsewhere gets a session of its own.
func TestForgedFirstNonceMovesNothing(t *testing.T) {
	b := forgedFirst(t)
	b.receive(1, b.update(netQ, forged, updateOf(entry(netQ, 0, 60))))
	if n := b.count(UpdateReceived); n > 0 {
		t.Error("a Locator Update was applied before the nonce was confirmed")
	}
	b.see(at(netQ, forged))
	b.wantTargets(netP)
	if n := b.count(PeerMoved); n > 0 {
		t.Error("the session follows an unconfirmed nonce")
	}
	b.now = b.now.Add(20 * time.Millisecond)
	b.answerProbesTo(netQ, forged)
	if p := b.entries[theKey]; p.State != Initiated || p.RemoteNonce.Present() {
		t.Errorf("entry of the name %+v, want one without a nonce", p)
	}
	if p := b.unlisted(); p.RemoteNonce != forged || len(b.entries) != 2 {
		t.Errorf("%d entries, %+v, want another one with the nonce of the node elsewhere", len(b.entries), p)
	}
	b.answerProbesTo(netP, peerNonce)
	if p := b.entries[theKey]; p.State != Established || p.Unconfirmed || p.RemoteNonce != peerNonce {
		t.Errorf("entry of the name %+v, want the correspondent's nonce, confirmed", p)
	}
}

// TestFirstNonceIsConfirmed: the answer to a probe bears it, and what came early counts.
func TestFirstNonceIsConfirmed(t *testing.T) {
	b := forgedFirst(t)
	b.receive(1, b.update(netP, forged, updateOf(entry(netQ, 0, 60), entry(netP, 10, 60))))
	b.now = b.now.Add(20 * time.Millisecond)
	b.answerProbesTo(netP, forged)
	if b.entries[theKey].Unconfirmed {
		t.Error("the nonce is not confirmed by an answer")
	}
	if b.count(UpdateReceived) != 1 {
		t.Error("the early Locator Update was lost")
	}
}

// TestConfirmedAfterAnUpgrade: the state of a build before does not say it, and its
// sessions go on.
func TestConfirmedAfterAnUpgrade(t *testing.T) {
	c := newBench(t).Core
	c.known[peerNID] = &correspondent{nid: peerNID}
	for _, x := range []struct{ owned, said, want bool }{{false, false, true}, {true, false, false}, {true, true, true}} {
		s := &session{key: theKey, localNID: ownNID, remoteNID: peerNID, state: Established}
		c.restoreName(s, savedSession{Owned: x.owned, Confirmed: x.said, State: Established})
		if s.confirmed != x.want {
			t.Errorf("owned=%t confirmed=%t in the state: confirmed=%t", x.owned, x.said, s.confirmed)
		}
	}
}

// TestOnlyTheValidatedNonceIsAdmitted: another node may have shown the nonce that a
// pending peer began with, and is not delivered as that peer.
func TestOnlyTheValidatedNonceIsAdmitted(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	first, elsewhere := pending(netP, forged), pending(netQ, forged)
	elsewhere.Held = true
	b.see(first)
	b.see(elsewhere)
	b.answerProbesTo(netP, peerNonce)
	for _, o := range b.other {
		if a, ok := o.(Admit); ok {
			t.Errorf("admits %+v", a)
		}
	}
	if b.entries[theKey].RemoteNonce != peerNonce {
		t.Error("the peer that was validated has no session")
	}
}

// TestUnconfirmedNameIsGivenUp to a node that is validated where the record lists it.
func TestUnconfirmedNameIsGivenUp(t *testing.T) {
	b := forgedFirst(t)
	b.see(pending(netQ, peerNonce))
	b.now = b.now.Add(20 * time.Millisecond)
	b.answerProbesTo(netQ, peerNonce)
	p := b.unlisted()
	if p.Named {
		t.Fatal("a node that was validated at no listed locator has the name")
	}
	o := at(netP, peerNonce)
	o.Key = p.Key
	b.forget()
	b.see(o)
	b.now = b.now.Add(20 * time.Millisecond)
	b.answerProbesTo(netP, peerNonce)
	if p := b.unlisted(); !p.Named || len(b.entries) != 1 {
		t.Errorf("%d entries, %+v, want one with the name", len(b.entries), p)
	}
}

// TestPacketFromElsewhereCountsOnce, though the data plane tells of it and hands it
// over: an LU from a locator that is not validated allows for one packet more.
func TestPacketFromElsewhereCountsOnce(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	o := at(netQ, peerNonce)
	packet := b.update(netQ, peerNonce, updateOf(entry(netQ, 0, 60)))
	o.Bytes = len(packet)
	b.see(o)
	b.see(Observation{Trigger: SeenMore, Key: theKey, Remote: o.Remote, Bytes: o.Bytes, Packets: 1})
	b.receive(1, packet)
	if bytes, packets := b.accounts.of(b.now, o.Remote).came(); packets != 1 || bytes != len(packet) {
		t.Errorf("%d packets of %d bytes came, want one of %d", packets, bytes, len(packet))
	}
}

// TestAstrayIsRecalled: where the core does not follow a correspondent, the data plane
// sends only until an update leaves that locator out, or nothing comes any more.
func TestAstrayIsRecalled(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"update":  func(b *bench) { b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 60)))) },
		"silence": func(b *bench) { b.see(Observation{Trigger: SeenSilence, Key: theKey}) },
		"time": func(b *bench) {
			b.now = b.now.Add(astrayFor)
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
			b.drain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			b.answerProbes()
			b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 60))))
			seq := b.entries[theKey].Seq
			b.see(at(0xfe80<<48, peerNonce)) // no locator
			if got := b.entries[theKey].Seq; got != seq {
				t.Fatalf("entry %d after the packet, want %d: the hint may be of use", got, seq)
			}
			end(b)
			if got := b.entries[theKey].Seq; got == seq {
				t.Error("no new entry: the data plane goes on sending there")
			}
		})
	}
}

// TestPresenceIsDoubted: where one session's nonce is seen at another one's validated
// locator, who is there is asked, as they may be one node's.
func TestPresenceIsDoubted(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.answerProbes()
	b.see(pending(netQ, forged))
	b.reply(b.probesSent()[0], forged)
	b.pass(time.Second)
	other := b.unlisted()
	b.pass(2 * time.Second)
	b.forget()
	o := at(netP, forged)
	o.Key = other.Key
	b.see(o)
	b.see(o)
	ps := b.probesSent()
	if len(ps) != 1 || ps[0].Dst.L64 != netP || ps[0].Nonce != b.entries[theKey].LocalNonce {
		t.Fatalf("probes %+v, want one of the session that is there", ps)
	}
}

// TestRecordPaysForItsLocator: forged packets from a peer's home use up what may go
// there while it is away. What a record names is asked all the same, whoever told of it.
func TestRecordPaysForItsLocator(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.answerProbes()
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ, 0, 60))))
	b.answerProbesTo(netQ, peerNonce)
	b.pass(5 * time.Minute) // netP has aged out of the session
	home := roam.ILV{NID: peerNID, L64: netP}
	b.accounts.of(b.now, home).txBytes = 10_000
	s := b.sessions[theKey]
	if s.remotes.find(netP) != nil {
		t.Fatal("the session still has its home")
	}
	if !b.accounts.mayReach(b.now, s, netP, b.listedAt(s, netP), 100, true) {
		t.Error("the record's locator is not asked")
	}
}

// TestRuleOfADisownedNonce: a session whose nonce was that of a node elsewhere gives back
// what its packets had shown.
func TestRuleOfADisownedNonce(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: forged})
	b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundRFC6741})
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, WithNonce: 3, Asks: true}})
	b.drain()
	if p := b.entries[theKey]; !p.Unconfirmed || p.Rule != RuleRFC6741 {
		t.Fatalf("entry %+v, so nothing is tested", p)
	}
	o := pending(netS, forged)
	o.Trigger = SeenLocator
	b.see(o)
	b.answerProbesTo(netS, forged)
	if p := b.entries[theKey]; p.State != Initiated || p.Rule != RuleIPv6 || !p.RuleSought || b.RunsRoam(theKey) {
		t.Errorf("entry %+v, runs Roam %v", p, b.RunsRoam(theKey))
	}
}
