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
