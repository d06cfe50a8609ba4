package bench

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/topo"
	"roam/lab/workload/frames"
)

// The two nodes of the flow that comes in.
var (
	insideAddr  = roam.ILV{L64: roam.ILVFromAddr(site.Internals[0].Addr()).L64, NID: site.InsideNID}.Addr()
	outsideAddr = roam.ILV{L64: roam.ILVFromAddr(site.External.Addr()).L64, NID: site.OutsideNID}.Addr()
)

// reached is the address of the inside host as the outside knows it.
func reached(way string) netip.Addr {
	for _, c := range site.Comparators {
		if c.Name == way {
			return c.Outside(insideAddr, site.Providers[0][0])
		}
	}
	return roam.ILV{L64: roam.ILVFromAddr(site.Providers[0][0].Addr()).L64, NID: site.InsideNID}.Addr()
}

// linkEnd is a link of a host.
type linkEnd struct {
	host   *topo.Host
	ifname string
}

// newStream sends from a link to the one that it leads to, and counts at those ends.
func newStream(b *testing.B, name string, from, to linkEnd, s frames.Stream, sinks ...linkEnd) *crossing {
	b.Helper()
	x := &crossing{name: name}
	gro(b.Context(), b, to.host, to.ifname)
	for _, e := range sinks {
		sink, err := frames.Receive(e.host, e.ifname, framePort)
		x.must(b, err)
		b.Cleanup(func() { sink.Close() })
		x.sinks = append(x.sinks, sink)
	}
	s.FromMAC, s.ToMAC, s.Port = macOf(b, from.host, from.ifname), macOf(b, to.host, to.ifname), framePort
	g, err := frames.New(from.host, from.ifname, s)
	x.must(b, err)
	b.Cleanup(func() { g.Close() })
	x.from = g
	return x
}

// newInward is a site whose router passes on what comes in, in one of the ways.
func newInward(b *testing.B, way string, xdp bool) *crossing {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background()) // the daemons run until it is closed
	s, err := site.New("inward"+way, false)
	b.Cleanup(func() { stop(); must(b, s.Close()) })
	must(b, err)
	sink := linkEnd{s.InsideHost, "net1"}
	if way == "border" {
		must(b, s.Roam(bin, "", site.Section(0, site.Policy(0, "vlb", 50, 50), more(b, s, xdp))))
		must(b, s.Start(ctx))
		echo(b, s, site.Session(site.OutsideNID))
		known(ctx, b, s)
	} else {
		must(b, s.InsideHost.AddAddr("net1", netip.PrefixFrom(insideAddr, 64)))
		testutil.Eventually(b, borderPatience, func() bool {
			return s.Router.AppCommand(ctx, "ping", "-n", "-q", "-c", "1", "-W", "1", insideAddr.String()).Run() == nil
		}, "the inside host answers its router")
	}
	if i := slices.IndexFunc(site.Comparators, func(c site.Comparator) bool { return c.Name == way }); i >= 0 {
		_, err := s.Compare(ctx, site.Comparators[i])
		testutil.NeedKernel(b, site.Comparators[i].Title, !errors.Is(err, site.ErrUnavailable))
		must(b, err)
	}
	if way == ways[0] {
		sink = linkEnd{s.Router, "wan0"}
	}
	return newStream(b, way, linkEnd{s.Provider[0], "site"}, linkEnd{s.Router, "wan0"}, frames.Stream{
		From: outsideAddr, To: reached(way), Size: frames.LeastSize, Flows: 1,
	}, sink)
}

// borderInward compares what routers spend on a packet of 64 bytes that comes into a site.
func borderInward(b *testing.B, name string, xdp bool, most against) {
	build(b)
	all := map[string]*crossing{}
	for _, way := range ways {
		all[way] = newInward(b, way, xdp)
	}
	says := "one flow that comes in"
	if xdp {
		says += ", forwarded by XDP"
	}
	reportCrossings(b, all, name, says, most)
}
