package hostnet

import (
	"strings"
	"testing"

	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// forwardingHost forwards on all its links, as one that shares its network does.
func forwardingHost(t *testing.T) (host, router *nettest.NS) {
	t.Helper()
	host, router = hostAndRouter(t)
	host.Sysctl("net/ipv6/conf/upA/router_solicitations", "0") // what is counted is ours
	settledAddress(t, host, "fe80::")
	host.Sysctl("net/ipv6/conf/all/forwarding", "1")
	return host, router
}

func acceptsRA(n *nettest.NS, link string) string {
	return n.ReadSysctl("net/ipv6/conf/" + link + "/accept_ra")
}

func TestForwardingHostGetsItsLocator(t *testing.T) {
	host, router := forwardingHost(t)
	before, asked := host.State(), solicited(t, router)
	cfg := testConfig(t)
	h := startIn(t, host, cfg)
	testutil.Eventually(t, soon, func() bool { return acceptsRA(host, "upA") == "2" }, "accept_ra 2 on the uplink")
	testutil.Eventually(t, soon, func() bool { return solicited(t, router) != asked }, "a Router Solicitation")
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA))

	// A successor takes over what a killed process has set.
	h.Close()
	successor := startIn(t, host, cfg)
	next(t, successor, present(netA))
	if got := acceptsRA(host, "upA"); got != "2" {
		t.Errorf("accept_ra is %s after a restart", got)
	}
	successor.Close()

	var err error
	host.Do(func() { err = Restore(cfg.JournalPath) })
	if err != nil || acceptsRA(host, "upA") != "1" {
		t.Errorf("Restore: %v, accept_ra %s, want 1", err, acceptsRA(host, "upA"))
	}
	if out := host.Run("ip", "-6", "route", "show", "default"); out != "" {
		t.Errorf("a default route stayed that the kernel would not hear the end of: %s", out)
	}
	// What the kernel made of the prefix ends with its lifetimes.
	host.Run("ip", "-6", "addr", "flush", "dev", "upA", "scope", "global")
	if after := withoutPrefix(host.State()); after != before {
		t.Errorf("after Restore:\n%s\nbefore:\n%s", after, before)
	}
}

// withoutPrefix leaves out the route of the prefix that a router advertised.
func withoutPrefix(state string) string {
	var b strings.Builder
	for line := range strings.Lines(state) {
		if !strings.Contains(line, netA.Prefix().Masked().Addr().String()) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// solicited returns how many Router Solicitations a namespace has taken.
func solicited(t *testing.T, n *nettest.NS) string {
	t.Helper()
	for line := range strings.Lines(n.Run("cat", "/proc/net/snmp6")) {
		if f := strings.Fields(line); f[0] == "Icmp6InRouterSolicits" {
			return f[1]
		}
	}
	return "no counter"
}

// Forwarding begins and ends while Roam runs: the kernel drops the default route
// at once, and an advertisement brings it back.
func TestForwardingBeginsAndEnds(t *testing.T) {
	h, host, router := hostWithLocator(t)
	if got := acceptsRA(host, "upA"); got != "1" {
		t.Errorf("accept_ra is %s on a host that does not forward", got)
	}
	host.Sysctl("net/ipv6/conf/all/forwarding", "1")
	testutil.Eventually(t, soon, func() bool { return acceptsRA(host, "upA") == "2" }, "accept_ra 2 once it forwards")
	router.Advertise("lan", advert(netB))
	next(t, h, present(netB))
	host.Sysctl("net/ipv6/conf/all/forwarding", "0")
	testutil.Eventually(t, soon, func() bool { return acceptsRA(host, "upA") == "1" }, "accept_ra 1 when it does not")
}

// What is advertised on a link that this host serves comes from its clients,
// unless the user says otherwise.
func TestForwardingHostServesNetworks(t *testing.T) {
	host, router := forwardingHost(t)
	clients := nettest.New(t)
	for _, link := range []string{"lan0", "lan1", "lan2"} {
		nettest.Cable(host, link, clients, link)
	}
	host.Run("ip", "addr", "add", "2001:db8:77::1/64", "dev", "lan0", "nodad")
	host.Run("ip", "link", "add", "br0", "type", "bridge")
	host.Run("ip", "link", "set", "lan1", "master", "br0")
	host.Run("ip", "link", "set", "br0", "up")
	host.Sysctl("net/ipv6/conf/lan2/accept_ra", "0") // its manager asks by itself
	want := func(links map[string]string) {
		t.Helper()
		for link, value := range links {
			testutil.Eventually(t, soon, func() bool { return acceptsRA(host, link) == value }, link+" has "+value)
		}
	}
	cfg := testConfig(t)
	h := startIn(t, host, cfg)
	want(map[string]string{"upA": "2"})
	router.Advertise("lan", advert(netA))
	next(t, h, present(netA)) // all links have been looked at
	want(map[string]string{"lan0": "1", "lan1": "1", "br0": "1", "lan2": "0"})
	h.Close()
	cfg.Include = []string{"lan0", "br0"}
	startIn(t, host, cfg)
	want(map[string]string{"lan0": "2", "br0": "2", "lan1": "1", "lan2": "0", "upA": "1"})
}
