package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/site"
	"roam/lab/stats"
	"roam/lab/workload/frames"
)

const (
	echoesOfRound   = 50
	echoesEvery     = time.Millisecond
	echoRounds      = 1500
	echoRoundsLeast = 100
	framesEvery     = time.Millisecond
)

// echoRates are the rates of frames beside which echoes are timed, in 1/s.
var echoRates = []int{1000, 10_000, 50_000}

// echoWays are what stands between the two hosts. Without Roam on the hosts NPTv6 translates; the
// router of roamhosts only forwards, so the border against it is what the border itself adds.
var echoWays = []string{"nptv6", "roamhosts", "border"}

// echoing is a site across which echoes are timed.
type echoing struct {
	site   *site.Site
	target netip.Addr
	from   *frames.Generator
	asks   *asker
	times  []float64 // of all echoes, in ms
}

// borderRTT compares the round-trip times of echoes of unmodified hosts, beside frames that leave the
// site at a steady rate. The ways take turns of a twentieth of a second, so that each meets the machine at the same
// speeds.
func borderRTT(b *testing.B) {
	build(b)
	all := map[string]*echoing{}
	for _, way := range echoWays {
		all[way] = newEchoing(b, way)
	}
	b.ReportMetric(0, "ns/op")
	for _, rate := range echoRates {
		rounds := map[string][]float64{}
		for _, e := range all {
			e.times, e.asks.lost = nil, 0
		}
		for n := range echoRounds {
			for i := range echoWays {
				way := echoWays[turn(i, n, len(echoWays))]
				rounds[way] = append(rounds[way], all[way].round(b, rate))
			}
			if n+1 < echoRoundsLeast || n%20 != 0 {
				continue
			}
			if testutil.Quotients(rounds["border"], rounds["nptv6"]).Half <= testutil.HalfWidth {
				break
			}
		}
		for _, way := range echoWays {
			if lost := all[way].asks.lost; lost*100 > len(all[way].times) {
				b.Fatalf("%s: %d echoes did not come back, %d did", way, lost, len(all[way].times))
			}
		}
		for _, under := range echoWays[:2] {
			e := testutil.Quotients(rounds["border"], rounds[under])
			f := testutil.Figure{
				Name:  fmt.Sprintf("Border/rtt/%d/%s", rate, under),
				Says:  fmt.Sprintf("median time of an echo beside %d frames a second, border / %s", rate, under),
				Value: e.Mid, Half: e.Half, Rounds: len(rounds[under]), Details: map[string]float64{},
				Raw: map[string][]float64{"ms border": rounds["border"], "ms " + under: rounds[under]},
			}
			if under == "nptv6" {
				f.Op, f.Bound = "<=", 1.05
			}
			for _, way := range []string{"border", under} {
				f.Details["ms median "+way] = stats.Median(all[way].times)
				f.Details["ms p99 "+way] = stats.Quantile(all[way].times, 0.99)
			}
			testutil.Report(b, f)
		}
	}
}

// newEchoing builds a site in one of the ways, and a generator of frames that cross it.
func newEchoing(b *testing.B, way string) *echoing {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background()) // the daemons run until it is closed
	s, err := site.New("rtt"+way, false)
	b.Cleanup(func() { stop(); must(b, s.Close()) })
	must(b, err)
	e := &echoing{site: s, target: site.Session(site.OutsideNID)}
	if i := slices.IndexFunc(site.Comparators, func(c site.Comparator) bool { return c.Name == way }); i >= 0 {
		e.target, err = s.Compare(ctx, site.Comparators[i])
		testutil.NeedKernel(b, site.Comparators[i].Title, !errors.Is(err, site.ErrUnavailable))
		must(b, err)
	} else if way == "border" {
		must(b, s.Roam(bin, "", site.Section(0, site.Policy(0, "vlb", 50, 50), "")))
		must(b, s.Start(ctx))
	} else {
		_, err := s.Compare(ctx, site.Forwarding)
		must(b, err)
		must(b, s.HostsAlone(bin, ""))
		must(b, s.Start(ctx))
	}
	echo(b, s, e.target)
	if way == "border" {
		known(ctx, b, s)
	}
	x := newStream(b, way, linkEnd{s.InsideHost, "net1"}, linkEnd{s.Router, "lan"}, frames.Stream{
		From: insideAddr, To: outsideAddr, Size: frames.LeastSize, Flows: 1,
	}, linkEnd{s.Provider[0], "site"}, linkEnd{s.Provider[1], "site"})
	e.from, e.asks = x.from, newAsker(b, s.InsideHost, e.target)
	return e
}

// round sends frames at that rate while echoes are timed, and returns the median of their times in ms. The kernel takes
// an echo and its answer all the way on the processor of the one who asks, which is that of the frames.
func (e *echoing) round(b *testing.B, rate int) float64 {
	b.Helper()
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() { failed <- e.send(rate, stop) }()
	times, err := e.asks.times(echoesOfRound)
	close(stop)
	must(b, errors.Join(err, <-failed))
	times = times[echoesOfRound/5:] // the other ways have had the caches
	e.times = append(e.times, times...)
	return stats.Median(times)
}

// send sends frames at a rate until it is stopped: some each millisecond, and what is owed if it woke
// late.
func (e *echoing) send(rate int, stop <-chan struct{}) error {
	tick := time.NewTicker(framesEvery)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-stop:
			return nil
		case now := <-tick.C:
			due := int(now.Sub(began).Seconds()*float64(rate)) - sent
			if due = min(due, rate/100); due < 1 {
				continue
			}
			s, err := e.from.Send(due, sendCore)
			if err != nil {
				return err
			}
			sent += int(s.Frames)
		}
	}
}
