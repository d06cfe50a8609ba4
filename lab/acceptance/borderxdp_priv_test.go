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
// Datagrams in both directions pass, none is lost, and XDP forwards them; by a link whose other end
// stops to poll the programs at tc do.
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
	state := func() map[string]string {
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
	testutil.Eventually(t, patience, func() bool {
		got := state()
		return got["lan"] == "on" && got["wan0"] == "on" && got["wan1"] == "receives only"
	}, "drivers forward where the other end polls")
	// forwarded returns how many packets XDP forwarded in each direction, of those of three seconds.
	forwarded := func() (tx, rx uint64) {
		t.Helper()
		before := borderCounters(t, s)
		if sent, lost := between(t, s, 500, 3*time.Second, func() {}); lost > 0 || sent < 500 {
			t.Errorf("%d of %d datagrams lost", lost, sent)
		}
		after := borderCounters(t, s)
		return after["border_tx_xdp"] - before["border_tx_xdp"], after["border_rx_xdp"] - before["border_rx_xdp"]
	}
	if tx, rx := forwarded(); tx < 50 || rx < 200 {
		t.Errorf("XDP forwarded %d and %d packets", tx, rx)
	}
	set(s.Provider[0], "site", "gro", "off")
	stopped := func() bool { return state()["wan0"] == "receives only" }
	testutil.Eventually(t, patience, stopped, "wan0 sends no frames of XDP")
	if tx, _ := forwarded(); tx > 0 {
		t.Errorf("XDP forwarded %d packets outside", tx)
	}
}
