// Package nd builds the two Neighbor Discovery messages that Roam sends itself (RFC 4861
// §§4.1, 4.3). A Router Solicitation makes the routers of a new link advertise its
// prefix at once. A Neighbor Solicitation makes a router learn the link-layer address
// of a new locator before the first packet towards it arrives.
//
// It omits the rest of Neighbor Discovery, which the kernel does, and parses nothing.
// It is driven by internal/hostnet.
package nd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"roam/wire/ip6"
)

// ErrAddress is wrapped by errors about an address that a solicitation cannot have.
var ErrAddress = errors.New("not an address for neighbor discovery")

// A Router Solicitation (RFC 4861 §4.1). Roam sends it from the unspecified address, where
// no option may follow:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 133  |   Code = 0    |          Checksum             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Reserved                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// A Neighbor Solicitation (§4.3) with the Source Link-Layer Address option (§4.6.1), whose
// length counts units of 8 bytes:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 135  |   Code = 0    |          Checksum             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Reserved                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                                                               |
//	+                  Target Address (128 bits)                    +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|    Type = 1   |  Length = 1   |                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+  Link-Layer Address (48 bits) +
//	|                                                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	typeRouterSolicit  = 133
	typeSolicitation   = 135
	solicitFixed       = 8 // bytes up to and with Reserved
	optSourceLinkLayer = 1
	optUnits           = 1
	macLen             = 6
	// hopLimit proves to the receiver that no router forwarded the message
	// (RFC 4861 §7.1.1).
	hopLimit = 255
)

// Solicitation returns the whole packet of a Neighbor Solicitation from src for target, to
// target's solicited-node group, with the 6-byte link-layer address of src. Its receiver
// creates or updates its neighbor cache entry for src (RFC 4861 §7.2.3).
func Solicitation(src, target netip.Addr, mac []byte) ([]byte, error) {
	target = target.WithZone("")
	for _, a := range []netip.Addr{src, target} {
		if !a.Is6() || a.Is4In6() || a.IsMulticast() || a.IsUnspecified() {
			return nil, fmt.Errorf("build neighbor solicitation: %v: %w", a, ErrAddress)
		}
	}
	if len(mac) != macLen {
		return nil, fmt.Errorf("build neighbor solicitation: link-layer address of %d bytes, want %d: %w",
			len(mac), macLen, ErrAddress)
	}
	m := append(make([]byte, 0, ip6.HeaderLen), typeSolicitation)[:solicitFixed]
	t := target.As16()
	m = append(m, t[:]...)
	m = append(m, optSourceLinkLayer, optUnits)
	m = append(m, mac...)
	group, _ := Group(target)
	binary.BigEndian.PutUint16(m[ip6.ICMPChecksumAt:], ip6.Checksum(src, group, ip6.ICMPv6, m))
	b, err := header(src, group, m).AppendTo(nil)
	if err != nil {
		return nil, fmt.Errorf("build neighbor solicitation: %w", err)
	}
	return append(b, m...), nil
}

// header returns the IPv6 header of a message.
func header(src, dst netip.Addr, m []byte) ip6.Header {
	return ip6.Header{PayloadLen: uint16(len(m)), NextHeader: ip6.ICMPv6, HopLimit: hopLimit, Src: src, Dst: dst}
}

// RouterSolicitation returns the whole packet of a Router Solicitation from the
// unspecified address, like that of a host without address, to all routers of the link.
// They answer it by multicast (RFC 4861 §6.2.6).
func RouterSolicitation() ([]byte, error) {
	src, dst := netip.IPv6Unspecified(), netip.IPv6LinkLocalAllRouters()
	m := append(make([]byte, 0, solicitFixed), typeRouterSolicit)[:solicitFixed]
	binary.BigEndian.PutUint16(m[ip6.ICMPChecksumAt:], ip6.Checksum(src, dst, ip6.ICMPv6, m))
	b, err := header(src, dst, m).AppendTo(nil)
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
