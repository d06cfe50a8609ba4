package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
	plane "roam/internal/dataplane/border"
	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/topo"
	"roam/lab/workload/frames"
	"roam/sbr"
)

const (
	flowsMany, flowsFew = 1_000_000, 1_000
	batchFlows          = 8_000 // fewer than pending_flows holds
	nonceInside         = 0x0102_0304
	nonceOutside        = 0x0506_0708
)

// The nodes of the flows without daemons: one inside, and those outside from the first one on.
var insideAddr = roam.ILV{L64: roam.ILVFromAddr(site.Internals[0].Addr()).L64, NID: site.InsideNID}.Addr()

const firstOutside roam.NID = 0x2000_0000_0000_0000

func outside(n int) netip.Addr {
	return roam.ILV{L64: roam.ILVFromAddr(site.External.Addr()).L64, NID: firstOutside + roam.NID(n)}.Addr()
}

// reached is the address of the inside host as the outside knows it.
func reached(way string) netip.Addr {
	for _, c := range site.Comparators {
		if c.Name == way {
			return c.Outside(insideAddr, site.Providers[0][0])
		}
	}
	return roam.ILV{L64: roam.ILVFromAddr(site.Providers[0][0].Addr()).L64, NID: site.InsideNID}.Addr()
}

// bare is a site without daemons, whose border is the programs and tables alone.
type bare struct {
	*site.Site
	*plane.Plane
	table sbr.Table
}

// newBare builds a site whose router knows the hardware addresses of its neighbours, with a
// border that has space for so many flows; 0: there is none.
func newBare(b *testing.B, name string, flows int) *bare {
	b.Helper()
	s, err := site.New("bare"+name, false)
	b.Cleanup(func() { must(b, s.Close()) })
	must(b, err)
	x := &bare{Site: s}
	must(b, s.InsideHost.AddAddr("net1", netip.PrefixFrom(insideAddr, 64)))
	testutil.Eventually(b, borderPatience, func() bool {
		return s.Router.AppCommand(b.Context(), "ping", "-n", "-q", "-c", "1", "-W", "1", insideAddr.String()).Run() == nil
	}, "the inside host answers its router")
	if flows == 0 {
		return x
	}
	dir := b.TempDir()
	must(b, unix.Mount("bpf", dir, "bpf", 0, ""))
	b.Cleanup(func() { must(b, unix.Unmount(dir, unix.MNT_DETACH)) })
	must(b, s.Router.Do(func() error { return x.open(b, dir, flows) }))
	return x
}

// open puts the programs on the router's links, as the daemon does.
func (x *bare) open(b *testing.B, dir string, flows int) (err error) {
	link := func(ifname string) roam.LinkID {
		dev, err := net.InterfaceByName(ifname)
		must(b, err)
		return roam.LinkID(dev.Index)
	}
	if x.Plane, err = plane.Open(dataplane.Options{Dir: filepath.Join(dir, "pins")}, 0, flows); err != nil {
		return err
	}
	b.Cleanup(func() { must(b, x.Plane.Close()) })
	policy, err := sbr.ParsePolicy([]byte(site.Policy(0, "vlb", 50, 50)))
	if err != nil {
		return err
	}
	var states []sbr.Site
	hops := map[roam.LinkID]plane.Hop{}
	for i := range x.Provider {
		wan := link(fmt.Sprint("wan", i))
		states = append(states, sbr.Site{L64: roam.ILVFromAddr(site.Providers[0][i].Addr()).L64, Link: wan, Up: true})
		hop := plane.Hop{MTU: 1500}
		copy(hop.MACs[:], macOf(b, x.Provider[i], "site"))
		copy(hop.MACs[6:], macOf(b, x.Router, fmt.Sprint("wan", i)))
		hops[wan] = hop
	}
	x.table = sbr.NewTable(policy, states)
	must(b, x.Plane.Configure(plane.Settings{}, time.Now().Add(time.Hour)))
	must(b, x.Install(x.table, true, hops))
	must(b, x.AttachInside(link("lan")))
	for _, s := range states {
		must(b, x.AttachUplink(s.Link))
	}
	return x.TakeOver()
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

// outward is a stream of flows from the inside host to nodes outside.
func (x *bare) outward(
	b *testing.B, name string, first, flows int, random bool, nonce uint32, sinks ...linkEnd,
) *crossing {
	if len(sinks) == 0 {
		sinks = []linkEnd{{x.Provider[0], "site"}, {x.Provider[1], "site"}}
	}
	return newStream(b, name, linkEnd{x.InsideHost, "net1"}, linkEnd{x.Router, "lan"}, frames.Stream{
		From: insideAddr, To: outside(first), Size: sized(nonce), Flows: flows, ByTo: true, Random: random, Nonce: nonce,
	}, sinks...)
}

// inward is a stream of flows from nodes outside to the inside host.
func (x *bare) inward(b *testing.B, name string, first, flows int, nonce uint32, sinks ...linkEnd) *crossing {
	if len(sinks) == 0 {
		sinks = []linkEnd{{x.InsideHost, "net1"}}
	}
	return newStream(b, name, linkEnd{x.Provider[0], "site"}, linkEnd{x.Router, "wan0"}, frames.Stream{
		From: outside(first), To: reached(name), Size: sized(nonce), Flows: flows, Nonce: nonce,
	}, sinks...)
}

// sized is the length of a packet: 64 bytes, and the nonce.
func sized(nonce uint32) int {
	if nonce != 0 {
		return frames.LeastSize + 8
	}
	return frames.LeastSize
}

// borderInward compares what routers spend on a packet of 64 bytes that comes into a site.
func borderInward(b *testing.B) {
	all := map[string]*crossing{}
	for _, way := range ways {
		flows := 0
		if way == "border" {
			flows = flowsFew
		}
		x := newBare(b, "in"+way, flows)
		if i := slices.IndexFunc(site.Comparators, func(c site.Comparator) bool { return c.Name == way }); i >= 0 {
			_, err := x.Compare(b.Context(), site.Comparators[i])
			testutil.NeedKernel(b, site.Comparators[i].Title, !errors.Is(err, site.ErrUnavailable))
			must(b, err)
		}
		var sinks []linkEnd
		if way == ways[0] {
			sinks = []linkEnd{{x.Router, "wan0"}}
		}
		if way == "border" {
			x.confirm(b, 1)
		}
		all[way] = x.inward(b, way, 0, 1, 0, sinks...)
	}
	rounds := cross(b, all)
	b.ReportMetric(0, "ns/op")
	for _, q := range []struct {
		under string
		bound float64
	}{{"nptv6", 0.9}, {"forwarding", 1.0}, {"prefixnat", 0}} {
		f := testutil.Figure{Name: "Border/inward/" + q.under,
			Says: "ns for a packet of 64 bytes of one flow that comes in, beyond the entrance, border / " + q.under}
		if q.bound > 0 {
			f.Op, f.Bound = "<=", q.bound
		}
		testutil.Report(b, answer(f, rounds, q.under))
	}
}

// confirm makes flows by nonces of both sides, in batches that pending_flows holds, and returns
// the ns that each batch took for a flow.
func (x *bare) confirm(b *testing.B, flows int) (took []float64) {
	b.Helper()
	for first := 0; first < flows; first += batchFlows {
		took = append(took, x.batch(b, first, min(batchFlows, flows-first)))
	}
	return took
}

// batch makes the flows of so many nodes.
func (x *bare) batch(b *testing.B, first, n int) float64 {
	b.Helper()
	before := x.count(b, "flow_confirmed")
	all := []*crossing{x.outward(b, "border", first, n, false, nonceInside), x.inward(b, "border", first, n, nonceOutside)}
	var took time.Duration
	for _, s := range all {
		sent, err := s.from.Send(n, sendCore)
		must(b, err)
		took += sent.Thread
	}
	missing := func() bool { return x.count(b, "flow_confirmed")-before < uint64(n) }
	for range 5 { // frames are lost where a queue is full
		if !testutil.Wait(time.Second, func() bool { return !missing() }) {
			for _, s := range all {
				_, err := s.from.Send(n, sendCore)
				must(b, err)
			}
		}
	}
	if missing() {
		b.Fatalf("flows from %d on: %d of %d are confirmed", first, x.count(b, "flow_confirmed")-before, n)
	}
	for _, s := range all {
		must(b, s.from.Close())
		for _, sink := range s.sinks {
			must(b, sink.Close())
		}
	}
	return float64(took.Nanoseconds()) / float64(n)
}

func (x *bare) count(b *testing.B, name string) uint64 {
	b.Helper()
	list, err := x.Counters()
	must(b, err)
	for _, c := range list {
		if c.Name == name {
			return c.Value
		}
	}
	b.Fatalf("no counter %s", name)
	return 0
}

// memory is what the kernel counts for the tables of flows, in bytes.
func (x *bare) memory(b *testing.B) (n float64) {
	b.Helper()
	for _, name := range []string{"flows", "announced"} {
		out, err := exec.Command("bpftool", "map", "show", "pinned", filepath.Join(x.Dir(), name)).CombinedOutput()
		m := memlock.FindSubmatch(out)
		if err != nil || m == nil {
			b.Fatalf("bpftool: %v: %s", err, out)
		}
		size, err := strconv.ParseFloat(string(m[1]), 64)
		must(b, err)
		n += size
	}
	return n
}

// borderFlows fills the table of flows with a million, and compares the rate of packets of random
// ones with that of a thousand.
func borderFlows(b *testing.B) {
	testutil.Need(b, "bpftool")
	entrance, x := newBare(b, "entrance", 0), newBare(b, "flows", 1<<20)
	events, err := x.Follow()
	must(b, err)
	go func() {
		for range events { // the daemon's part
		}
	}()
	empty := x.memory(b)
	began := time.Now()
	took := x.confirm(b, flowsMany)
	b.Logf("made the flows in %v", time.Since(began))
	for i := range flowsMany {
		k := sbr.FlowKey{Inside: site.InsideNID, Outside: firstOutside + roam.NID(i)}
		must(b, x.Announce(k, x.table, []roam.L64{x.table.Sites[0].L64, x.table.Sites[1].L64}))
	}
	b.Logf("announced them, after %v", time.Since(began))
	full := x.memory(b)
	all := map[string]*crossing{
		"entrance": entrance.outward(b, "entrance", 0, flowsFew, true, 0, linkEnd{entrance.Router, "lan"}),
		"few":      x.outward(b, "few", 0, flowsFew, true, 0),
		"many":     x.outward(b, "many", 0, flowsMany, true, 0),
	}
	all["few"].sinks = all["many"].sinks // which are before those of few on the same links
	rounds := map[string][]float64{}
	for n := range frameRounds {
		for i := range manyWays {
			name := manyWays[turn(i, n, len(manyWays))]
			rounds[name] = append(rounds[name], all[name].slice(b))
		}
		if n+1 >= frameRoundsLeast && n%10 == 0 && beyond(rounds, "few", "many").Half <= testutil.HalfWidth {
			break
		}
	}
	b.ReportMetric(0, "ns/op")
	few, many := testutil.Estimated(less(rounds, "few")), testutil.Estimated(less(rounds, "many"))
	rate := beyond(rounds, "few", "many")
	testutil.Report(b, testutil.Figure{
		Name: "Border/flows", Op: ">=", Bound: 0.6, Value: rate.Mid, Half: rate.Half, Rounds: len(rounds["many"]),
		Says:    "packets a second of 1,000,000 random flows / of 1,000, 64 bytes, outward, beyond the entrance",
		Details: map[string]float64{"ns/packet 1,000": few.Mid, "ns/packet 1,000,000": many.Mid},
	})
	each := testutil.Estimated(took)
	testutil.Report(b, testutil.Figure{
		Name: "Border/newflows", Op: ">=", Bound: 200_000, Unit: "/s", Value: 1e9 / each.Mid, Rounds: len(took),
		Says: "flows a second that two packets with nonces make, one from each side; the generator included",
		Details: map[string]float64{"ns/flow": each.Mid, "ns/flow ±": each.Half,
			"events lost": float64(x.count(b, "drop_ring_full"))},
	})
	testutil.Report(b, testutil.Figure{
		Name: "Border/memory", Op: "<=", Bound: 256, Unit: "B", Value: (full - empty) / flowsMany, Rounds: 1,
		Says:    "kernel memory of the tables for each of 1,000,000 flows, as the kernel counts it",
		Details: map[string]float64{"B for each place, in advance": empty / (1 << 20)},
	})
}

// manyWays are the streams of borderFlows. The first one is the entrance.
var manyWays = []string{"entrance", "few", "many"}
