package packets

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestFirstAdvert(t *testing.T) {
	message := func(ms int, kind byte) Packet {
		return Packet{At: after(ms), Proto: ICMPv6, Data: []byte{kind, 0, 0, 0}}
	}
	list := []Packet{
		message(1, typeRouterAdvert), {At: after(5), Proto: UDP, Data: []byte{typeRouterAdvert}},
		message(5, typeRouterAdvert-1), {At: after(6), Proto: ICMPv6},
		message(7, typeRouterAdvert), message(8, typeRouterAdvert),
	}
	for from, want := range map[int]int{0: 1, 1: 1, 2: 7, 7: 7, 8: 8} {
		if at, ok := FirstAdvert(list, after(from)); !ok || !at.Equal(after(want)) {
			t.Errorf("from %d ms: %v, %v, want %d ms", from, at.Sub(origin), ok, want)
		}
	}
	if at, ok := FirstAdvert(list, after(9)); ok {
		t.Errorf("one that never came: %v", at)
	}
}

func TestEchoes(t *testing.T) {
	mn, cn := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	other := netip.MustParseAddr("2001:db8::3")
	message := func(ms int, kind byte, from, to netip.Addr, id, number byte) Packet {
		return Packet{At: after(ms), Proto: ICMPv6, Src: from, Dst: to, Data: []byte{kind, 0, 0, 0, 0, id, 0, number}}
	}
	list := []Packet{
		message(0, typeEchoRequest, mn, cn, 1, 1), message(1, typeEchoRequest, mn, cn, 2, 1),
		message(20, typeEchoReply, cn, mn, 1, 1), message(22, typeEchoReply, cn, mn, 2, 1),
		message(23, typeEchoReply, cn, mn, 2, 1),                                                   // a copy
		message(30, typeEchoRequest, mn, other, 1, 2), message(31, typeEchoReply, other, mn, 1, 2), // of another host
		message(40, typeEchoRequest, cn, mn, 1, 3), message(41, typeEchoReply, mn, cn, 1, 3), // the other way
		message(50, typeEchoRequest, mn, cn, 1, 4), message(51, typeEchoReply, cn, mn, 1, 5), // not answered
		message(60, typeEchoRequest, mn, cn, 1, 6), {At: after(61), Proto: ICMPv6, Src: cn, Data: []byte{typeEchoReply}},
		message(63, typeEchoReply, cn, mn, 1, 6),
	}
	want := []Echo{{1, 20 * time.Millisecond}, {1, 21 * time.Millisecond}, {6, 3 * time.Millisecond}}
	if got := Echoes(list, cn); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
