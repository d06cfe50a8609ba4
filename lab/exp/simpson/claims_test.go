package simpson

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/site"
)

// records are those of a run within all bounds: the cells, then the comparators.
func records() (all, others []*seen) {
	for _, c := range cells {
		v := &seen{cell: c, echoes: 100_000, datagrams: 20_000, rtts: []float64{0.2}, routes: [2]string{"a\nb", "a\nb"},
			added: []float64{0.1, 0.2, 0.2, 0.3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2}, lost: []float64{22}}
		for b := range v.sent {
			first := uint64(10000*c.share + 0.5)
			v.sent[b].Link = [2]uint64{first, 10000 - first}
		}
		v.rates = rated(policy{name: c.name, share: int(100*c.share + 0.5)})
		all = append(all, v)
	}
	for _, c := range site.Comparators {
		v := &seen{cell: cell{name: c.Name, share: 1}, echoes: 1000, datagrams: 20_000, rtts: []float64{0.2},
			routes: [2]string{"a\nb", "a\nb"}}
		for b := range v.sent {
			v.sent[b].Link[0] = 10000
		}
		if c.Name == site.Forwarding.Name {
			v.routes[1], v.internal, v.encapsulated = "a\nb\nc\nd\ne", 1000, site.Encapsulations
		}
		if c.Name == baseline {
			v.rates = rated(policy{name: c.Name, share: 100, plain: true})
		}
		others = append(others, v)
	}
	return all, others
}

// rated are the cells of a sweep: both frame sizes, and full links.
func rated(p policy) []*passage {
	full := filled(p, frameSizes[1], false)
	full.Rate, full.echoes = wholeLink, 0
	return []*passage{filled(p, frameSizes[0], false), filled(p, frameSizes[1], false), full}
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	var cases []exptest.Case
	add := func(name string, plant func(all []*seen), red ...string) {
		all, others := records()
		plant(append(append([]*seen{}, all...), others...))
		cases = append(cases, exptest.Case{Name: name, Red: red, Judge: func(r *result.Result, _ int) {
			judge(r, all)
			judgeComparators(r, all[0], others)
			judgeSweep(r, append(slices.Clone(all), others...))
		}})
	}
	shift := func(cell, border int, n uint64) func([]*seen) {
		return func(all []*seen) { all[cell].sent[border].Link[0] -= n; all[cell].sent[border].Link[1] += n }
	}
	add("nothing", func([]*seen) {})
	add("nearly a point off", shift(1, 0, 99))
	for i, claim := range []string{"share-100-0", "share-50-50", "share-80-20"} {
		add(claim+", near border", shift(i, 0, 120), claim)
		add(claim+", far border", shift(i, 1, 120), claim)
	}
	add("shares of the border's own counters", func(all []*seen) { all[0].daemon[0] = [2]uint64{1, 9} })
	add("few packets", func(all []*seen) { all[0].sent[1].Link = [2]uint64{999, 0} }, "counted")
	add("a packet with another provider's source", func(all []*seen) { all[2].sent[0].Strays = 1 }, "sources")
	add("an echo in 10,000 lost", func(all []*seen) { all[1].echoesLost = 30 })
	add("more echoes lost", func(all []*seen) { all[1].echoesLost = 31 }, "echoes")
	add("datagrams lost", func(all []*seen) { all[2].datagramsLost = 121 }, "datagrams")
	add("a route that appeared", func(all []*seen) { all[2].routes[1] = "a\nb\nc" }, "routes")
	add("a route that changed", func(all []*seen) { all[0].routes[1] = "a\nc" }, "routes")
	add("an internal locator outside", func(all []*seen) { all[0].internal = 1 }, "leaks")
	add("a packet in another one", func(all []*seen) { all[2].encapsulated = 1 }, "encapsulated")
	add("a border that is slow", func(all []*seen) {
		for _, v := range all[:3] {
			for i := range v.added {
				v.added[i] = 1.1
			}
		}
	}, "update-median")
	add("a border that is slow at times", func(all []*seen) { all[1].added[3], all[1].added[7] = 5.5, 5.5 }, "update-p99")
	add("an update that did not pass", func(all []*seen) { all[2].added = all[2].added[1:] }, "updates")
	add("a link whose loss is announced late", func(all []*seen) { all[2].lost[0] = 40.5 }, "link-lost")
	add("a border that ignores how long it is to collect changes", func(all []*seen) {
		all[1].lost[0] = 22 - (500 - collected)
	}, "changes-collected")
	add("a link whose loss is announced early", func(all []*seen) { all[0].lost[0] = 18.5 }, "changes-collected")
	comparatorCases(add, shift)
	sweepCases(add)
	add("the border slows the sender", func(all []*seen) {
		all[2].rates[1].sentPct, all[2].rates[1].goodput = 95, 0.95*all[4].rates[1].goodput
	}, "rates-goodput")
	cases[len(cases)-1].Grey = []string{"rates-jitter"}
	add("little was sent through NPTv6", func(all []*seen) { all[4].rates[1].sentPct = 98 })
	cases[len(cases)-1].Grey = []string{"rates-goodput", "rates-jitter"}
	add("NPTv6 does not fill a link", func(all []*seen) { all[4].rates[2].sentPct = 98 })
	cases[len(cases)-1].Grey = []string{"rates-datagrams-1g"}
	exptest.Claims(t, Experiment, nil, cases...)
}

// comparatorCases are those about the records of comparators.
func comparatorCases(add func(string, func([]*seen), ...string), shift func(int, int, uint64) func([]*seen)) {
	const forwarding, nptv6, prefixNAT = 3, 4, 5
	add("NPTv6 by the second link", shift(nptv6, 1, 1), "nptv6-share")
	for i, claim := range map[int]string{
		forwarding: "forwarding-datagrams", nptv6: "nptv6-datagrams", prefixNAT: "prefixnat-datagrams",
	} {
		add(claim, func(all []*seen) { all[i].datagramsLost = 40 })
		add("more of "+claim, func(all []*seen) { all[i].datagramsLost = 41 }, claim)
	}
	add("an audit that misses a route", func(all []*seen) { all[forwarding].routes[1] = "a\nb\nc\nd" }, "audit-routes")
	add("captures that see little", func(all []*seen) { all[forwarding].internal = 999 }, "audit-leaks")
	add("captures that miss a kind of tunnel", func(all []*seen) { all[forwarding].encapsulated-- }, "audit-encapsulated")
	add("NPTv6 that leaks", func(all []*seen) { all[nptv6].internal = 1 }, "nptv6-leaks")
}

// sweepCases are those about the rates; element 4 of the records is NPTv6.
func sweepCases(add func(string, func([]*seen), ...string)) {
	share := func(cell, border int, first uint64) func([]*seen) {
		return func(all []*seen) {
			all[cell].rates[0].passed.datagrams[border] = [2]uint64{first, 10000 - first}
		}
	}
	add("a share at a rate", share(1, 1, 5120), "rates-shares")
	add("a share of NPTv6", share(4, 0, 9880), "rates-shares")
	add("echoes at the rates", func(all []*seen) { all[2].rates[1].echoesLost = 60 })
	add("more echoes at the rates", func(all []*seen) { all[2].rates[1].echoesLost = 61 }, "rates-echoes")
	add("datagrams at the rates", func(all []*seen) { all[0].rates[0].datagramsLost = 241 }, "rates-datagrams")
	add("datagrams of full links", func(all []*seen) { all[0].rates[2].datagramsLost = 901 }, "rates-datagrams-1g")
	add("goodput at a rate", func(all []*seen) { all[2].rates[0].goodput = 9.89 }, "rates-goodput")
	add("jitter at a rate", func(all []*seen) { all[1].rates[0].jitter = 0.31 }, "rates-jitter")
	add("one locator out of order", func(all []*seen) { all[0].rates[2].misorderedPct = 0.1 }, "rates-order")
	add("two locators out of order", func(all []*seen) { all[1].rates[1].misorderedPct = 40 })
}

// What the borders count themselves stands beside, of the worse one; a border that sent nothing
// is as far off as can be.
func TestOwnCounters(t *testing.T) {
	for i := range 2 {
		all, _ := records()
		all[1].daemon = [2][2]uint64{{5, 5}, {5, 5}}
		all[1].daemon[i] = [2]uint64{6, 4}
		r := result.New("")
		judge(r, all)
		for metric, want := range map[string]float64{"50_50": 10, "100_0": 100, "80_20": 80} {
			if got := r.Metrics["daemon_share_"+metric+"_error_points"]; math.Abs(got-want) > 1e-9 {
				t.Errorf("border %d: %s off by %v, want %v", i, metric, got, want)
			}
		}
	}
}

// A comparator that could not run is named as such, and none of its claims is judged.
func TestMissingComparator(t *testing.T) {
	all, others := records()
	others[1].missing = "stateless NPTv6: not available on this machine"
	r := result.New("simpson-sbr")
	judge(r, all)
	judgeComparators(r, all[0], others)
	judgeSweep(r, append(slices.Clone(all), others...))
	expect, err := result.ParseExpect(Experiment.Expect)
	if err != nil {
		t.Fatal(err)
	}
	r.Judge(expect)
	missed := 0
	for _, c := range r.Claims {
		if strings.HasPrefix(c.ID, "nptv6") {
			missed++
			if c.Measured || c.Reason != others[1].missing {
				t.Errorf("%s: measured %v, %q", c.ID, c.Measured, c.Reason)
			}
		} else if !c.Pass {
			t.Errorf("%s: %s", c.ID, c.Reason)
		}
	}
	if missed != 3 {
		t.Errorf("%d claims about the missing comparator", missed)
	}
	if text := fmt.Sprint(table(all, others).Rows); !strings.Contains(text, others[1].missing) {
		t.Error("the table does not name it", text)
	}
}

func TestEchoes(t *testing.T) {
	sent, lost, rtts, err := echoes("64 bytes: icmp_seq=1 ttl=64 time=0.512 ms\n" +
		"5 packets transmitted, 4 received, 20% packet loss, time 419ms")
	if sent != 5 || lost != 1 || err != nil || len(rtts) != 1 || rtts[0] != 0.512 {
		t.Errorf("%d %d %v %v", sent, lost, rtts, err)
	}
	if _, _, _, err := echoes("unknown host"); err == nil {
		t.Error("no summary is no error")
	}
}

// What leaves belongs to the first update before it that has none yet.
func TestAdded(t *testing.T) {
	at := func(ms ...int) (list []update) {
		for _, m := range ms {
			list = append(list, update{Packet: packets.Packet{At: exptest.At(time.Duration(m) * time.Millisecond)}})
		}
		return list
	}
	for name, c := range map[string]struct {
		in, out []update
		want    []float64
	}{
		"one by one":            {at(0, 10), at(1, 12), []float64{1, 2}},
		"the border's own":      {at(10), at(1, 12), []float64{2}},
		"one that did not pass": {at(0, 10), at(3), []float64{3}},
	} {
		if got := added(c.in, c.out); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
