package sbr

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

var (
	lost   = ilnp.Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}} // of a node that has lost its state
	atSite = roam.ILV{L64: siteA, NID: insideNID}
	ofHost = ilnp.LocatorUpdate{
		Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: internal, Lifetime: 9}},
	}
	ofOther = ilnp.LocatorUpdate{
		Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: remote, Lifetime: 9}},
	}
)

// announces reports whether an update of the border's own has those locators and preferences.
func announces(u ilnp.LocatorUpdate, want []ilnp.LocatorEntry) bool {
	return slices.EqualFunc(u.Locators, want, func(a, b ilnp.LocatorEntry) bool {
		return a.L64 == b.L64 && a.Preference == b.Preference && a.Lifetime >= siteLifetime && a.Lifetime <= mostLifetime
	})
}

// newRenewing is a border with a flow that is announced.
func newRenewing(t *testing.T) *border {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, []roam.L64{siteA, siteB})
	b.drain()
	return b
}

// An inside node that has lost its state has its updates pass with its new nonce. Once its correspondent, which kept
// its own nonce, acknowledges one, the flow has that nonce, and so do the border's own updates.
func TestInsideLosesState(t *testing.T) {
	b := newRenewing(t)
	b.handle(true, mine, theirs, lost, ofHost)
	m, u := b.take(1)
	if m.Nonce != lost || b.flows[key].Outward != outward || len(b.renewed) != 0 {
		t.Fatalf("outside with %v, the flow has %v", m.Nonce, b.flows[key].Outward)
	}
	b.handle(false, theirs, atSite, inward, u.Ack())
	if _, u := b.take(9); !slices.Equal(u.Locators, ofHost.Locators) {
		t.Errorf("the acknowledgement has %+v", u.Locators)
	}
	if !slices.Equal(b.renewed, []Renewed{{key, inward, lost}}) || len(b.Flows()[0].Announced) != 2 {
		t.Errorf("renewed %+v, announced %v", b.renewed, b.Flows()[0].Announced)
	}
	b.HandleSites(b.now, bothUp[1:])
	b.until(b.now.Add(coalesce))
	if m, _ := b.take(2); m.Nonce != lost {
		t.Errorf("the border announces with %v", m.Nonce)
	}
}

// The same of the outside node: nothing is announced to its new session, so the border begins anew.
func TestOutsideLosesState(t *testing.T) {
	b := newRenewing(t)
	b.handle(false, theirs, atSite, lost, ofOther)
	if m, _ := b.take(9); m.Nonce != lost || b.flows[key].Inward != inward {
		t.Fatalf("inside with %v, the flow has %v", m.Nonce, b.flows[key].Inward)
	}
	b.handle(true, mine, theirs, outward, ofOther.Ack())
	b.take(1)
	if !slices.Equal(b.renewed, []Renewed{{key, lost, outward}}) || len(b.Flows()[0].Announced) != 0 {
		t.Errorf("renewed %+v, announced %v", b.renewed, b.Flows()[0].Announced)
	}
	b.until(b.now.Add(coalesce))
	m, u := b.take(1)
	if m.Nonce != outward || !announces(u, siteSet) {
		t.Errorf("announces %+v with %v", u.Locators, m.Nonce)
	}
	b.handle(false, theirs, atSite, lost, u.Ack())
	if len(b.Flows()[0].Announced) != 2 {
		t.Errorf("the new session's acknowledgement is refused: %v", b.refused)
	}
}

// Updates of hosts with keys pass as well. Only its own nodes have a flow count as one with MACs.
func TestSealedLosesState(t *testing.T) {
	b := newRenewing(t)
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: siteSet}
	b.handleSealed(true, false, mine, theirs, lost, u)
	if b.take(1); b.flows[key].Sealed {
		t.Error("an update with another nonce seals the flow")
	}
	b.handleSealed(false, false, theirs, atSite, inward, u.Ack())
	f := b.flows[key]
	if b.take(9); f.Outward != lost || !f.Sealed || len(f.announced) != 2 {
		t.Errorf("the flow is %+v", f)
	}
	if b.until(b.now.Add(time.Hour)); len(b.sent) != 0 {
		t.Errorf("%d updates without a MAC", len(b.sent))
	}
}

// A node that claims another's NID gets no acknowledgement. That of an update with the flow's nonce, whose body may be
// the same, renews nothing, whichever of the two came first; nor does one with another nonce.
func TestForgedRenewal(t *testing.T) {
	var body ilnp.LocatorUpdate
	for name, steps := range map[string]func(b *border){
		"forged after":  func(b *border) { b.send(outward); b.send(lost) },
		"forged before": func(b *border) { b.send(lost); b.send(outward) },
		"forged alone":  func(b *border) { b.send(lost) },
		"forged with the border's lifetimes": func(b *border) {
			b.HandlePolicy(b.now, testPolicy(30, 70))
			b.until(b.now.Add(coalesce))
			_, own := b.take(1)
			b.handle(true, mine, theirs, lost, own)
			body = own
		},
		"long before": func(b *border) { b.send(lost); b.until(b.now.Add(settled + time.Millisecond)) },
	} {
		b := newRenewing(t)
		body = ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: b.translate(ofHost.Locators, nil)}
		steps(b)
		answer := inward
		if name == "forged alone" {
			answer = lost
		}
		b.handle(false, theirs, atSite, answer, body.Ack())
		if f := b.flows[key]; f.Outward != outward || f.Inward != inward || len(b.renewed) != 0 {
			t.Errorf("%s: the flow is renewed: %+v", name, b.renewed)
		}
	}
}

// The same from outside, where the border changes no body.
func TestForgedRenewalOutside(t *testing.T) {
	for _, nonces := range [][]ilnp.Nonce{{lost, inward}, {inward, lost}} {
		b := newRenewing(t)
		for _, n := range nonces {
			b.handle(false, theirs, atSite, n, ofOther)
		}
		b.handle(true, mine, theirs, outward, ofOther.Ack())
		if len(b.renewed) != 0 {
			t.Errorf("%v: renewed %+v", nonces, b.renewed)
		}
	}
}

// send has an update of the inside host pass with this nonce.
func (b *border) send(n ilnp.Nonce) { b.handle(true, mine, theirs, n, ofHost) }

// An outside node that has lost its state acknowledges updates with its new nonce. The host verifies it; the border
// takes nothing from it, and goes on waiting for the right one.
func TestAcknowledgedWithOtherNonce(t *testing.T) {
	b := newRenewing(t)
	b.send(outward)
	_, u := b.take(1)
	for _, n := range []ilnp.Nonce{lost, inward} {
		b.handle(false, theirs, atSite, n, u.Ack())
		if m, in := b.take(9); m.Nonce != n || !slices.Equal(in.Locators, ofHost.Locators) {
			t.Errorf("inside %+v with %v", in.Locators, m.Nonce)
		}
	}
	if len(b.renewed) != 0 {
		t.Errorf("renewed %+v", b.renewed)
	}
}

// A flood of updates with other nonces, of any number of flows, takes a bounded space.
func TestManyClaims(t *testing.T) {
	b := newBorder(t)
	one := seenFlow
	for i := range roam.NID(4 * mostClaims) {
		one.Outside = outsideNID + i
		b.HandleFlow(b.now, one, []roam.L64{siteA, siteB})
		for range 3 {
			b.now = b.now.Add(allEach)
			b.handle(false, roam.ILV{L64: remote, NID: one.Outside}, atSite, lost, ofOther)
		}
	}
	if n := len(b.claims); n != mostClaims || len(b.refused) != 0 {
		t.Errorf("%d updates are remembered, refused %v", n, b.refused)
	}
}

// Forged updates with other nonces reach the host by their rates, whether they are of one flow or of all. Updates with
// the right nonce are not among them, and one of a node that has lost its state passes beside those of another flow.
func TestForgedFlood(t *testing.T) {
	const flows, each = 100, time.Millisecond
	b := newBorder(t)
	one := seenFlow
	for i := range roam.NID(flows) {
		one.Outside = outsideNID + i
		b.HandleFlow(b.now, one, []roam.L64{siteA, siteB})
	}
	b.drain()
	flood := func(of int, d time.Duration) (passed int) {
		b.sent = nil
		for i := range int(d / each) {
			b.now = b.now.Add(each)
			b.handle(false, roam.ILV{L64: remote, NID: outsideNID + roam.NID(i%of)}, atSite, lost, ofOther)
			b.handle(false, roam.ILV{L64: remote, NID: outsideNID + roam.NID(i%of)}, atSite, lost, ofOther.Ack())
		}
		return len(b.sent)
	}
	if n := flood(1, 10*time.Second); n < 20 || n > othersBurst+int(10*time.Second/othersEach)+1 {
		t.Errorf("of one flow %d pass in 10 s", n)
	}
	b.sent = nil
	b.handle(false, theirs, atSite, inward, ofOther)
	b.handle(false, roam.ILV{L64: remote, NID: outsideNID + 1}, atSite, lost, ofOther)
	if len(b.sent) != 2 {
		t.Errorf("%d of 2 updates pass beside the flood", len(b.sent))
	}
	if n := flood(flows, 10*time.Second); n < 200 || n > allBurst+int(10*time.Second/allEach)+1 {
		t.Errorf("of all flows %d pass in 10 s", n)
	}
	b.sent = nil
	b.handle(false, theirs, atSite, inward, ofOther)
	b.handle(true, mine, theirs, lost, ofHost) // the other direction has a rate of its own
	if len(b.sent) != 2 {
		t.Errorf("%d of 2 updates pass beside the flood of all", len(b.sent))
	}
}

// An update with a new nonce is taken over although one with the same body and the nonce before passed a moment ago: it
// leaves with other lifetimes, and its sender finds its own body in the acknowledgement. So is one that follows an
// update of the border's own.
func TestRenewedSoon(t *testing.T) {
	b := newRenewing(t)
	b.HandlePolicy(b.now, testPolicy(30, 70))
	b.until(b.now.Add(coalesce))
	b.take(1)
	b.send(outward)
	_, before := b.take(1)
	b.until(b.now.Add(100 * time.Millisecond))
	b.send(lost)
	m, u := b.take(1)
	if m.Nonce != lost || sameBody(u, before) || u.Locators[0].L64 != before.Locators[0].L64 {
		t.Fatalf("outside %+v with %v, after %+v", u, m.Nonce, before)
	}
	b.handle(false, theirs, atSite, inward, before.Ack()) // late
	b.take(9)
	b.handle(false, theirs, atSite, inward, u.Ack())
	if _, in := b.take(9); !slices.Equal(in.Locators, ofHost.Locators) {
		t.Errorf("the acknowledgement has %+v", in.Locators)
	}
	if !slices.Equal(b.renewed, []Renewed{{key, inward, lost}}) || len(b.Flows()[0].Announced) != 2 {
		t.Errorf("renewed %+v, announced %v", b.renewed, b.Flows()[0].Announced)
	}
	b.handle(false, theirs, atSite, inward, ofOther)
	again := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: slices.Clone(ofOther.Locators)}
	again.Locators[0].Lifetime++
	b.handle(false, theirs, atSite, outward, again) // another nonce of the outside node
	b.handle(true, mine, theirs, lost, again.Ack())
	if n := len(b.renewed); n != 2 || b.renewed[1] != (Renewed{key, outward, lost}) {
		t.Errorf("from outside: renewed %+v", b.renewed)
	}
}

// An inside node that has lost its state may send no update. Its packets have another nonce, so the border announces
// the flow once more, where the flow's own is not acknowledged also with that one, and takes over what is.
func TestInsideLosesStateUnseen(t *testing.T) {
	for _, forged := range []bool{false, true} {
		b := newRenewing(t)
		b.now = b.now.Add(time.Minute)
		b.HandleOther(b.now, key, outward)
		if b.until(b.now.Add(time.Second)); len(b.sent) != 0 {
			t.Fatalf("%d updates for the flow's own nonce", len(b.sent))
		}
		b.HandleOther(b.now, key, lost)
		b.until(b.now.Add(coalesce))
		m, own := b.take(1)
		if m.Nonce != outward || !announces(own, siteSet) {
			t.Fatalf("announces %+v with %v", own, m.Nonce)
		}
		if forged {
			b.handle(false, theirs, atSite, inward, own.Ack())
			b.until(b.now.Add(time.Minute))
			b.HandleOther(b.now, key, lost)
			if b.until(b.now.Add(time.Minute)); len(b.sent)+len(b.renewed) != 0 {
				t.Errorf("a forged nonce: %d updates, renewed %+v", len(b.sent), b.renewed)
			}
			continue
		}
		b.until(b.now.Add(firstRetry))
		if len(b.sent) != 2 {
			t.Fatalf("%d repetitions", len(b.sent))
		}
		b.sent = b.sent[1:]
		m, u := b.take(1)
		if m.Nonce != lost || !announces(u, siteSet) || sameBody(u, own) {
			t.Fatalf("announces %+v with %v", u, m.Nonce)
		}
		b.handle(false, theirs, atSite, outward, u.Ack()) // of another session with the NID
		b.handle(false, theirs, atSite, inward, u.Ack())
		if !slices.Equal(b.renewed, []Renewed{{key, inward, lost}}) || len(b.Flows()[0].Announced) != 2 {
			t.Errorf("renewed %+v, announced %v", b.renewed, b.Flows()[0].Announced)
		}
		if b.until(b.now.Add(time.Hour)); len(b.sent) != 0 {
			t.Errorf("%d updates after that", len(b.sent))
		}
	}
}

// An outside node that has lost its state acknowledges the border's own update, whose lifetimes nobody else knows: its
// nonce is taken over. Whoever guesses them has a few attempts.
func TestOutsideLosesStateUnseen(t *testing.T) {
	for _, guesses := range []uint32{0, mostGuesses - 1, mostGuesses} {
		b := newRenewing(t)
		b.HandleSites(b.now, bothUp[1:])
		b.until(b.now.Add(coalesce))
		_, u := b.take(2)
		for i := range guesses {
			b.now = b.now.Add(othersEach)
			wrong := u.Ack()
			wrong.Locators = slices.Clone(u.Locators)
			wrong.Locators[0].Lifetime += 1 + i
			b.handle(false, theirs, atSite, lost, wrong)
		}
		b.handle(false, theirs, atSite, lost, u.Ack())
		if got := len(b.renewed) == 1 && b.renewed[0] == (Renewed{key, lost, outward}); got != (guesses < mostGuesses) {
			t.Errorf("after %d guesses: renewed %+v", guesses, b.renewed)
		}
		b.until(b.now.Add(time.Hour))
		b.sent = nil
		b.HandleSites(b.now, bothUp) // the border announces anew
		b.until(b.now.Add(coalesce))
		_, u = b.take(1)
		b.handle(false, theirs, atSite, lost, u.Ack())
		if f := b.flows[key]; f.Inward != lost || len(f.announced) != 2 || !f.confirmed {
			t.Errorf("after %d guesses: %+v", guesses, f)
		}
	}
}

// An outside node that has lost its state answers the border's probe with another nonce, too. The border announces the
// flow once more, however many such answers come.
func TestOtherNonceInAnswer(t *testing.T) {
	b := newRenewing(t)
	b.now = b.now.Add(time.Minute)
	e, err := ilnp.BuildEcho(theirs, atSite, lost, false, theProbe.ID, 1, theProbe.data())
	if err != nil {
		t.Fatal(err)
	}
	answer := func() {
		b.HandlePacket(b.now, Packet{Bytes: e})
		b.until(b.now.Add(100 * time.Millisecond))
	}
	answer() // forged
	_, u := b.take(1)
	b.handle(false, theirs, atSite, inward, u.Ack())
	for range 50 {
		answer()
	}
	if len(b.sent) != 0 || len(b.renewed) != 0 {
		t.Fatalf("%d updates for a forged nonce, renewed %+v", len(b.sent), b.renewed)
	}
	b.until(b.now.Add(doubtEvery))
	for range 5 {
		answer()
	}
	if len(b.sent) != 2 { // with one repetition
		t.Fatalf("%d updates", len(b.sent))
	}
	b.sent = b.sent[:1]
	_, u = b.take(1)
	b.handle(false, theirs, atSite, lost, u.Ack())
	if !slices.Equal(b.renewed, []Renewed{{key, lost, outward}}) {
		t.Errorf("renewed %+v", b.renewed)
	}
}
