package xlate_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// entry is the session as the one end has it; mirror is the same as the other
// end has it.
func entry() xlate.Entry {
	return xlate.Entry{
		SessionPrefix: roam.DefaultSessionPrefix,
		LocalAlias:    0x1c4f_52a9_7be1_0d33, LocalNID: 0x1c4f_52a9_7be1_0d33, LocalL64: 0x2001_0db8_0001_000a,
		RemoteAlias: 0xa05e_91cc_04f2_b867, RemoteNID: 0xa05e_91cc_04f2_b867, RemoteL64: 0x2001_0db8_00b2_0002,
	}
}

func mirror(e xlate.Entry) xlate.Entry {
	e.LocalAlias, e.RemoteAlias = e.RemoteAlias, e.LocalAlias
	e.LocalNID, e.RemoteNID = e.RemoteNID, e.LocalNID
	e.LocalL64, e.RemoteL64 = e.RemoteL64, e.LocalL64
	return e
}

func nonce(n int) ilnp.Nonce {
	v, _ := ilnp.NewNonce([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}[:n])
	return v
}

func sessionEnds(e xlate.Entry) (local, remote roam.ILV) {
	return roam.ILV{L64: e.SessionPrefix, NID: e.LocalAlias}, roam.ILV{L64: e.SessionPrefix, NID: e.RemoteAlias}
}

func wireEnds(e xlate.Entry) (local, remote roam.ILV) {
	return roam.ILV{L64: e.LocalL64, NID: e.LocalNID}, roam.ILV{L64: e.RemoteL64, NID: e.RemoteNID}
}

// packet makes a packet out of extension headers, ready made, and an upper
// layer; its checksum is computed if it is whole.
func packet(src, dst roam.ILV, first uint8, payload []byte) []byte {
	h := ip6.Header{TrafficClass: 0x12, FlowLabel: 0x345, PayloadLen: uint16(len(payload)), NextHeader: first,
		HopLimit: 9, Src: src.Addr(), Dst: dst.Addr()}
	b, err := h.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	b = append(b, payload...)
	_ = ip6.FinishL4(b) // what has no checksum to finish stays as it is
	return b
}

func random(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 9))
	b := make([]byte, n)
	for i := range b {
		b[i] = uint8(r.Uint32())
	}
	return b
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// payloads are upper layers behind various headers.
func payloads() map[string]struct {
	first uint8
	bytes []byte
} {
	dest := func(next uint8) []byte { return []byte{next, 0, 0x1e, 4, 1, 2, 3, 4} }
	frag := func(next uint8, offset, more uint8) []byte { return []byte{next, 0, 0, offset | more, 7, 7, 7, 7} }
	type p = struct {
		first uint8
		bytes []byte
	}
	return map[string]p{
		"tcp":               {ip6.TCP, random(77, 1)},
		"udp":               {ip6.UDP, random(30, 2)},
		"icmpv6":            {ip6.ICMPv6, join([]byte{128, 0}, random(20, 3))},
		"behind options":    {ip6.DestOpts, join(dest(ip6.UDP), random(20, 4))},
		"first fragment":    {ip6.Fragment, join(frag(ip6.TCP, 0, 1), random(64, 5))},
		"later fragment":    {ip6.Fragment, join(frag(ip6.TCP, 64, 0), random(3, 6))},
		"atomic fragment":   {ip6.Fragment, join(frag(ip6.UDP, 0, 0), random(19, 7))},
		"udp-lite":          {ip6.UDPLite, random(50, 8)},
		"dccp":              {ip6.DCCP, random(50, 9)},
		"unknown transport": {253, random(5, 10)},
		"nothing":           {ip6.NoNext, nil},
	}
}

// A packet that goes out here and comes in there is the same again, at the
// same length, whatever nonce and rule.
func TestRoundTrip(t *testing.T) {
	for name, p := range payloads() {
		for _, rule := range []xlate.Rule{xlate.RuleIPv6, xlate.RuleRFC6741} {
			for _, n := range []int{0, 4, 12} {
				e := entry()
				e.Rule = rule
				if n > 0 {
					e.Nonce = nonce(n)
				}
				src, dst := sessionEnds(e)
				b := packet(src, dst, p.first, p.bytes)
				was := bytes.Clone(b)
				out, err := xlate.Outward(b, e)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if !bytes.Equal(b, was) {
					t.Fatalf("%s: the input was changed", name)
				}
				if len(out) != len(b)+e.Nonce.HeaderLen() {
					t.Errorf("%s: %d bytes become %d with a nonce of %d", name, len(b), len(out), n)
				}
				wantWire(t, name, out, e)
				back, err := xlate.Inward(out, mirror(e))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if !bytes.Equal(back, b) {
					t.Errorf("%s, %v, nonce of %d: came back as\n%x, was\n%x", name, rule, n, back, b)
				}
			}
		}
	}
}

// ESP is translated like any other transport: what it protects is neither read
// nor changed, so that an association between session addresses, which hold no
// locator, survives every change of locators (RFC 6741 §9).
func TestSecuredPayloadIsUntouched(t *testing.T) {
	const esp = 50
	secured := random(64, 11)
	for _, n := range []int{0, 4, 12} {
		for _, l := range []roam.L64{0x2001_0db8_0001_000a, 0x2001_0db8_0009_0000} {
			e := entry()
			e.LocalL64 = l
			if n > 0 {
				e.Nonce = nonce(n)
			}
			src, dst := sessionEnds(e)
			b := packet(src, dst, esp, secured)
			out, err := xlate.Outward(b, e)
			if err != nil {
				t.Fatal(err)
			}
			wantWire(t, "esp", out, e)
			if !bytes.HasSuffix(out, secured) {
				t.Errorf("nonce of %d: the protected part was changed", n)
			}
			if back, err := xlate.Inward(out, mirror(e)); err != nil || !bytes.Equal(back, b) {
				t.Errorf("nonce of %d: came back as %x, %v", n, back, err)
			}
		}
	}
}

// wantWire verifies what an outward packet must be, apart from the model.
func wantWire(t *testing.T, name string, out []byte, e xlate.Entry) {
	t.Helper()
	p, err := ilnp.ParseQuoted(out)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	src, dst := wireEnds(e)
	if p.Src != src || p.Dst != dst || p.Nonce != e.Nonce || p.TrafficClass != 0x12 || p.HopLimit != 9 {
		t.Errorf("%s: on the wire %+v", name, p)
	}
	if off, _, ok := ip6.ChecksumOffset(p.Proto); !ok || p.Fragmented || p.Proto == ip6.UDPLite ||
		p.Proto == ip6.DCCP || len(p.Payload) < off {
		return
	}
	if e.Rule == xlate.RuleRFC6741 && p.Proto != ip6.ICMPv6 {
		src.L64, dst.L64 = 0, 0
	}
	if sum := ip6.Checksum(src.Addr(), dst.Addr(), p.Proto, p.Payload); sum != 0 {
		t.Errorf("%s: checksum on the wire is off by %#04x", name, sum)
	}
}

// Handles that differ from NIDs count in the checksum.
func TestHandles(t *testing.T) {
	e := entry()
	e.SessionPrefix = 0xfd00_0000_0000_0001 // one that is not neutral
	e.LocalAlias, e.RemoteAlias = 0x0200_0000_0000_0007, 0x0200_0000_0000_0001
	src, dst := sessionEnds(e)
	b := packet(src, dst, ip6.TCP, random(60, 11))
	out, err := xlate.Outward(b, e)
	if err != nil {
		t.Fatal(err)
	}
	wantWire(t, "handles", out, e)
	back, err := xlate.Inward(out, mirror(e))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back, b) {
		t.Errorf("came back as\n%x, was\n%x", back, b)
	}
}

// The default session prefix makes the old rule free: nothing changes.
func TestOldRuleCostsNothing(t *testing.T) {
	e := entry()
	e.Rule = xlate.RuleRFC6741
	src, dst := sessionEnds(e)
	b := packet(src, dst, ip6.TCP, random(60, 12))
	out, err := xlate.Outward(b, e)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out[40:], b[40:]) {
		t.Error("the checksum changed")
	}
}

func TestUDPZero(t *testing.T) {
	e := entry()
	e.Nonce = nonce(4)
	src, dst := sessionEnds(e)
	b := packet(src, dst, ip6.UDP, random(30, 13))
	binary.BigEndian.PutUint16(b[46:], 0)
	out, err := xlate.Outward(b, e)
	if err != nil {
		t.Fatal(err)
	}
	if got := binary.BigEndian.Uint16(out[54:]); got != 0 {
		t.Errorf("no checksum becomes %#04x", got)
	}
	back, err := xlate.Inward(out, mirror(e))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back, b) {
		t.Error("the packet did not come back")
	}
}

// Damage stays damage: the model must not make a wrong checksum good.
func TestDamageStays(t *testing.T) {
	e := entry()
	src, dst := sessionEnds(e)
	for _, proto := range []uint8{ip6.TCP, ip6.UDP, ip6.ICMPv6} {
		b := packet(src, dst, proto, random(61, 14))
		b[100] ^= 4
		out, err := xlate.Outward(b, e)
		if err != nil {
			t.Fatal(err)
		}
		s, d := wireEnds(e)
		if ip6.Checksum(s.Addr(), d.Addr(), proto, out[40:]) == 0 {
			t.Errorf("protocol %d: damage was mended", proto)
		}
	}
}

func TestInwardNonce(t *testing.T) {
	e := entry()
	e.Nonce = nonce(4)
	src, dst := sessionEnds(e)
	out, err := xlate.Outward(packet(src, dst, ip6.UDP, random(30, 15)), e)
	if err != nil {
		t.Fatal(err)
	}
	m := mirror(e)
	m.Nonce = nonce(12)
	if _, err := xlate.Inward(out, m); !errors.Is(err, xlate.ErrNonce) || !strings.Contains(err.Error(), "offset 42") {
		t.Errorf("another nonce: %v", err)
	}
	m.Nonce = ilnp.Nonce{}
	if _, err := xlate.Inward(out, m); err != nil {
		t.Errorf("no nonce asked for: %v", err)
	}
}

// Other options in the nonce's header stay where they are; wire/golden has more cases.
func TestInwardKeepsOtherOptions(t *testing.T) {
	e := entry()
	src, dst := wireEnds(e)
	options := []byte{ip6.UDP, 1, 0x1e, 4, 9, 9, 9, 9, 0x8b, 4, 1, 2, 3, 4, 1, 0}
	in, err := xlate.Inward(packet(src, dst, ip6.DestOpts, join(options, random(30, 16))), mirror(e))
	if err != nil {
		t.Fatal(err)
	}
	want := []byte{ip6.UDP, 0, 0x1e, 4, 9, 9, 9, 9}
	if !bytes.Equal(in[40:48], want) || len(in) != 40+8+30 {
		t.Errorf("%d bytes, options %x, want %x", len(in), in[40:48], want)
	}
}

func TestRefusals(t *testing.T) {
	e := entry()
	e.Nonce = nonce(4)
	src, dst := sessionEnds(e)
	other := roam.ILV{L64: src.L64, NID: src.NID + 1}
	big := packet(src, dst, 253, make([]byte, 65535-7))
	routed := []byte{ip6.UDP, 0, 4, 1, 0, 0, 0, 0}
	withNonce := []byte{ip6.UDP, 0, 0x8b, 4, 1, 2, 3, 4}
	bad := e
	bad.Nonce.Len = 7
	for name, c := range map[string]struct {
		packet []byte
		entry  xlate.Entry
		want   error
	}{
		"another source":        {packet(other, dst, ip6.UDP, random(20, 1)), e, xlate.ErrAddress},
		"another destination":   {packet(src, other, ip6.UDP, random(20, 1)), e, xlate.ErrAddress},
		"segments left":         {packet(src, dst, ip6.Routing, join(routed, random(20, 1))), e, xlate.ErrUnsupported},
		"a nonce of its own":    {packet(src, dst, ip6.DestOpts, join(withNonce, random(20, 1))), e, ilnp.ErrTwoNonces},
		"no room for the nonce": {big, e, xlate.ErrUnsupported},
		"impossible nonce":      {packet(src, dst, ip6.UDP, random(20, 1)), bad, ilnp.ErrNonceLength},
		"short tcp header":      {packet(src, dst, ip6.TCP, random(19, 1)), e, ip6.ErrTruncated},
		"no packet":             {nil, e, ip6.ErrTruncated},
	} {
		if _, err := xlate.Outward(c.packet, c.entry); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := xlate.Inward(packet(src, dst, ip6.UDP, random(20, 1)), e); !errors.Is(err, xlate.ErrAddress) {
		t.Errorf("session addresses inward: %v", err)
	}
}

func TestTruncation(t *testing.T) {
	e := entry()
	e.Nonce = nonce(12)
	src, dst := sessionEnds(e)
	b := packet(src, dst, ip6.TCP, random(25, 17))
	out, err := xlate.Outward(b, e)
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if _, err := xlate.Outward(b[:n], e); !errors.Is(err, ip6.ErrTruncated) || !strings.Contains(err.Error(), "offset") {
			t.Errorf("outward, %d bytes: %v", n, err)
		}
	}
	for n := range out {
		if _, err := xlate.Inward(out[:n], mirror(e)); !errors.Is(err, ip6.ErrTruncated) ||
			!strings.Contains(err.Error(), "offset") {
			t.Errorf("inward, %d bytes: %v", n, err)
		}
	}
}

func TestRuleString(t *testing.T) {
	for r, want := range map[xlate.Rule]string{xlate.RuleIPv6: "ipv6", xlate.RuleRFC6741: "rfc6741", 9: "rule 9"} {
		if r.String() != want {
			t.Errorf("rule %d is %q, want %q", uint8(r), r, want)
		}
	}
}
