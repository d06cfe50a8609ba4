package simpson

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"roam/lab/exp/exptest"
	"roam/lab/result"
	"roam/lab/workload/udpflow"
)

// passages are those of a run within all bounds: each policy with both frame sizes, then by links
// with a rate, and last all policies with full links.
func passages() (all []*passage) {
	for _, p := range policies {
		for _, frame := range frameSizes {
			all = append(all, filled(p, frame, false))
		}
		all = append(all, filled(p, frameSizes[1], true))
	}
	for _, p := range policies { // full links
		v := filled(p, frameSizes[1], false)
		v.Rate, v.echoes = wholeLink, 0
		all = append(all, v)
	}
	return all
}

func filled(p policy, frame int, queued bool) *passage {
	v := &passage{policy: p, Frame: frame, Rate: 4000, Queued: queued, datagrams: 20_000, sentPct: 100, goodput: 10}
	if !queued {
		v.echoes, v.rtts, v.jitter = 100_000, []float64{0.2}, 0.01
	}
	first := uint64(100 * p.share)
	for h := range v.passed.datagrams {
		v.passed.datagrams[h] = [2]uint64{first, 10000 - first}
		if frame == frameSizes[1] && !queued {
			v.passed.echoes[h] = [2]uint64{first, 10000 - first}
		}
	}
	if queued && p.share < 100 {
		v.misorderedPct = map[string]float64{"50_50": 27, "80_20": 66}[p.name]
	}
	return v
}

// Each claim fails by a record just beyond its bound, and by no other.
func TestEachClaimOfHostSeesRed(t *testing.T) {
	const ipv6, none, halves, fifths = 0, 3, 6, 9 // the first cell of each policy
	const queue = 2                               // behind it
	var cases []exptest.Case
	add := func(name string, plant func([]*passage), red ...string) {
		all := passages()
		plant(all)
		cases = append(cases, exptest.Case{Name: name, Red: red, Judge: func(r *result.Result, _ int) {
			judgeHost(r, all)
			drawHost(r, all)
		}})
	}
	shift := func(cell, host int, n uint64) func([]*passage) {
		return func(all []*passage) {
			links := &all[cell].passed.datagrams[host]
			links[0], links[1] = links[0]-n, links[1]+n
		}
	}
	add("nothing", func([]*passage) {})
	for claim, cell := range map[string]int{"share-100-0": none, "share-50-50": halves, "share-80-20": fifths} {
		add(claim+", nearly a point off", shift(cell, 0, 99))
		add(claim+", horn", shift(cell, 0, 120), claim)
		add(claim+", reed with long frames", shift(cell+1, 1, 120), claim)
	}
	add("few packets", func(all []*passage) { all[none].passed.datagrams[1] = [2]uint64{999, 0} }, "counted")
	add("plain IPv6 by the other link", shift(ipv6, 0, 5000))
	add("requests", func(all []*passage) { all[fifths+1].passed.echoes[0] = [2]uint64{7890, 2110} }, "share-requests")
	add("replies", func(all []*passage) { all[fifths+1].passed.echoes[1] = [2]uint64{7890, 2110} }, "share-replies")
	add("no requests counted", func(all []*passage) { all[none+1].passed.echoes[0] = [2]uint64{} }, "share-requests")
	add("a long probe beside short echoes", func(all []*passage) { all[fifths].passed.echoes[0] = [2]uint64{1, 0} })
	add("an echo in 10,000 lost", func(all []*passage) { all[none].echoesLost = 60 })
	add("more echoes lost", func(all []*passage) { all[halves].echoesLost = 61 }, "echoes")
	add("datagrams lost", func(all []*passage) { all[fifths].datagramsLost = 241 }, "datagrams")
	add("datagrams of full links", func(all []*passage) { all[len(all)-1].datagramsLost = 900 })
	add("more datagrams of full links", func(all []*passage) { all[len(all)-1].datagramsLost = 901 }, "datagrams-1g")
	cases = append(cases, exptest.Case{Name: "plain IPv6 does not fill a link", Grey: []string{"datagrams-1g"},
		Judge: func(r *result.Result, _ int) {
			all := passages()
			all[len(all)-len(policies)].sentPct = 98
			judgeHost(r, all)
		}})
	add("goodput of a cell", func(all []*passage) { all[fifths+1].goodput = 9.89 }, "goodput")
	add("a slow round trip", func(all []*passage) { all[halves].rtts[0] = 0.23 }, "rtt")
	add("jitter", func(all []*passage) { all[ipv6].jitter = 0.31 }, "jitter")
	add("one link, out of order", func(all []*passage) { all[none].misorderedPct = 0.1 }, "order-one")
	add("IPv6 out of order", func(all []*passage) { all[ipv6+queue].misorderedPct = 0.1 }, "order-one")
	add("halves out of order as fifths", func(all []*passage) { all[halves+queue].misorderedPct = 65.5 }, "order-two")
	add("Roam slows the sender", func(all []*passage) { all[none].sentPct, all[none].goodput = 95, 9.5 }, "goodput")
	cases[len(cases)-1].Grey = []string{"jitter", "order-two"}
	add("little was sent without Roam", func(all []*passage) { all[ipv6].sentPct = 98 })
	cases[len(cases)-1].Grey = []string{"goodput", "jitter", "order-two"}
	exptest.Claims(t, Host, nil, cases...)
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
		all := []*passage{filled(policies[0], frameSizes[1], false), filled(policies[1], frameSizes[1], false)}
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
