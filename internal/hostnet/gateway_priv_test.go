package hostnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/desired"
	"roam/internal/hostnet/nettest"
)

// correspondents is far above the entries that the neighbour table has for all
// network namespaces (net.ipv6.neigh.default.gc_thresh3, 1,024 by default).
const correspondents = 20000

// neighbours lists the entries of a link, those that `ip neigh` hides included.
func neighbours(n *nettest.NS, link string) []string {
	return slices.DeleteFunc(strings.Split(n.Run("ip", "-6", "neigh", "show", "nud", "all", "dev", link), "\n"),
		func(line string) bool { return line == "" || strings.HasPrefix(line, "ff0") })
}

var sessionNet = roam.DefaultSessionPrefix.Prefix().String()

// leading says where session addresses lead.
func leading(n *nettest.NS) string { return n.Run("ip", "-6", "route", "get", session(7).String()) }

// flood sends one datagram to each of that many session addresses.
func flood(t *testing.T, n *nettest.NS, count int) {
	t.Helper()
	var err error
	n.Do(func() {
		var fd int
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		for i := 0; i < count && err == nil; i++ {
			to := session(roam.NID(0x0a0b_0c0d_0000_0000 + uint64(i)))
			err = unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet6{Addr: to.As16(), Port: 9})
		}
	})
	if err != nil {
		t.Fatalf("send to a correspondent: %v", err)
	}
}

// However many correspondents there are, they are one neighbour, which is there
// before the first packet and is not resolved; and the entry of the uplink's
// router stays.
func TestCorrespondentsAreOneNeighbour(t *testing.T) {
	host, router := hostAndRouter(t)
	h := openIn(t, host, testConfig(t))
	d := setupIn(t, h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	u := next(t, h, func(e UplinkChanged) bool { return e.Uplink.NextHopValid }).Uplink
	want := []string{fmt.Sprintf("%s lladdr %s PERMANENT ", sessionGateway, d.PeerMAC)}
	if got := neighbours(host, "roam0"); !slices.Equal(got, want) {
		t.Errorf("neighbours %q, want %q", got, want)
	}
	flood(t, host, correspondents)
	if got := neighbours(host, "roam0"); !slices.Equal(got, want) {
		t.Errorf("%d neighbours after %d correspondents, want %q", len(got), correspondents, want)
	}
	known := fmt.Sprintf("%s lladdr %s ", u.NextHop, u.NextHopMAC)
	isKnown := func(s string) bool { return strings.HasPrefix(s, known) }
	if got := neighbours(host, "upA"); !slices.ContainsFunc(got, isKnown) {
		t.Errorf("the uplink's neighbours are %q, want %q among them", got, known)
	}
	if err := h.FlushPMTU(session(0x11)); err != nil {
		t.Errorf("nothing to flush: %v", err)
	}
}

// A route that somebody replaces by one without gateway is put back, and with it the
// gateway.
func TestGatewayComesBack(t *testing.T) {
	host := nettest.New(t)
	h := openIn(t, host, testConfig(t))
	setupIn(t, h)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	want := neighbours(host, "roam0")
	host.Run("ip", "-6", "neigh", "del", sessionGateway.String(), "dev", "roam0")
	host.Run("ip", "-6", "route", "replace", sessionNet, "dev", "roam0", "table", "local", "metric", "1")
	next(t, h, told("it was added again"))
	if out := leading(host); !strings.Contains(out, "via "+sessionGateway.String()+" dev roam0") {
		t.Errorf("session addresses lead %s", out)
	}
	if got := neighbours(host, "roam0"); !slices.Equal(got, want) || len(want) != 1 {
		t.Errorf("neighbours %q, want %q", got, want)
	}
}

// A route of an earlier build, without gateway, is replaced with no moment without
// a route, and Restore leaves nothing.
func TestRouteOfAnEarlierBuild(t *testing.T) {
	host := nettest.New(t)
	before := host.State()
	cfg := testConfig(t)
	old := openIn(t, host, cfg)
	d := setupIn(t, old)
	makeAsEarlier(t, host, old)
	old.Close()

	peer, own := session(0x11), session(testNID)
	h := openIn(t, host, cfg)
	set := make(chan error)
	go func() {
		_, err := h.Setup()
		set <- err
	}()
	looked, done := 0, false
	for ; !done || looked == 0; looked++ {
		if src, err := source(host, peer); err != nil || src != own {
			t.Fatalf("during the upgrade sockets start from %s: %v", src, err)
		}
		select {
		case err := <-set:
			if done = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	t.Logf("%d look-ups during the upgrade", looked)
	want := "via " + sessionGateway.String() + " dev roam0"
	if out := leading(host); !strings.Contains(out, want) {
		t.Errorf("session addresses lead %s, want %q", out, want)
	}
	routes := host.Run("ip", "-6", "route", "show", "table", "local", "root", sessionNet)
	if strings.Count(routes, "/64") != 1 {
		t.Errorf("routes %s", routes)
	}
	if h.state.journal.has(earlierRoute(d)) {
		t.Error("the journal has the old route still")
	}
	h.Close()
	var err error
	host.Do(func() { err = Restore(cfg.JournalPath) })
	if after := host.State(); err != nil || after != before {
		t.Errorf("after Restore (%v):\n%s\nbefore:\n%s", err, after, before)
	}
}

// earlierRoute is the session route of builds that had no gateway.
func earlierRoute(d Device) desired.Route {
	r := sessionRouteTo(d.Index, roam.DefaultSessionPrefix, session(testNID))
	r.Gateway = netip.Addr{}
	return r.Normal()
}

// makeAsEarlier gives host and journal the form that an earlier build left.
func makeAsEarlier(t *testing.T, n *nettest.NS, h *Host) {
	t.Helper()
	d := h.Device()
	var err error
	for _, x := range h.session.Neighbours {
		if err == nil {
			err = h.kernel.take(x, "")
		}
		if err == nil {
			err = h.state.journal.edit([]entry{{ownerSession, x, ""}}, nil)
		}
	}
	if err == nil {
		err = h.kernel.put(desired.Op{Verb: desired.Change, Item: earlierRoute(d)})
	}
	if err == nil {
		now, then := entry{ownerSession, h.session.Routes[0].Normal(), ""}, entry{ownerSession, earlierRoute(d), ""}
		err = h.state.journal.edit([]entry{now}, []entry{then})
	}
	if err != nil {
		t.Fatalf("make the host as an earlier build left it: %v", err)
	}
	if got := leading(n); strings.Contains(got, "via") || !strings.Contains(got, "dev roam0") {
		t.Fatalf("session addresses lead %s", got)
	}
}
