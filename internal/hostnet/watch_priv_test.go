package hostnet

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

const (
	testNID = roam.NID(0x0211_22ff_fe33_4455)
	netA    = roam.L64(0x2001_0db8_000a_0001)
	netB    = roam.L64(0x2001_0db8_000b_0002)
)

// soon is the deadline of conditions that hold within milliseconds on an idle
// machine.
const soon = 10 * time.Second

func testConfig(t *testing.T) Config {
	return Config{
		SessionPrefix: roam.DefaultSessionPrefix, NID: testNID, Device: "roam0",
		JournalPath: filepath.Join(t.TempDir(), "host.json"), Exclude: []string{"docker*"},
	}
}

// openIn opens a Host inside a namespace; it is closed with the test.
func openIn(t *testing.T, n *nettest.NS, cfg Config) *Host {
	t.Helper()
	var h *Host
	var err error
	n.Do(func() { h, err = Open(cfg) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func startIn(t *testing.T, n *nettest.NS, cfg Config) *Host {
	t.Helper()
	h := openIn(t, n, cfg)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	return h
}

// next returns the first event that ok accepts; the ones before are logged.
func next[E Event](t *testing.T, h *Host, ok func(E) bool) E {
	t.Helper()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	for {
		select {
		case e, open := <-h.Events():
			if !open {
				t.Fatal("events ended")
			}
			if x, is := e.(E); is && ok(x) {
				return x
			}
			t.Logf("before it: %+v", e)
		case <-timer.C:
			var want E
			t.Fatalf("no such %T within %v; snapshot %+v", want, soon, h.Snapshot())
		}
	}
}

func present(l roam.L64) func(LocatorChanged) bool {
	return func(e LocatorChanged) bool { return e.L64 == l && e.Present }
}

func absent(l roam.L64) func(LocatorChanged) bool {
	return func(e LocatorChanged) bool { return e.L64 == l && !e.Present }
}

func advert(l roam.L64) nettest.Advert {
	return nettest.Advert{Router: 1800, Prefix: l.Prefix(), Preferred: 600, Valid: 1200}
}

// host and router on one cable: host's end is upA.
func hostAndRouter(t *testing.T) (host, router *nettest.NS) {
	host = nettest.New(t)
	router = nettest.Router(t, "lan", host, "upA")
	return host, router
}

// hostWithLocator watches a host on that router's network, netA.
func hostWithLocator(t *testing.T) (h *Host, host, router *nettest.NS) {
	t.Helper()
	host, router = hostAndRouter(t)
	h = startIn(t, host, testConfig(t))
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	return h, host, router
}

func TestRouterAdvertisementMakesALocator(t *testing.T) {
	host, router := hostAndRouter(t)
	router.Run("ip", "addr", "add", "2001:db8:a:1::1/64", "dev", "lan", "nodad")
	router.Run("ip", "addr", "add", "2001:db8:ffff::1/128", "dev", "lo", "nodad")
	testutil.Eventually(t, soon, func() bool {
		return strings.Contains(router.Run("ip", "-6", "route", "show", "table", "local"), "2001:db8:ffff::1")
	}, "router takes packets for its far address")
	h := startIn(t, host, testConfig(t))
	begin := time.Now()
	router.Advertise("lan", advert(netA))
	u := next(t, h, func(e UplinkChanged) bool { return e.Uplink.Name == "upA" }).Uplink
	if !u.Up || !u.Routed || !u.HasMAC || u.MTU != 1500 || !u.NextHop.IsLinkLocalUnicast() {
		t.Errorf("uplink %+v: want up, routed, with MAC, MTU 1500 and a link-local next hop", u)
	}
	if u.Physical {
		t.Errorf("a veth link is called physical")
	}
	e := next(t, h, present(netA))
	t.Logf("advertisement to usable locator: %v", time.Since(begin))
	if e.Preferred < 598*time.Second || e.Preferred > 600*time.Second || e.LinkName != "upA" {
		t.Errorf("locator %+v: want 600 s preferred on upA", e)
	}
	// The kernel answers for prefix:NID already, though duplicate detection runs.
	own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
	if out, err := router.Try("ping", "-6", "-c", "1", "-W", "2", "-I", "2001:db8:ffff::1", own); err != nil {
		t.Errorf("prefix:NID does not answer: %s%v\nhost: %s\nrouter: %s", out, err,
			host.Run("ip", "-6", "neigh"), router.Run("ip", "-6", "neigh"))
	}
	show := host.Run("ip", "-6", "addr", "show", "dev", "upA")
	if !strings.Contains(show, own+"/128") || !strings.Contains(show, "deprecated") || !strings.Contains(show, "noprefixroute") {
		t.Errorf("address is not as wanted: %s", show)
	}
	if got := host.ReadSysctl("net/ipv6/conf/upA/optimistic_dad"); got != "0" {
		t.Errorf("optimistic_dad left at %s", got)
	}
}

func TestEveryAdvertisementRefreshes(t *testing.T) {
	h, _, router := hostWithLocator(t)
	a := advert(netA)
	a.Preferred = 300
	router.Advertise("lan", a)
	next(t, h, func(e LocatorChanged) bool { return e.Present && e.Preferred <= 300*time.Second })
	a.Preferred = 0
	router.Advertise("lan", a)
	next(t, h, func(e LocatorChanged) bool { return e.Present && e.Preferred == 0 })
	a.Router = 0
	router.Advertise("lan", a)
	next(t, h, absent(netA))
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
}

// A prefix that is only on-link (addresses by DHCPv6, or none) is a Locator
// all the same, until its lifetime ends.
func TestOnLinkPrefixWithoutAutoconf(t *testing.T) {
	host, router := hostAndRouter(t)
	h := startIn(t, host, testConfig(t))
	a := advert(netA)
	a.NoAutoconf, a.Valid, a.Preferred = true, 1, 1
	router.Advertise("lan", a)
	next(t, h, present(netA))
	next(t, h, absent(netA))
	testutil.Eventually(t, soon, func() bool {
		return !strings.Contains(host.Run("ip", "-6", "addr", "show", "dev", "upA"), "2001:db8")
	}, "prefix:NID removed after its prefix")
}

func TestRouterLifetimeEndsByItself(t *testing.T) {
	host, router := hostAndRouter(t)
	h := startIn(t, host, testConfig(t))
	a := advert(netA)
	a.Router = 1
	router.Advertise("lan", a)
	next(t, h, present(netA))
	// Prolonged before its end: the kernel announces nothing.
	a.Router = 3
	begin := time.Now()
	router.Advertise("lan", a)
	next(t, h, absent(netA))
	if d := time.Since(begin); d < 2500*time.Millisecond || d > 6*time.Second {
		t.Errorf("locator went after %v, want about 3 s", d)
	}
}

func TestCarrierAndLink(t *testing.T) {
	h, host, router := hostWithLocator(t)
	router.Run("ip", "link", "set", "lan", "down")
	next(t, h, absent(netA))
	router.Run("ip", "link", "set", "lan", "up")
	next(t, h, present(netA)) // the kernel keeps addresses and routes over a loss of carrier
	host.Run("ip", "link", "del", "upA")
	next(t, h, absent(netA))
	if e := next(t, h, func(LinkGone) bool { return true }); e.Name != "upA" {
		t.Errorf("link gone: %+v", e)
	}
	if s := h.Snapshot(); len(s.Uplinks)+len(s.Locators) != 0 {
		t.Errorf("snapshot after all is gone: %+v", s)
	}
}

// The kernel forgets neighbours over a loss of carrier. A Locator that were used
// before the router is found again would lose what comes first.
func TestLocatorComesBackWithItsRouter(t *testing.T) {
	h, _, router := hostWithLocator(t)
	router.Run("ip", "link", "set", "lan", "down")
	next(t, h, absent(netA))
	router.Run("ip", "link", "set", "lan", "up")
	known := false
	next(t, h, func(e Event) bool {
		switch e := e.(type) {
		case UplinkChanged:
			known = e.Uplink.NextHopValid
		case LocatorChanged:
			return e.Present
		}
		return false
	})
	if !known {
		t.Error("the Locator is back before the hardware address of its router is known")
	}
}

// What still goes to a link without carrier must not wait there: TCP would not
// send it again elsewhere meanwhile.
func TestLinkWithoutCarrierKeepsNothing(t *testing.T) {
	h, host, router := hostWithLocator(t)
	u := h.Snapshot().Uplinks[0]
	router.Run("ip", "link", "set", "lan", "down")
	next(t, h, absent(netA))
	host.Run("ip", "neigh", "replace", u.NextHop.String(), "dev", "upA", "use", "nud", "none")
	if !strings.Contains(host.Run("ip", "-6", "neigh", "show", "dev", "upA"), "INCOMPLETE") {
		t.Fatal("the kernel does not ask without carrier: this test says nothing")
	}
	testutil.Eventually(t, 2*time.Second, func() bool {
		return !strings.Contains(host.Run("ip", "-6", "neigh", "show", "dev", "upA"), "INCOMPLETE")
	}, "the question for the router, and what waits for it, is dropped")
}

// TestAdvertisedPrefixesAreBounded: any number of prefixes makes a bounded number of locators; those that came first,
// and those with an address of the host, are among them. It is told once.
func TestAdvertisedPrefixesAreBounded(t *testing.T) {
	h, host, router := hostWithLocator(t)
	advertise := router.Speaker("lan")
	for i := range 300 {
		a := advert(0x2001_0db8_00ff_0000 + roam.L64(i))
		a.NoAutoconf, a.Router = true, 0
		advertise(a)
	}
	advertise(advert(netB))
	count := map[string]int{}
	next(t, h, func(e Event) bool {
		switch e := e.(type) {
		case Trouble:
			count[e.LinkName+": "+e.Reason]++
		case LocatorChanged:
			return e.L64 == netB && e.Present
		}
		return false
	})
	if len(count) != 1 || count["upA: more than 16 prefixes are advertised on this link"] != 1 {
		t.Errorf("told %v", count)
	}
	got := h.Snapshot().Locators
	if len(got) != maxAdvertised+1 || got[0].L64 != netA || got[1].L64 != netB {
		t.Errorf("%d locators: %v", len(got), got)
	}
	if n := strings.Count(host.Run("ip", "-6", "addr", "show", "dev", "upA"), "/128"); n != maxAdvertised+1 {
		t.Errorf("%d addresses with the NID", n)
	}
}

// Static addresses of any length count with their /64; what was flushed comes
// back.
func TestStaticAddressesAndFlush(t *testing.T) {
	host, _ := hostAndRouter(t)
	h := startIn(t, host, testConfig(t))
	host.Run("ip", "addr", "add", "2001:db8:a:1::5/48", "dev", "upA", "nodad")
	host.Run("ip", "addr", "add", "2001:db8:b:2::77/128", "dev", "upA", "nodad")
	host.Run("ip", "route", "add", "default", "via", "fe80::1", "dev", "upA")
	for _, l := range []roam.L64{netA, netB} {
		if e := next(t, h, present(l)); e.Preferred < 1<<62 {
			t.Errorf("static prefix prefers %v, want for ever", e.Preferred)
		}
	}
	own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
	for i := range 3 {
		host.Run("ip", "addr", "del", own+"/128", "dev", "upA")
		testutil.Eventually(t, soon, func() bool {
			return strings.Contains(host.Run("ip", "-6", "addr", "show", "dev", "upA"), own)
		}, fmt.Sprintf("prefix:NID back after deletion %d", i+1))
		if i == 0 {
			// The first loss is repaired at once and is no handoff.
			testutil.Eventually(t, soon, func() bool {
				return strings.Contains(host.Run("ip", "-6", "addr", "show", "dev", "upA", "-tentative"), own)
			}, "duplicate detection over")
			select {
			case e := <-h.Events():
				if x, ok := e.(LocatorChanged); ok && !x.Present {
					t.Errorf("a flush was told as a loss: %+v", e)
				}
			default:
			}
		}
	}
	host.Run("ip", "addr", "del", "2001:db8:b:2::77/128", "dev", "upA")
	next(t, h, absent(netB))
	host.Run("ip", "-6", "route", "del", "default", "dev", "upA")
	next(t, h, absent(netA))
}

// No plain IPv6 may start from prefix:NID: another address is preferred even if
// it stands on another link.
func TestSourceSelectionAvoidsOwnAddress(t *testing.T) {
	host, router := hostAndRouter(t)
	second := nettest.Router(t, "lan", host, "upB")
	h := startIn(t, host, testConfig(t))
	host.Sysctl("net/ipv6/conf/upA/accept_dad", "-1")
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))
	second.Advertise("lan", advert(netB))
	next(t, h, present(netB))
	for _, l := range []roam.L64{netA, netB} {
		own := roam.ILV{NID: testNID, L64: l}.Addr()
		for _, dst := range []string{"2001:db8:ffff::1", roam.ILV{NID: 0x99, L64: l}.Addr().String(), own.Prev().String()} {
			if out := host.Run("ip", "-6", "route", "get", dst); strings.Contains(out, "src "+own.String()+" ") {
				t.Errorf("towards %s the kernel starts from prefix:NID: %s", dst, out)
			}
		}
	}
}

func TestDuplicateAddressIsReported(t *testing.T) {
	host, router := hostAndRouter(t)
	own := roam.ILV{NID: testNID, L64: netA}.Addr()
	router.Run("ip", "addr", "add", netip.PrefixFrom(own, 128).String(), "dev", "lan", "nodad")
	h := startIn(t, host, testConfig(t))
	router.Advertise("lan", advert(netA))
	e := next(t, h, func(e Trouble) bool { return e.L64 == netA })
	if !strings.Contains(e.Reason, "duplicate") {
		t.Errorf("reason %q does not name the duplicate", e.Reason)
	}
	testutil.Eventually(t, soon, func() bool { return len(h.Snapshot().Locators) == 0 }, "duplicate is no locator")
}

// The router knows prefix:NID before anything was sent to it or from it.
func TestRouterKnowsANewLocator(t *testing.T) {
	_, _, router := hostWithLocator(t)
	own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
	testutil.Eventually(t, soon, func() bool {
		return strings.Contains(router.Run("ip", "-6", "neigh", "show", "dev", "lan", own), "lladdr")
	}, "neighbour entry of prefix:NID in the router")
}

// prefix:NID ends with its prefix even if the daemon is dead by then.
func TestValidLifetimeIsCopied(t *testing.T) {
	_, host, router := hostWithLocator(t)
	own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
	valid := func(want string) func() bool {
		return func() bool {
			out := host.Run("ip", "-6", "addr", "show", "dev", "upA", "to", own)
			return strings.Contains(out, want) && strings.Contains(out, "preferred_lft 0sec")
		}
	}
	if !valid("valid_lft forever")() {
		t.Error("limited while duplicate detection runs: a duplicate would vanish without a word")
	}
	testutil.Eventually(t, soon, valid("valid_lft 11"), "valid lifetime of about 1200 s")
	a := advert(netA)
	a.Valid = 9000
	router.Advertise("lan", a)
	testutil.Eventually(t, soon, valid("valid_lft 89"), "valid lifetime prolonged")
}

// An address that the host has anyway is used, and neither changed nor removed.
func TestAddressThatTheHostHas(t *testing.T) {
	host, _ := hostAndRouter(t)
	own := roam.ILV{NID: testNID, L64: netA}.Addr().String()
	host.Run("ip", "addr", "add", own+"/64", "dev", "upA", "nodad")
	host.Run("ip", "-6", "route", "add", "default", "via", "fe80::1", "dev", "upA")
	before := host.Run("ip", "-6", "addr", "show", "dev", "upA", "scope", "global")
	cfg := testConfig(t)
	h := startIn(t, host, cfg)
	next(t, h, present(netA))
	h.Close()
	var addrs []netip.Addr
	var err error
	host.Do(func() {
		if err = Restore(cfg.JournalPath); err == nil {
			addrs, _, err = GlobalAddresses(roam.DefaultSessionPrefix, func(string) bool { return true })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if after := host.Run("ip", "-6", "addr", "show", "dev", "upA", "scope", "global"); after != before {
		t.Errorf("address changed from\n%s\nto\n%s", before, after)
	}
	if len(addrs) != 1 || addrs[0].String() != own {
		t.Errorf("global addresses %v, want %s", addrs, own)
	}
}

// A link without Ethernet is an uplink like any other.
func TestLinkWithoutEthernet(t *testing.T) {
	testutil.Need(t, "/dev/net/tun")
	host := nettest.New(t)
	var fd int
	var err error
	host.Do(func() { fd, err = openTun("wwan") })
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	host.Run("ip", "link", "set", "wwan", "up")
	host.Run("ip", "addr", "add", "2001:db8:a:1::5/64", "dev", "wwan")
	host.Run("ip", "-6", "route", "add", "default", "dev", "wwan")
	h := startIn(t, host, testConfig(t))
	u := next(t, h, func(UplinkChanged) bool { return true }).Uplink
	if u.HasMAC || u.NextHop.IsValid() || u.Physical || !u.Up || !u.Routed {
		t.Errorf("uplink %+v", u)
	}
	next(t, h, present(netA))
}

// openTun makes a tun device in the namespace of its thread; it has carrier
// while the descriptor is open.
func openTun(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func TestNextHopNeighbourIsWatched(t *testing.T) {
	host, router := hostAndRouter(t)
	h := startIn(t, host, testConfig(t))
	router.Advertise("lan", advert(netA))
	// An advertisement without source link-layer option leaves it unresolved.
	u := next(t, h, func(e UplinkChanged) bool { return e.Uplink.Routed }).Uplink
	host.Run("ip", "neigh", "replace", u.NextHop.String(), "lladdr", "02:00:00:00:00:01", "dev", "upA", "nud", "permanent")
	got := next(t, h, func(e UplinkChanged) bool { return e.Uplink.NextHopMAC.String() == "02:00:00:00:00:01" }).Uplink
	if !got.NextHopValid {
		t.Errorf("a permanent neighbour is called invalid: %+v", got)
	}
	// Whoever starts later learns it by dump.
	second := testConfig(t)
	second.NID++
	late := next(t, startIn(t, host, second), func(UplinkChanged) bool { return true }).Uplink
	if late.NextHopMAC.String() != "02:00:00:00:00:01" || late.NextHop != u.NextHop {
		t.Errorf("uplink by dump: %+v", late)
	}
	host.Run("ip", "neigh", "del", u.NextHop.String(), "dev", "upA")
	next(t, h, func(e UplinkChanged) bool { return !e.Uplink.NextHopValid })
}

func TestRadvd(t *testing.T) {
	host, router := hostAndRouter(t)
	h := startIn(t, host, testConfig(t))
	const config = `interface lan { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvDefaultLifetime %d;
		prefix 2001:db8:a:1::/64 { AdvPreferredLifetime 100; AdvValidLifetime 200; }; };`
	router.Run("ip", "addr", "add", "2001:db8:a:1::1/64", "dev", "lan", "nodad")
	reload := router.Radvd(fmt.Sprintf(config, 9))
	next(t, h, present(netA))
	reload(fmt.Sprintf(config, 0))
	next(t, h, absent(netA))
}
