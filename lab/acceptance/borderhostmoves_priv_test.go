package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/site"
	"roam/lab/topo"
)

// alsoInside is the prefix of a second network of the near site.
var alsoInside = netip.MustParsePrefix("fd00:0:9::/64")

// TestBorderHostMovesInside has a host with one session move between two networks of its site, to and fro. The border
// follows it: datagrams of unmodified programs continue both ways, and three seconds after a move nothing is lost any
// more. The correspondent notices nothing, since its locators for the host are those of the providers.
func TestBorderHostMovesInside(t *testing.T) {
	needs(t, "ping", "ip")
	ctx, stop := context.WithCancel(context.Background())
	s, err := site.New("within", false)
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
	must(s.Lab.Veth(s.InsideHost, "net2", s.Router, "lan2"))
	must(s.Router.AddAddr("lan2", netip.PrefixFrom(alsoInside.Addr().Next(), 64)))
	_, err = s.Router.Router(topo.Advert{
		Interface: "lan2", Prefix: alsoInside, MinInterval: 300 * time.Millisecond, MaxInterval: time.Second,
	})
	must(err)
	must(s.InsideHost.SetDown("net2"))
	policy := site.Policy(0, "vlb", 50, 50) + alsoInside.Addr().String() + " 60 0 vlb 1 2\n"
	must(s.Roam(binaries, "", fmt.Sprintf("[border]\ninside = [\"lan\", \"lan2\"]\nlinks = [\"%s wan0\", \"%s wan1\"]\n"+
		"policy = \"\"\"\n%s\"\"\"\n", site.Providers[0][0].Addr(), site.Providers[0][1].Addr(), policy)))
	known := fmt.Sprintf("nid=%s l64=%s,10 outside\n", site.OutsideNID, site.External)
	must(s.Inside.Write(node.Options{NID: site.InsideNID, Mode: "hard", Hosts: known}))
	must(s.Start(ctx))
	ping(t, s, "-c", "5", "-i", "0.2", "-W", "3")
	announced(t, s)
	now := "net1"
	for _, next := range []string{"net2", "net1"} {
		t.Run(now+" to "+next, func(t *testing.T) {
			must(errors.Join(s.InsideHost.SetDown(now), s.InsideHost.SetUp(next), s.Inside.WaitActive(t.Context(), next)))
			testutil.Eventually(t, patience, func() bool {
				_, err := s.Far.AppCommand(t.Context(), "ping", "-n", "-q", "-c", "3", "-i", "0.2", "-W", "1",
					site.Session(site.InsideNID).String()).CombinedOutput()
				return err == nil
			}, "the outside host reaches the inside one")
			sent, lost := between(t, s, 500, 3*time.Second, func() {})
			if sent < 1500 || lost > 0 {
				t.Errorf("%d of %d datagrams lost afterwards", lost, sent)
			}
		})
		now = next
	}
	if list, err := s.Outside.Sessions(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("sessions %+v, %v", list, err)
	}
}
