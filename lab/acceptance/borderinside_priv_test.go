package acceptance

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
)

// TestBorderTwoInside has a host of plain IPv6 behind the second of two links to the inside, with a prefix of
// its own. The ICMPv6 error about its datagram is of no flow, and reaches its socket: the border sends it by the link
// whose route leads to the host.
func TestBorderTwoInside(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	second := netip.MustParsePrefix("fd00:0:3::/64")
	router := second.Addr().Next()
	own := router.Next()
	plain, err := s.Lab.Host("plain")
	if err == nil {
		err = s.Lab.Veth(plain, "net1", s.Router, "lan1")
	}
	if err == nil {
		err = errors.Join(s.Router.AddAddr("lan1", netip.PrefixFrom(router, 64)),
			plain.AddAddr("net1", netip.PrefixFrom(own, 64)), plain.AddRoute(netip.MustParsePrefix("::/0"), router, "net1"))
	}
	if err != nil {
		t.Fatal(err)
	}
	section := site.Section(0, "fd00:0:1:: 50 0 none 1 2\nfd00:0:3:: 50 0 none 1 3\n"+
		"2001:db8:a:: 50 0 none 2\n2001:db8:b:: 50 0 none 3\n", "")
	err = s.Configure(strings.Replace(section, `["lan"]`, `["lan", "lan1"]`, 1))
	if err = errors.Join(err, s.Border.Stop(t.Context()), s.Border.Start(context.Background())); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, func() bool {
		return errors.Is(refusal(t, plain, site.External.Addr().Next()), syscall.ECONNREFUSED)
	}, "the error about a datagram from the second link")
	testutil.Eventually(t, patience, func() bool {
		return errors.Is(refusal(t, s.InsideHost, site.External.Addr().Next()), syscall.ECONNREFUSED)
	}, "the error about a datagram from the first link")
	at := roam.ILV{L64: roam.ILVFromAddr(site.Providers[0][1].Addr()).L64, NID: roam.ILVFromAddr(own).NID}.Addr()
	testutil.Eventually(t, patience, func() bool {
		return errors.Is(refusal(t, s.Core, at), syscall.ECONNREFUSED)
	}, "the error of the host behind the second link")
}
