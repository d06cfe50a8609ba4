package acceptance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/topo"
)

// refusal returns the error that a connected UDP socket gets for a datagram to a closed port. The
// kernel finds the socket by the addresses, the ports and the protocol of the packet that an
// ICMPv6 error quotes.
func refusal(t *testing.T, h *topo.Host, to netip.Addr) (answer error) {
	t.Helper()
	err := h.Do(func() error {
		c, err := net.Dial("udp6", netip.AddrPortFrom(to, 9).String())
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write([]byte("datagram")); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		_, answer = c.Read(make([]byte, 100))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestBorderPacketTooBig has a host on a link to the inside with an MTU of 9,000 bytes send what no provider's link
// passes, in one packet that is longer than what the programs hand the daemon at most: the border says how long
// packets may be.
func TestBorderPacketTooBig(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	if err := errors.Join(s.Router.SetMTU("lan", 9000), s.InsideHost.SetMTU("net1", 9000)); err != nil {
		t.Fatal(err)
	}
	outside := site.External.Addr().Next().String() // of a router without Roam
	testutil.Eventually(t, patience, func() bool {
		argv := []string{"ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "8900", outside}
		out, _ := s.InsideHost.AppCommand(t.Context(), argv...).CombinedOutput() // its status is that of no answer
		return strings.Contains(strings.ToLower(string(out)), "packet too big: mtu=1500")
	}, "a long echo request is refused for its length")
}

// TestBorderErrors has hosts of plain IPv6 on both sides send datagrams to closed ports across a
// border, by each provider. The sender's kernel finds the socket of the ICMPv6 error that comes back,
// so the packet that it quotes has the addresses with which it was sent. Then the links beyond both providers
// have a smaller MTU, and TCP between hosts with Roam passes them both ways.
func TestBorderErrors(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	outside := site.External.Addr().Next() // of a router without Roam
	for i, p := range site.Providers[0] {
		at := roam.ILV{L64: roam.ILVFromAddr(p.Addr()).L64, NID: site.InsideNID}.Addr()
		testutil.Eventually(t, patience, func() bool {
			return errors.Is(refusal(t, s.Core, at), syscall.ECONNREFUSED)
		}, fmt.Sprintf("provider %d: the error of an inside host", i))
		testutil.Eventually(t, patience, func() bool {
			return errors.Is(refusal(t, s.InsideHost, outside), syscall.ECONNREFUSED)
		}, fmt.Sprintf("provider %d: the error of an outside host", i))
		if i == 0 {
			if err := s.Router.SetDown("wan0"); err != nil { // so that packets and answers go by the other
				t.Fatal(err)
			}
		}
	}
	for i, p := range s.Provider {
		// Without an address of its own a router sends errors from a link-local one, which no router forwards.
		own := netip.MustParsePrefix(fmt.Sprintf("2001:db8:f%d::1/64", i))
		err := errors.Join(p.AddAddr("core", own), p.SetMTU("core", 1400))
		if err = errors.Join(err, s.Core.SetMTU(fmt.Sprint("provider", i), 1400)); err != nil {
			t.Fatal(err)
		}
	}
	// TCP of the session, whose segments are too long there: a router says so to either side.
	siteTCP(t, s)
}
