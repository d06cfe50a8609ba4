package sbr

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/wire/ilnp"
)

var theSeal = ilnp.Seal{Counter: 7, Answers: 3, MAC: [ilnp.MACLen]byte{1, 2, 3}}

// handleSealed hands over a message with a MAC, in UDP or not.
func (b *border) handleSealed(inside, encap bool, src, dst roam.ILV, n ilnp.Nonce, u ilnp.LocatorUpdate) {
	b.Helper()
	packet, err := ilnp.BuildSealed(src, dst, n, u, theSeal)
	if err == nil && encap {
		packet, err = ilnp.Encapsulate(packet, port)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.HandlePacket(b.now, Packet{Bytes: packet, Inside: inside})
	b.drain()
}

// Of an update with a MAC, and of its acknowledgement, only the addresses change. What it lists
// is known to the outside node from then on, and the border announces nothing itself.
func TestSealed(t *testing.T) {
	for _, encap := range []bool{false, true} {
		b := newBorder(t)
		b.HandleFlow(b.now, seenFlow, nil)
		b.drain()
		b.sent = nil
		u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{
			{L64: siteB, Preference: 10, Lifetime: 99}, {L64: siteA, Preference: 10, Lifetime: 99},
		}}
		for range 2 { // the second is a repetition
			b.handleSealed(true, encap, mine, theirs, outward, u)
			m, out := b.take(1)
			if m.Seal == nil || *m.Seal != theSeal || m.Encapsulated != encap || m.Src.L64 != siteA ||
				!slices.Equal(out.Locators, u.Locators) {
				t.Errorf("outside %+v %+v", m, out)
			}
		}
		b.handleSealed(false, encap, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, u.Ack())
		m, in := b.take(9)
		if m.Seal == nil || *m.Seal != theSeal || m.Dst != mine || !slices.Equal(in.Locators, u.Locators) {
			t.Errorf("inside %+v %+v", m, in)
		}
		if a := b.announced; len(a) != 1 || !sameSet(a[0].Locators, []roam.L64{siteA, siteB}) {
			t.Errorf("announced %+v", a)
		}
		b.HandleSites(b.now, bothUp[1:])
		b.until(b.now.Add(time.Hour))
		b.HandleSites(b.now, bothUp)
		b.until(b.now.Add(time.Hour))
		if a := b.announced; len(b.sent) != 0 || !sameSet(a[len(a)-1].Locators, []roam.L64{siteA, siteB}) {
			t.Errorf("a link went and came: sent %d, announced %+v", len(b.sent), a)
		}
		withdrawn := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: u.Locators[:1]}
		b.handleSealed(true, encap, mine, theirs, outward, withdrawn)
		b.handleSealed(false, encap, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, withdrawn.Ack())
		if a := b.announced; !slices.Equal(a[len(a)-1].Locators, []roam.L64{siteB}) {
			t.Errorf("its host withdrew a locator: announced %+v", a)
		}
		b.sent = nil
		b.handleSealed(true, encap, mine, theirs, outward, ilnp.LocatorUpdate{
			Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: internal, Lifetime: 9}},
		})
		if len(b.sent) != 0 || !slices.Equal(b.refused, []Refusal{SealedInternal}) {
			t.Errorf("an internal locator: sent %d, refused %v", len(b.sent), b.refused)
		}
	}
}

// A proof passes with its option, also before there is a flow, and while the flow has the nonces of a session
// before; its body has the site's locators.
func TestProof(t *testing.T) {
	for _, before := range []bool{false, true} {
		b := newBorder(t)
		if before {
			other := seenFlow
			other.Outward.Bytes[0]++
			other.Inward.Bytes[0]++
			b.HandleFlow(b.now, other, nil)
			b.drain()
			b.sent = nil
		}
		inside := map[bool]roam.LinkID{true: seenFlow.Link}[before]
		passesProof(t, b, inside)
		passesVouch(t, b, inside)
	}
}

// passesVouch has a vouch cross a border, each way; link: where what comes from outside leaves.
func passesVouch(t *testing.T, b *border, link roam.LinkID) {
	t.Helper()
	vouch := ilnp.Vouch{Until: time.Unix(9, 0).UTC(), NID: 7, ByOld: [16]byte{1}, ByNew: [16]byte{2}}
	for _, inside := range []bool{true, false} {
		src, dst, n, l := mine, theirs, outward, internal
		if !inside {
			src, dst, n, l = theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, remote
		}
		u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: l, Lifetime: 1}}}
		packet, err := ilnp.BuildVouch(src, dst, n, u, vouch)
		if err != nil {
			t.Fatal(err)
		}
		b.HandlePacket(b.now, Packet{Bytes: packet, Inside: inside})
		b.drain()
		to := link
		if inside {
			to = 1
		}
		m, out := b.take(to)
		if m.Vouch == nil || *m.Vouch != vouch || inside && len(b.policy.internalOf(out.Locators)) > 0 {
			t.Errorf("inside %t: %+v %+v; refused %v", inside, m, out, b.refused)
		}
	}
}

// passesProof has an offer cross a border, and its answer.
func passesProof(t *testing.T, b *border, inside roam.LinkID) {
	t.Helper()
	proof := ilnp.Proof{Step: ilnp.ProofOffer, Counter: 5, Locators: [ilnp.ProofLocators]roam.L64{siteA}}
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: internal, Lifetime: 1}}}
	packet, err := ilnp.BuildProof(mine, theirs, outward, u, proof)
	if err != nil {
		t.Fatal(err)
	}
	b.HandlePacket(b.now, Packet{Bytes: packet, Inside: true})
	b.drain()
	m, out := b.take(1)
	if m.Proof == nil || *m.Proof != proof || m.Src.L64 != siteA || len(out.Locators) != 2 ||
		len(b.policy.internalOf(out.Locators)) > 0 {
		t.Errorf("outside %+v %+v", m, out)
	}
	proof.Step = ilnp.ProofAnswer
	u = ilnp.LocatorUpdate{Operation: ilnp.Acknowledgement, Locators: []ilnp.LocatorEntry{{L64: remote, Lifetime: 1}}}
	packet, err = ilnp.BuildProof(theirs, roam.ILV{L64: siteA, NID: insideNID}, inward, u, proof)
	if err != nil {
		t.Fatal(err)
	}
	b.HandlePacket(b.now, Packet{Bytes: packet})
	b.drain()
	m, in := b.take(inside)
	if m.Proof == nil || *m.Proof != proof || m.Dst != mine || !slices.Equal(in.Locators, u.Locators) {
		t.Errorf("inside %+v %+v; refused %v", m, in, b.refused)
	}
}

// A border cannot verify proofs. Those with other nonces than the flow's pass, and change nothing of
// it: else anybody on the site could have the border send the flow's nonce to a place of his choice.
func TestProofChangesNoFlow(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, nil)
	b.drain()
	before := *b.flows[seenFlow.FlowKey]
	elsewhere, forged := theirs, outward
	elsewhere.L64++
	forged.Bytes[0]++
	b.now = b.now.Add(time.Millisecond)
	for _, inside := range []bool{true, false} {
		for _, op := range []ilnp.Operation{ilnp.Advertisement, ilnp.Acknowledgement} {
			src, dst := mine, elsewhere
			if !inside {
				src, dst = elsewhere, roam.ILV{L64: siteA, NID: insideNID}
			}
			u := ilnp.LocatorUpdate{Operation: op, Locators: []ilnp.LocatorEntry{{L64: elsewhere.L64, Lifetime: 1}}}
			packet, err := ilnp.BuildProof(src, dst, forged, u, ilnp.Proof{Step: ilnp.ProofAnswer, Locators: [ilnp.ProofLocators]roam.L64{elsewhere.L64}})
			if err != nil {
				t.Fatal(err)
			}
			b.HandlePacket(b.now, Packet{Bytes: packet, Inside: inside})
			b.drain()
		}
	}
	f := b.flows[seenFlow.FlowKey]
	if f.Remote != before.Remote || !f.Sent.Equal(before.Sent) || !slices.Equal(f.remotes, before.remotes) {
		t.Errorf("the flow was %+v, and is %+v", before, *f)
	}
}
