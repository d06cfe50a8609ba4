package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/site"
	"roam/lab/topo"
)

// TestBorderStateLost has the host of a site, and then its correspondent, restart without the record of their session,
// without and with keys, while the other one and the border remember it. The name goes on. Without keys the border
// takes over the nonce that counts by its own updates: it withdraws and announces a locator. Then a provider's link is
// lost, and datagrams go on by the other one.
func TestBorderStateLost(t *testing.T) {
	s := newSite(t, site.Policy(0, "vlb", 50, 50), "")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// What comes first from a host may come by either provider, and is from that host where a record has the locator.
	known := fmt.Sprintf("nid=%s l64=%s,10 l64=%s,10 inside\n", site.InsideNID, site.Providers[0][0], site.Providers[0][1])
	must(os.WriteFile(s.Outside.Hosts(), []byte(known), 0o644))
	roamOn(t, s.Outside, "config", "reload")
	ping(t, s, "-c", "3", "-i", "0.1")
	announced(t, s)
	t.Run("inside", func(t *testing.T) { survives(t, s, s.Inside); announcesAgain(t, s) })
	t.Run("outside", func(t *testing.T) { survives(t, s, s.Outside); announcesAgain(t, s) })
	config, err := os.ReadFile(s.Inside.Config)
	config = append(config, "[uplinks]\noutside = { \"fd00:0:1::\" = [\"2001:db8:a::\", \"2001:db8:b::\"] }\n"...)
	must(errors.Join(err, os.WriteFile(s.Inside.Config, config, 0o644)))
	forget(t, s, s.Inside) // from then on it exports the locators of the site
	for name, pair := range map[string][2]*node.Node{"inside": {s.Inside, s.Outside}, "outside": {s.Outside, s.Inside}} {
		roamOn(t, pair[0], "key", "new")
		roamOn(t, pair[1], "add", roamOn(t, pair[0], "export"), "--as", name, "--replace")
	}
	for _, n := range []*node.Node{s.Inside, s.Outside} {
		t.Run("keyed "+n.Host.Name(), func(t *testing.T) {
			survives(t, s, n)
			if k, err := s.Outside.Keyed(t.Context()); err != nil || k != 1 {
				t.Errorf("%d sessions with keys, %v", k, err)
			}
		})
	}
	must(s.Router.SetDown("wan0"))
	testutil.Eventually(t, patience, func() bool { // with keys the outside host's probes notice that
		sent, lost := between(t, s, 200, time.Second/2, func() {})
		return lost == 0 && sent > 10
	}, "no datagram is lost by the other link")
	if list, err := s.Outside.Sessions(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("sessions %+v, %v", list, err)
	}
}

// survives has a host lose its state, after which datagrams pass both ways.
func survives(t *testing.T, s *site.Site, n *node.Node) {
	t.Helper()
	forget(t, s, n)
	if sent, lost := between(t, s, 200, time.Second/2, func() {}); lost > 0 || sent < 10 {
		t.Errorf("%d of %d datagrams lost", lost, sent)
	}
}

// forget has a host restart without its sessions, and waits until it has reached the other one.
func forget(t *testing.T, s *site.Site, n *node.Node) {
	t.Helper()
	began := time.Now()
	if err := errors.Join(n.Stop(t.Context()), n.Forget(), n.Start(context.Background()),
		n.WaitActive(t.Context(), "net1")); err != nil {
		t.Fatal(err)
	}
	reaches(t, s)
	t.Logf("restarted, and reached after %v", time.Since(began).Round(10*time.Millisecond))
}

// reaches waits until echo requests of both hosts are answered.
func reaches(t *testing.T, s *site.Site) {
	t.Helper()
	testutil.Eventually(t, patience, func() bool {
		for host, nid := range map[*topo.Host]roam.NID{s.InsideHost: site.OutsideNID, s.Far: site.InsideNID} {
			_, err := host.AppCommand(t.Context(), "ping", "-n", "-q", "-c", "3", "-i", "0.05", "-W", "1",
				site.Session(nid).String()).CombinedOutput()
			if err != nil {
				return false
			}
		}
		return true
	}, "the hosts reach each other")
}

// announcesAgain has the border withdraw a locator and announce it again.
func announcesAgain(t *testing.T, s *site.Site) {
	t.Helper()
	for i, verb := range []string{"drain", "undrain"} {
		began := time.Now()
		if out, err := s.Border.Cmd(t.Context(), "border", verb, "wan0").CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", verb, err, out)
		}
		testutil.Eventually(t, patience, func() bool {
			r, err := site.Report(t.Context(), s.Border)
			return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 1+i
		}, "the outside host has acknowledged the locators that are in use")
		t.Logf("%s: acknowledged after %v", verb, time.Since(began).Round(10*time.Millisecond))
	}
}
