package simpson

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/result"
	"roam/lab/topo"
	"roam/lab/workload/udpflow"
)

// newPassages are those of a run within all bounds: each policy with both frame sizes, then by links
// with a rate, and last all policies with full links.
func newPassages() (all []*rawPassage) {
	for _, p := range policies {
		for _, frame := range frameSizes {
			all = append(all, newPassage(p, frame, 1000, false))
		}
		all = append(all, newPassage(p, frameSizes[1], 1000, true))
	}
	for _, p := range policies {
		all = append(all, newPassage(p, frameSizes[1], wholeLink, false))
	}
	return all
}

// passages are the same, as read.
func passages(t *testing.T) (all []*passage) {
	t.Helper()
	for _, x := range newPassages() {
		all = append(all, x.read(t))
	}
	return all
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimOfHostSeesRed(t *testing.T) {
	const ipv6, none, halves, fifths = 0, 3, 6, 9 // the first cell of each policy
	const queue, full = 2, 12                     // behind it; the first full link
	whole := passages(t)
	var cases []exptest.Case
	add := func(name string, at int, plant func(*rawPassage), red ...string) {
		x, all := newPassages()[at], slices.Clone(whole)
		plant(x)
		all[at] = x.read(t)
		cases = append(cases, exptest.Case{Name: name, Red: red, Judge: func(r *result.Result, _ int) {
			judgeHost(r, all)
			drawHost(r, all)
		}})
	}
	shift := func(host int, n uint64) func(*rawPassage) {
		return func(x *rawPassage) {
			links := &x.passed.datagrams[host]
			links[0], links[1] = links[0]-n, links[1]+n
		}
	}
	lost := func(there, back int) func(*rawPassage) {
		return func(x *rawPassage) { x.there.lost, x.back.lost = there, back }
	}
	late := func(n int) func(*rawPassage) { return func(x *rawPassage) { x.there.late = n } }
	swing := func(d time.Duration) func(*rawPassage) { return func(x *rawPassage) { x.there.swing = d } }
	add("nothing", 0, func(*rawPassage) {})
	for claim, cell := range map[string]int{"share-100-0": none, "share-50-50": halves, "share-80-20": fifths} {
		add(claim+", nearly a point off", cell, shift(0, 99))
		add(claim+", horn", cell, shift(0, 120), claim)
		add(claim+", reed with long frames", cell+1, shift(1, 120), claim)
	}
	add("few packets", none, func(x *rawPassage) { x.passed.datagrams[1] = [2]uint64{999, 0} }, "counted")
	add("plain IPv6 by the other link", ipv6, shift(0, 5000))
	for h, claim := range []string{"share-requests", "share-replies"} {
		add(claim, fifths+1, func(x *rawPassage) { x.passed.echoes[h] = [2]uint64{7890, 2110} }, claim)
	}
	add("no requests counted", none+1, func(x *rawPassage) { x.passed.echoes[0] = [2]uint64{} }, "share-requests")
	add("a long probe beside short echoes", fifths, func(x *rawPassage) { x.passed.echoes[0] = [2]uint64{1, 0} })
	add("an echo in 10,000 lost", none, func(x *rawPassage) { x.echoesLost = 60 })
	add("more echoes lost", halves, func(x *rawPassage) { x.echoesLost = 61 }, "echoes")
	add("datagrams lost", fifths, lost(4, 20))
	add("more datagrams lost", fifths, lost(4, 21), "datagrams")
	add("datagrams of full links", full+3, lost(90, 0))
	add("more datagrams of full links", full+3, lost(91, 0), "datagrams-1g")
	grey := func(name string, at int, plant func(*rawPassage), red string, grey ...string) {
		add(name, at, plant, strings.Fields(red)...)
		cases[len(cases)-1].Grey = grey
	}
	grey("plain IPv6 does not fill a link", full, func(x *rawPassage) {
		x.there = flow{rate: wholeLink * 98 / 100, n: 980}
	}, "", "datagrams-1g")
	add("goodput of a cell", fifths+1, lost(9, 0))
	add("less goodput of a cell", fifths+1, lost(11, 0), "goodput")
	add("a round trip", halves, func(x *rawPassage) { x.rtt = "0.219" })
	add("a slow round trip", halves, func(x *rawPassage) { x.rtt = "0.221" }, "rtt")
	add("a little jitter", ipv6, swing(3*ms/10))
	add("jitter", ipv6, swing(32*ms/100), "jitter")
	add("one link, out of order", none, late(2), "order-one")
	grey("IPv6 out of order", ipv6+queue, late(2), "", "order-one")
	add("halves out of order nearly as fifths", halves+queue, late(645))
	add("halves out of order as fifths", halves+queue, late(655), "order-two")
	grey("Roam slows the sender", none, func(x *rawPassage) { x.there = flow{rate: 950, n: 950} },
		"goodput", "jitter", "order-two")
	grey("little was sent without Roam", ipv6, func(x *rawPassage) { x.there = flow{rate: 980, n: 980} },
		"", "goodput", "jitter", "order-two")
	fast := passages(t)
	for _, v := range fast {
		if !v.Queued && v.Rate < wholeLink {
			v.Rate = judgedRate + 1
		}
	}
	cases = append(cases, exptest.Case{Name: "no rate is judged", Grey: []string{"goodput", "rtt", "jitter"},
		Judge: func(r *result.Result, _ int) { judgeHost(r, fast) }})
	exptest.Claims(t, Host, nil, cases...)
}

// What the router counts is by host and link, datagrams apart from echoes.
func TestTally(t *testing.T) {
	all := map[string]topo.Counter{"another": {Packets: 99}}
	for i, name := range []string{"horn1", "horn2", "reed1", "reed2"} {
		all[name], all[name+"echoes"] = topo.Counter{Packets: 10 + i}, topo.Counter{Packets: 20 + i}
	}
	want := tally{datagrams: [2][2]uint64{{10, 11}, {12, 13}}, echoes: [2][2]uint64{{20, 21}, {22, 23}}}
	if got := tallyOf(all); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// got are datagrams of these numbers, sent and arriving each millisecond.
func got(numbers ...uint64) (list []udpflow.Got) {
	for i, n := range numbers {
		list = append(list, udpflow.Got{Seq: n, Sent: int64(n) * 1e6, At: int64(i)*1e6 + 5e6})
	}
	return list
}

func TestDisplacements(t *testing.T) {
	if d := displacements(got(0, 1, 2, 3)); slices.Max(d) > 0 {
		t.Error("in order:", d)
	}
	d := displacements(got(0, 2, 3, 1, 4)) // 1 comes after two
	if d[1] != 20 || d[0] != 0 {
		t.Error("one of five:", d)
	}
	late := []uint64{}
	for n := range uint64(60) {
		late = append(late, n+1)
	}
	if d := displacements(got(append(late, 0)...)); d[longest-1] == 0 {
		t.Error("after sixty:", d)
	}
}

func TestJitter(t *testing.T) {
	if j := jitter(got(0, 1, 2)); j != 0 {
		t.Error("steady:", j)
	}
	late := got(0, 1, 2, 3)
	late[2].At += int64(2 * time.Millisecond)
	if j := jitter(late); j < 0.05 || j > 0.3 {
		t.Error("one is 2 ms late:", j)
	}
	if jitter(nil) != 0 {
		t.Error("nothing arrived")
	}
}

func TestRates(t *testing.T) {
	if list, err := ratesOf("1000, 20000"); err != nil || fmt.Sprint(list) != "[[1000 20000] [1000 20000]]" {
		t.Error(list, err)
	}
	if list, err := ratesOf("1"); err != nil || fmt.Sprint(list) != "[[1] [1]]" {
		t.Error(list, err)
	}
	if list, err := ratesOf(""); err != nil || len(list[0])+len(list[1]) > 0 {
		t.Error(list, err)
	}
	for _, bad := range []string{"0", "fast", "1,,2"} {
		if _, err := ratesOf(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	list, err := ratesOf("table")
	if err != nil {
		t.Fatal(err)
	}
	for i, mbps := range [2][]float64{{1, 10, 20, 50, 100}, {10, 100, 200, 500, 1000}} {
		size := [2]float64{128, 1514}[i] // of the original
		for k, rate := range list[i] {
			if want := mbps[k] * 1e6 / 8 / size; float64(rate) < want-1 || float64(rate) > want+1 {
				t.Errorf("%v Mb/s in frames of %v bytes: %d, want %v", mbps[k], size, rate, want)
			}
		}
	}
}

// A rate that plain IPv6 does not reach on this machine is not judged, unless every machine does; above
// judgedRate only losses are, and longer frames that fill a link have a bound of their own.
func TestJudgedRates(t *testing.T) {
	for name, c := range map[string]struct {
		rate               int
		plainSent          float64
		behind, lost, full bool
	}{
		"carried":               {20_000, 99, true, true, false},
		"not carried":           {20_000, 98, false, false, false},
		"every machine does":    {10_000, 50, true, true, false},
		"above what is judged":  {60_000, 100, false, true, false},
		"it fills a link":       {82_563, 100, false, false, true},
		"it would fill a link":  {82_563, 70, false, false, false},
		"as fast as is judged":  {50_000, 100, true, true, false},
		"just above everySends": {10_001, 98.9, false, false, false},
	} {
		all := []*passage{filled(t, policies[0], frameSizes[1], false), filled(t, policies[1], frameSizes[1], false)}
		for _, v := range all {
			v.Rate = c.rate
		}
		all[0].sentPct = c.plainSent
		all[1].goodput, all[1].datagramsLost, all[1].rtts[0], all[1].jitter = 5, 1000, 0.4, 1
		f := figuresOf(all)
		got := f.behind > 0
		if got != c.behind || f.longer > 0 != got || f.added > 0 != got || f.cells > 0 != got || f.jitter > 0 != got {
			t.Errorf("%s: judged %v, want %v: %+v", name, got, c.behind, f)
		}
		if math.IsInf(f.sentWithout, 1) == c.behind {
			t.Errorf("%s: without Roam %g %% were sent", name, f.sentWithout)
		}
		if f.datagramsLost > 0 != c.lost || f.fullLost > 0 != c.full {
			t.Errorf("%s: lost %d of %d, with a full link %d of %d", name, f.datagramsLost, f.datagrams, f.fullLost, f.full)
		}
	}
}

// Tables and figures name a policy by its shares, and the one without Roam as what it is.
func TestTitles(t *testing.T) {
	if a, b := policies[0].title(), policies[3].title(); a != "IPv6" || b != "Roam, 80/20" {
		t.Errorf("%q, %q", a, b)
	}
}

// Of datagrams of which none arrives, none is out of order.
func TestNothingArrives(t *testing.T) {
	x := newPassage(policies[1], frameSizes[0], 1000, false)
	x.there = flow{}
	if v := x.read(t); v.misorderedPct != 0 || v.goodput != 0 || v.sentPct != 0 {
		t.Errorf("nothing was sent: %g %% out of order, %g Mb/s, %g %% sent", v.misorderedPct, v.goodput, v.sentPct)
	}
}

// The rule divides all packets, by one link or by two.
func TestRule(t *testing.T) {
	for i, want := range map[int]string{
		1: "{ net1 = 100 }", 2: "{ net1 = 50, net2 = 50 }", 3: "{ net1 = 80, net2 = 20 }",
	} {
		if got := policies[i].rule(); got != "[[rule]]\npolicy = \"weighted\"\nshares = "+want+"\n" {
			t.Errorf("%s: %s", policies[i].name, got)
		}
	}
}

// TestNothingCarried: where the machine does not send at any rate without Roam, losses have no figure, and are not
// 100 %.
func TestNothingCarried(t *testing.T) {
	for _, sent := range []float64{46, 100} {
		plain := &passage{policy: policy{plain: true}, Frame: 1506, Rate: wholeLink, sentPct: sent, goodput: 1}
		v := &passage{Frame: 1506, Rate: wholeLink, sentPct: 62}
		v.echoes, v.datagrams, v.datagramsLost = 10, 1000, 10
		r := result.New("x")
		figuresOf([]*passage{plain, v}).set(r, "")
		for _, m := range []string{"echoes_lost_pct", "datagrams_lost_1g_pct"} {
			if _, has := r.Metrics[m]; has != (sent == 100) || (r.Unmeasured[m] != "") == has {
				t.Errorf("%v %% sent without Roam: %s is %v, %q", sent, m, r.Metrics[m], r.Unmeasured[m])
			}
		}
		if _, has := r.Metrics["datagrams_lost_pct"]; has {
			t.Error("datagrams that fill a link count as others")
		}
	}
}
