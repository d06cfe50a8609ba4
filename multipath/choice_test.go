package multipath

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// keyOf names the paths of these tests.
func keyOf(p string) uint64 { return mix(uint64(p[0])) }

func all(string) bool { return true }

// request is that of a session which sends along the paths of a bench.
func (x *bench) request() Request[string] {
	return Request[string]{Now: x.use, Begun: true, Paths: x.use.Paths, Several: true, Valid: all, Key: keyOf}
}

// count returns how many buckets have each home.
func count(t *Table[string]) map[string]int {
	n := make(map[string]int)
	for b := range Buckets {
		if p, ok := t.Home(b); ok {
			n[p]++
		}
	}
	return n
}

// TestShareOfATable: the shares of a rule are those that it demands, by bytes or by whole flows.
func TestShareOfATable(t *testing.T) {
	d := Demand[string]{Paths: []string{"a", "b", "c"}, Shares: []float64{0.5, 0.3, 0.2}}
	for form, within := range map[Form]float64{ByTurns: 0.01, ByHash: 1.0 / Buckets} {
		d.Form = form
		table := d.table(keyOf)
		for i, p := range d.Paths {
			if got := table.Share(p); math.Abs(got-d.Shares[i]) > within {
				t.Errorf("form %d: %s gets %.3f, want %.3f", form, p, got, d.Shares[i])
			}
		}
	}
	d.Form = OnBest
	if table := d.table(keyOf); table.Share("a") != 1 || table.Share("b") != 0 {
		t.Errorf("on the best path: %.3f and %.3f", table.Share("a"), table.Share("b"))
	}
}

// Shares are uneven where several paths take turns of which some cost more, also beside a long one.
func TestUnevenTables(t *testing.T) {
	for name, c := range map[string]struct {
		costs []uint16
		set   uint16
		want  bool
	}{
		"a slow path":           {[]uint16{2, 12}, 3, true},
		"one of three":          {[]uint16{2, 2, 3}, 7, true},
		"equal ones":            {[]uint16{2, 2}, 3, false},
		"a slow one by itself":  {[]uint16{2, 12}, 2, false},
		"a slow one left alone": {[]uint16{2, 2, 12}, 3, false},
		"beside a long one":     {[]uint16{2, 2, 12}, 5, true},
	} {
		table := newTable([]string{"a", "b", "c"}[:len(c.costs)], c.costs)
		for b := range table.Sets {
			table.Sets[b] = 1
		}
		if table.Sets[9] = c.set; table.IsUneven() != c.want {
			t.Errorf("%s: uneven %t", name, !c.want)
		}
	}
}

// Whole connections are divided by the mean of what both ends measured, to within one bucket, and
// both ends deal alike whatever the order of their paths.
func TestHomesFollowRates(t *testing.T) {
	for _, test := range []struct {
		own   map[string]Measured
		other map[string]uint8
		want  map[string]int
	}{
		{nil, nil, map[string]int{a: 32, b: 32}},
		{map[string]Measured{a: sure(100), b: sure(25)}, map[string]uint8{b: 4}, map[string]int{a: 51, b: 13}},
		{map[string]Measured{a: sure(100), b: sure(25)}, map[string]uint8{}, map[string]int{a: 43, b: 21}},
		{map[string]Measured{a: sure(100), b: sure(25)}, nil, map[string]int{a: 32, b: 32}}, // it does not know
		{nil, map[string]uint8{a: 4}, map[string]int{a: 21, b: 43}},
		{map[string]Measured{a: sure(100), b: sure(25)}, map[string]uint8{a: 4}, map[string]int{a: 32, b: 32}},
	} {
		x := newBench(a, b)
		r := x.request()
		r.Rates, r.Told = test.own, test.other
		here := x.Choose(x.now, r).Table
		if got := count(here); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("rates %v, told %v: homes %v, want %v", test.own, test.other, got, test.want)
		}
		y := newBench(b, a)
		r = y.request()
		if test.other != nil {
			r.Told = make(map[string]uint8)
		}
		if test.own != nil && test.other != nil {
			r.Told[b] = 4
		}
		if test.other != nil {
			r.Rates = map[string]Measured{a: sure(100), b: sure(100)}
			for p := range test.other {
				r.Rates[p] = sure(25)
			}
		}
		there := y.Choose(y.now, r).Table
		for bucket := range Buckets {
			p, _ := here.Home(bucket)
			if q, _ := there.Home(bucket); p != q {
				t.Errorf("rates %v, told %v: bucket %d is on %s and on %s", test.own, test.other, bucket, p, q)
			}
		}
	}
}

// Any weights are met to within one bucket, in any order of the paths, and a change of weights moves few more
// buckets than it has to.
func TestHomes(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := 1 + g.IntN(TableMost)
		keys, weights, sum := make([]uint64, n), make([]float64, n), 0.0
		for i := range n {
			keys[i], weights[i] = g.Uint64(), math.Exp2(-float64(g.IntN(16))/2)
			sum += weights[i]
		}
		dealt := homes(keys, weights)
		var has [TableMost]int
		for _, i := range dealt {
			has[i]++
		}
		for i := range n {
			if want := Buckets * weights[i] / sum; math.Abs(float64(has[i])-want) > 1+want/Buckets*float64(n) {
				t.Fatalf("weights %v: path %d has %d buckets of %.1f", weights, i, has[i], want)
			}
		}
		order := g.Perm(n)
		turned, turnedWeights := make([]uint64, n), make([]float64, n)
		for at, i := range order {
			turned[at], turnedWeights[at] = keys[i], weights[i]
		}
		for b, at := range homes(turned, turnedWeights) {
			if order[at] != int(dealt[b]) {
				t.Fatalf("bucket %d: path %d, in another order %d", b, dealt[b], order[at])
			}
		}
		if n < 2 {
			continue
		}
		moved := 0
		for b, i := range homes(keys[:n-1], weights[:n-1]) {
			if dealt[b] != i && int(dealt[b]) != n-1 {
				moved++
			}
		}
		if moved > Buckets/3 {
			t.Errorf("weights %v: without the last path %d buckets of others move", weights, moved)
		}
	}
}

// Segments are spread over the short paths, whatever long ones there are; a path to which a connection may
// not be bound has no whole one.
func TestTableOfLengths(t *testing.T) {
	x := newBench(a, b, c)
	for range 2 {
		x.answer(map[string]time.Duration{a: 10 * ms, b: 12 * ms, c: 100 * ms})
	}
	r := x.request()
	r.Valid = func(p string) bool { return p != b }
	ch := x.Choose(x.now, r)
	if fmt.Sprint(ch.Long) != "[c]" || ch.Table.Sets[9] != 0b011 || fmt.Sprint(count(ch.Table)) != "map[a:64]" {
		t.Errorf("long %v, sets %b, homes %v", ch.Long, ch.Table.Sets[9], count(ch.Table))
	}
	r.Now.PerFlow = true
	if ch = x.Choose(x.now, r); len(ch.Long) > 0 || fmt.Sprint(count(ch.Table)) != "map[a:32 c:32]" {
		t.Errorf("each keeps to one path: long %v, homes %v", ch.Long, count(ch.Table))
	}
	r.Several = false
	if ch = x.Choose(x.now, r); ch.Table != nil || ch.Long != nil {
		t.Errorf("one path only: %+v", ch)
	}
}

// Each rule has a table of its own: by turns, by flows or on the best path; without a path that works it
// has none.
func TestTablesOfRules(t *testing.T) {
	x := newBench(a)
	r := x.request()
	r.Rules = map[int]Demand[string]{
		0: {Paths: []string{a, b}, Shares: []float64{0.8, 0.2}},
		1: {Paths: []string{a, b}, Shares: []float64{0.5, 0.5}, Form: ByHash},
		2: {Paths: []string{c, a}, Form: OnBest},
		3: {Form: OnBest},
	}
	rules := x.Choose(x.now, r).Rules
	if len(rules) != 3 {
		t.Fatalf("tables %v", rules)
	}
	turns, flows, best := rules[0], rules[1], rules[2]
	dealt := fmt.Sprint(count(turns))
	if !slices.Equal(turns.Costs, []uint16{80, 320}) || turns.Sets[5] != 3 || dealt != "map[a:51 b:13]" {
		t.Errorf("by turns: costs %v, sets %b, homes %v", turns.Costs, turns.Sets[5], count(turns))
	}
	for b := range Buckets {
		p, only := flows.Only(b)
		if q, _ := flows.Home(b); !only || p != q {
			t.Errorf("by flows: bucket %d takes %b, home %d", b, flows.Sets[b], flows.Homes[b])
		}
		if p, only := best.Only(b); !only || p != c {
			t.Errorf("on the best: bucket %d takes %s", b, p)
		}
	}
	if fmt.Sprint(count(flows)) != "map[a:32 b:32]" {
		t.Errorf("by flows: homes %v", count(flows))
	}
}

// A path that goes is taken out of a table, and the others stay.
func TestTableWithout(t *testing.T) {
	x := newBench(a, b)
	was := x.Choose(x.now, x.request()).Table
	left := was.Without(func(p string) bool { return p == a })
	if left.Sets[3] != 0b10 || fmt.Sprint(count(left)) != "map[b:32]" || was.Sets[3] != 0b11 || left.Equal(was) {
		t.Errorf("sets %b, homes %v; before %b", left.Sets[3], count(left), was.Sets[3])
	}
	if was.Without(func(p string) bool { return p == c }) != was || (*Table[string])(nil).Without(all) != nil {
		t.Error("nothing goes, and the table is another one")
	}
}

// A path whose length is not known yet takes no segments, but has homes: the other end may know it.
func TestHomesBeforeLengths(t *testing.T) {
	x := newBench(a, b)
	x.use.Long = []string{b}
	x.answer(map[string]time.Duration{a: 10 * ms})
	ch := x.Choose(x.now, x.request())
	if fmt.Sprint(ch.Long, count(ch.Table)) != "[b] map[a:32 b:32]" || ch.Table.Sets[0] != 1 {
		t.Errorf("long %v, sets %b, homes %v", ch.Long, ch.Table.Sets[0], count(ch.Table))
	}
}
