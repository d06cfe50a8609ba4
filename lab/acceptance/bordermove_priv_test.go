package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/site"
	"roam/lab/topo"
)

// The networks to which a host moves: one outside of any site, and one behind the far border.
var (
	abroad    = netip.MustParsePrefix("2001:db8:ee::/64")
	farInside = netip.MustParsePrefix("fd00:0:3::/64")
)

// newMoving builds two sites, the networks abroad and far inside, to which the inside host has the
// links net2 and net3, and a correspondent outside of both sites. Only net1 is up. Hosts hand off in that mode.
func newMoving(t *testing.T, mode string) *site.Site {
	t.Helper()
	needs(t, "ping", "ip")
	ctx, stop := context.WithCancel(context.Background())
	s, err := site.New("moving", true)
	t.Cleanup(func() {
		defer stop()
		if t.Failed() {
			explain(t, s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	must(s.Far.SetDown("net1"))
	adverts := map[*topo.Host][]topo.Advert{}
	for _, n := range []struct {
		host   *topo.Host
		ifname string
		router *topo.Host
		there  string
		prefix netip.Prefix
	}{
		{s.Far, "net2", s.Core, "net", site.External},
		{s.InsideHost, "net2", s.Core, "abroad", abroad},
		{s.InsideHost, "net3", s.FarRouter, "lan2", farInside},
	} {
		must(s.Lab.Veth(n.host, n.ifname, n.router, n.there))
		must(n.router.AddAddr(n.there, netip.PrefixFrom(n.prefix.Addr().Next(), 64)))
		adverts[n.router] = append(adverts[n.router], topo.Advert{
			Interface: n.there, Prefix: n.prefix, MinInterval: 300 * time.Millisecond, MaxInterval: time.Second,
		})
	}
	for router, list := range adverts {
		_, err := router.Router(list...)
		must(err)
	}
	must(errors.Join(s.InsideHost.SetDown("net2"), s.InsideHost.SetDown("net3")))
	far := fmt.Sprintf("[border]\ninside = [\"lan2\"]\nlinks = [\"%s wan0\", \"%s wan1\"]\npolicy = \"\"\"\n"+
		"%s 50 0 vlb 1 2\n%s 50 0 none 2\n%s 50 0 none 2\n\"\"\"\n", site.Providers[1][0].Addr(), site.Providers[1][1].Addr(),
		farInside.Addr(), site.Providers[1][0].Addr(), site.Providers[1][1].Addr())
	must(s.Roam(binaries, "", site.Section(0, site.Policy(0, "vlb", 50, 50), ""), far))
	known := fmt.Sprintf("nid=%s l64=%s,10 inside\nnid=%s l64=%s,10 outside\n",
		site.InsideNID, site.Providers[0][0], site.OutsideNID, site.External)
	for nid, n := range map[roam.NID]*node.Node{site.InsideNID: s.Inside, site.OutsideNID: s.Outside} {
		must(n.Write(node.Options{NID: nid, Mode: mode, Hosts: known}))
	}
	for _, n := range []*node.Node{s.Border, s.FarBorder, s.Inside, s.Outside} {
		must(n.Start(ctx))
	}
	must(errors.Join(s.Inside.WaitActive(ctx, "net1"), s.Outside.WaitActive(ctx, "net2")))
	return s
}

// captureLeft wants, at the end, that no packet with the host's NID as its source has come from the
// borders of sites in which the host is not: only they would send one there.
func captureLeft(t *testing.T, s *site.Site, now string) (end func()) {
	t.Helper()
	nid := fmt.Sprintf("ip6[16:4]==%#x and ip6[20:4]==%#x", uint64(site.InsideNID)>>32, uint64(site.InsideNID)&0xffff_ffff)
	captures := make(map[string]*topo.Capture)
	for network, links := range map[string][]string{"net1": {"provider0", "provider1"}, "net3": {"far0", "far1"}} {
		for _, link := range links {
			if network == now {
				continue
			}
			file := filepath.Join(t.TempDir(), link+".pcap")
			c, err := s.Core.Capture(t.Context(), link, file, 100, nid)
			if err != nil {
				t.Fatal(err)
			}
			captures[file] = c
		}
	}
	return func() {
		t.Helper()
		for file, c := range captures {
			if _, err := c.Stop(); err != nil {
				t.Error(err)
			}
			if b, err := os.ReadFile(file); err != nil || len(b) > pcapHeader {
				t.Errorf("a border that the host has left sent %d bytes in its name, %v: %x", len(b)-pcapHeader, err,
					b[:min(len(b), 200)])
			}
		}
	}
}

// pcapHeader is the length of a capture without packets.
const pcapHeader = 24

// attach has the host leave a network for another one: before that one is up, or once its correspondent uses the
// locator there.
func attach(t *testing.T, s *site.Site, now, next string, soft bool) {
	t.Helper()
	leave := func() error { return s.InsideHost.SetDown(now) }
	arrive := func() error {
		return errors.Join(s.InsideHost.SetUp(next), s.Inside.WaitActive(t.Context(), next))
	}
	steps := []func() error{leave, arrive}
	if soft {
		steps = []func() error{arrive, func() error { return used(t, s, next) }, leave}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// used waits until the correspondent uses a locator of that network alone.
func used(t *testing.T, s *site.Site, network string) error {
	t.Helper()
	networks := map[string][]netip.Prefix{"net1": site.Providers[0][:], "net2": {abroad}, "net3": site.Providers[1][:]}
	there := networks[network]
	testutil.Eventually(t, patience, func() bool {
		list, err := s.Outside.Sessions(t.Context())
		if err != nil || len(list) != 1 {
			return false
		}
		n := 0
		for _, l := range list[0].Locators {
			if l.State == "active" {
				n++
				if !slices.Contains(there, l.L64.Prefix()) {
					return false
				}
			}
		}
		return n > 0
	}, "the correspondent uses "+network)
	return nil
}

// TestBorderHostMoves has a host with one session leave its site, enter another one, come back
// into the first, and so forth: each pair of networks in both directions, and each time without a
// network in between. Datagrams of unmodified programs continue both ways each time, in the same
// session, and no internal locator leaves a site. Three seconds after a move nothing is lost any more,
// and the borders that the host has left send nothing in its name. With ROAM_BORDERS=all it does so again in the
// mode soft: the host has the next network before it leaves the last one, and nothing is lost at all.
func TestBorderHostMoves(t *testing.T) {
	modes := []string{"hard"}
	if os.Getenv(allBorders) == "all" {
		modes = append(modes, "soft")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) { moves(t, mode) })
	}
}

// allBorders is the variable of the environment that asks for what takes longer.
const allBorders = "ROAM_BORDERS"

func moves(t *testing.T, mode string) {
	soft := mode == "soft"
	s := newMoving(t, mode)
	ping(t, s, "-c", "5", "-i", "0.2", "-W", "3")
	now := "net1"
	for _, next := range []string{"net2", "net1", "net3", "net1", "net3", "net2", "net3"} {
		t.Run(now+" to "+next, func(t *testing.T) {
			var attached time.Duration
			sent, lost := between(t, s, 200, 3*time.Second, func() {
				began := time.Now()
				attach(t, s, now, next, soft)
				attached = time.Since(began)
			})
			// Each way loses what is sent while there is no network, and until the update has arrived.
			most := int(2 * 200 * (attached + time.Second).Seconds())
			if soft {
				most = 0
			}
			t.Logf("attached after %v; %d of %d datagrams lost, %d at most", attached, lost, sent, most)
			if lost > most {
				t.Errorf("%d of %d datagrams lost, %d at most", lost, sent, most)
			}
			left := captureLeft(t, s, next)
			sent, lost = between(t, s, 500, 3*time.Second, func() {})
			if sent < 1500 || lost > 0 {
				t.Errorf("%d of %d datagrams lost afterwards", lost, sent)
			}
			left()
			if next == "net2" {
				return
			}
			border := map[string]*node.Node{"net1": s.Border, "net3": s.FarBorder}[next]
			testutil.Eventually(t, patience, func() bool {
				r, err := site.Report(t.Context(), border)
				return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 2
			}, "the correspondent has acknowledged both locators of the site")
		})
		now = next
	}
	if list, err := s.Outside.Sessions(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("sessions %+v, %v", list, err)
	}
}
