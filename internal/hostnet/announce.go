package hostnet

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// announce makes the default router of a link know prefix:NID before anything
// arrives for it: a Neighbour Solicitation for the router, from that address,
// with our hardware address. Without it the router would hold the first packet
// towards a new Locator while it asks, which costs one round trip on the access
// link in every handoff. Its answer tells us its own hardware address as well.
//
// DEVIATION: RFC 4429 §3.2 forbids the source link-layer option while duplicate
// detection runs. A NID is 64 random bits, hence nobody's entry is overwritten.
func (k *kernel) announce(u Uplink, own netip.Addr) error {
	if !u.HasMAC || len(u.MAC) != 6 || !u.NextHop.IsValid() {
		return nil // nothing to resolve on this link
	}
	t := u.NextHop.As16()
	group := net.HardwareAddr{0x33, 0x33, 0xff, t[13], t[14], t[15]}
	// Past routing: the kernel has no source address to route with while its
	// link-local one is tentative.
	if err := k.sender.SendTo(u.Link, group, solicitation(own, u.NextHop, u.MAC)); err != nil {
		return fmt.Errorf("announce %s to its router: %w", own, err)
	}
	return nil
}

// announceNew announces the Locators that became usable, and all of a link
// whose router changed. It comes before the event, so that the router hears it
// before whatever the core sends.
func (h *Host) announceNew(before, after picture) {
	for _, l := range sortedLocals(after.locators) {
		x := after.locators[l]
		u := after.uplinks[int(l.Link)]
		fresh := !before.locators[l].usable || before.uplinks[int(l.Link)].NextHop != u.NextHop
		if !x.usable || !fresh {
			continue
		}
		if err := h.kernel.announce(u, h.rules.own(l).addr); err != nil {
			h.trouble(l, x, err.Error())
		}
	}
}

// solicitation builds a Neighbour Solicitation (RFC 4861 §4.3) for target, to
// its solicited-node group.
func solicitation(src, target netip.Addr, mac net.HardwareAddr) []byte {
	const (
		kind      = 135
		hops      = 255
		bodyLen   = 32
		sourceMAC = 1
	)
	t, s := target.As16(), src.As16()
	group := [16]byte{0xff, 2, 10: 0, 11: 1, 12: 0xff, 13: t[13], 14: t[14], 15: t[15]}
	b := make([]byte, 0, 40+bodyLen)
	b = append(b, 0x60, 0, 0, 0, 0, bodyLen, unix.IPPROTO_ICMPV6, hops)
	b = append(append(b, s[:]...), group[:]...)
	b = append(b, kind, 0, 0, 0, 0, 0, 0, 0)
	b = append(append(b, t[:]...), sourceMAC, 1)
	b = append(b, mac...)
	binary.BigEndian.PutUint16(b[42:], icmpChecksum(b))
	return b
}

// icmpChecksum is that of RFC 4443 §2.3 over a whole packet without extension
// headers, whose field is zero.
func icmpChecksum(packet []byte) uint16 {
	sum := uint32(len(packet)-40) + unix.IPPROTO_ICMPV6
	for b := packet[8:]; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
