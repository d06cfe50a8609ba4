package sbr

import (
	"bytes"
	"slices"
	"testing"

	"roam"
	"roam/wire/ilnp"
)

// plainError is an error from one node to another one about a datagram of the latter.
func plainError(t *testing.T, from, to roam.ILV, quoted []byte) []byte {
	t.Helper()
	m := ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Param: 1400, Quoted: quoted}
	e, err := ilnp.BuildError(from, to, ilnp.Nonce{}, m)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// fallsBack hands over an error of no flow, and compares what becomes of it: it leaves by a link as it is, or is
// refused.
func (b *border) fallsBack(what string, p Packet, link roam.LinkID) {
	b.Helper()
	b.HandleFallback(Forward, true)
	b.HandlePacket(b.now, p)
	if b.drain(); len(b.sent) != 1 || b.sent[0].Link != link || !bytes.Equal(b.sent[0].Packet, p.Bytes) {
		b.Errorf("%s: forward sends %+v, refused %v; want %x by link %d",
			what, b.sent, b.refused, p.Bytes, link)
	}
	b.sent, b.refused = nil, nil
	b.HandleFallback(Drop, true)
	b.HandlePacket(b.now, p)
	if b.drain(); len(b.sent) != 0 || !slices.Equal(b.refused, []Refusal{NoFlow}) {
		b.Errorf("%s: drop sends %+v, refused %v", what, b.sent, b.refused)
	}
	b.refused = nil
}

// An error about a packet that the programs did not translate is not translated either: it passes as it is, or is
// dropped as those are.
func TestErrorsFallBack(t *testing.T) {
	b, host := newBorder(t), roam.ILV{L64: siteA, NID: insideNID}
	in := plainError(t, theirs, host, upper(t, host, theirs, 17, 1, 2, 3, 4, 0, 9, 0, 0, 5))
	b.fallsBack("in", Packet{Bytes: in}, Routed)
	router := roam.ILV{L64: internal, NID: 1}
	out := plainError(t, router, theirs, upper(t, theirs, host, 17, 1, 2, 3, 4, 0, 9, 0, 0, 5))
	b.fallsBack("out", Packet{Bytes: out, Inside: true, Link: 9}, 1)
}

// An error about a packet between two inside nodes that named its destination by a site locator comes from there, and
// quotes the packet as its sender sent it; one that quotes anything else does not pass.
func TestErrorAboutHairpin(t *testing.T) {
	b, other := newBorder(t), roam.ILV{L64: internal, NID: 7}
	asked, came := roam.ILV{L64: siteB, NID: other.NID}, roam.ILV{L64: siteB, NID: mine.NID}
	sent := upper(t, mine, asked, 17, 1, 2, 3, 4, 0, 9, 0, 0, 5)
	e := plainError(t, other, came, upper(t, came, other, 17, 1, 2, 3, 4, 0, 9, 0, 0, 5))
	b.HandlePacket(b.now, Packet{Bytes: e, Inside: true, Link: 9})
	if b.drain(); len(b.sent) != 1 || b.sent[0].Link != Routed || !bytes.HasSuffix(b.sent[0].Packet, sent) {
		t.Fatalf("sent %+v, refused %v; want %x quoted", b.sent, b.refused, sent)
	}
	if m, err := ilnp.ParsePacket(b.sent[0].Packet); err != nil || m.Src != asked || m.Dst != mine {
		t.Errorf("from %v to %v, %v", m.Src, m.Dst, err)
	}
	b.sent = nil
	for _, quoted := range [][]byte{
		upper(t, came, theirs, 17, 1, 2, 3, 4, 0, 9, 0, 0, 5),
		upper(t, mine, other, 17, 1, 2, 3, 4, 0, 9, 0, 0, 5),
	} {
		b.refused = nil
		b.HandlePacket(b.now, Packet{Bytes: plainError(t, other, came, quoted), Inside: true, Link: 9})
		if b.drain(); len(b.sent) != 0 || !slices.Equal(b.refused, []Refusal{UnknownLocators}) {
			t.Errorf("quotes %x: sent %+v, refused %v", quoted, b.sent, b.refused)
		}
	}
}

// An error about a packet of a session is translated without a flow, too: the packet has a nonce, in UDP as well, or
// the bit of the flow label, or the error has a nonce.
func TestErrorsOfSessionsDoNotFallBack(t *testing.T) {
	host := roam.ILV{L64: siteA, NID: insideNID}
	echo, err := ilnp.BuildEcho(host, theirs, inward, true, 1, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	inUDP, err := ilnp.Encapsulate(echo, port)
	if err != nil {
		t.Fatal(err)
	}
	plain := upper(t, host, theirs, 17, 1, 2, 3, 4, 0, 9, 0, 0, 5)
	marked := slices.Clone(plain)
	marked[1] |= 8
	m := ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Param: 1400, Quoted: plain}
	nonced, err := ilnp.BuildError(theirs, host, inward, m)
	if err != nil {
		t.Fatal(err)
	}
	for what, packet := range map[string][]byte{
		"nonce": plainError(t, theirs, host, echo), "in UDP": plainError(t, theirs, host, inUDP),
		"flow label": plainError(t, theirs, host, marked), "nonce of the error": nonced,
	} {
		for _, f := range []Fallback{Translate, Forward, Drop} {
			b := newBorder(t)
			b.HandleFallback(f, true)
			b.HandlePacket(b.now, Packet{Bytes: packet})
			if b.drain(); len(b.sent) != 1 || sourceOfQuoted(t, b.sent[0].Packet) != internal {
				t.Errorf("%s, %d: sent %+v, refused %v", what, f, b.sent, b.refused)
			}
		}
	}
}

// sourceOfQuoted returns the source locator of the packet that an error quotes.
func sourceOfQuoted(t *testing.T, packet []byte) roam.L64 {
	t.Helper()
	m, err := ilnp.ParsePacket(packet)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ilnp.ParseError(m.Payload)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ilnp.ParseQuoted(e.Quoted)
	if err != nil {
		t.Fatal(err)
	}
	return q.Src.L64
}
