package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// talkUntilAsked has a pending peer at netP talk, and be answered, until it is asked by a
// Locator Update, which it returns; nil: it was not within d.
func (b *bench) talkUntilAsked(d time.Duration) *ilnpwire.LocatorUpdate {
	b.t.Helper()
	for end := b.now.Add(d); b.now.Before(end); {
		b.pass(20 * time.Millisecond)
		o := pending(netP, peerNonce)
		o.Packets = int(b.now.Sub(epoch) / (20 * time.Millisecond))
		b.see(o)
		if list := b.updates(); len(list) > 0 {
			b.forget()
			return &list[0]
		}
	}
	return nil
}

// ackOf is an acknowledgement of the peer.
func (b *bench) ackOf(from roam.L64, n Nonce, lu ilnpwire.LocatorUpdate) []byte {
	b.t.Helper()
	return b.update(from, n, lu.Ack())
}

// TestUpdateValidates: a pending peer that answers no probe is asked by Locator Updates
// with lifetimes that were drawn, and validated when it has returned 32 bits of them.
func TestUpdateValidates(t *testing.T) {
	for name, c := range map[string]struct {
		preferred time.Duration
		updates   int
	}{"infinite": {roam.Infinite, 3}, "a day": {24 * time.Hour, 3}, "an hour": {time.Hour, 4}, "half an hour": {30 * time.Minute, 4}} {
		b := newBench(t)
		b.prefix(1, netA, c.preferred)
		b.see(pending(netP, peerNonce))
		lu := b.talkUntilAsked(5 * time.Second)
		for i := range c.updates {
			if _, ok := b.established(); ok {
				t.Errorf("%s: validated by %d updates", name, i)
			}
			if lu == nil {
				t.Fatalf("%s: no update %d", name, i)
			}
			if len(lu.Locators) != 1 || lu.Locators[0].L64 != netA || time.Duration(lu.Locators[0].Lifetime)*time.Second > b.host.locals[0].remainingAt(b.now) {
				t.Errorf("%s: tells %+v", name, lu.Locators)
			}
			b.now = b.now.Add(20 * time.Millisecond)
			b.receive(1, b.ackOf(netP, peerNonce, *lu))
			if list := b.updates(); len(list) > 0 {
				next := list[len(list)-1]
				lu = &next
			}
		}
		p, ok := b.established()
		if !ok || p.LocalNonce != ownOfPending || p.RemoteNonce != peerNonce || len(p.Unvalidated) > 0 {
			t.Fatalf("%s: session %+v", name, p)
		}
		if lu.Locators[0].Lifetime != wireLifetime(b.host.locals[0].remainingAt(b.now), ilnpwire.FormRFC) {
			t.Errorf("%s: the peer has the lowered lifetime of %d s", name, lu.Locators[0].Lifetime)
		}
	}
}

// remainingAt is what is left of a locator.
func (l *local) remainingAt(now time.Time) time.Duration { return remaining(now, l.expires) }

// TestUpdateValidatesNobodyElse: one wrong number, from one who has received none,
// ends what was shown before; from elsewhere, with another nonce or too late none counts.
func TestUpdateValidatesNobodyElse(t *testing.T) {
	change := func(lu ilnpwire.LocatorUpdate, f func(*ilnpwire.LocatorEntry)) ilnpwire.LocatorUpdate {
		lu.Locators = append([]ilnpwire.LocatorEntry(nil), lu.Locators...)
		f(&lu.Locators[0])
		return lu
	}
	for name, answer := range map[string]func(b *bench, lu ilnpwire.LocatorUpdate){
		"wrong lifetime": func(b *bench, lu ilnpwire.LocatorUpdate) {
			b.receive(1, b.ackOf(netP, peerNonce, change(lu, func(e *ilnpwire.LocatorEntry) { e.Lifetime++ })))
			b.receive(1, b.ackOf(netP, peerNonce, lu))
		},
		"wrong preference": func(b *bench, lu ilnpwire.LocatorUpdate) {
			b.receive(1, b.ackOf(netP, peerNonce, change(lu, func(e *ilnpwire.LocatorEntry) { e.Preference++ })))
		},
		"other locator": func(b *bench, lu ilnpwire.LocatorUpdate) { b.receive(1, b.ackOf(netQ, peerNonce, lu)) },
		"other nonce":   func(b *bench, lu ilnpwire.LocatorUpdate) { b.receive(1, b.ackOf(netP, forged, lu)) },
	} {
		b := pendingAt(t)
		for range 20 {
			lu := b.talkUntilAsked(time.Minute)
			if lu == nil {
				t.Fatalf("%s: not asked any more", name)
			}
			answer(b, *lu)
			b.forget()
		}
		if _, ok := b.established(); ok {
			t.Errorf("%s: validated", name)
		}
	}
	b := pendingAt(t)
	lu := b.talkUntilAsked(5 * time.Second)
	for range 3 {
		b.receive(1, b.ackOf(netP, peerNonce, *lu))
	}
	if _, ok := b.established(); ok {
		t.Error("one update, acknowledged three times, validates")
	}
}

// TestNoUpdateWhere lifetimes are too short to draw from, or nobody here talks with the
// peer: whoever names a victim's address draws probes only.
func TestNoUpdateWhere(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, 2*time.Minute)
	b.see(pending(netP, peerNonce))
	if b.talkUntilAsked(time.Minute) != nil {
		t.Error("asked with a lifetime of two minutes")
	}
	b = pendingAt(t)
	for range 100 {
		b.pass(50 * time.Millisecond)
		b.see(pending(netP, peerNonce))
	}
	if len(b.updates()) > 0 {
		t.Error("a peer that nobody answers is asked by updates")
	}
}

// noProbeAnswered is a host whose first packets were answered with a nonce, and whose probes
// were not; it is asked by an update 0.3 s later.
func noProbeAnswered(t *testing.T, n Nonce) (*bench, ilnpwire.LocatorUpdate) {
	t.Helper()
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Nonce: n})
	b.pass(pendingFirst - time.Millisecond)
	if n := len(b.updates()); n > 0 {
		t.Fatalf("%d updates before a second probe could have been answered, want none", n)
	}
	b.pass(time.Millisecond)
	list := b.updates()
	if len(list) != 1 {
		t.Fatalf("%d updates behind the first nonce, want one", len(list))
	}
	b.forget()
	return b, list[0]
}

// TestUpdateConfirms: where no probe is answered, a first nonce is confirmed by who bears
// it and has received updates where the record has it, wherever it is by then. What it
// announced before counts from then on.
func TestUpdateConfirms(t *testing.T) {
	b, lu := noProbeAnswered(t, peerNonce)
	b.receive(1, b.update(netP, peerNonce, updateOf(entry(netQ, 0, 60), entry(netP, 10, 60))))
	b.forget()
	for i := range 3 {
		if !b.entries[theKey].Unconfirmed {
			t.Fatalf("confirmed by %d updates", i)
		}
		b.receive(1, b.ackOf(netQ, peerNonce, lu))
		list := b.updates()
		if len(list) == 0 {
			t.Fatalf("no update behind the acknowledgement of number %d", i)
		}
		lu = list[0]
		if i < 2 {
			b.forget()
		}
	}
	if b.entries[theKey].Unconfirmed || b.count(UpdateReceived) != 1 {
		t.Errorf("entry %+v, %d updates applied", b.entries[theKey], b.count(UpdateReceived))
	}
	b.wantTargets(netQ)
	if lu.Locators[0].Lifetime != largestRFC {
		t.Errorf("the correspondent has the lowered lifetime of %d s", lu.Locators[0].Lifetime)
	}
}

// TestUpdateConfirmsNoForgery: who made the nonce up has not received the updates, and
// guesses.
func TestUpdateConfirmsNoForgery(t *testing.T) {
	b, lu := noProbeAnswered(t, forged)
	for i := range 200 {
		wrong := updateOf(entry(netA, uint16(lu.Locators[0].Preference), largestRFC-uint32(i)))
		if wrong.Locators[0] != lu.Locators[0] {
			b.receive(1, b.ackOf(netP, forged, wrong))
			b.receive(1, b.ackOf(netQ, forged, wrong))
		}
	}
	b.receive(1, b.ackOf(netP, peerNonce, lu)) // the correspondent itself has another nonce
	b.receive(1, b.ackOf(netP, forged, lu))    // too late: the guesses have ended it
	if !b.entries[theKey].Unconfirmed {
		t.Error("a forged nonce is confirmed")
	}
}

// TestProofDrawsTwiceAlike: two updates in a row may have drawn the same lifetimes. The
// acknowledgement of the second one counts, and the next update is due at once.
func TestProofDrawsTwiceAlike(t *testing.T) {
	var f lifetimeProof
	lu := ilnpwire.LocatorUpdate{Locators: []ilnpwire.LocatorEntry{
		{L64: netA, Preference: uint32(preferActive), Lifetime: 1700},
	}}
	for i := 1; i <= updateRounds; i++ {
		f.noted(time.Unix(int64(i), 0), Path{}, lu, updateBits/updateRounds)
		validated, next, refused := f.acked(lu)
		if refused != "" || validated != (i == updateRounds) || next == validated {
			t.Errorf("acknowledgement %d: validated %v, next %v, refused %q", i, validated, next, refused)
		}
	}
}
