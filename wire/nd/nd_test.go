package nd_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"

	"roam/wire/ip6"
	"roam/wire/nd"
)

func TestSolicitation(t *testing.T) {
	src, router := netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("fe80::1")
	mac := net.HardwareAddr{2, 0, 0x5e, 1, 2, 3}
	b, err := nd.Solicitation(src, router.WithZone("eth0"), mac)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ip6.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	group, ether := nd.Group(router)
	if want := netip.MustParseAddr("ff02::1:ff00:1"); group != want ||
		net.HardwareAddr(ether).String() != "33:33:ff:00:00:01" {
		t.Errorf("group %v at %v, want %v", group, ether, want)
	}
	if h.Src != src || h.Dst != group || h.HopLimit != 255 || h.NextHeader != 58 || len(b) != 40+32 {
		t.Errorf("header %+v of a packet of %d bytes", h, len(b))
	}
	if got := ip6.Checksum(src, group, 58, b[40:]); got != 0 {
		t.Errorf("checksum leaves %#04x, want 0", got)
	}
	target := router.As16()
	want := append(append([]byte{0, 0, 0, 0}, target[:]...), append([]byte{1, 1}, mac...)...)
	if !bytes.Equal(b[44:], want) {
		t.Errorf("message ends with % x, want % x", b[44:], want)
	}
}

func TestRouterSolicitation(t *testing.T) {
	b, err := nd.RouterSolicitation()
	if err != nil {
		t.Fatal(err)
	}
	h, err := ip6.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if !h.Src.IsUnspecified() || h.Dst != netip.MustParseAddr("ff02::2") || h.HopLimit != 255 ||
		len(b) != 48 || b[40] != 133 {
		t.Errorf("header %+v of a packet of %d bytes, type %d", h, len(b), b[40])
	}
	if got := ip6.Checksum(h.Src, h.Dst, 58, b[40:]); got != 0 {
		t.Errorf("checksum leaves %#04x, want 0", got)
	}
	if mac := net.HardwareAddr(nd.AllRouters()).String(); mac != "33:33:00:00:00:02" {
		t.Errorf("at %s", mac)
	}
}

func TestSolicitationRefuses(t *testing.T) {
	good, mac := netip.MustParseAddr("2001:db8::1"), make(net.HardwareAddr, 6)
	for name, c := range map[string]struct {
		src, target netip.Addr
		mac         net.HardwareAddr
	}{
		"no source":         {netip.Addr{}, good, mac},
		"unspecified":       {netip.IPv6Unspecified(), good, mac},
		"multicast target":  {good, netip.MustParseAddr("ff02::1"), mac},
		"IPv4":              {good, netip.MustParseAddr("192.0.2.1"), mac},
		"long link address": {good, good, make(net.HardwareAddr, 8)},
	} {
		if _, err := nd.Solicitation(c.src, c.target, c.mac); !errors.Is(err, nd.ErrAddress) {
			t.Errorf("%s: error %v, want ErrAddress", name, err)
		}
	}
}
