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
	if m.Nonce != outward || !slices.Equal(u.Locators, siteSet) {
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
	for name, steps := range map[string]func(b *border){
		"forged after":  func(b *border) { b.send(outward); b.send(lost) },
		"forged before": func(b *border) { b.send(lost); b.send(outward) },
		"forged alone":  func(b *border) { b.send(lost) },
		"long before":   func(b *border) { b.send(lost); b.until(b.now.Add(settled + time.Millisecond)) },
	} {
		b := newRenewing(t)
		steps(b)
		answer := inward
		if name == "forged alone" {
			answer = lost
		}
		body := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: b.translate(ofHost.Locators, nil)}
		b.handle(false, theirs, atSite, answer, body.Ack())
		if f := b.flows[key]; f.Outward != outward || f.Inward != inward || len(b.renewed) != 0 {
			t.Errorf("%s: the flow is renewed: %+v", name, b.renewed)
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
			b.handle(false, roam.ILV{L64: remote, NID: one.Outside}, atSite, lost, ofOther)
		}
	}
	if n := len(b.claims); n != mostClaims || len(b.refused) != 0 {
		t.Errorf("%d updates are remembered, refused %v", n, b.refused)
	}
}
