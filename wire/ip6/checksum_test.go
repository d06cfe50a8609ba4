package ip6_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"roam"
	"roam/wire/ip6"
)

// slowSum adds byte by byte and folds after every step: the definition, with
// nothing of the tested code's shape.
func slowSum(b []byte) uint16 {
	var s uint32
	for i, v := range b {
		if i%2 == 0 {
			s += uint32(v) * 256
		} else {
			s += uint32(v)
		}
		if s > 0xffff {
			s -= 0xffff
		}
	}
	return uint16(s)
}

func TestSumExample(t *testing.T) {
	// The example of RFC 1071 §3.
	if got := ip6.Sum([]byte{0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7}); got != 0xddf2 {
		t.Errorf("sum %#04x, want 0xddf2", got)
	}
}

func TestSumAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		b := make([]byte, n)
		for i := range b {
			b[i] = uint8(r.Uint32())
		}
		if got, want := ip6.Sum(b), slowSum(b); got%0xffff != want%0xffff {
			t.Errorf("%x: sum %#04x, want %#04x", b, got, want)
		}
	}
	big := bytes.Repeat([]byte{0xff}, 65535)
	if got := ip6.Sum(big); got%0xffff != slowSum(big)%0xffff {
		t.Errorf("65535 bytes of ones: sum %#04x", got)
	}
}

func TestSum64(t *testing.T) {
	for l, want := range map[roam.L64]uint16{
		0: 0, 0x0001_0002_0003_0004: 10, 0xffff_0001_0000_0000: 1, 0x2001_0db8_0001_0002: 0x2dbc,
		roam.DefaultSessionPrefix: 0xffff,
	} {
		if got := ip6.Sum64(l); got != want {
			t.Errorf("%v: sum %#04x, want %#04x", l, got, want)
		}
	}
}

// The default session prefix is worth nothing in a checksum.
func TestSessionPrefixIsNeutral(t *testing.T) {
	p := ip6.Sum64(roam.DefaultSessionPrefix)
	for _, check := range []uint16{1, 0x1234, 0x8000, 0xfffe} {
		if got := ip6.Adjust(check, 0, p); got != check {
			t.Errorf("checksum %#04x becomes %#04x", check, got)
		}
	}
}

func TestChecksumExample(t *testing.T) {
	// An echo request between ::1 and ::1, summed by hand:
	// 0001+0001+000a+003a+8000+0001+0002+4142 = c18b.
	one := netip.MustParseAddr("::1")
	if got := ip6.Checksum(one, one, ip6.ICMPv6, []byte{0x80, 0, 0, 0, 0, 1, 0, 2, 0x41, 0x42}); got != ^uint16(0xc18b) {
		t.Errorf("checksum %#04x, want %#04x", got, ^uint16(0xc18b))
	}
}

// Adjust agrees with computing anew.
func TestAdjust(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	msg := []byte("an odd number of bytes")
	for range 2000 {
		a, b := randomAddr(r), randomAddr(r)
		c, d := randomAddr(r), randomAddr(r)
		was := ip6.Checksum(a, b, ip6.TCP, msg)
		got := ip6.Adjust(was, pairSum(a, b), pairSum(c, d))
		if want := ip6.Checksum(c, d, ip6.TCP, msg); got != want {
			t.Fatalf("%v %v to %v %v: %#04x becomes %#04x, want %#04x", a, b, c, d, was, got, want)
		}
	}
}

func TestAdjustEdges(t *testing.T) {
	for _, c := range []struct{ check, from, to, want uint16 }{
		{0x1234, 0x5678, 0x5678, 0x1234},
		{0xdd2f, 0x5555, 0x3285, 0x0000}, // RFC 1624 §4: equation 3 gives 0000, not ffff
		{0x0000, 0, 0xffff, 0x0000},
		{0x0000, 1, 0, 0x0001},
		{0x0000, 0, 1, 0xfffe},
	} {
		if got := ip6.Adjust(c.check, c.from, c.to); got != c.want {
			t.Errorf("%#04x from %#04x to %#04x: %#04x, want %#04x", c.check, c.from, c.to, got, c.want)
		}
	}
}

func TestFinishL4(t *testing.T) {
	for name, p := range map[string][]byte{
		"tcp":             chainOf(ip6.TCP, bytes.Repeat([]byte{0xff}, 33)...),
		"udp":             chainOf(ip6.UDP, bytes.Repeat([]byte{0xff}, 9)...),
		"icmpv6":          chainOf(ip6.ICMPv6, bytes.Repeat([]byte{0xff}, 8)...),
		"behind a header": chainOf(ip6.DestOpts, join(dest(ip6.UDP), bytes.Repeat([]byte{0xff}, 8))...),
		"atomic fragment": chainOf(ip6.Fragment, join(frag(ip6.TCP, 0, 0), make([]byte, 20))...),
	} {
		p = append(p, 0xaa) // a byte of link-layer padding must not count
		if err := ip6.FinishL4(p); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, err := ip6.Walk(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, p[c.UpperOffset:c.End]); got != 0 {
			t.Errorf("%s: checksum is off by %#04x", name, got)
		}
	}
}

func TestFinishL4NeverLeavesUDPWithout(t *testing.T) {
	p := chainOf(ip6.UDP, 0, 1, 0, 2, 0, 10, 0, 0, 0, 0)
	c, err := ip6.Walk(p)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(p[48:], ip6.Checksum(c.Header.Src, c.Header.Dst, ip6.UDP, p[40:]))
	if err := ip6.FinishL4(p); err != nil {
		t.Fatal(err)
	}
	if got := binary.BigEndian.Uint16(p[46:]); got != 0xffff {
		t.Errorf("checksum %#04x, want 0xffff", got)
	}
}

func TestFinishL4Refusals(t *testing.T) {
	left := routing(ip6.UDP)
	left[3] = 2
	for name, c := range map[string]struct {
		packet []byte
		want   error
	}{
		"fragment":       {chainOf(ip6.Fragment, join(frag(ip6.UDP, 0, 1), make([]byte, 16))...), ip6.ErrMalformed},
		"later fragment": {chainOf(ip6.Fragment, join(frag(ip6.UDP, 8, 0), make([]byte, 16))...), ip6.ErrMalformed},
		"segments left":  {chainOf(ip6.Routing, join(left, make([]byte, 8))...), ip6.ErrMalformed},
		"unknown":        {chainOf(253, 1, 2, 3, 4), ip6.ErrMalformed},
		"udp-lite":       {chainOf(ip6.UDPLite, make([]byte, 8)...), ip6.ErrMalformed},
		"short tcp":      {chainOf(ip6.TCP, make([]byte, 19)...), ip6.ErrTruncated},
		"short udp":      {chainOf(ip6.UDP, make([]byte, 7)...), ip6.ErrTruncated},
		"no packet":      {nil, ip6.ErrTruncated},
	} {
		err := ip6.FinishL4(c.packet)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func randomAddr(r *rand.Rand) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], r.Uint64())
	binary.BigEndian.PutUint64(b[8:], r.Uint64())
	return netip.AddrFrom16(b)
}

func pairSum(a, b netip.Addr) uint16 {
	x, y := a.As16(), b.As16()
	return ip6.Add(ip6.Sum(x[:]), ip6.Sum(y[:]))
}
