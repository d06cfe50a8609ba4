package hostnet

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"roam/internal/hostnet/desired"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// A role sets a state beside the host's own: it is refused what contradicts,
// somebody's removal is put back, and Restore takes back all of it.
func TestSetOfARole(t *testing.T) {
	host := nettest.New(t)
	nettest.Cable(host, "upA", nettest.New(t), "far")
	settledAddress(t, host, "fe80::")
	before := wholeState(host)
	cfg := testConfig(t)
	h := startIn(t, host, cfg)
	d := setupIn(t, h)
	index := host.Index("upA")
	home := netip.MustParseAddr("2001:db8:1::1")
	s := desired.State{
		Addresses: []desired.Address{{Link: index, Addr: home, Bits: 64, Detection: desired.None, Preferred: true}},
		Sysctls:   []desired.Sysctl{{Link: index, Param: "proxy_ndp", Value: "1"}},
		Proxies:   []desired.Proxy{{Link: index, Addr: home.Next()}},
		Routes:    []desired.Route{{Dst: netip.MustParsePrefix("2001:db8:2::/48"), Link: index, Table: 77, Source: home}},
		Rules:     []desired.Rule{{Priority: 100, From: netip.MustParsePrefix("2001:db8:1::/48"), Table: 77}},
	}
	stands := func() bool {
		out := host.Run("ip", "-6", "addr", "show", "dev", "upA") + host.Run("ip", "-6", "neigh", "show", "proxy") +
			host.Run("ip", "-6", "route", "show", "table", "77") + host.Run("ip", "-6", "rule", "show")
		for _, want := range []string{home.String() + "/64", home.Next().String(), "2001:db8:2::/48", "lookup 77"} {
			if !strings.Contains(out, want) {
				t.Logf("no %s in %s", want, out)
				return false
			}
		}
		return host.ReadSysctl("net/ipv6/conf/upA/proxy_ndp") == "1"
	}
	if err := h.Set("mobile", s); err != nil || !stands() {
		t.Fatalf("Set: %v", err)
	}
	// The kernel brings an address up, with its route, after the call that adds it has returned.
	settled := func() string {
		testutil.Eventually(t, 10*time.Second, func() bool {
			return strings.Contains(host.Run("ip", "-6", "route", "show", "table", "local"), "local "+home.String()+" dev upA")
		}, "the route to the address stands")
		return host.State()
	}
	during := settled()
	for _, meddle := range []string{"rule del priority 100", "route flush table 77", "addr del 2001:db8:1::1/64 dev upA",
		"neigh del proxy 2001:db8:1::2 dev upA"} {
		host.Run("ip", append([]string{"-6"}, strings.Fields(meddle)...)...)
		if err := h.Set("mobile", s); err != nil || !stands() {
			t.Errorf("%s, then Set: %v", meddle, err)
		}
	}
	if after := settled(); !sameButFlags(after, during) {
		t.Errorf("after others' removals:\n%s\nwant\n%s", after, during)
	}
	for owner, s := range map[string]desired.State{
		"border":     {Rules: []desired.Rule{{Priority: 100, Table: 78}}},
		"thief":      {Devices: []desired.Device{{Name: d.Name, Peer: d.PeerName, MTU: 9000}}},
		ownerSession: {}, "": {},
	} {
		if err := h.Set(owner, s); err == nil {
			t.Errorf("%q was not refused", owner)
		}
	}
	h.Close()
	restores(t, host, cfg.JournalPath, before)
}
