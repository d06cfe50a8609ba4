// Package nd builds the two Neighbor Discovery messages that Roam sends itself
// (RFC 4861 §§4.1, 4.3): the Router Solicitation by which a link that came up is
// told its prefix at once, and the Neighbor Solicitation by which a router learns
// where a new locator's host is, before the first packet towards it arrives.
//
// It omits everything else of Neighbor Discovery, which is the kernel's, and
// parses nothing. The engine drives it.
package nd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"roam/wire/ip6"
)

// ErrAddress is wrapped when an address cannot stand in a solicitation.
var ErrAddress = errors.New("not an address for neighbor discovery")

const (
	typeRouterSolicit  = 133
	typeSolicitation   = 135
	optSourceLinkLayer = 1
	// hopLimit proves to the receiver that no router forwarded the message
	// (RFC 4861 §7.1.1).
	hopLimit    = 255
	protoICMPv6 = 58
)

// Solicitation returns a whole IPv6 packet: a Neighbor Solicitation from src for
// target, to target's solicited-node group, that carries the 6-byte link-layer
// address of src. Its receiver makes or refreshes its neighbor entry for src
// (RFC 4861 §7.2.3).
func Solicitation(src, target netip.Addr, mac []byte) ([]byte, error) {
	target = target.WithZone("")
	for _, a := range []netip.Addr{src, target} {
		if !a.Is6() || a.Is4In6() || a.IsMulticast() || a.IsUnspecified() {
			return nil, fmt.Errorf("build neighbor solicitation: %v: %w", a, ErrAddress)
		}
	}
	if len(mac) != 6 {
		return nil, fmt.Errorf("build neighbor solicitation: link-layer address of %d bytes, want 6: %w", len(mac), ErrAddress)
	}
	//  0                   1                   2                   3
	// | Type = 135    | Code = 0      | Checksum                      |
	// | Reserved                                                      |
	// | Target Address (128 bits)                                     |
	// | Option = 1    | Length = 1    | Link-Layer Address (48 bits)  |
	m := []byte{typeSolicitation, 0, 0, 0, 0, 0, 0, 0}
	t := target.As16()
	m = append(m, t[:]...)
	m = append(m, optSourceLinkLayer, 1)
	m = append(m, mac...)
	group, _ := Group(target)
	binary.BigEndian.PutUint16(m[2:], ip6.Checksum(src, group, protoICMPv6, m))
	h := ip6.Header{PayloadLen: uint16(len(m)), NextHeader: protoICMPv6, HopLimit: hopLimit, Src: src, Dst: group}
	b, err := h.AppendTo(nil)
	if err != nil {
		return nil, fmt.Errorf("build neighbor solicitation: %w", err)
	}
	return append(b, m...), nil
}

// RouterSolicitation returns a whole IPv6 packet: a Router Solicitation from the
// unspecified address, as of a host that has no address yet, to all routers of
// the link. RFC 4861 §6.2.6: they answer it by multicast.
func RouterSolicitation() ([]byte, error) {
	src, dst := netip.IPv6Unspecified(), netip.IPv6LinkLocalAllRouters()
	// Type, code, checksum, and four bytes reserved; from the unspecified address
	// no option may follow (§4.1).
	m := []byte{typeRouterSolicit, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(m[2:], ip6.Checksum(src, dst, protoICMPv6, m))
	h := ip6.Header{PayloadLen: uint16(len(m)), NextHeader: protoICMPv6, HopLimit: hopLimit, Src: src, Dst: dst}
	b, err := h.AppendTo(nil)
	if err != nil {
		return nil, fmt.Errorf("build router solicitation: %w", err)
	}
	return append(b, m...), nil
}

// AllRouters is the Ethernet address of all routers of a link (RFC 2464 §7).
func AllRouters() []byte { return []byte{0x33, 0x33, 0, 0, 0, 2} }

// Group returns the solicited-node multicast address of a unicast address
// (RFC 4291 §2.7.1), and the Ethernet address that it maps to (RFC 2464 §7).
func Group(a netip.Addr) (netip.Addr, []byte) {
	t := a.As16()
	group := [16]byte{0xff, 2, 11: 1, 12: 0xff, 13: t[13], 14: t[14], 15: t[15]}
	return netip.AddrFrom16(group), []byte{0x33, 0x33, 0xff, t[13], t[14], t[15]}
}
