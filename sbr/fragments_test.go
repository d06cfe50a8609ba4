package sbr

import (
	"slices"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// manyLocators is the body of an update that fits into no packet of 1,280 bytes.
func manyLocators(first roam.L64, more int) (list []ilnp.LocatorEntry) {
	const others roam.L64 = 0xfd00_0000_0002_0000
	list = append(list, ilnp.LocatorEntry{L64: first, Preference: 1, Lifetime: 600})
	for i := range more {
		list = append(list, ilnp.LocatorEntry{L64: others + roam.L64(i), Preference: 1, Lifetime: 600})
	}
	return list
}

// handlePieces hands over an update in fragments but the one of that index, the last one first.
func (b *border) handlePieces(
	inside, encap bool, src, dst roam.ILV, n ilnp.Nonce, u ilnp.LocatorUpdate, id uint32, without int,
) {
	b.Helper()
	packet, err := ilnp.BuildUpdate(src, dst, n, u)
	if err == nil && encap {
		packet, err = ilnp.Encapsulate(packet, port)
	}
	if err != nil {
		b.Fatal(err)
	}
	parts, err := ip6.Split(packet, minMTU, id)
	if err != nil || len(parts) < 2 {
		b.Fatalf("%d fragments, %v", len(parts), err)
	}
	slices.Reverse(parts)
	for i, part := range parts {
		if i != without {
			b.HandlePacket(b.now, Packet{Bytes: part, Inside: inside})
		}
	}
	b.drain()
}

// joined is the one message that was sent, in fragments if it needs them.
func (b *border) joined(link roam.LinkID) (ilnp.Packet, ilnp.LocatorUpdate) {
	b.Helper()
	if len(b.sent) == 1 && len(b.sent[0].Packet) <= minMTU {
		return b.take(link)
	}
	var list [][]byte
	for _, s := range b.sent {
		if len(s.Packet) > minMTU || s.Link != link {
			b.Fatalf("%d bytes on link %d", len(s.Packet), s.Link)
		}
		list = append(list, s.Packet)
	}
	whole, ok, err := ip6.Join(list)
	if !ok || err != nil {
		b.Fatalf("%d fragments sent: %v, %v; refused %v", len(list), ok, err, b.refused)
	}
	b.sent = []Transmit{{link, whole}}
	return b.take(link)
}

// An update in fragments leaves with the site's locators, and its acknowledgement in fragments
// comes back with the sender's own body, in fragments again.
func TestUpdateInFragments(t *testing.T) {
	for _, encap := range []bool{false, true} {
		b := newBorder(t)
		b.HandleFlow(b.now, seenFlow, nil)
		b.drain()
		b.sent = nil
		u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: manyLocators(internal, 200)}
		b.handlePieces(true, encap, mine, theirs, outward, u, 7, -1)
		m, out := b.joined(1)
		isTold := len(out.Locators) == 2 && len(b.policy.internalOf(out.Locators)) == 0
		if m.Src.L64 != siteA || m.Encapsulated != encap || !isTold {
			t.Errorf("outside %+v %+v", m, out)
		}
		b.handle(false, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, out.Ack())
		m, in := b.joined(9)
		if m.Dst != mine || in.Operation != ilnp.Acknowledgement || !slices.Equal(in.Locators, u.Locators) {
			t.Errorf("acknowledged inside %+v %+v", m, in)
		}
		foreign := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: manyLocators(remote, 200)}
		b.handlePieces(false, encap, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, foreign, 8, -1)
		if m, in := b.joined(9); m.Dst != mine || !slices.Equal(in.Locators, foreign.Locators) {
			t.Errorf("inside %+v %+v", m, in)
		}
		foreign.Locators[3].L64 = siteA
		b.handlePieces(false, encap, theirs, roam.ILV{L64: siteB, NID: insideNID}, inward, foreign, 9, -1)
		if len(b.sent) != 0 || !slices.Equal(b.refused, []Refusal{ForeignLocators}) {
			t.Errorf("another site's update with our locator: %d sent, refused %v", len(b.sent), b.refused)
		}
	}
}

// What does not come together is refused once, after its time, and later messages find space again.
func TestFragmentsMissing(t *testing.T) {
	b := newBorder(t)
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: manyLocators(internal, 200)}
	for id := range uint32(mostUnvalidated + 5) {
		b.handlePieces(true, false, mine, theirs, outward, u, id, 0)
	}
	if n := len(b.incomplete); n != mostUnvalidated || len(b.refused) != 5 {
		t.Errorf("%d wait for fragments, refused %v", n, b.refused)
	}
	site := roam.ILV{L64: siteB, NID: insideNID}
	b.handlePieces(false, false, theirs, site, inward, ilnp.LocatorUpdate{
		Operation: ilnp.Advertisement, Locators: manyLocators(remote, 200),
	}, 1, -1)
	if b.joined(0); len(b.refused) != 5 {
		t.Errorf("from the other side: refused %v", b.refused)
	}
	b.until(b.now.Add(fragmentLife))
	if len(b.incomplete) != 0 || len(b.refused) != 5+mostUnvalidated || slices.Contains(b.refused, Malformed) {
		t.Errorf("%d wait for fragments, refused %v", len(b.incomplete), b.refused)
	}
	b.handlePieces(true, false, mine, theirs, outward, u, 1, -1)
	if _, out := b.joined(1); len(b.policy.internalOf(out.Locators)) > 0 {
		t.Errorf("outside %+v", out)
	}
	// Fragments of no use are not collected beyond the bound.
	long := upper(t, mine, theirs, ip6.ICMPv6, make([]byte, 12000)...)
	parts, err := ip6.Split(long, minMTU, 3)
	if err != nil {
		t.Fatal(err)
	}
	b.refused = nil
	for _, part := range parts[1 : mostFragments+1] {
		b.HandlePacket(b.now, Packet{Bytes: part, Inside: true})
	}
	b.drain()
	if len(b.incomplete) != 0 || !slices.Equal(b.refused, []Refusal{Incomplete}) {
		t.Errorf("%d fragments: %d wait, refused %v", len(parts), len(b.incomplete), b.refused)
	}
}

// Messages of which fragments are missing displace none of another flow, with the nonce of their own flow
// or with none.
func TestFragmentsAreShared(t *testing.T) {
	b := newBorder(t)
	b.HandleFlow(b.now, seenFlow, nil)
	other := seenFlow
	other.Inside, other.Outward = seenFlow.Inside+1, inward
	b.HandleFlow(b.now, other, nil)
	b.drain()
	b.sent = nil
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: manyLocators(internal, 200)}
	unlisted := roam.ILV{L64: internal, NID: 0x77}
	for id := range uint32(100) {
		b.handlePieces(true, false, unlisted, theirs, outward, u, id, 0)
		b.handlePieces(true, false, mine, theirs, outward, u, id, 0)
	}
	if n := len(b.incomplete); n != mostUnvalidated+mostOfFlow || len(b.refused) != 200-n {
		t.Errorf("%d wait for fragments, %d are refused", n, len(b.refused))
	}
	b.handlePieces(true, false, roam.ILV{L64: internal, NID: other.Inside}, theirs, inward, u, 1, -1)
	if m, out := b.joined(1); m.Src.NID != other.Inside || len(b.policy.internalOf(out.Locators)) > 0 {
		t.Errorf("of another flow: %+v, %+v", m, out)
	}
}
