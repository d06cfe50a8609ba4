package multipath

import (
	"math"
	"slices"
	"time"
)

// Request is what a Choice follows from, besides what the machine knows.
type Request[P comparable] struct {
	Now     Use[P]            // how the owner sends now
	Begun   bool              // it has sent before
	Paths   []P               // all that are in use from now on, the first one first. A dead path is none of them
	Several bool              // TCP may take more than one of them
	Rates   map[P]Measured    // of Paths; nil: they are not measured
	Told    map[P]uint8       // what paths cost by the rates that the other end has measured; nil: it tells nothing
	Valid   func(P) bool      // whole connections may take the path
	Key     func(P) uint64    // names a path: both ends have the same name for it
	Rules   map[int]Demand[P] // what rules want for their flows, by the number of the rule
}

// Demand is what a rule wants for its flows.
type Demand[P comparable] struct {
	Paths  []P       // that they may take, the best first
	Shares []float64 // of each: what it gets of the bytes; not used by OnBest
	Form   Form
}

// Form is how the flows of a rule are divided among its paths.
type Form uint8

// The forms.
const (
	ByTurns Form = iota // each packet by itself
	ByHash              // each flow as a whole
	OnBest              // all flows take the best path
)

// Choice is which paths the traffic to a correspondent takes. It is complete: what sends by it
// decides nothing but whose turn it is.
type Choice[P comparable] struct {
	Long  []P               // of the paths in use, those over which TCP is not spread
	Costs map[P]uint8       // of the others, which get less of what is spread: each step of two halves it, at most 15
	Table *Table[P]         // of TCP; nil: it takes any path
	Rules map[int]*Table[P] // of the flows of rules

	SlowStart int // bytes at which the first slow start of a connection without a rule ends at the latest; 0: unknown
}

// Choose decides which paths everything takes: by the lengths and the rates of the paths, their queues, what
// connections have sent, whether something on a path tracks them, and the user's rules.
func (m *Machine[P]) Choose(now time.Time, r Request[P]) (c Choice[P]) {
	m.handleRates(r.Rates)
	if r.Several {
		c.Long = m.long(r.Now, r.Paths)
	}
	if len(c.Long) > 0 && r.Begun && len(r.Now.Long) == 0 {
		// Bytes are counted from now on.
		m.places = placement[P]{at: now, next: now.Add(placeEvery), cross: m.places.cross.stop(now)}
	}
	u := Use[P]{Paths: r.Paths, Long: c.Long, PerFlow: r.Now.PerFlow, Crosses: r.Now.Crosses}
	if c.Costs = m.queues.costsOf(r.Paths); len(u.Paths)-len(u.Long) < 2 || u.PerFlow {
		c.Costs = only(m.queues.base, r.Paths) // no queue of TCP changes them
	}
	if r.Several && len(r.Paths) > 1 {
		c.Table = m.table(r, u, c.Costs)
		c.SlowStart = m.slowStart(u)
	}
	for i, d := range r.Rules {
		if t := d.table(r.Key); t != nil {
			if c.Rules == nil {
				c.Rules = make(map[int]*Table[P])
			}
			c.Rules[i] = t
		}
	}
	return c
}

// table returns where TCP goes.
func (m *Machine[P]) table(r Request[P], u Use[P], costs map[P]uint8) *Table[P] {
	t := newTable(r.Paths, make([]uint16, len(r.Paths)))
	short, placed := uint16(0), m.placed(u)
	var at []int // paths that a connection may keep to
	for i, p := range r.Paths {
		t.Costs[i] = uint16(byteCost(costs[p]))
		long := slices.Contains(u.Long, p)
		if !long {
			short |= 1 << i
		}
		// A path whose length one end alone does not know yet has homes, or the ends would differ about it.
		if r.Valid(p) && (!long || m.lengths.by[p].n == 0) {
			at = append(at, i)
		}
	}
	keys, weights := make([]uint64, len(at)), make([]float64, len(at))
	for k, i := range at {
		p := r.Paths[i]
		keys[k], weights[k] = r.Key(p), 1
		if r.Told != nil { // else it does not know this end's measure either
			weights[k] = homeWeight(int(m.queues.base[p]) + int(r.Told[p]))
		}
	}
	dealt := m.dealing.homes(keys, weights)
	crossed := m.crossInTable(t, u, short)
	for b := range Buckets {
		if t.Sets[b] = short; crossed>>b&1 != 0 {
			t.Sets[b] = t.Across
		}
		if p, is := placed[uint8(b)]; is {
			t.Sets[b] = 1 << slices.Index(r.Paths, p)
		}
		if k := dealt[b]; k != NoHome {
			t.Homes[b] = uint8(at[k])
		}
	}
	return t
}

// byteCost is what a byte costs at a step of two halves, in halves: 2, 3, 4, 6, 8, 12 ...
func byteCost(step uint8) int { return (2 + int(step&1)) << (step >> 1) }

// homeWeight is the weight of a path for whole connections, given the sum of what it costs by the
// measures of both ends: the mean counts, as each measures its own direction.
func homeWeight(steps int) float64 { return math.Exp2(-float64(steps) / 4) }

const (
	shareUnit = 64      // what a byte costs where a path gets all of them
	shareMost = 1 << 14 // and at most
)

// table returns where the flows of a rule go; nil: none of its paths works.
func (d Demand[P]) table(key func(P) uint64) *Table[P] {
	paths := d.Paths[:min(len(d.Paths), TableMost)]
	if d.Form == OnBest {
		paths = paths[:min(len(paths), 1)]
	}
	if len(paths) == 0 {
		return nil
	}
	keys, weights, costs := make([]uint64, len(paths)), make([]float64, len(paths)), make([]uint16, len(paths))
	for i, p := range paths {
		keys[i], weights[i], costs[i] = key(p), 1, 1
		if d.Form != OnBest {
			weights[i] = d.Shares[i]
			costs[i] = uint16(min(shareUnit/d.Shares[i]+0.5, shareMost))
		}
	}
	t := newTable(paths, costs)
	t.Homes = homes(keys, weights)
	if d.Form == ByHash {
		for b, home := range t.Homes {
			t.Sets[b] = 1 << home
		}
	}
	return t
}
