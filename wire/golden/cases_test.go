package golden_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"roam"
	"roam/wire/golden"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// entry is the session of most cases. Its addresses are of the documentation
// prefix, so that no file can be mistaken for a capture of real traffic.
func entry() xlate.Entry {
	return xlate.Entry{
		SessionPrefix: roam.DefaultSessionPrefix,
		LocalAlias:    0x1c4f_52a9_7be1_0d33, LocalNID: 0x1c4f_52a9_7be1_0d33, LocalL64: 0x2001_0db8_0001_000a,
		RemoteAlias: 0xa05e_91cc_04f2_b867, RemoteNID: 0xa05e_91cc_04f2_b867, RemoteL64: 0x2001_0db8_00b2_0002,
		Nonce: nonce(4),
	}
}

// nonce returns a nonce of n bytes; 0 gives none.
func nonce(n int) ilnp.Nonce {
	v := []byte{0x5a, 0xc3, 0x0f, 0x96, 0xe1, 0x27, 0x88, 0x4d, 0x73, 0xb0, 0x1e, 0xf5}
	out, _ := ilnp.NewNonce(v[:n])
	return out
}

// session returns the session address of an end.
func session(e xlate.Entry, local bool) roam.ILV {
	if local {
		return roam.ILV{L64: e.SessionPrefix, NID: e.LocalAlias}
	}
	return roam.ILV{L64: e.SessionPrefix, NID: e.RemoteAlias}
}

// wire returns the wire address of an end.
func wire(e xlate.Entry, local bool) roam.ILV {
	if local {
		return roam.ILV{L64: e.LocalL64, NID: e.LocalNID}
	}
	return roam.ILV{L64: e.RemoteL64, NID: e.RemoteNID}
}

// ext is an extension header; its first byte is filled in by packet.
type ext struct {
	proto uint8
	body  []byte
}

// packet puts headers and an upper layer together. finish says whether the
// upper-layer checksum is to be computed over src and dst.
func packet(t *testing.T, src, dst roam.ILV, exts []ext, proto uint8, upper []byte, finish bool) []byte {
	t.Helper()
	var chain []byte
	first, next := proto, proto
	for i := len(exts) - 1; i >= 0; i-- {
		h := bytes.Clone(exts[i].body)
		h[0] = next
		chain, next = append(h, chain...), exts[i].proto
		first = next
	}
	h := ip6.Header{
		FlowLabel: 0x3a51c, PayloadLen: uint16(len(chain) + len(upper)), NextHeader: first,
		HopLimit: 64, Src: src.Addr(), Dst: dst.Addr(),
	}
	b, err := h.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b = append(append(b, chain...), upper...)
	if finish {
		if err := ip6.FinishL4(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// tcp returns a segment with a checksum of zero.
func tcp(flags uint8, options, data []byte) []byte {
	b := make([]byte, 20, 20+len(options)+len(data))
	binary.BigEndian.PutUint16(b[0:], 43210)
	binary.BigEndian.PutUint16(b[2:], 5201)
	binary.BigEndian.PutUint32(b[4:], 0x7d10_55a2)
	binary.BigEndian.PutUint32(b[8:], 0x01f3_9c44)
	b[12] = uint8((20+len(options))/4) << 4
	b[13] = flags
	binary.BigEndian.PutUint16(b[14:], 64800)
	return append(append(b, options...), data...)
}

// udp returns a datagram with a checksum of zero.
func udp(data []byte) []byte {
	b := make([]byte, 8, 8+len(data))
	binary.BigEndian.PutUint16(b[0:], 40000)
	binary.BigEndian.PutUint16(b[2:], 40001)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(data)))
	return append(b, data...)
}

// text is n bytes that are not all alike.
func text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = uint8(i*7 + i>>5)
	}
	return b
}

// upper returns an ICMPv6 message as it comes from its AppendTo.
func upper(t *testing.T, m interface {
	AppendTo([]byte) ([]byte, error)
}) []byte {
	t.Helper()
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fragment returns the body of a Fragment header.
func fragment(offset uint16, more bool) ext {
	b := []byte{0, 0, 0, 0, 0x6b, 0x20, 0x19, 0xd4}
	if more {
		offset |= 1
	}
	binary.BigEndian.PutUint16(b[2:], offset)
	return ext{proto: ip6.Fragment, body: b}
}

// hopByHop is a header with a router alert (RFC 2711) and padding.
func hopByHop() ext {
	return ext{proto: ip6.HopByHop, body: []byte{0, 0, 0x05, 2, 0, 0, ip6.PadN, 0}}
}

// update is the Locator Update of the cases.
func update(draft bool) ilnp.LocatorUpdate {
	u := ilnp.LocatorUpdate{Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{
		{L64: 0x2001_0db8_0001_000a, Preference: 10, Lifetime: 1800},
		{L64: 0x2001_0db8_0003_00c4, Preference: 20, Lifetime: 300},
	}}
	if draft {
		u.Code, u.Form = ilnp.CodeReplaceSoft, ilnp.FormDraft
		u.Locators[0].Lifetime = 604800
	}
	return u
}

// spec is one case before its packets are made: upper goes from end to end,
// through the packet function, in session addresses.
type spec struct {
	name, description string
	direction         golden.Direction
	edit              func(*xlate.Entry)
	exts              []ext
	proto             uint8
	upper             []byte
	raw               bool // leave the checksum as it is
	foreign           bool // made with wire addresses at once, as our own plane would not make it
	class             uint8
}

// build makes the input of a case and lets the model make the output.
func (s spec) build(t *testing.T) golden.Case {
	t.Helper()
	e := entry()
	if s.edit != nil {
		s.edit(&e)
	}
	c := golden.Case{Description: s.description, Direction: s.direction, Entry: e}
	out := s.direction == golden.Outward
	if !out {
		// The packet of a correspondent is made in its own view, where ends are
		// swapped, and then travels: only the outward model is needed for it.
		e = swap(e)
	}
	src, dst := session(e, true), session(e, false)
	if s.foreign {
		src, dst = wire(e, true), wire(e, false)
	}
	c.Session = packet(t, src, dst, s.exts, s.proto, s.upper, !s.raw)
	c.Session[0], c.Session[1] = 0x60|s.class>>4, c.Session[1]|s.class<<4
	c.Wire = c.Session
	var err error
	if !s.foreign {
		if c.Wire, err = xlate.Outward(c.Session, e); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	if out {
		return c
	}
	if c.Session, err = xlate.Inward(c.Wire, c.Entry); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return c
}

// swap returns the entry as the correspondent has it.
func swap(e xlate.Entry) xlate.Entry {
	e.LocalAlias, e.RemoteAlias = e.RemoteAlias, e.LocalAlias
	e.LocalNID, e.RemoteNID = e.RemoteNID, e.LocalNID
	e.LocalL64, e.RemoteL64 = e.RemoteL64, e.LocalL64
	return e
}
