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
)

// records are those of a run within all bounds, as read: the cells, then the comparators.
func records(t *testing.T) (all, others []*seen) {
	t.Helper()
	for _, x := range newRaws() {
		all = append(all, x.read(t))
	}
	return all[:len(cells)], all[len(cells):]
}

// change alters one of the records.
type change map[int]func(*raw)

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimSeesRed(t *testing.T) {
	near, far := records(t)
	var cases []exptest.Case
	add := func(name string, plant change, red ...string) {
		all, raws := slices.Concat(near, far), newRaws()
		for i, alter := range plant {
			alter(raws[i])
			all[i] = raws[i].read(t)
		}
		cases = append(cases, exptest.Case{Name: name, Red: red, Judge: func(r *result.Result, _ int) {
			judge(r, all[:len(cells)])
			judgeComparators(r, all[0], all[len(cells):])
			judgeSweep(r, all)
		}})
	}
	shift := func(cell, border int, n uint64) change {
		return change{cell: func(x *raw) { x.passed[border].Link[0] -= n; x.passed[border].Link[1] += n }}
	}
	add("nothing", nil)
	add("nearly a point off", shift(1, 0, 99))
	for i, claim := range []string{"share-100-0", "share-50-50", "share-80-20"} {
		add(claim+", near border", shift(i, 0, 120), claim)
		add(claim+", far border", shift(i, 1, 120), claim)
	}
	add("shares of the border's own counters", change{0: func(x *raw) { x.daemon[0] = [2]uint64{1, 9} }})
	add("few packets", change{0: func(x *raw) { x.passed[1].Link = [2]uint64{999, 0} }}, "counted")
	add("a packet with another provider's source", change{2: func(x *raw) { x.passed[0].Strays = 1 }}, "sources")
	add("an echo in 10,000 lost", change{1: func(x *raw) { x.echoesLost = 30 }})
	add("more echoes lost", change{1: func(x *raw) { x.echoesLost = 31 }}, "echoes")
	add("datagrams lost", change{2: func(x *raw) { x.there.lost, x.back.lost = 12, 12 }})
	add("more datagrams lost", change{2: func(x *raw) { x.there.lost, x.back.lost = 12, 13 }}, "datagrams")
	add("a route that appeared", change{2: func(x *raw) { x.routes[1] = "a\nb\nc" }}, "routes")
	add("a route that changed", change{0: func(x *raw) { x.routes[1] = "a\nc" }}, "routes")
	add("an internal locator outside", change{0: func(x *raw) { x.captured[1]++ }}, "leaks")
	add("a packet in another one", change{2: func(x *raw) { x.encapsulated = 1 }}, "encapsulated")
	slow := func(x *raw) {
		for i := range x.passes {
			x.passes[i] = 11 * ms / 10
		}
	}
	add("a border that is slow", change{0: slow, 1: slow, 2: slow}, "update-median")
	add("a border that is slow at times", change{1: func(x *raw) { x.passes[3], x.passes[7] = 11*ms/2, 11*ms/2 }},
		"update-p99")
	add("an update that did not pass", change{2: func(x *raw) { x.passes[9] = -1 }}, "updates")
	add("a link whose loss is announced late", change{2: func(x *raw) { x.announced += 185 * ms / 10 }}, "link-lost")
	add("a border that ignores how long it is to collect changes", change{1: func(x *raw) { x.announced = 22 * ms }},
		"changes-collected")
	add("a link whose loss is announced early", change{0: func(x *raw) { x.announced -= 35 * ms / 10 }},
		"changes-collected")
	comparatorCases(add, shift)
	sweepCases(add)
	grey := func(name string, plant change, red string, grey ...string) {
		add(name, plant, strings.Fields(red)...)
		cases[len(cases)-1].Grey = grey
	}
	grey("the border slows the sender", change{2: func(x *raw) { x.rates[1].there = flow{rate: 950, n: 950} }},
		"rates-goodput", "rates-jitter")
	grey("little was sent through NPTv6", change{4: func(x *raw) { x.rates[1].there = flow{rate: 980, n: 980} }},
		"", "rates-goodput", "rates-jitter")
	grey("NPTv6 out of order", change{4: func(x *raw) { x.rates[1].there.late = 2 }}, "", "rates-order")
	grey("NPTv6 does not fill a link", change{4: func(x *raw) {
		x.rates[2].there = flow{rate: wholeLink * 98 / 100, n: 980}
	}}, "", "rates-datagrams-1g")
	exptest.Claims(t, Experiment, nil, cases...)
}

// comparatorCases are those about the records of comparators.
func comparatorCases(add func(string, change, ...string), shift func(int, int, uint64) change) {
	const forwarding, nptv6, prefixNAT = 3, 4, 5
	add("NPTv6 by the second link", shift(nptv6, 1, 1), "nptv6-share")
	for i, claim := range map[int]string{
		forwarding: "forwarding-datagrams", nptv6: "nptv6-datagrams", prefixNAT: "prefixnat-datagrams",
	} {
		add(claim, change{i: func(x *raw) { x.back.lost = 8 }})
		add("more of "+claim, change{i: func(x *raw) { x.back.lost = 9 }}, claim)
	}
	add("an audit that misses a route", change{forwarding: func(x *raw) { x.routes[1] = "a\nb\nc\nd" }}, "audit-routes")
	add("captures that see little", change{forwarding: func(x *raw) { x.captured[0]-- }}, "audit-leaks")
	add("captures that miss a kind of tunnel", change{forwarding: func(x *raw) { x.encapsulated-- }}, "audit-encapsulated")
	add("NPTv6 that leaks", change{nptv6: func(x *raw) { x.captured[0]++ }}, "nptv6-leaks")
}

// sweepCases are those about the rates; element 4 of the records is NPTv6.
func sweepCases(add func(string, change, ...string)) {
	at := func(cell, rate int, alter func(*rawPassage)) change {
		return change{cell: func(x *raw) { alter(x.rates[rate]) }}
	}
	share := func(cell, border int, first uint64) change {
		return at(cell, 0, func(x *rawPassage) { x.passed.datagrams[border] = [2]uint64{first, 10000 - first} })
	}
	add("a share at a rate", share(1, 1, 5120), "rates-shares")
	add("a share of NPTv6", share(4, 0, 9880), "rates-shares")
	add("echoes at the rates", at(2, 1, func(x *rawPassage) { x.echoesLost = 60 }))
	add("more echoes at the rates", at(2, 1, func(x *rawPassage) { x.echoesLost = 61 }), "rates-echoes")
	add("datagrams lost at the rates", at(0, 0, func(x *rawPassage) { x.back.lost = 24 }))
	add("more datagrams lost at the rates", at(0, 0, func(x *rawPassage) { x.back.lost = 25 }), "rates-datagrams")
	add("datagrams of full links", at(0, 2, func(x *rawPassage) { x.there.lost = 90 }))
	add("more datagrams of full links", at(0, 2, func(x *rawPassage) { x.there.lost = 91 }), "rates-datagrams-1g")
	add("goodput at a rate", at(2, 0, func(x *rawPassage) { x.there.lost = 9 }))
	add("less goodput at a rate", at(2, 0, func(x *rawPassage) { x.there.lost = 11 }), "rates-goodput")
	add("a little jitter at a rate", at(1, 0, func(x *rawPassage) { x.there.swing = 3 * ms / 10 }))
	add("jitter at a rate", at(1, 0, func(x *rawPassage) { x.there.swing = 32 * ms / 100 }), "rates-jitter")
	add("one locator out of order", at(0, 2, func(x *rawPassage) { x.there.late = 2 }), "rates-order")
	add("two locators out of order", at(1, 1, func(x *rawPassage) { x.there.late = 30 }))
}

// What the borders count themselves stands beside, of the worse one; a border that sent nothing
// is as far off as can be.
func TestOwnCounters(t *testing.T) {
	for i := range 2 {
		all, _ := records(t)
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
	all, others := records(t)
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
