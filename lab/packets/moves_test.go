package packets

import (
	"testing"

	"roam"
)

// What moves is the host's own data; the packet before the span is where it was.
func TestMoves(t *testing.T) {
	at := func(ms int, proto uint8, nid roam.NID, l roam.L64) Packet {
		return Packet{At: after(ms), Proto: proto, Src: roam.ILV{NID: nid, L64: l}.Addr()}
	}
	list := []Packet{
		at(0, TCP, 1, 10), at(1, TCP, 1, 11), // before the span
		at(5, TCP, 1, 12), at(6, TCP, 1, 12), // one
		at(7, ICMPv6, 1, 10), at(7, TCP, 2, 10), // signals, and another host
		at(8, UDP, 1, 11), // two
		at(9, TCP, 1, 10), // after it
	}
	for _, c := range []struct{ from, to, want int }{{5, 9, 2}, {6, 9, 1}, {5, 8, 1}, {0, 10, 4}, {2, 5, 0}} {
		if n := Moves(list, 1, after(c.from), after(c.to)); n != c.want {
			t.Errorf("from %d to %d ms: %d moves, want %d", c.from, c.to, n, c.want)
		}
	}
}

// A control message is ICMPv6 with a nonce, as it is or in UDP from a port to the same one.
func TestControl(t *testing.T) {
	in := []byte{ICMPv6, 0, 0x8b, 4, 1, 2, 3, 4, 128, 0, 0, 0}
	other := append([]byte(nil), in...)
	other[2] = 0x04
	for name, c := range map[string]struct {
		p       Packet
		udp, ok bool
	}{
		"with a nonce":          {Packet{Proto: ICMPv6, Nonce: true, Data: in[8:]}, false, true},
		"without one":           {Packet{Proto: ICMPv6, Data: in[8:]}, false, false},
		"in UDP":                {Packet{Proto: UDP, SrcPort: 7, DstPort: 7, Data: in}, true, true},
		"of two ports":          {Packet{Proto: UDP, SrcPort: 7, DstPort: 8, Data: in}, false, false},
		"cut":                   {Packet{Proto: UDP, SrcPort: 7, DstPort: 7, Data: in[:11]}, false, false},
		"without one in UDP":    {Packet{Proto: UDP, SrcPort: 7, DstPort: 7, Data: other}, false, false},
		"TCP of the same ports": {Packet{Proto: TCP, SrcPort: 7, DstPort: 7, Data: in}, false, false},
	} {
		inner, udp, ok := c.p.Control()
		if udp != c.udp || ok != c.ok || ok && (inner.Proto != ICMPv6 || len(inner.Data) != 4 || inner.Data[0] != 128) {
			t.Errorf("%s: %v, %v, %+v", name, udp, ok, inner)
		}
	}
}
