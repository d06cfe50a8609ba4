package multipath

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Paths that are equally long need not be equally fast. By equal shares all go as
// fast as the slowest, and what that one cannot take waits before it. So while
// segments of TCP wait, all paths in use are asked how long they take now, and one
// before which more waits than before another gets a smaller share.
const (
	queueNoise = 10 * time.Millisecond  // or a quarter of the round trip, if that is more: less is no queue
	queueSure  = 100 * time.Millisecond // where rates are known
	queueOwn   = 0.8                    // of a known rate: a path that delivers so much has not become slower
	queueEvery = 50 * time.Millisecond  // between two questions where a queue was found, and once it has gone
	queueFlips = 6                      // doublings of that at most, as shares go to and fro
)

// CostMost is the highest cost of a path.
const CostMost = 15

// CostLasts is for how long paths get unequal shares without queues.
const CostLasts = 30 * time.Second

// queues is what is known of queues on the paths in use.
type queues[P comparable] struct {
	base  map[P]uint8         // costs by the rates of the paths
	costs map[P]uint8         // of those that get less: each step of two halves their share
	asked time.Time           // when the paths were asked last
	every time.Duration       // until they are asked again
	seen  map[P]time.Duration // answers to that; nil: none are awaited
	slow  []P                 // before which more waited the last time,
	waits map[P]time.Duration // how long it did,
	at    time.Time           // and when that was asked
	less  []P                 // that got less the last time
	flips int                 // how often others did than before, of late
	last  time.Time           // when segments were last seen to wait
}

func (q *queues[P]) note(now time.Time, p P, sent time.Time) {
	if q.seen != nil && !sent.Before(q.asked) {
		q.seen[p] = now.Sub(sent)
	}
}

// HandleQueue takes that segments of TCP wait. It reports whether all paths in use are
// to be probed for that, unless that has just been done; busy says that other probes are
// under way. Once the probes have left, the owner calls Asked.
func (m *Machine[P]) HandleQueue(now time.Time, u Use[P], busy bool) (ask bool) {
	q := &m.queues
	if len(u.Paths)-len(u.Long) < 2 || u.PerFlow {
		return false
	}
	q.last = now
	if busy || now.Sub(q.asked) < q.every {
		return false
	}
	q.seen = nil // what is still to come answers an older question
	return true
}

// Asked notes that all paths in use were probed for queues at this time.
func (m *Machine[P]) Asked(now time.Time) {
	m.queues.asked, m.queues.seen = now, make(map[P]time.Duration)
}

// HandleSettled takes the end of a round of probes along all paths in use, lost being
// those that did not answer. It gives less to the paths before which more has waited
// twice, as one answer may be late for a host's other work, and to those where the
// probes themselves got stuck or lost. It reports whether Costs has changed, and
// whether the paths are to be probed for queues again at once. Without Asked it does nothing.
// carried is what paths deliver now, in bytes a second, as far as that is known: where shares go by rates, a queue
// before a path that delivers what it can is that of a connection which fills its paths.
func (m *Machine[P]) HandleSettled(now time.Time, u Use[P], lost []P, answered bool,
	carried map[P]float64) (changed, again bool) {
	q := &m.queues
	if q.seen == nil || !answered {
		q.seen = nil
		return false, false
	}
	for _, p := range lost {
		q.seen[p] = now.Sub(q.asked)
	}
	waits, least, most := m.waits(u)
	q.seen = nil
	var slow, less []P
	for _, p := range u.Paths {
		wait, rtt := waits[p], m.lengths.by[p].rtt()
		if wait <= 2*least+m.noise(u, rtt) || m.followsRates(u) && carried[p] >= queueOwn*m.rates[p].Bytes {
			continue
		}
		slow = append(slow, p)
		if slices.Contains(q.slow, p) || slices.Contains(lost, p) {
			less = append(less, p)
		}
	}
	growth, first := q.growth(waits, less), len(q.slow) == 0
	q.slow, q.waits, q.at = slow, waits, q.asked
	switch {
	case len(less) == 0 && len(slow) > 0 && first:
		q.every = queueEvery
		return false, true
	case len(less) == 0:
		if q.every == Regularly && len(slow) == 0 {
			q.relax()
			changed = true
		}
		q.every = min(2*max(q.every, queueEvery), Regularly)
		return changed, false
	}
	q.turn(u.Paths, less, growth, most)
	return true, false
}

// noise is what is no queue to act on. Where rates are known, shares are about right, and a
// connection that fills its paths makes queues of different lengths all the same: it takes
// more to distrust them, once.
func (m *Machine[P]) noise(u Use[P], rtt time.Duration) time.Duration {
	if m.followsRates(u) {
		return max(queueSure, 2*rtt)
	}
	return max(queueNoise, rtt/4)
}

// followsRates reports whether the rates of all paths that TCP takes are known for sure, and nothing but these gives
// the shares.
func (m *Machine[P]) followsRates(u Use[P]) bool {
	return m.areSure(u) && maps.Equal(m.queues.costs, m.queues.base)
}

// turn gives some paths less, and sets when to ask whether that was right.
func (q *queues[P]) turn(paths, less []P, growth float64, most time.Duration) {
	if q.less != nil && !slices.Equal(less, q.less) {
		q.flips = min(q.flips+1, queueFlips)
	} else {
		q.flips = max(q.flips-2, 0) // the rates have changed
	}
	q.less, q.slow = less, nil
	next, was := min((queueEvery+most)<<q.flips, Regularly), q.costs
	if q.shift(paths, less, growth); maps.Equal(q.costs, was) {
		next = min(2*max(q.every, queueEvery), Regularly)
	}
	q.every = next
}

// waits returns how much longer than their length those paths took that TCP takes,
// and the least and the most of that.
func (m *Machine[P]) waits(u Use[P]) (waits map[P]time.Duration, least, most time.Duration) {
	waits = make(map[P]time.Duration)
	for p, rtt := range m.queues.seen {
		if !u.taken(p) {
			continue
		}
		w := max(rtt-m.lengths.by[p].rtt(), 0)
		if len(waits) == 0 || w < least {
			least = w
		}
		waits[p], most = w, max(most, w)
	}
	return waits, least, most
}

// growth is by how much the wait before those paths has grown in a second: what comes
// in excess of what leaves.
func (q *queues[P]) growth(waits map[P]time.Duration, less []P) (most float64) {
	for _, p := range less {
		if before, ok := q.waits[p]; ok && q.asked.After(q.at) {
			most = max(most, (waits[p]-before).Seconds()/q.asked.Sub(q.at).Seconds())
		}
	}
	return most
}

// shift gives less of paths a smaller share, by as much as comes in excess, but at
// least by half as long as no other path has had to give way, then in smaller
// steps. The cheapest costs nothing.
func (q *queues[P]) shift(paths, less []P, growth float64) {
	step := uint8(2)
	switch {
	case q.flips > 1:
		step = 1
	case q.flips == 0:
		step = uint8(min(max(2, math.Round(2*math.Log2(1+growth))), 8))
	}
	costs, least := make(map[P]uint8), uint8(CostMost)
	for _, p := range paths {
		cost := q.costs[p]
		if slices.Contains(less, p) {
			cost = min(cost+step, CostMost)
		}
		costs[p], least = cost, min(least, cost)
	}
	for p, cost := range costs {
		if costs[p] = cost - least; cost == least {
			delete(costs, p)
		}
	}
	q.costs = costs
}

// relax has paths get a little more where nothing has waited longer than elsewhere for
// a while: one that has become faster would not show otherwise.
func (q *queues[P]) relax() {
	costs := maps.Clone(q.costs)
	for p, cost := range costs {
		if cost > q.base[p] {
			cost--
		}
		if costs[p] = cost; cost == 0 {
			delete(costs, p)
		}
	}
	q.costs = costs
}

// Expire has all paths get the same again when nothing has waited for long. It reports
// whether Costs may have changed.
func (m *Machine[P]) Expire(now time.Time) bool {
	if m.queues.last.IsZero() || now.Sub(m.queues.last) < CostLasts {
		return false
	}
	m.queues = queues[P]{base: m.queues.base, costs: maps.Clone(m.queues.base)}
	return true
}

// costsOf returns those of paths that get less than others.
func (q *queues[P]) costsOf(paths []P) map[P]uint8 { return only(q.costs, paths) }

func only[P comparable](costs map[P]uint8, paths []P) map[P]uint8 {
	costs = maps.Clone(costs)
	maps.DeleteFunc(costs, func(p P, _ uint8) bool { return !slices.Contains(paths, p) })
	return costs
}

func (q *queues[P]) forget(gone func(P) bool) {
	maps.DeleteFunc(q.costs, func(p P, _ uint8) bool { return gone(p) })
	maps.DeleteFunc(q.base, func(p P, _ uint8) bool { return gone(p) })
}

// Shares returns what part of all that is spread by packet each path gets at these
// costs.
func Shares[P comparable](paths []P, costs map[P]uint8) map[P]float64 {
	shares, sum := make(map[P]float64), 0.0
	for _, p := range paths {
		cost := costs[p]
		shares[p] = 2 / float64(uint(2+cost&1)<<(cost>>1))
		sum += shares[p]
	}
	for p := range shares {
		shares[p] /= sum
	}
	return shares
}
