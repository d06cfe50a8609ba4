package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

func told(list ...roam.L64) Peer {
	p := Peer{NID: peerNID, Names: []string{"peer"}}
	for _, l := range list {
		p.Locators = append(p.Locators, RemoteLocator{L64: l, Preference: 10, Lifetime: roam.Infinite})
	}
	return p
}

// TestToldLocatorsAreReplaced: the newest look-up is what a new session uses.
func TestToldLocatorsAreReplaced(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, told(netP))
	b.AddPeer(b.now, told(netQ))
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	b.wantTargets(netQ)
	if slices.Contains(b.entries[theKey].Accept, netP) {
		t.Error("a locator of an older look-up is accepted")
	}
}

// TestToldNamesAreReplaced: a peer that was renamed has its new name only, and the
// session that it has goes on.
func TestToldNamesAreReplaced(t *testing.T) {
	b := newBench(t)
	b.open(netP)
	renamed := told(netP)
	renamed.Names = []string{"other"}
	if b.Knows(renamed) {
		t.Error("the new name is known before it was told")
	}
	b.AddPeer(b.now, renamed)
	if p := b.Peers(b.now)[0]; !slices.Equal(p.Names, []string{"other"}) || p.State != Established {
		t.Errorf("peer %+v, want the new name and the old session", p)
	}
	for what, change := range map[string]func(*Peer){
		"nothing":      func(*Peer) {},
		"a preference": func(p *Peer) { p.Locators[0].Preference++ },
		"a locator":    func(p *Peer) { p.Locators = append(p.Locators, RemoteLocator{L64: netQ, Lifetime: roam.Infinite}) },
		"no locator":   func(p *Peer) { p.Locators = nil },
		"an option":    func(p *Peer) { p.Rule, p.RuleFixed = RuleRFC6741, true },
		"another node": func(p *Peer) { p.NID++ },
	} {
		next := renamed
		next.Locators = slices.Clone(renamed.Locators)
		change(&next)
		if got := b.Knows(next); got != (what == "nothing") {
			t.Errorf("with %s changed it is known: %t", what, got)
		}
	}
	if nids := b.KnownNIDs(); len(nids) != 1 || nids[0] != peerNID {
		t.Errorf("known %v", nids)
	}
}

// TestNewsWhileInitiated: the first look-up was wrong, the next one helps the
// session that waits.
func TestNewsWhileInitiated(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, told(netP))
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	b.forget()
	p := told(netQ)
	p.Locators[0].Preference = 1
	b.AddPeer(b.now, p)
	b.drain()
	b.wantTargets(netQ)
	if probes := b.probesSent(); len(probes) != 1 || probes[0].Dst.L64 != netQ {
		t.Errorf("%d probes, want one to the new locator", len(probes))
	}
}

func TestToldLocatorsThatAreRefused(t *testing.T) {
	b := newBench(t)
	p := told(netP, 0xff02<<48, roam.DefaultSessionPrefix)
	p.Locators = append(p.Locators, RemoteLocator{L64: netQ, Lifetime: -time.Second})
	b.AddPeer(b.now, p)
	b.drain()
	if n := b.RejectedInput()[reasonLocator]; n != 3 || len(b.known[peerNID].locators) != 1 {
		t.Errorf("%d refused and %d kept, want 3 and 1", n, len(b.known[peerNID].locators))
	}
}

func TestLifetimeOfALookUp(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	p := told(netP, netQ)
	p.Locators[0].Lifetime = 10 * time.Second
	p.Locators[1].Preference = 20
	b.AddPeer(b.now, p)
	b.open(netP)
	b.AddPeer(b.now, p)
	b.pass(11 * time.Second)
	b.wantTargets(netP) // its owner has answered there, and the session has it without end
	b.see(Observation{Trigger: SeenMiss, Key: SessionKey{ownNID, peerNID}})
	if got := b.known[peerNID].locators.find(netP).within(b.now); got {
		t.Error("a look-up outlives its lifetime")
	}
}

func TestRemovePeerEndsEverything(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.see(pending(netQ, Nonce{Len: 4, Bytes: [12]byte{7, 7}}))
	b.RemovePeer(b.now, peerNID)
	b.drain()
	if len(b.entries)+len(b.pending.byKey)+len(b.probes)+len(b.byRemote)+len(b.known) != 0 {
		t.Error("something of the removed correspondent is left")
	}
	if at, armed := b.PollTimeout(); armed {
		t.Errorf("a timer is armed for %v", at)
	}
	b.forget()
	b.see(Observation{Trigger: SeenMiss, Key: theKey})
	if !slices.Equal(b.other, []Output{Reject{theKey}}) {
		t.Errorf("%v for a removed correspondent, want its packets rejected", b.other)
	}
}

// TestResponderKnowsMore: what was told of a correspondent serves as reserve
// when it opens the session itself.
func TestResponderKnowsMore(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Accept = Known })
	b.prefix(1, netA, roam.Infinite)
	p := told(netP, netQ)
	p.Rule, p.DraftLU = RuleRFC6741, true
	b.AddPeer(b.now, p)
	b.see(pending(netP, peerNonce))
	b.answerProbes()
	b.wantTargets(netP)
	entry := b.entries[theKey]
	if entry.Rule != RuleRFC6741 || !slices.Contains(entry.Accept, netQ) {
		t.Errorf("entry %+v, want the told rule and the told locator in reserve", entry)
	}
	b.prefix(2, netB, roam.Infinite)
	if lu := b.updates()[0]; lu.Form != ilnpwire.FormDraft || lu.Code != ilnpwire.CodeReplaceSoft {
		t.Errorf("update %+v, want the told form", lu)
	}
}

func TestHardModeInTheDraftForm(t *testing.T) {
	b := newBench(t, inMode(Hard), func(c *Config) { c.DraftLU = true })
	b.prefix(1, netA, roam.Infinite)
	b.see(pending(netP, peerNonce))
	b.answerProbes()
	b.prefix(2, netB, roam.Infinite)
	if lu := b.updates()[0]; lu.Code != ilnpwire.CodeReplaceHard || len(lu.Locators) != 1 {
		t.Errorf("update %+v, want to replace hard, by the new locator alone", lu)
	}
}

// TestSessionsOfTwoNIDs: a host with two identifiers has a session of each.
func TestSessionsOfTwoNIDs(t *testing.T) {
	const second roam.NID = 0x0200_0000_0000_0011
	b := newBench(t, func(c *Config) { c.NIDs = append(c.NIDs, second) })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	key := SessionKey{second, peerNID}
	b.see(Observation{Trigger: SeenMiss, Key: key, LocalNID: second})
	if p := b.entries[key]; p.LocalNID != second || p.LocalNonce == b.entries[theKey].LocalNonce {
		t.Errorf("entry %+v, want the second identifier and a nonce of its own", p)
	}
	if len(b.entries) != 2 {
		t.Errorf("%d sessions, want 2", len(b.entries))
	}
}

// TestUpdateFindsItsSessionByNonce: of two correspondents with one NID, the
// nonce says whose update it is (RFC 6741 §5.4).
func TestUpdateFindsItsSessionByNonce(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	second := Nonce{Len: 4, Bytes: [12]byte{6, 6}}
	b.see(pending(netQ, second))
	b.reply(b.probesSent()[0], second)
	for _, p := range b.probesSent()[1:] {
		if p.Dst.L64 == netP {
			b.now = b.now.Add(time.Millisecond)
			b.reply(p, peerNonce)
		}
	}
	b.pass(time.Second)
	b.receive(1, b.update(netR, second, updateOf(entry(netR, 10, 100))))
	b.wantTargets(netP)
	moved := 0
	for key, p := range b.entries {
		if key != theKey && p.Paths[0].Remote == netR {
			moved++
		}
	}
	if moved != 1 {
		t.Error("the update of the second correspondent did not reach its session")
	}
	// Data of the second one from yet another place: the data plane takes it
	// for a pending peer's.
	o := pending(netC, second)
	o.Trigger = SeenOtherNonce
	b.see(o)
	for key, p := range b.entries {
		if key != theKey && p.Paths[0].Remote != netC {
			t.Error("the second correspondent was not followed by its nonce")
		}
	}
	b.wantTargets(netP)
}

func TestPendingPeerIsGivenUp(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.see(pending(netP, peerNonce))
	b.pass(time.Minute)
	if n := len(b.probesSent()); n != 2 || len(b.pending.byKey) != 0 {
		t.Errorf("%d probes and %d pending peers, want 2 for one packet of 100 bytes, and none", n, len(b.pending.byKey))
	}
	if p := b.probesSent()[0]; len(b.probes) != 0 {
		t.Error("probes of the given up pending peer are remembered")
	} else if b.reply(p, peerNonce); len(b.entries) != 0 {
		t.Error("a reply after that made a session")
	}
	if !b.dismissed(theKey) {
		t.Error("the data plane still sends to where the given up pending peer was seen")
	}
}

// TestPendingPeerIsAskedFromWhereTheSessionIs: the session's nonce does not come
// from a locator that the correspondent was not told of, which it would follow,
// unless two probes from the other one had no answer.
func TestPendingPeerIsAskedFromWhereTheSessionIs(t *testing.T) {
	b := newBench(t, inMode(Hard))
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	b.forget()
	before := pending(netP, Nonce{Len: 4, Bytes: [12]byte{6, 6, 6, 6}}) // came to netA
	b.see(before)
	b.pass(time.Second)
	var from []roam.L64
	for _, p := range b.probesSent() {
		from = append(from, p.Src.L64)
	}
	if slices.Index(from, netA) < 2 || slices.Index(from, netA) != len(from)-1 {
		t.Errorf("asked from %v, want the last one only from %v", from, netA)
	}
}

// TestPendingPeerIsGivenUpBesideOthers leaves the data plane what it has of another one of
// that name, which is asked, or talks. What it has of this one goes: packets of ours would
// be answers to a node that is not there, for as long as others claim its identifier.
func TestPendingPeerIsGivenUpBesideOthers(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.see(pending(netP, peerNonce))
	b.pass(5 * time.Second)
	b.see(pending(netR, peerNonce))
	b.pass(10 * time.Second)
	b.see(pending(netQ, Nonce{Len: 4, Bytes: [12]byte{5}}))
	b.pass(6 * time.Second)
	if b.dismissed(theKey) {
		t.Error("one of two with a nonce is given up, and what the data plane has may be the other one's")
	}
	b.pass(5 * time.Second)
	if !b.dismissed(theKey) {
		t.Error("the data plane keeps what it has of a node that is not there")
	}
	if slices.ContainsFunc(b.other, func(o Output) bool { _, is := o.(Reject); return is }) {
		t.Error("packets of ours are given up that may be for the one that is asked")
	}
	b.other = nil
	b.reply(b.probesSent()[len(b.probesSent())-1], Nonce{Len: 4, Bytes: [12]byte{5}})
	b.pass(10 * time.Second)
	if b.dismissed(theKey) || len(b.entries) != 1 {
		t.Errorf("%v, and %d entries", b.other, len(b.entries))
	}
}

// TestPendingPeerThatGoesOnSending is asked again, but not for every packet.
func TestPendingPeerThatGoesOnSending(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	for range 100 {
		b.see(pending(netP, peerNonce))
		b.now = b.now.Add(2 * time.Millisecond)
	}
	if n := len(b.probesSent()); n != 2 {
		t.Errorf("%d probes for 100 packets in 200 ms, want 2", n)
	}
}

// dismissed reports whether the data plane was told to forget a pending peer.
func (b *bench) dismissed(key SessionKey) bool {
	return slices.ContainsFunc(b.other, func(o Output) bool { d, is := o.(Dismiss); return is && d.Key == key })
}

// TestReturnElsewhere: a node comes back without its state and at another
// place. Nothing shows that it is the same: the old session stays.
func TestReturnElsewhere(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.pass(time.Minute)
	fresh := Nonce{Len: 4, Bytes: [12]byte{5, 5}}
	b.see(pending(netQ, fresh))
	b.reply(b.probesSent()[0], fresh)
	b.pass(2 * time.Second)
	if p := b.unlisted(); p.RemoteNonce != fresh || p.Paths[0].Remote != netQ {
		t.Errorf("entry %+v, want one of its own", p)
	}
	b.wantTargets(netP)
}

func TestReturnOfADeadPeerNeedsNoWaiting(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	silence(b)
	b.pass(5 * time.Second)
	b.forget()
	fresh := Nonce{Len: 4, Bytes: [12]byte{5, 5}}
	b.see(pending(netP, fresh))
	b.reply(b.probesSent()[0], fresh)
	if p := b.entries[theKey]; p.RemoteNonce != fresh || p.Dead {
		t.Errorf("entry %+v, want it replaced at once", p)
	}
}

// TestNewsOfADeadPeer: both have moved, and the DNS knows where (RFC 6740 §6.2).
func TestNewsOfADeadPeer(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	silence(b)
	b.pass(time.Hour / 10)
	b.forget()
	b.AddPeer(b.now, told(netQ))
	b.drain()
	b.answerProbesTo(netQ, peerNonce)
	b.pass(time.Second)
	b.wantTargets(netQ)
	if b.entries[theKey].Dead {
		t.Error("still dead although it answered where the look-up said")
	}
}

// TestBackToWhereItWasLookedUp: a correspondent has told other locators, and is
// silent at all of them.
func TestBackToWhereItWasLookedUp(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ, 10, 100))))
	b.pass(time.Minute)
	b.wantTargets(netQ)
	b.forget()
	silence(b)
	b.pass(5 * time.Second)
	b.answerProbesTo(netP, peerNonce)
	b.pass(time.Second)
	b.wantTargets(netP)
}

// TestUpdateIsUrgedWhenHeard: an exchange that was given up goes on as soon as
// the correspondent shows a sign of life.
func TestUpdateIsUrgedWhenHeard(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.pass(22 * time.Second)
	if b.count(UpdateFailed) != 1 {
		t.Fatal("not given up")
	}
	b.forget()
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 100))))
	if n := len(b.updates()); n != 1 {
		t.Errorf("%d updates at a sign of life, want 1", n)
	}
}
