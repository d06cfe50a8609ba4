package bench

import (
	"context"
	"fmt"
	"testing"

	"roam"
	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/workload/frames"
)

const (
	mostFlows  = 1_000_000
	flowsBatch = 4096 // nonces of one side that wait for the other's: pending_flows has four times as many
	fillings   = 7    // of a table that is empty: fewer have too few batches for the interval of the rate
	flowNonce  = 0x01020304
	nonceFrame = frames.LeastSize + 8
	tableLines = "max_flows = 1048576\nliveness = false\n"
)

// flowCounts are the numbers of flows among which frames are drawn.
var flowCounts = []int{1000, 10_000, mostFlows}

// borderFlows measures what a table of a million flows costs: how fast the programs make flows, of a
// nonce of each node, in seven fillings of a new table, and what a packet costs that is of any of them. All
// flows are made before; the first packets of a flow after that cost as much as later ones. The daemon beside
// them announces locators for all of these flows meanwhile, on the other core, and nobody acknowledges them.
func borderFlows(b *testing.B) {
	build(b)
	s := flowSite(b)
	sides := [2]linkEnd{{s.InsideHost, "net1"}, {s.Provider[0], "site"}}
	nears := [2]linkEnd{{s.Router, "lan"}, {s.Router, "wan0"}}
	streams := [2]frames.Stream{
		{From: insideAddr, To: outsideAddr, Size: nonceFrame, Flows: mostFlows, Nonce: flowNonce},
		{From: outsideAddr, To: reached("border"), ByTo: true, Size: nonceFrame, Flows: mostFlows, Nonce: flowNonce},
	}
	var from [2]*crossing
	for i := range from { // they end where they leave the border's links
		from[i] = newStream(b, "nonces", sides[i], nears[i], streams[i], sides[1-i])
	}
	all := map[string]*crossing{ways[0]: newCrossing(b, ways[0], "", false)}
	var each []float64 // ns for a flow, of each batch
	made := 0.0
	for filling := range fillings {
		if filling > 0 {
			emptyTable(b, s)
		}
		batches, n := fillTable(b, s, from, all[ways[0]])
		each, made = append(each, batches...), made+n
	}
	names := []string{ways[0]}
	for _, n := range flowCounts {
		x := newStream(b, fmt.Sprint(n), sides[0], nears[0], frames.Stream{
			From: insideAddr, To: outsideAddr, Size: frames.LeastSize, Flows: n, Random: true,
		})
		x.sinks = from[0].sinks // the device has one program
		names, all[x.name] = append(names, x.name), x
	}
	few, many := fmt.Sprint(flowCounts[0]), fmt.Sprint(mostFlows)
	rounds := crossWays(b, names, all, func(rounds map[string][]float64) bool {
		return beyond(rounds, few, many).Half <= testutil.HalfWidth
	})
	b.ReportMetric(0, "ns/op")
	e := testutil.Estimated(each)
	whole := 0.0 // batches differ, some upwards: the rate is that of all
	for _, ns := range each {
		whole += ns * flowsBatch
	}
	rate := made * 1e9 / whole
	testutil.Report(b, testutil.Figure{
		Name: "Border/flows/new", Unit: "1/s", Op: ">=", Bound: 200_000, Within: 10_000,
		Value: rate, Half: rate * e.Half / e.Mid, Rounds: len(each),
		Says:    "flows made in a second beyond the entrance, of a packet with a nonce from each side",
		Details: map[string]float64{"ns/flow in the median batch": e.Mid},
	})
	for _, n := range flowCounts[1:] {
		name := fmt.Sprint(n)
		e := beyond(rounds, few, name)
		f := testutil.Figure{
			Name:  "Border/flows/" + name,
			Says:  fmt.Sprintf("packets a second beyond the entrance over %d random flows / over %s", n, few),
			Value: e.Mid, Half: e.Half, Rounds: len(rounds[name]),
			Raw: map[string][]float64{"ns/packet entrance": rounds[ways[0]], "ns/packet " + few: rounds[few],
				"ns/packet " + name: rounds[name]},
			Details: map[string]float64{
				"ns/packet " + name: testutil.Estimated(less(rounds, name)).Mid,
				"ns/packet " + few:  testutil.Estimated(less(rounds, few)).Mid,
			},
		}
		if n == mostFlows {
			f.Op, f.Bound = ">=", 0.6
		}
		testutil.Report(b, f)
	}
}

// fillTable makes all flows, and returns the ns for a flow beyond the entrance, of each batch, and how many
// flows were made.
func fillTable(b *testing.B, s *site.Site, from [2]*crossing, entrance *crossing) (each []float64, made float64) {
	b.Helper()
	send := func(x *crossing) float64 { // as many at once of each: a call has a price of its own
		sent, err := x.from.Send(flowsBatch, sendCore)
		must(b, err)
		return float64(sent.Thread.Nanoseconds()) / float64(sent.Frames)
	}
	before := confirmedFlows(b, s)
	for sent := 0; sent < mostFlows; sent += flowsBatch {
		ns := 0.0
		for _, x := range from { // frames follow each other, in both directions by the same flows
			ns += send(x) - send(entrance)
		}
		each = append(each, ns)
	}
	made = confirmedFlows(b, s) - before
	if made < 0.99*mostFlows { // else this measures how fast a border drops
		b.Fatalf("%.0f of %d flows were made", made, mostFlows)
	}
	return each, made
}

// emptyTable restarts the border without its maps. The generators go on by the same flows.
func emptyTable(b *testing.B, s *site.Site) {
	b.Helper()
	must(b, s.Border.Stop(b.Context()))
	must(b, s.Border.Start(context.Background()))
	echo(b, s, reachable)
}

// reachable is an address outside of the site.
var reachable = roam.ILV{L64: roam.ILVFromAddr(site.External.Addr()).L64, NID: 1}.Addr()

// confirmedFlows is of how many flows both nodes have shown the border a nonce.
func confirmedFlows(b *testing.B, s *site.Site) float64 {
	b.Helper()
	var counters []struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
	}
	must(b, s.Border.AskFor(b.Context(), &counters, "counter", "show"))
	for _, c := range counters {
		if c.Name == "border_flow_confirmed" {
			return c.Value
		}
	}
	b.Fatal("no counter of flows")
	return 0
}

// flowSite is a site whose border has space for all flows, and sends by one provider. Its hosts
// are silent.
func flowSite(b *testing.B) *site.Site {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background()) // the daemon runs until it is closed
	s, err := site.New("benchflows", false)
	b.Cleanup(func() { stop(); must(b, s.Close()) })
	must(b, err)
	must(b, s.Roam(bin, "", site.Section(0, site.Policy(0, "none", 20, 80), tableLines)))
	must(b, s.Border.Start(ctx))
	echo(b, s, reachable)
	// One neighbour has all inside nodes: a router does not resolve a million.
	gateway, err := s.InsideHost.LinkLocal("net1")
	must(b, err)
	route := s.Router.Command(ctx, "ip", "-6", "route", "add", site.Internals[0].String(), "via", gateway.String(),
		"dev", "lan", "metric", "1")
	if out, err := route.CombinedOutput(); err != nil {
		b.Fatalf("ip route: %v: %s", err, out)
	}
	return s
}
