package multipath

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// TCP's segments are spread over the short paths only, see length.go. A connection that keeps to a
// long path is well served there, though: nothing overtakes its segments. So when the connections
// fill the short paths, long ones take some of them whole, as many as their rates permit. Where these are too few for
// that, they share the long path with the short ones (cross.go). New ones start on the short paths, since only
// what they send shows that a long path would serve them.
const (
	placeEvery = 250 * time.Millisecond // between two looks, at least,
	placeMost  = 10 * time.Second       // and at most
	placeHeavy = 100                    // the part of the rate of all paths that makes a bucket a heavy one
	placeFull  = 2                      // the part of their rate that fills the short paths
	placeSure  = 1.1                    // by how much a place must be better than another one
)

// Flows is how many bytes the connections of each bucket have sent. Its counters wrap.
type Flows [Buckets]uint32

// placement is which buckets take long paths whole.
type placement[P comparable] struct {
	at    time.Time // of the last look, or when counting began; zero: neither is known
	next  time.Time // the next look should not be later; zero: whenever it is
	was   Flows
	long  map[uint8]P
	cross crossing[P]
}

// placed returns the long path that connections of a bucket take, for those that take one. All
// others are spread over the paths that TCP takes.
func (m *Machine[P]) placed(u Use[P]) map[uint8]P {
	if len(m.places.long) == 0 {
		return nil
	}
	placed := maps.Clone(m.places.long)
	maps.DeleteFunc(placed, func(_ uint8, p P) bool {
		return u.PerFlow || !slices.Contains(u.Paths, p) || !slices.Contains(u.Long, p)
	})
	if len(placed) == 0 {
		return nil
	}
	return placed
}

// HandleFlows takes what connections have sent, nil if that is not counted. It reports whether
// connections are to take other paths than before.
func (m *Machine[P]) HandleFlows(now time.Time, u Use[P], f *Flows) (changed bool) {
	pl := &m.places
	if f == nil || u.PerFlow || len(u.Long) == 0 {
		changed = len(pl.long) > 0 || pl.cross.on
		m.places = placement[P]{cross: pl.cross.stop(now)}
		return changed
	}
	since, was := now.Sub(pl.at), pl.was
	if since >= 0 && since < placeEvery {
		return false
	}
	pl.at, pl.was, pl.next = now, *f, time.Time{}
	if since < 0 || since > placeMost {
		return false
	}
	loads := make(map[uint8]float64)
	for b := range uint8(Buckets) {
		loads[b] = float64(f[b]-was[b]) / since.Seconds()
	}
	long, crossed := m.place(now, u, loads, since.Seconds())
	changed = crossed || !maps.Equal(long, pl.long)
	pl.long = long
	return changed
}

// place returns which buckets take a long path whole, given what each has sent a second, for so many seconds, and
// whether others are crossed from now on, or no more.
func (m *Machine[P]) place(now time.Time, u Use[P], loads map[uint8]float64,
	seconds float64) (placed map[uint8]P, crossed bool) {
	short, long := m.placeRates(u)
	if short == 0 || len(long) == 0 {
		return nil, m.cross(now, u, nil, seconds, short, nil)
	}
	total := short
	for _, p := range long {
		total += m.rates[p].Bytes
	}
	maps.DeleteFunc(loads, func(_ uint8, n float64) bool { return n < total/placeHeavy })
	placed = maps.Clone(m.places.long)
	maps.DeleteFunc(placed, func(b uint8, p P) bool { return loads[b] == 0 || !slices.Contains(long, p) })
	if placed == nil {
		placed = make(map[uint8]P)
	}
	free := heaviest(loads, func(b uint8) bool { _, is := placed[b]; return !is })
	filled := 0.0
	for _, b := range free {
		filled += loads[b]
	}
	many := 0 // connections that are alike: one that sends little takes no path of its own
	for b := range loads {
		if _, is := placed[b]; is || alike(loads, b) {
			many++
		}
	}
	quota := m.quotas(short, long, placed, many)
	for _, p := range long {
		own := heaviest(loads, func(b uint8) bool { at, is := placed[b]; return is && at == p })
		for _, b := range own[min(len(own), quota[p]):] {
			delete(placed, b)
		}
		for n := len(own); n < quota[p] && filled > short/placeFull && len(free) > 0; n++ {
			placed[free[0]] = p // its window is the largest, and it has to fill a longer path
			free = free[1:]
		}
	}
	for b, p := range placed {
		delete(loads, b)
		long = slices.DeleteFunc(long, func(q P) bool { return q == p })
	}
	return placed, m.cross(now, u, loads, seconds, short, long)
}

// NextLook returns when HandleFlows should be told of the connections, since they seem to have begun to fill the short
// paths; false: it is not urgent.
func (m *Machine[P]) NextLook() (at time.Time, ok bool) {
	return m.places.next, !m.places.next.IsZero()
}

// placeRates returns the rate of the paths that TCP's segments are spread over, 0 if it is not
// known, and the long paths that are known to be so and whose rate is.
func (m *Machine[P]) placeRates(u Use[P]) (short float64, long []P) {
	for _, p := range u.Paths {
		switch r := m.rates[p]; {
		case !u.taken(p):
			x := &m.places.cross
			isCrossed := (x.on || x.stretch.isAsking()) && p == x.path // it stays so while its rate is measured anew
			if r.Sure && (!r.Wants || isCrossed) && m.lengths.by[p].n >= lengthTwice {
				long = append(long, p)
			}
		case !r.Sure:
			return 0, nil
		default:
			short += r.Bytes
		}
	}
	return short, long
}

// quotas returns how many of n heavy buckets each long path is to take. They are dealt one by one
// to where the rate is greatest for what is there already, so that the parts follow the rates
// (Sainte-Lague). A path is to keep what it has while that is about as good.
func (m *Machine[P]) quotas(short float64, long []P, placed map[uint8]P, n int) map[P]int {
	quota, has := make(map[P]int), make(map[P]int)
	for _, p := range placed {
		has[p]++
	}
	onShort := 0
	for range n {
		sure := placeSure
		if onShort == 0 {
			sure = rateAlike
		}
		best, most := -1, sure*short/float64(2*onShort+1)
		for i, p := range long {
			score := m.rates[p].Bytes / float64(2*quota[p]+1)
			if quota[p] < has[p] {
				score *= placeSure * placeSure
			}
			if score > most {
				best, most = i, score
			}
		}
		if best < 0 {
			onShort++
		} else {
			quota[long[best]]++
		}
	}
	return quota
}

// heaviest returns those buckets that are wanted, the heaviest first.
func heaviest(loads map[uint8]float64, wanted func(uint8) bool) []uint8 {
	list := slices.DeleteFunc(slices.Sorted(maps.Keys(loads)), func(b uint8) bool { return !wanted(b) })
	slices.SortStableFunc(list, func(a, b uint8) int { return cmp.Compare(loads[b], loads[a]) })
	return list
}
