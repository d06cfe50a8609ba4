package ilnp

import (
	"testing"
	"time"

	"roam"
)

// TestReplacedSessionKeepsItsName: a node forgets its session where no record lists it,
// and replaces it there. The record goes on being that session's: where its node is
// found at home later, it has the name.
func TestReplacedSessionKeepsItsName(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 600))))
	b.answerProbesTo(netQ, peerNonce)
	b.pass(time.Minute)
	b.see(pending(netQ, secondNonce))
	b.answerProbesTo(netQ, secondNonce)
	b.pass(time.Second)
	if p := b.entries[theKey]; p.RemoteNonce != secondNonce || p.Unrecorded {
		t.Fatalf("entry %+v, want the name's, with the new nonce", p)
	}
	b.forget()
	for range 3 { // it has gone home, and forgotten again
		silence(b)
		b.pass(20 * time.Second)
	}
	b.answerProbesTo(netP, forged)
	b.pass(time.Second)
	p, ok := b.entries[theKey]
	if !ok {
		p = b.unlisted()
	}
	if p.RemoteNonce != forged || p.Key != theKey && !p.Named {
		t.Errorf("entry %+v, want the node that answers at home", p)
	}
}

// TestRecordFindsSeveralNodes: a record comes when three nodes with its NID are there, of
// which none answers any more. One of them gets the name, and those that lose it go.
func TestRecordFindsSeveralNodes(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	places := []roam.L64{netP, netQ, netR}
	record := Peer{NID: peerNID}
	for i, l := range places {
		n := Nonce{Len: 4, Bytes: [12]byte{3, byte(i)}}
		b.see(pending(l, n))
		b.answerProbesTo(l, n)
		record.Locators = append(record.Locators, RemoteLocator{L64: l, Preference: 10, Lifetime: roam.Infinite})
	}
	b.pass(2 * time.Second)
	if len(b.entries) != len(places) {
		t.Fatalf("%d sessions", len(b.entries))
	}
	for _, s := range b.sessions {
		s.dead = true
	}
	b.AddPeer(b.now, record)
	b.drain()
	if s := b.holder(ownNID, peerNID); s == nil || !s.owned || len(b.entries) != 1 {
		t.Errorf("%d sessions, %+v has the name", len(b.entries), s)
	}
}

// TestWhoseLocators: a locator is another session's while its node is validated there and
// alive, and nobody else may list it then.
func TestWhoseLocators(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *session)
		may    bool
	}{
		"validated there":       {func(*session) {}, false},
		"only announced":        {func(o *session) { o.remotes.find(netQ).validated = false }, true},
		"dead":                  {func(o *session) { o.dead = true }, true},
		"with a nonce in doubt": {func(o *session) { o.confirmed = false }, true},
		"not there at all":      {func(o *session) { o.remotes = nil }, true},
		"withdrawn, in grace":   {func(o *session) { o.remotes.find(netQ).standing = dropped }, false},
	} {
		b, _ := besideSession(t)
		for range 3 {
			b.answerProbesTo(netP, peerNonce)
			b.pass(time.Second)
		}
		s, o := b.sessions[theKey], b.byNonce(ownNID, peerNID, secondNonce)
		if s == nil || o == nil || s == o {
			t.Fatal("not two sessions")
		}
		c.change(o)
		if got := b.mayList(s, netQ); got != c.may {
			t.Errorf("%s: may be listed %v, want %v", name, got, c.may)
		}
	}
}

// TestWhoIsContinued: a node continues the session whose correspondent was validated
// where it is, or the name's where the record lists that or its owner has announced it.
// What a pending peer announces does not count.
func TestWhoIsContinued(t *testing.T) {
	announce := func(b *bench) {
		b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 600), entry(netQ, 20, 600))))
	}
	owner := newBench(t)
	owner.prefix(1, netA, roam.Infinite)
	owner.open(netP)
	announce(owner)
	unlisted := pendingAt(t)
	unlisted.answerProbesTo(netP, peerNonce)
	announce(unlisted)
	for name, c := range map[string]struct {
		b    *bench
		at   roam.L64
		want bool
	}{
		"owner, validated":    {owner, netP, true},
		"owner, announced":    {owner, netQ, true},
		"owner, elsewhere":    {owner, netR, false},
		"unlisted, validated": {unlisted, netP, true},
		"unlisted, announced": {unlisted, netQ, false},
	} {
		if len(c.b.between(ownNID, peerNID)) != 1 || c.b.between(ownNID, peerNID)[0].remotes.find(netQ) == nil {
			t.Fatalf("%s: no session that has announced a second locator", name)
		}
		if got := c.b.predecessor(ownNID, roam.ILV{NID: peerNID, L64: c.at}) != nil; got != c.want {
			t.Errorf("%s: continues the session %v, want %v", name, got, c.want)
		}
	}
}

// TestRecordOfAnywhere: a record that says so has its node wherever the first one is.
func TestRecordOfAnywhere(t *testing.T) {
	for _, anywhere := range []bool{false, true} {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}, Anywhere: anywhere})
		b.see(pending(netQ, peerNonce))
		b.answerProbesTo(netQ, peerNonce)
		if _, named := b.entries[theKey]; named != anywhere {
			t.Errorf("anywhere %v: the node has the name %v", anywhere, named)
		}
	}
}
