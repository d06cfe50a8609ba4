package border

import (
	"testing"
	"time"

	"roam"
	"roam/sbr"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// Of the messages that the core refuses, one a second is kept for each reason, whatever the packet is like.
func TestOneRefusedIsKept(t *testing.T) {
	r := newRole(t)
	src, dst := roam.ILV{L64: internal, NID: 1}, roam.ILV{L64: 0x2001_0db8_00cc_0000, NID: 2}
	update := func(src roam.ILV) sbr.Packet {
		b, err := ilnp.BuildUpdate(src, dst, ilnp.Nonce{Len: 4}, ilnp.LocatorUpdate{
			Operation: ilnp.Advertisement, Locators: []ilnp.LocatorEntry{{L64: internal, Lifetime: 60}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return sbr.Packet{Bytes: b, Link: 1, Inside: true}
	}
	kept := &r.refused[sbr.WrongNonce]
	now := time.Unix(1000, 0)
	later := src
	later.NID++
	kept.add(now, update(src))
	kept.add(now.Add(lookEach-1), update(later))
	got := r.packet(kept.last)
	if kept.messages != 2 || got.Source != src.Addr() || got.Destination != dst.Addr() || got.Link != "lan0" ||
		!got.Time.Equal(now) || got.Protocol != ip6.ICMPv6 || got.ICMPType == nil || *got.ICMPType != 156 {
		t.Errorf("%d messages, the first of the second %+v", kept.messages, got)
	}
	kept.add(now.Add(lookEach), update(later))
	if got = r.packet(kept.last); kept.messages != 3 || got.Source != later.Addr() {
		t.Errorf("%d messages, the first of the next second %+v", kept.messages, got)
	}
	kept.add(now.Add(2*lookEach), sbr.Packet{Bytes: []byte{0x60}, Link: 9})
	if got = r.packet(kept.last); got.Source.IsValid() || got.Link != "9" || got.ICMPType != nil {
		t.Errorf("unreadable, by a link that has gone: %+v", got)
	}
}
