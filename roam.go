// Package roam holds the vocabulary of ILNPv6 (RFC 6740, RFC 6741) that every
// other package shares: Node Identifiers, Locators, Identifier-Locator Vectors
// and the link that a Locator belongs to.
//
// The package is pure: it has no effects and keeps no state.
package roam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// NID is a 64-bit Node Identifier (RFC 6740 §2.1). It names a node, never an
// interface, and sits in the low 64 bits of an ILNPv6 address. The value is in
// host order: the first byte on the wire is the most significant one.
type NID uint64

// L64 is a 64-bit Locator (RFC 6740 §2.1): the /64 routing prefix of a
// subnetwork, in the high 64 bits of an ILNPv6 address.
type L64 uint64

// ILV is an Identifier-Locator Vector (RFC 6740 §3.3), the pair that takes the
// place of an IPv6 address on the wire.
type ILV struct {
	NID NID
	L64 L64
}

// LinkID names a network link of this host by its interface index; 0 means
// that no link is meant.
type LinkID int

// LinkLocator is one Locator of this host on one of its links.
type LinkLocator struct {
	Link LinkID
	L64  L64
}

// Infinite stands for the infinite lifetime of RFC 4861 §4.6.2.
const Infinite = time.Duration(1<<63 - 1)

// PrefixEvent reports that a prefix on a link appeared, was refreshed or went.
// One with Present true follows every Router Advertisement and every address
// notification; one with Present false says that the prefix, the link's carrier
// or its default router is gone.
type PrefixEvent struct {
	LinkLocator
	Present   bool
	Preferred time.Duration // what is left of the preferred lifetime; 0: deprecated; at most Infinite
	LinkName  string        // for people
}

// DefaultSessionPrefix is the prefix of session addresses. Its four words sum
// to 0xffff, which is zero in one's-complement arithmetic, so that a
// pseudo-header over session addresses sums like one over NIDs with zero
// Locators (the checksum rule of RFC 6741 §4.2).
const DefaultSessionPrefix L64 = 0xfd69_6c6e_7000_2627

// ErrSyntax is wrapped by every error of the Parse functions.
var ErrSyntax = errors.New("invalid syntax")

// ILVFromAddr splits a 128-bit IPv6 address into its two halves. It does not
// ask whether the address is one of an ILNP node.
func ILVFromAddr(a netip.Addr) ILV {
	b := a.As16()
	return ILV{L64: L64(binary.BigEndian.Uint64(b[:8])), NID: NID(binary.BigEndian.Uint64(b[8:]))}
}

// Addr returns the I-LV as the IPv6 address that it is on the wire.
func (v ILV) Addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(v.L64))
	binary.BigEndian.PutUint64(b[8:], uint64(v.NID))
	return netip.AddrFrom16(b)
}

// String returns the I-LV in the syntax of the hosts file, "n-n-n-n.l+l+l+l".
func (v ILV) String() string {
	return groups(uint64(v.NID), "-") + "." + groups(uint64(v.L64), "+")
}

// String returns the NID as four groups of four hexadecimal digits, the
// presentation format of RFC 6742 §2.1.3.
func (n NID) String() string { return padded(uint64(n)) }

// String returns the Locator as four groups of four hexadecimal digits, the
// presentation format of RFC 6742 §2.3.3.
func (l L64) String() string { return padded(uint64(l)) }

// MarshalText returns the form of String.
func (n NID) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// MarshalText returns the form of String.
func (l L64) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText accepts what ParseNID accepts.
func (n *NID) UnmarshalText(b []byte) (err error) { *n, err = ParseNID(string(b)); return err }

// UnmarshalText accepts what ParseL64 accepts.
func (l *L64) UnmarshalText(b []byte) (err error) { *l, err = ParseL64(string(b)); return err }

// Prefix returns the Locator as an IPv6 /64 prefix.
func (l L64) Prefix() netip.Prefix { return netip.PrefixFrom(ILV{L64: l}.Addr(), 64) }

// Usable reports whether the Locator can stand in front of a NID on the wire:
// a global unicast prefix, hence not that of the unspecified, loopback and
// IPv4-mapped addresses, link-local or multicast. Unique local prefixes
// (RFC 4193) are usable; the caller excludes its own session prefix.
func (l L64) Usable() bool {
	switch {
	case l == 0, l>>56 == 0xff, l>>54 == 0xfe80>>6:
		return false
	}
	return true
}

// ParseNID reads four groups of one to four hexadecimal digits, separated by
// colons (RFC 6742 §2.1.3) or by dashes.
func ParseNID(s string) (NID, error) {
	v, err := parseGroups(s, ":-")
	if err != nil {
		return 0, fmt.Errorf("node identifier %q: %w", s, err)
	}
	return NID(v), nil
}

// ParseL64 reads four groups of one to four hexadecimal digits, separated by
// colons (RFC 6742 §2.3.3) or by plus signs.
func ParseL64(s string) (L64, error) {
	v, err := parseGroups(s, ":+")
	if err != nil {
		return 0, fmt.Errorf("locator %q: %w", s, err)
	}
	return L64(v), nil
}

// ParseILV reads the hosts-file syntax "n-n-n-n.l+l+l+l", NID first.
func ParseILV(s string) (ILV, error) {
	left, right, ok := strings.Cut(s, ".")
	if !ok {
		return ILV{}, fmt.Errorf("identifier-locator vector %q: no dot between identifier and locator: %w", s, ErrSyntax)
	}
	n, err := parseGroups(left, "-")
	if err != nil {
		return ILV{}, fmt.Errorf("identifier-locator vector %q: identifier: %w", s, err)
	}
	l, err := parseGroups(right, "+")
	if err != nil {
		return ILV{}, fmt.Errorf("identifier-locator vector %q: locator: %w", s, err)
	}
	return ILV{NID: NID(n), L64: L64(l)}, nil
}

func groups(v uint64, sep string) string {
	w := make([]string, 4)
	for i := range w {
		w[i] = strconv.FormatUint(v>>(48-16*i)&0xffff, 16)
	}
	return strings.Join(w, sep)
}

func padded(v uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", v>>48, v>>32&0xffff, v>>16&0xffff, v&0xffff)
}

// parseGroups reads four hexadecimal groups; one separator out of seps must be
// used throughout.
func parseGroups(s, seps string) (uint64, error) {
	i := strings.IndexAny(s, seps)
	if i < 0 {
		return 0, fmt.Errorf("want four groups separated by one of %q: %w", seps, ErrSyntax)
	}
	parts := strings.Split(s, s[i:i+1])
	if len(parts) != 4 {
		return 0, fmt.Errorf("%d groups, want 4: %w", len(parts), ErrSyntax)
	}
	var v uint64
	for n, p := range parts {
		g, err := strconv.ParseUint(p, 16, 16)
		if err != nil || len(p) > 4 {
			return 0, fmt.Errorf("group %d (%q) is not 1 to 4 hexadecimal digits: %w", n+1, p, ErrSyntax)
		}
		v = v<<16 | g
	}
	return v, nil
}

// String returns the Locator and the index of its link.
func (l LinkLocator) String() string { return fmt.Sprintf("%v on link %d", l.L64, l.Link) }
