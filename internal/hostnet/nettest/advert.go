package nettest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

// Advert is a Router Advertisement with at most one prefix (RFC 4861 §4.2).
type Advert struct {
	Router           uint16 // lifetime as default router in seconds
	Prefix           netip.Prefix
	Preferred, Valid uint32 // seconds
	NoAutoconf       bool   // the prefix is on-link only
	MTU              uint32 // 0: no such option
}

// Advertise multicasts a Router Advertisement out of a link of a router, whose
// link-local address must be usable.
func (n *NS) Advertise(link string, a Advert) {
	n.t.Helper()
	n.Speaker(link)(a)
}

// Speaker is Advertise for many: the link is looked up once.
func (n *NS) Speaker(link string) func(Advert) {
	n.t.Helper()
	index := n.Index(link)
	return func(a Advert) {
		n.t.Helper()
		b := a.bytes()
		var err error
		n.Do(func() { err = multicast(index, b) })
		if err != nil {
			n.t.Fatalf("send Router Advertisement: %v", err)
		}
	}
}

// bytes returns the message; the kernel fills in its checksum.
func (a Advert) bytes() []byte {
	b := []byte{134, 0, 0, 0, 64, 0, byte(a.Router >> 8), byte(a.Router), 0, 0, 0, 0, 0, 0, 0, 0}
	if a.MTU != 0 {
		b = binary.BigEndian.AppendUint32(append(b, 5, 1, 0, 0), a.MTU)
	}
	if a.Prefix.IsValid() {
		flags := byte(0xc0)
		if a.NoAutoconf {
			flags = 0x80
		}
		b = append(b, 3, 4, byte(a.Prefix.Bits()), flags)
		b = binary.BigEndian.AppendUint32(b, a.Valid)
		b = binary.BigEndian.AppendUint32(b, a.Preferred)
		p := a.Prefix.Addr().As16()
		b = append(append(b, 0, 0, 0, 0), p[:]...)
	}
	return b
}

func multicast(link int, b []byte) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, link); err != nil {
		return err
	}
	to := &unix.SockaddrInet6{ZoneId: uint32(link)}
	copy(to.Addr[:], net.IPv6linklocalallnodes)
	return unix.Sendto(fd, b, 0, to)
}

// Router makes a namespace that forwards and whose link-local addresses are
// usable at once, and a cable from its link named near to link far of host, which
// hears what the router says when the function returns.
func Router(t testing.TB, near string, host *NS, far string) *NS {
	t.Helper()
	r := New(t)
	r.Sysctl("net/ipv6/conf/all/forwarding", "1")
	r.Sysctl("net/ipv6/conf/default/accept_dad", "0")
	r.Sysctl("net/ipv6/conf/all/accept_dad", "0")
	Cable(host, far, r, near)
	testutil.Eventually(t, 5*time.Second, func() bool {
		out, err := r.Try("ip", "-6", "addr", "show", "dev", near, "scope", "link", "-tentative")
		return err == nil && out != ""
	}, "router has a link-local address")
	testutil.Eventually(t, 5*time.Second, func() bool {
		out, err := host.Try("ip", "-6", "addr", "show", "dev", far, "scope", "link", "up")
		return err == nil && strings.Contains(out, "LOWER_UP") && strings.Contains(out, "inet6")
	}, "host listens on its end")
	return r
}
