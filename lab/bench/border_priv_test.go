package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/topo"
	"roam/lab/workload/frames"
)

const (
	sliceFrames      = 10_000
	frameRounds      = 600
	frameRoundsLeast = 100
	framePort        = 5799
	borderPatience   = 20 * time.Second
	// A slice in which more frames are lost than this has not been forwarded. As many of those of an earlier
	// slice may come late.
	lostMost = sliceFrames / 1000
)

// ways are the routers of the comparison. The first one drops what arrives: what sending and
// receiving frames costs is known by it.
var ways = []string{"entrance", "forwarding", "nptv6", "prefixnat", "border"}

// BenchmarkBorder compares what a router spends on a packet of 64 bytes that leaves a site:
// Roam's border, stateless NPTv6, prefix NAT and plain forwarding. One processor does all the
// work, of the generator, the router and the sink; what it does without the router is
// subtracted, round by round.
func BenchmarkBorder(b *testing.B) {
	for _, c := range []struct {
		name, says string
		policy     string
		most       against
		xdp        bool
	}{
		{"vlb", "one flow over two providers", site.Policy(0, "vlb", 50, 50), byTC, false},
		{"none", "one flow by one provider", site.Policy(0, "none", 20, 80), against{}, false},
		{"xdp", "one flow over two providers, forwarded by XDP", site.Policy(0, "vlb", 50, 50), byXDP, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			build(b)
			all := map[string]*crossing{}
			for _, name := range ways {
				all[name] = newCrossing(b, name, c.policy, c.xdp)
			}
			reportCrossings(b, all, "Border/"+c.name, c.says, c.most)
		})
	}
	b.Run("inward", func(b *testing.B) { borderInward(b, "Border/inward", false, byTC) })
	b.Run("inwardxdp", func(b *testing.B) { borderInward(b, "Border/inwardxdp", true, byXDP) })
	b.Run("tcp", borderTCP)
	b.Run("flows", borderFlows)
	b.Run("rtt", borderRTT)
}

// against are the bounds of what a packet costs, of each other way; 0: none.
type against struct{ nptv6, forwarding float64 }

var byTC, byXDP = against{0.9, 1.0}, against{0.5, 0.5}

// reportCrossings measures all ways, and sets the border against each other one.
func reportCrossings(b *testing.B, all map[string]*crossing, name, says string, most against) {
	b.Helper()
	rounds := cross(b, all)
	b.ReportMetric(0, "ns/op")
	for _, q := range []struct {
		under string
		bound float64
	}{{"nptv6", most.nptv6}, {"forwarding", most.forwarding}, {"prefixnat", 0}} {
		f := testutil.Figure{
			Name: name + "/" + q.under,
			Says: fmt.Sprintf("ns for a packet of 64 bytes beyond the entrance, border / %s, %s", q.under, says),
		}
		if q.bound > 0 {
			f.Op, f.Bound = "<=", q.bound
		}
		testutil.Report(b, answer(f, rounds, q.under))
	}
}

// xdpLinks is the line of the border that has all of its drivers forward.
const xdpLinks = "xdp = [\"lan\", \"wan0\", \"wan1\"]\n"

// more returns the lines of the border of a site whose drivers forward, and has the other ends of
// its links poll, without which these send no frames of XDP.
func more(b *testing.B, s *site.Site, xdp bool) string {
	b.Helper()
	if !xdp {
		return ""
	}
	gro(b.Context(), b, s.InsideHost, "net1")
	for _, p := range s.Provider {
		gro(b.Context(), b, p, "site")
	}
	return xdpLinks
}

// crossing is a site whose border forwards in one of the ways.
type crossing struct {
	name  string
	from  *frames.Generator
	sinks []*frames.Sink
}

// newCrossing builds a site, and has its border forward in that way.
func newCrossing(b *testing.B, way, policy string, xdp bool) *crossing {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background()) // the daemons run until it is closed
	s, err := site.New("bench"+way, false)
	b.Cleanup(func() { stop(); must(b, s.Close()) })
	must(b, err)
	x := &crossing{name: way}
	source := roam.ILV{L64: roam.ILVFromAddr(site.Internals[0].Addr()).L64, NID: site.InsideNID}
	sinks := []*topo.Host{s.Provider[0], s.Provider[1]}
	switch i := slices.IndexFunc(site.Comparators, func(c site.Comparator) bool { return c.Name == way }); {
	case i >= 0:
		target, err := s.Compare(ctx, site.Comparators[i])
		testutil.NeedKernel(b, site.Comparators[i].Title, !errors.Is(err, site.ErrUnavailable))
		must(b, err)
		echo(b, s, target)
	case way == "border":
		must(b, s.Roam(bin, "", site.Section(0, policy, more(b, s, xdp))))
		must(b, s.Start(ctx))
		echo(b, s, site.Session(site.OutsideNID))
		known(ctx, b, s)
	default:
		sinks = []*topo.Host{s.Router}
	}
	gro(ctx, b, s.Router, "lan")
	for _, h := range sinks {
		ifname := "site"
		if h == s.Router {
			ifname = "lan"
		}
		sink, err := frames.Receive(h, ifname, framePort)
		x.must(b, err)
		b.Cleanup(func() { sink.Close() })
		x.sinks = append(x.sinks, sink)
	}
	x.from, err = frames.New(s.InsideHost, "net1", frames.Stream{
		From: source.Addr(), To: roam.ILV{L64: roam.ILVFromAddr(site.External.Addr()).L64, NID: site.OutsideNID}.Addr(),
		FromMAC: macOf(b, s.InsideHost, "net1"), ToMAC: macOf(b, s.Router, "lan"), Port: framePort, Size: 64, Flows: 1,
	})
	x.must(b, err)
	b.Cleanup(func() { x.from.Close() })
	return x
}

func (x *crossing) must(b *testing.B, err error) {
	b.Helper()
	testutil.NeedKernel(b, "test runs with live frames, and tcx", !errors.Is(err, frames.ErrUnsupported))
	must(b, err)
}

// echo has the neighbours resolved, and a session set up if there is one.
func echo(b *testing.B, s *site.Site, target netip.Addr) {
	b.Helper()
	cmd := s.InsideHost.AppCommand(context.Background(), "ping", "-n", "-q", "-c", "5", "-i", "0.2", target.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("ping %v: %v\n%s", target, err, out)
	}
}

// known waits until the outside node has acknowledged both locators of the flow.
func known(ctx context.Context, b *testing.B, s *site.Site) {
	b.Helper()
	testutil.Eventually(b, borderPatience, func() bool {
		r, err := site.Report(ctx, s.Border)
		return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == 2
	}, "the outside node knows both locators")
}

// gro has the receiving end of a veth pair poll, without which it takes no redirected frames.
func gro(ctx context.Context, b *testing.B, h *topo.Host, ifname string) {
	b.Helper()
	testutil.Need(b, "ethtool")
	if out, err := h.Command(ctx, "ethtool", "-K", ifname, "gro", "on").CombinedOutput(); err != nil {
		b.Fatalf("ethtool: %v: %s", err, out)
	}
}

func macOf(b *testing.B, h *topo.Host, ifname string) (mac net.HardwareAddr) {
	b.Helper()
	must(b, h.Do(func() error {
		dev, err := net.InterfaceByName(ifname)
		if err == nil {
			mac = dev.HardwareAddr
		}
		return err
	}))
	return mac
}

// received is what the sinks have counted.
func (x *crossing) received(b *testing.B) (n uint64) {
	b.Helper()
	for _, s := range x.sinks {
		r, err := s.Received()
		must(b, err)
		n += r
	}
	return n
}

// slice sends frames, and returns the ns that each took with all that the stack did with it.
func (x *crossing) slice(b *testing.B) float64 {
	b.Helper()
	before := x.received(b)
	sent, err := x.from.Send(sliceFrames, sendCore)
	must(b, err)
	got := x.received(b) - before
	if got < sent.Frames { // the last ones may be on their way
		testutil.Wait(time.Second, func() bool {
			got = x.received(b) - before
			return got >= sent.Frames
		})
	}
	if got+lostMost < sent.Frames || got > sent.Frames+lostMost {
		b.Fatalf("%s: %d of %d frames arrived", x.name, got, sent.Frames)
	}
	return float64(sent.Thread.Nanoseconds()) / float64(sent.Frames)
}

// cross has each way forward a slice of frames, in another order each round, until both
// bounds can be judged, and returns the ns of each way by round.
func cross(b *testing.B, all map[string]*crossing) map[string][]float64 {
	b.Helper()
	return crossWays(b, ways, all, func(rounds map[string][]float64) bool {
		enough := func(under string) bool { return beyond(rounds, "border", under).Half <= testutil.HalfWidth }
		return enough("nptv6") && enough("forwarding")
	})
}

// crossWays is cross for any crossings, until enough is known.
func crossWays(
	b *testing.B, names []string, all map[string]*crossing, enough func(map[string][]float64) bool,
) map[string][]float64 {
	b.Helper()
	rounds := map[string][]float64{}
	for n := range frameRounds {
		for i := range names {
			name := names[turn(i, n, len(names))]
			rounds[name] = append(rounds[name], all[name].slice(b))
		}
		if n+1 >= frameRoundsLeast && n%10 == 0 && enough(rounds) {
			break
		}
	}
	return rounds
}

// less subtracts what the entrance takes, round by round.
func less(rounds map[string][]float64, name string) []float64 {
	out := slices.Clone(rounds[name])
	for i := range out {
		out[i] -= rounds[ways[0]][i]
	}
	return out
}

// beyond is the quotient of what two ways take beyond the entrance.
func beyond(rounds map[string][]float64, over, under string) testutil.Estimate {
	return testutil.Quotients(less(rounds, over), less(rounds, under))
}

// answer fills in a figure: the border against another way.
func answer(f testutil.Figure, rounds map[string][]float64, under string) testutil.Figure {
	e := beyond(rounds, "border", under)
	f.Value, f.Half, f.Rounds = e.Mid, e.Half, len(rounds[under])
	f.Raw = map[string][]float64{"ns/packet entrance": rounds[ways[0]], "ns/packet border": rounds["border"],
		"ns/packet " + under: rounds[under]}
	f.Details = map[string]float64{
		"ns/packet entrance":        testutil.Estimated(rounds[ways[0]]).Mid,
		"ns/packet border":          testutil.Estimated(less(rounds, "border")).Mid,
		"ns/packet " + under:        testutil.Estimated(less(rounds, under)).Mid,
		"ns/packet " + under + " ±": testutil.Estimated(less(rounds, under)).Half,
	}
	return f
}
