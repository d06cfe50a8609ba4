package acceptance

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/site"
	"roam/lab/stats"
	"roam/lab/workload"
)

// bulkSeconds is how long a connection of TestBorderTCP sends.
const bulkSeconds = 5

// provider is a link of 20 Mb/s of that round-trip time.
func provider(rtt time.Duration) linkem.Params {
	return linkem.Params{Delay: rtt / 2, Rate: 20e6, QueueBytes: 300_000}
}

// bulk has connections send from inside, and returns what arrived in Mb/s, and the link that
// carried most of it with its part. The acknowledgements of one connection keep to one link, too, which has
// the part back of them: the correspondent chooses it, and prefers a shorter path.
func bulk(t *testing.T, s *site.Site, port, flows int) (mbps float64, link int, part, back float64) {
	t.Helper()
	before, acknowledged := carried(t, s)
	p, err := workload.StartIperf(t.Context(), s.Far, s.InsideHost, workload.IperfOptions{
		Name: "bulk", Target: site.Session(site.OutsideNID).String(), Port: port, Seconds: bulkSeconds, Interval: 1,
		CC: "cubic", Parallel: flows,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Wait(t.Context())
	if err != nil || r.Bytes < 1_000_000 {
		t.Fatalf("%+v, %v", r, err)
	}
	after, later := carried(t, s)
	link, part = busier(before, after)
	_, back = busier(acknowledged, later)
	return r.Mbps, link, part, back
}

// busier returns the link that carried more of what was counted since before, and its part.
func busier(before, after [2]float64) (link int, part float64) {
	first, second := after[0]-before[0], after[1]-before[1]
	if second > first {
		link, first, second = 1, second, first
	}
	return link, first / (first + second)
}

// carried returns the bytes that have come to each provider from the site, and those that it has sent there.
func carried(t *testing.T, s *site.Site) (out, in [2]float64) {
	t.Helper()
	for i, p := range s.Provider {
		passed, err := p.Stats("site")
		if err != nil {
			t.Fatal(err)
		}
		out[i], in[i] = float64(passed.RxBytes), float64(passed.TxBytes)
	}
	return out, in
}

// alone has all packets leave by each provider in turn, and returns what one connection gets.
func alone(t *testing.T, s *site.Site) (mbps [2]float64) {
	t.Helper()
	for i, policy := range []string{site.Policy(0, "none", 10, 90), site.Policy(0, "none", 90, 10)} {
		if out, err := reload(t, s, policy); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		announced(t, s)
		var link int
		var part, back float64
		if mbps[i], link, part, back = bulk(t, s, 5300+i, 1); link != i || part < 0.99 || back < 0.9 {
			t.Errorf("link %d alone: link %d carried %.3f of the bytes, and one %.3f of the acknowledgements", i,
				link, part, back)
		}
	}
	if out, err := reload(t, s, site.Policy(0, "vlb", 50, 50)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	announced(t, s)
	return mbps
}

// TestBorderTCPUnequal has single connections cross a border whose providers have round-trip times
// of 10 and 100 ms: each keeps to one of them, in both directions, and gets what it would get there alone. Of
// those by one provider the median decides about the rate, and of all that about the acknowledgements: the machine
// may be busy during one of them, and the correspondent measure the paths wrongly.
func TestBorderTCPUnequal(t *testing.T) {
	s := newSiteOver(t, site.Policy(0, "vlb", 50, 50), "",
		[2]linkem.Params{provider(10 * time.Millisecond), provider(100 * time.Millisecond)})
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	paths := alone(t, s)
	const enough, most = 3, 10
	rates := map[int][]float64{} // of what the provider gives alone
	var medians, backs []float64
	for i := range most {
		mbps, link, part, back := bulk(t, s, 5310+i, 1)
		t.Logf("link %d with %.4f of the bytes: %.2f Mb/s, alone %.2f; one with %.3f of the acknowledgements",
			link, part, mbps, paths[link], back)
		if part < 0.95 { // iperf3 has a connection for control, too
			t.Errorf("connection %d: %.3f of it by link %d", i, part, link)
		}
		rates[link] = append(rates[link], mbps/paths[link])
		medians, backs = nil, append(backs, back)
		for _, list := range rates {
			medians = append(medians, stats.Median(list))
		}
		if i+1 >= enough && slices.Min(medians) >= 0.97 && stats.Median(backs) >= 0.9 {
			return
		}
	}
	t.Errorf("connections get %v of what their provider gives alone, by link; medians %v; one link carried %v of the "+
		"acknowledgements", rates, medians, backs)
}

// TestBorderTCPEqual has ten connections at once cross a border with two equal providers: together
// they get what both give. With ROAM_BORDERS=all both hosts are behind borders, too.
func TestBorderTCPEqual(t *testing.T) {
	if os.Getenv(allBorders) == "all" {
		t.Run("both ends", tcpEnds)
	}
	s := newSiteOver(t, site.Policy(0, "vlb", 50, 50), "",
		[2]linkem.Params{provider(10 * time.Millisecond), provider(10 * time.Millisecond)})
	ping(t, s, "-c", "5", "-i", "0.1")
	announced(t, s)
	paths := alone(t, s)
	mbps, _, part, _ := bulk(t, s, 5310, 10)
	t.Logf("ten connections: %.2f Mb/s, alone %.2f and %.2f; the busier link carried %.3f", mbps, paths[0], paths[1], part)
	if mbps < 0.9*(paths[0]+paths[1]) {
		t.Errorf("ten connections: %.2f Mb/s of %.2f", mbps, paths[0]+paths[1])
	}
}

// drainEnds drains a link by command and restarts the daemon: the link is in use again.
func drainEnds(t *testing.T, s *site.Site) {
	known := func(locators int) (r site.BorderReport) {
		t.Helper()
		testutil.Eventually(t, patience, func() bool {
			var err error
			r, err = site.Report(t.Context(), s.Border)
			return err == nil && len(r.Flows) == 1 && len(r.Flows[0].Announced) == locators
		}, fmt.Sprint("the outside node has acknowledged ", locators, " locators"))
		return r
	}
	if out, err := s.Border.Cmd(t.Context(), "border", "drain", "wan0").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := known(1); r.Sites[0].State != "drained" {
		t.Errorf("drained, and shown as %+v", r.Sites[0])
	}
	if err := s.Border.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Border.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r := known(2); r.Sites[0].State == "drained" {
		t.Errorf("restarted, and shown as %+v", r.Sites[0])
	}
	before := arrivedAt(t, s.Provider[0], "site")
	ping(t, s, "-c", "200", "-i", "0.002")
	if n := arrivedAt(t, s.Provider[0], "site") - before; n < 80 {
		t.Errorf("%d of 200 echo requests came over the link that was drained before the restart", n)
	}
}
