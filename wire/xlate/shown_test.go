package xlate

import (
	"encoding/binary"
	"testing"

	"roam"
	"roam/wire/ip6"
)

// TestShown: what the checksum of a packet says of the stack that sent it.
func TestShown(t *testing.T) {
	src, dst := roam.ILV{L64: 0x2001_0db8_0001_0002, NID: 3}, roam.ILV{L64: 0x2001_0db8_0004_0005, NID: 6}
	datagram := func(from, to roam.ILV) []byte {
		b := make([]byte, ip6.HeaderLen+8+5)
		b[0], b[6], b[7] = 6<<4, ip6.UDP, 64
		binary.BigEndian.PutUint16(b[4:], 13)
		setAddresses(b, from, to)
		copy(b[ip6.HeaderLen:], []byte{1, 2, 3, 4, 0, 13, 0, 0, 'h', 'e', 'l', 'l', 'o'})
		if err := ip6.FinishL4(b); err != nil {
			t.Fatal(err)
		}
		setAddresses(b, src, dst)
		return b
	}
	zero := func(v roam.ILV) roam.ILV { return roam.ILV{NID: v.NID} }
	seed := datagram(src, dst)
	field := seed[ip6.HeaderLen+6:]
	a, d := src.Addr().As16(), dst.Addr().As16()
	binary.BigEndian.PutUint16(field, ip6.Add(ip6.Add(ip6.Sum(a[:]), ip6.Sum(d[:])), uint16(13+ip6.UDP)))
	wrong := datagram(src, dst)
	wrong[len(wrong)-1]++
	none := datagram(src, dst)
	binary.BigEndian.PutUint16(none[ip6.HeaderLen+6:], 0)
	for _, c := range []struct {
		name    string
		pkt     []byte
		rule    Rule
		partial bool
	}{
		{"over the addresses", datagram(src, dst), RuleIPv6, false},
		{"over the NIDs", datagram(zero(src), zero(dst)), RuleRFC6741, false},
		{"to be finished", seed, RuleIPv6, true},
		{"wrong", wrong, RuleIPv6, false},
		{"without a sum", none, RuleIPv6, false},
		{"cut off", seed[:45], RuleIPv6, false},
	} {
		if rule, partial := Shown(c.pkt); rule != c.rule || partial != c.partial {
			t.Errorf("%s: %v, to be finished: %t; want %v, %t", c.name, rule, partial, c.rule, c.partial)
		}
	}
}
