package multipath

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Buckets is into how many the flows to one correspondent are divided, by their ports.
const Buckets = 64

// TableMost is how many paths a table may have.
const TableMost = 16

// NoHome stands in Table.Homes for a bucket without one.
const NoHome = 0xff

// Table says which paths flows take, by their bucket. The flows of each rule have a table of their
// own, and all others have one.
type Table[P comparable] struct {
	Paths []P             // that a bucket may take, at most TableMost
	Costs []uint16        // of a byte on each of Paths, at least 1: where packets take turns, shares are inverse to it
	Sets  [Buckets]uint16 // bit i: packets may take Paths[i]; several take turns, the same ones in all other buckets
	Homes [Buckets]uint8  // index of the path to which first segments keep, and connections with one path

	// Of TCP without a rule: connections with a long path beside short ones.
	Across uint16                   // the set of their buckets; 0: there is none
	Longs  uint16                   // bit i: if data come by Paths[i] the other end learns late what is missing,
	Waits  [TableMost]time.Duration // by so much
}

// Equal reports whether two tables say the same; nil equals nil only.
func (t *Table[P]) Equal(o *Table[P]) bool {
	if t == nil || o == nil {
		return t == o
	}
	return slices.Equal(t.Paths, o.Paths) && slices.Equal(t.Costs, o.Costs) && t.Sets == o.Sets && t.Homes == o.Homes &&
		t.Across == o.Across && t.Longs == o.Longs && t.Waits == o.Waits
}

// Home returns the path to which a connection of a bucket keeps; false: there is none.
func (t *Table[P]) Home(bucket int) (p P, ok bool) {
	if i := int(t.Homes[bucket]); i < len(t.Paths) {
		return t.Paths[i], true
	}
	return p, false
}

// Only returns the path of a bucket that has no other one; false: it has several, or none.
func (t *Table[P]) Only(bucket int) (p P, ok bool) {
	for i, p := range t.Paths {
		if t.Sets[bucket] == 1<<i {
			return p, true
		}
	}
	return p, false
}

// Crosses reports whether connections take a long path beside short ones.
func (t *Table[P]) Crosses(p P) bool {
	i := slices.Index(t.Paths, p)
	return i >= 0 && t.Across>>i&1 != 0
}

// IsUneven reports whether the packets of a bucket take turns among paths of which some get less than others. What a
// connection sends at once then takes much longer on these, and all that is sent after it waits.
func (t *Table[P]) IsUneven() bool {
	return slices.ContainsFunc(t.Sets[:], func(set uint16) bool {
		least, most := uint16(math.MaxUint16), uint16(0)
		for i, cost := range t.Costs {
			if set>>i&1 != 0 {
				least, most = min(least, cost), max(most, cost)
			}
		}
		return least < most
	})
}

// Share returns which part of what the table sends takes a path, 0 to 1: of its bytes, or of its flows where each keeps
// to one path.
func (t *Table[P]) Share(p P) (share float64) {
	own := slices.Index(t.Paths, p)
	for _, set := range t.Sets {
		if own < 0 || set>>own&1 == 0 {
			continue
		}
		sum := 0.0
		for i, cost := range t.Costs {
			if set>>i&1 != 0 {
				sum += 1 / float64(cost)
			}
		}
		share += 1 / float64(t.Costs[own]) / sum / Buckets
	}
	return share
}

// Without returns the table without paths that are gone.
func (t *Table[P]) Without(gone func(P) bool) *Table[P] {
	if t == nil || !slices.ContainsFunc(t.Paths, gone) {
		return t
	}
	out := *t
	keep := uint16(0)
	for i, p := range t.Paths {
		if !gone(p) {
			keep |= 1 << i
		}
	}
	if out.Across&keep != out.Across {
		out.Across = 0
	}
	out.Longs &= keep
	for b := range out.Sets {
		if out.Sets[b] &= keep; out.Homes[b] != NoHome && keep>>out.Homes[b]&1 == 0 {
			out.Homes[b] = NoHome
		}
	}
	return &out
}

// newTable returns a table in which all buckets take all paths by turns, and have no home.
func newTable[P comparable](paths []P, costs []uint16) *Table[P] {
	t := &Table[P]{Paths: paths, Costs: costs}
	for b := range Buckets {
		t.Sets[b], t.Homes[b] = 1<<len(paths)-1, NoHome
	}
	return t
}

// PathKey is the name of a path between two locators, the same at both ends.
func PathKey(near, far uint64) uint64 { return mix(near) + mix(far) }

// Bucket returns the bucket of a flow between two nodes, given their NIDs and ports: the same at both ends.
func Bucket(near, far uint64, nearPort, farPort uint16) int {
	a, b := uint32(nearPort), uint32(farPort)
	return int(stir((near^far)+uint64(a*b+(a^b))) >> 37 % Buckets)
}

// mix spreads a number over all 64 bits.
func mix(x uint64) uint64 {
	x = stir(x)
	return x ^ x>>32
}

// stir spreads it over the upper ones.
func stir(x uint64) uint64 {
	const factor = 0xd6e8feb86659fd93
	x = (x ^ x>>32) * factor
	return (x ^ x>>32) * factor
}

// homes deals the buckets to paths with these keys: each gets as many as its weight permits, to
// within one, and a bucket changes its path for little more than what a change of weights calls for. It is
// the same for the same pairs of key and weight in any order, so that both ends of a path agree. The result
// has indexes of keys; NoHome if there are none.
func homes(keys []uint64, weights []float64) (out [Buckets]uint8) {
	type wish struct {
		score  float64
		bucket int
		i      int
	}
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(keys[i], keys[j]) })
	quota := deal(Buckets, order, weights)
	wishes := make([]wish, 0, Buckets*len(keys))
	for b := range Buckets {
		out[b] = NoHome
		for _, i := range order {
			u := (float64(mix(keys[i]+uint64(b)*0x9e3779b97f4a7c15)>>11) + 0.5) / (1 << 53)
			wishes = append(wishes, wish{-math.Log(u) / weights[i], b, i})
		}
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(a.score, b.score) })
	for _, w := range wishes {
		if out[w.bucket] == NoHome && quota[w.i] > 0 {
			out[w.bucket] = uint8(w.i)
			quota[w.i]--
		}
	}
	return out
}

// deal divides n among those of order in proportion to their weights (Sainte-Lague).
func deal(n int, order []int, weights []float64) []int {
	quota := make([]int, len(weights))
	for range n {
		best := -1
		for _, i := range order {
			if best < 0 || weights[i]*float64(2*quota[best]+1) > weights[best]*float64(2*quota[i]+1) {
				best = i
			}
		}
		if best >= 0 {
			quota[best]++
		}
	}
	return quota
}

// dealing remembers the last result of homes: most choices change nothing of it.
type dealing struct {
	keys    []uint64
	weights []float64
	dealt   [Buckets]uint8
}

func (d *dealing) homes(keys []uint64, weights []float64) [Buckets]uint8 {
	if d.keys == nil || !slices.Equal(keys, d.keys) || !slices.Equal(weights, d.weights) {
		*d = dealing{keys, weights, homes(keys, weights)}
	}
	return d.dealt
}
