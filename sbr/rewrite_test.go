package sbr

import (
	"bytes"
	"encoding/binary"
	"testing"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

const (
	insideNID  roam.NID = 0x0002_0003_0004_0005
	outsideNID roam.NID = 0x1002_1003_1004_1005
	internal   roam.L64 = 0xfd00_0000_0001_0000
	siteA      roam.L64 = 0x2001_0db8_000a_0000
	siteB      roam.L64 = 0x2001_0db8_000b_0000
	remote     roam.L64 = 0x2001_0db8_00cc_0000
)

// upper makes a whole packet from src to dst with a valid checksum.
func upper(t *testing.T, src, dst roam.ILV, proto uint8, body ...byte) []byte {
	t.Helper()
	h := ip6.Header{NextHeader: proto, HopLimit: 64, Src: src.Addr(), Dst: dst.Addr(), PayloadLen: uint16(len(body))}
	b, err := h.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, body...)
	if err := ip6.FinishL4(b); err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	mine   = roam.ILV{L64: internal, NID: insideNID}
	theirs = roam.ILV{L64: remote, NID: outsideNID}
)

func datagram(t *testing.T, data ...byte) []byte {
	body := append([]byte{0x12, 0x34, 0x56, 0x78, 0, 8 + byte(len(data)), 0, 0}, data...)
	return upper(t, mine, theirs, ip6.UDP, body...)
}

func valid(b []byte) bool {
	c, err := ip6.Walk(b)
	return err == nil && ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, b[c.UpperOffset:c.End]) == 0
}

// A rewritten packet is what its sender would have sent from the other locator, and comes
// back as it was.
func TestRewrite(t *testing.T) {
	tcp := append([]byte{1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0}, "data"...)
	for name, b := range map[string][]byte{
		"UDP":    datagram(t, 1, 2, 3),
		"TCP":    upper(t, mine, theirs, ip6.TCP, tcp...),
		"ICMPv6": upper(t, mine, theirs, ip6.ICMPv6, 128, 0, 0, 0, 1, 2, 3, 4),
	} {
		out, err := Rewrite(b, Source, siteA, RuleIPv6)
		if err != nil || !valid(out) {
			t.Errorf("%s: %v, %x", name, err, out)
			continue
		}
		if roam.L64(binary.BigEndian.Uint64(out[8:])) != siteA || !bytes.Equal(out[16:40], b[16:40]) {
			t.Errorf("%s: addresses %x", name, out[8:40])
		}
		if back, err := Rewrite(out, Source, internal, RuleIPv6); err != nil || !bytes.Equal(back, b) {
			t.Errorf("%s: comes back as %x: %v", name, back, err)
		}
		old, err := Rewrite(b, Source, siteA, RuleRFC6741)
		if err != nil || bytes.Equal(old[40:], b[40:]) == (name == "ICMPv6") {
			t.Errorf("%s by the rule of RFC 6741: %x, %v", name, old, err)
		}
	}
}

// A UDP checksum of zero stays, and one that becomes zero is sent as 0xffff.
func TestRewriteUDPZero(t *testing.T) {
	b := datagram(t, 1, 2)
	b[46], b[47] = 0, 0
	if out, err := Rewrite(b, Source, siteA, RuleIPv6); err != nil || out[46] != 0 || out[47] != 0 {
		t.Errorf("no checksum: %x, %v", out, err)
	}
	for v := range 0x10000 {
		b := datagram(t, byte(v>>8), byte(v))
		out, err := Rewrite(b, Source, siteA, RuleIPv6)
		if err != nil || !valid(out) || out[46] == 0 && out[47] == 0 {
			t.Fatalf("data %x: %x, %v", v, out[40:], err)
		}
	}
}

// The error about a packet that left quotes it as it was inside, whatever was cut off.
func TestRewriteError(t *testing.T) {
	sent := datagram(t, make([]byte, 100)...)
	outside, err := Rewrite(sent, Source, siteB, RuleIPv6)
	if err != nil {
		t.Fatal(err)
	}
	router := roam.ILV{L64: 0x2001_0db8_0000_0001, NID: 1}
	for _, n := range []int{40, 44, 48, len(outside)} {
		m := ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Param: 1400, Quoted: outside[:n]}
		b, err := ilnp.BuildError(router, roam.ILV{L64: siteB, NID: insideNID}, ilnp.Nonce{}, m)
		if err != nil {
			t.Fatal(err)
		}
		in, err := RewriteError(b, Destination, internal, RuleIPv6)
		if err != nil || !valid(in) || !bytes.Equal(in[24:40], sent[8:24]) || !bytes.Equal(in[48:], sent[:n]) {
			t.Errorf("%d bytes quoted: %x, %v", n, in, err)
		}
		if back, err := RewriteError(in, Destination, siteB, RuleIPv6); err != nil || !bytes.Equal(back, b) {
			t.Errorf("%d bytes quoted: comes back as %x, %v", n, back, err)
		}
	}
}

// No bytes make the functions panic, and what they accept keeps its length.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte{0x60, 39: 0}, true)
	f.Fuzz(func(t *testing.T, b []byte, out bool) {
		at := Destination
		if out {
			at = Source
		}
		if r, err := Rewrite(b, at, siteA, RuleIPv6); err == nil && len(r) != len(b) {
			t.Errorf("%d bytes become %d", len(b), len(r))
		}
		_, _ = RewriteError(b, at, siteA, RuleIPv6)
		c := New(coalesce, port, maxFlows, theProbe)
		c.HandlePolicy(origin, testPolicy(50, 50))
		c.HandlePacket(origin, Packet{Bytes: b, Inside: out})
	})
}
