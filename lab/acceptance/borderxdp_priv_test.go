package acceptance

import (
	"context"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/topo"
)

// TestBorderXDP has a border forward by XDP on all of its links. The other ends of a veth have to
// poll, and a sender has to finish its checksums: a device that does so later sees no packet of XDP.
// Datagrams in both directions pass, none is lost, and XDP forwards most of them; by a link whose other
// end stops to poll the programs at tc do.
func TestBorderXDP(t *testing.T) {
	needs(t, "ethtool", "ping", "ip")
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	set := func(h *topo.Host, ifname, feature, value string) {
		t.Helper()
		out, err := h.Command(t.Context(), "ethtool", "-K", ifname, feature, value).CombinedOutput()
		if err != nil {
			t.Fatalf("ethtool: %v: %s", err, out)
		}
	}
	set(s.InsideHost, "net1", "tx", "off")
	set(s.Core, "provider0", "tx", "off")
	set(s.Core, "provider1", "tx", "off")
	set(s.Far, "net1", "tx", "off")
	set(s.InsideHost, "net1", "gro", "on")
	set(s.Provider[0], "site", "gro", "on")
	ping(t, s, "-c", "3", "-i", "0.2")
	announced(t, s)
	section := site.Section(0, site.Policy(0, "vlb", 50, 50), "xdp = [\"lan\", \"wan0\", \"wan1\"]\n")
	if err := s.Configure(section); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Border.Cmd(context.Background(), "config", "reload").CombinedOutput(); err != nil {
		t.Fatalf("reload: %v: %s", err, out)
	}
	are := func(lan, wan0, wan1 string) {
		t.Helper()
		testutil.Eventually(t, patience, func() bool {
			got := xdpOf(t, s)
			return got["lan"] == lan && got["wan0"] == wan0 && got["wan1"] == wan1
		}, "lan: "+lan+", wan0: "+wan0+", wan1: "+wan1)
	}
	are("on", "on", "receives only")
	set(s.Provider[1], "site", "gro", "on")
	are("on", "on", "on")
	// forwarded returns the part of the packets of three seconds that XDP forwarded, outward and inward.
	forwarded := func() (out, in float64) {
		t.Helper()
		was, err := site.Report(t.Context(), s.Border)
		if err != nil {
			t.Fatal(err)
		}
		before := borderCounters(t, s)
		if sent, lost := between(t, s, 500, 3*time.Second, func() {}); lost > 0 || sent < 500 {
			t.Errorf("%d of %d datagrams lost", lost, sent)
		}
		after := borderCounters(t, s)
		tx, rx := shares(t, s, was)
		part := func(name string, of [2]float64) float64 { return float64(after[name]-before[name]) / (of[0] + of[1]) }
		out, in = part("border_tx_xdp", tx), part("border_rx_xdp", rx)
		t.Logf("XDP forwarded %.2f of %v packets out and %.2f of %v in", out, tx, in, rx)
		return out, in
	}
	// For some seconds after set-up packets bear nonces, which are not for XDP.
	testutil.Eventually(t, patience, func() bool {
		before := nonces(t, s)
		sent, _ := between(t, s, 200, time.Second/2, func() {})
		return sent > 0 && nonces(t, s)-before < uint64(sent)/10
	}, "the inside host sends without nonces")
	if out, in := forwarded(); out < 0.1 || in < 0.1 { // a busy machine makes bursts, which go the other way
		t.Errorf("XDP forwarded %.2f of the packets out and %.2f of those in", out, in)
	}
	set(s.Provider[0], "site", "gro", "off")
	are("on", "receives only", "on")
	set(s.Provider[1], "site", "gro", "off")
	are("on", "receives only", "receives only")
	if out, in := forwarded(); out > 0 || in == 0 {
		t.Errorf("XDP forwarded %.2f of the packets out and %.2f of those in", out, in)
	}
}

// xdpOf returns what each link of the border does with XDP.
func xdpOf(t *testing.T, s *site.Site) map[string]string {
	t.Helper()
	r, err := site.Report(t.Context(), s.Border)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, l := range r.Links {
		found[l.Name] = l.XDP
	}
	return found
}

// nonces returns how many packets the inside host has sent with a nonce.
func nonces(t *testing.T, s *site.Site) uint64 {
	t.Helper()
	n, err := s.Inside.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n["tx_nonce"]
}
