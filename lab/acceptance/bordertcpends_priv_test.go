package acceptance

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/packets"
	"roam/lab/site"
	"roam/lab/workload"
)

// newSites builds two sites, each with a border that has two providers and divides packets by halves.
func newSites(t *testing.T) *site.Site {
	t.Helper()
	needs(t, "ping", "ip")
	ctx, stop := context.WithCancel(context.Background())
	s, err := site.New("sites", true)
	t.Cleanup(func() {
		defer stop()
		if t.Failed() {
			explain(t, s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		err = s.Roam(binaries, "", site.Section(0, site.Policy(0, "vlb", 50, 50), ""),
			site.Section(1, site.Policy(1, "vlb", 50, 50), ""))
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tcpEnds has TCP connections between hosts in two sites, behind a border each: in both directions every packet
// of a connection that goes to one locator leaves from one, which its sender does not see, and connections differ
// in which. To which locators it goes is the choice of the sending host, which divides packets among those of a
// site that answer equally fast.
func tcpEnds(t *testing.T) {
	s := newSites(t)
	ping(t, s, "-c", "5", "-i", "0.1")
	for _, b := range []*node.Node{s.Border, s.FarBorder} {
		testutil.Eventually(t, patience, func() bool {
			r, err := site.Report(t.Context(), b)
			return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 2
		}, "both borders have announced their locators")
	}
	dir := t.TempDir()
	stops := map[string]func() error{}
	for _, link := range []string{"far0", "far1"} {
		c, err := s.Core.Capture(t.Context(), link, filepath.Join(dir, link), 120, "tcp or (ip6[6] = 60 and ip6[40] = 6)")
		if err != nil {
			t.Fatal(err)
		}
		stops[link] = func() error { _, err := c.Stop(); return err }
	}
	const connections = 12
	p, err := workload.StartIperf(t.Context(), s.Far, s.InsideHost, workload.IperfOptions{
		Name: "ends", Target: site.Session(site.OutsideNID).String(), Port: 5300, Seconds: 1, Interval: 0.5, Mbps: 2,
		Parallel: connections,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Wait(t.Context()); err != nil || r.Bytes < 1_000_000 {
		t.Errorf("%+v, %v", r, err)
	}
	var list []packets.Packet
	for link, stop := range stops {
		stopped := stop()
		l, err := packets.Read(filepath.Join(dir, link), link)
		if err = errors.Join(stopped, err); err != nil {
			t.Fatal(err)
		}
		list = append(list, l...)
	}
	type direction struct {
		src  roam.NID
		port uint16 // of the inside host
		dst  roam.L64
	}
	taken := map[direction]map[roam.L64]int{} // source locators
	for _, p := range list {
		d := direction{p.SourceNID(), p.SrcPort, roam.ILVFromAddr(p.Dst).L64}
		if d.src != site.InsideNID {
			d.port = p.DstPort
		}
		if taken[d] == nil {
			taken[d] = map[roam.L64]int{}
		}
		taken[d][p.SourceL64()]++
	}
	different := map[[2]roam.L64]bool{}
	for d, from := range taken {
		if len(from) != 1 {
			t.Errorf("from %v to %v, port %d, %v", d.src, d.dst, d.port, from)
		}
		for l := range from {
			different[[2]roam.L64{l, d.dst}] = true
		}
	}
	t.Logf("%d directions of connections take %d of 8 pairs of locators", len(taken), len(different))
	if len(taken) <= 2*connections || len(different) < 4 { // iperf3 has one more for control
		t.Errorf("%d directions of connections take %v", len(taken), different)
	}
}
