package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// profiled opens a session with a correspondent of which people said so.
func profiled(t *testing.T, p Peer) *bench {
	t.Helper()
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	p.NID, p.Locators = peerNID, []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}
	b.AddPeer(b.now, p)
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: peerNonce})
	b.answerProbes()
	return b
}

// What people said of a correspondent is in its entry and in what they are
// shown, for its first session and for every other.
func TestProfileReachesTheEntry(t *testing.T) {
	b := profiled(t, Peer{Rule: RuleRFC6741, RuleFixed: true, NonceAlways: true, OldFirst: true, DraftLU: true})
	if p := b.entries[theKey]; !p.NonceAlways || p.RuleSought || p.Rule != RuleRFC6741 {
		t.Errorf("entry %+v", p)
	}
	if s := b.Peers(b.now); len(s) != 1 || !s[0].NonceAlways || !s[0].OldFirst || s[0].RuleSought || s[0].UpdateForm != ilnpwire.FormDraft {
		t.Errorf("shown %+v", s)
	}
	b.AddPeer(b.now, Peer{NID: peerNID})
	b.drain()
	if p := b.entries[theKey]; p.NonceAlways || !p.RuleSought {
		t.Errorf("entry after the options were taken away %+v", p)
	}
}

// A rule that was found holds for this session and the next one, and no default
// puts it aside; one that was fixed is not looked for.
func TestFoundRule(t *testing.T) {
	b := profiled(t, Peer{})
	b.see(Observation{Trigger: SeenRule, Key: theKey, Found: NotFound})
	if p := b.entries[theKey]; !p.RuleSought || p.Rule != RuleIPv6 {
		t.Errorf("entry before the rule was found %+v", p)
	}
	b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundRFC6741})
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.drain()
	if p := b.entries[theKey]; p.RuleSought || p.Rule != RuleRFC6741 {
		t.Errorf("entry after it %+v", p)
	}
	b.pass(11 * time.Minute)
	if len(b.entries) != 0 {
		t.Fatal("the session does not end")
	}
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if p := b.entries[theKey]; p.RuleSought || p.Rule != RuleRFC6741 {
		t.Errorf("entry of the next session %+v", p)
	}
	b = profiled(t, Peer{RuleFixed: true})
	b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundRFC6741})
	if p := b.entries[theKey]; p.Rule != RuleIPv6 {
		t.Errorf("a fixed rule was changed: %+v", p)
	}
}

// A correspondent that opens the session may show its rule at first, or after
// it was probed; the session has it from the start.
func TestRuleOfACandidate(t *testing.T) {
	for _, first := range []FoundRule{NotFound, FoundRFC6741} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		o := Observation{
			Trigger: SeenPending, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Local: roam.LinkLocator{Link: 1, L64: netA},
			LocalNID: ownNID, Nonce: peerNonce, OwnNonce: Nonce{Len: 4, Bytes: [12]byte{9}}, Found: first,
		}
		b.see(o)
		o.Found = FoundRFC6741
		b.see(o)
		o.Found = NotFound
		b.see(o)
		b.reply(b.probesSent()[0], peerNonce)
		if p := b.entries[theKey]; p.State != Established || p.Rule != RuleRFC6741 || p.RuleSought {
			t.Errorf("first shown %d: entry %+v", first, p)
		}
	}
}

// The thesis's order: the first Locator Update leaves from a locator that the
// correspondent knows; if there is none, from the new one.
func TestOldLocatorFirst(t *testing.T) {
	for oldFirst, want := range map[bool]roam.L64{true: netA, false: netB} {
		b := profiled(t, Peer{OldFirst: oldFirst})
		b.prefix(2, netB, roam.Infinite)
		if list := b.updates(); len(list) != 1 || len(list[0].Locators) != 2 {
			t.Fatalf("updates %+v", list)
		}
		var from roam.L64
		for _, s := range b.sent {
			if p := b.parse(s); p.Type == 156 {
				from = p.Src.L64
			}
		}
		if from != want {
			t.Errorf("old first %v: the update left from %v, want %v", oldFirst, from, want)
		}
	}
	b := profiled(t, Peer{OldFirst: true})
	b.withdraw(1, netA)
	b.prefix(2, netB, roam.Infinite)
	if len(b.updates()) == 0 {
		t.Error("without an old locator nothing is told")
	}
}

func TestProfileIsRestored(t *testing.T) {
	b := profiled(t, Peer{NonceAlways: true, OldFirst: true})
	b.known[peerNID].nonceSure = true
	b.see(Observation{Trigger: SeenRule, Key: theKey, Found: FoundRFC6741})
	n := b.successor(t, inMode(Duality))
	if p := n.entries[theKey]; !p.NonceAlways || p.RuleSought || p.Rule != RuleRFC6741 {
		t.Errorf("entry %+v", p)
	}
	if k := n.known[peerNID]; k.profile != b.known[peerNID].profile {
		t.Errorf("profile %+v, want %+v", k.profile, b.known[peerNID].profile)
	}
}

// A correspondent whose every packet has a nonce gets one in every packet of
// ours, unless it probes as Roam does, or people have said otherwise; and no
// longer than it goes on so.
func TestOptionOnEveryPacket(t *testing.T) {
	for name, c := range map[string]struct {
		peer     Peer
		activity Activity
		want     bool
	}{
		"nothing yet":        {Peer{}, Activity{}, false},
		"its first packet":   {Peer{}, Activity{WithNonce: 1}, true},
		"every packet":       {Peer{}, Activity{WithNonce: 3}, true},
		"it probes":          {Peer{}, Activity{WithNonce: 3, Asks: true}, false},
		"some without":       {Peer{}, Activity{WithNonce: 30, WithoutNonce: 1}, false},
		"people want first":  {Peer{NonceFixed: true}, Activity{WithNonce: 3}, false},
		"people want always": {Peer{NonceAlways: true}, Activity{WithoutNonce: 3}, true},
	} {
		b := profiled(t, c.peer)
		c.activity.Key = theKey
		b.HandleActivity(b.now, []Activity{c.activity})
		b.drain()
		if got := b.entries[theKey].NonceAlways; got != c.want {
			t.Errorf("%s: every packet %v, want %v", name, got, c.want)
		}
	}
	b := profiled(t, Peer{})
	b.HandleActivity(b.now, []Activity{{Key: theKey, WithNonce: 3}})
	b.AddPeer(b.now, Peer{NID: peerNID})
	b.drain()
	if !b.entries[theKey].NonceAlways {
		t.Error("a default puts aside what the peer has shown")
	}
	b.HandleActivity(b.now, []Activity{{Key: theKey, WithNonce: 3, WithoutNonce: 1}})
	b.drain()
	if b.entries[theKey].NonceAlways {
		t.Error("every packet although the peer does not")
	}
}

// Packets without a nonce, which anybody may write, do not change what late packets with
// the right one have shown; those at the beginning show no more than that these carry it.
func TestLateNonceCounts(t *testing.T) {
	for name, c := range map[string]struct {
		late, asks, want bool
	}{
		"first nonces only":       {false, false, false},
		"late nonces":             {true, false, true},
		"late nonces, but probes": {true, true, false},
	} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.openOther(netP)
		with := uint32(3)
		read := func(without uint32, asks bool) {
			b.pass(lateNonce)
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, WithNonce: with, WithoutNonce: without, Asks: asks}})
			b.drain()
		}
		read(0, false)
		for range 3 {
			if c.late {
				with++
			}
			read(0, false)
		}
		for range 3 {
			read(100, c.asks)
		}
		if got := b.entries[theKey].NonceAlways; got != c.want {
			t.Errorf("%s: every packet %v, want %v", name, got, c.want)
		}
		if got := b.known[peerNID].nonceAlways; got != c.want {
			t.Errorf("%s: the record has %v, want %v", name, got, c.want)
		}
		b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 600)))) // its first nonces begin anew
		with++
		read(100, c.asks)
		if got := b.entries[theKey].NonceAlways; got != c.want {
			t.Errorf("%s: every packet %v after an update, want %v", name, got, c.want)
		}
	}
}

// A pending peer that probes is Roam, and is known for that from the start.
func TestPendingPeerThatProbes(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.see(Observation{
		Trigger: SeenPending, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Local: roam.LinkLocator{Link: 1, L64: netA},
		LocalNID: ownNID, Nonce: peerNonce, OwnNonce: Nonce{Len: 4, Bytes: [12]byte{9}}, Found: FoundProbe,
	})
	b.reply(b.probesSent()[0], peerNonce)
	b.HandleActivity(b.now, []Activity{{Key: theKey, WithNonce: 9}})
	b.drain()
	if p := b.entries[theKey]; p.State != Established || p.NonceAlways || !p.RuleSought {
		t.Errorf("entry %+v", p)
	}
}
