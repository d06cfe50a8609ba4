package bench

import (
	"context"
	"testing"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
)

// borderTCP compares a connection of TCP between two hosts with Roam that crosses a border with
// one that crosses a router which only forwards. One core does all the work: of both hosts, the
// border, the provider and the core.
func borderTCP(b *testing.B) {
	build(b)
	var all []*contender
	sites := map[string]*site.Site{}
	for _, name := range []string{"forwarding", "border"} {
		s := newTCPSite(b, name)
		sites[name] = s
		w := &world{mn: s.InsideHost, cn: s.Far}
		target := roam.ILV{NID: site.OutsideNID, L64: roam.DefaultSessionPrefix}
		all = append(all, &contender{name: name, slice: tcpSlice(b, w, target, (*connection).bulk)})
	}
	sizes := map[string]func() float64{}
	for name, s := range sites {
		sizes[name] = frameSize(b, s)
	}
	f := testutil.Figure{
		Name: "Border/tcp", Op: ">=", Bound: 0.98,
		Says: "4 MiB by TCP between two hosts with Roam, rate across the border / across a forwarding router",
	}
	compare(b, all, []question{{f, "forwarding", "border", whole, sliceBytes >> 20, "MiB", testutil.HalfWidth}})
	for name, size := range sizes {
		testutil.Report(b, testutil.Figure{
			Name: "Border/tcp/frame " + name, Unit: "B", Value: size(), Rounds: 1,
			Says: "mean length of a frame that reached the provider, GSO packets as one: segments have 1,500 bytes at most",
		})
	}
}

// newTCPSite builds a site whose hosts run Roam, and its router a border or nothing.
func newTCPSite(b *testing.B, name string) *site.Site {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background()) // the daemons run until it is closed
	s, err := site.New("tcp"+name, false)
	b.Cleanup(func() { stop(); must(b, s.Close()) })
	must(b, err)
	if name == "border" {
		must(b, s.Roam(bin, "", site.Section(0, site.Policy(0, "vlb", 50, 50), "")))
	} else {
		_, err := s.Compare(ctx, site.Forwarding)
		must(b, err)
		must(b, s.HostsAlone(bin, ""))
	}
	must(b, s.Start(ctx))
	echo(b, s, site.Session(site.OutsideNID))
	if name == "border" {
		known(ctx, b, s)
	}
	return s
}

// frameSize returns a function for the mean length of the frames that both providers have
// received from the site since.
func frameSize(b *testing.B, s *site.Site) func() float64 {
	b.Helper()
	count := func() (packets, bytes float64) {
		for _, p := range s.Provider {
			n, err := p.Stats("site")
			must(b, err)
			packets, bytes = packets+float64(n.RxPackets), bytes+float64(n.RxBytes)
		}
		return packets, bytes
	}
	packets, bytes := count()
	return func() float64 {
		p, n := count()
		return (n - bytes) / max(p-packets, 1)
	}
}
