package ilnp

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
	queueNoise = 10 * time.Millisecond // or a quarter of the round trip, if that is more: less is no queue
	queueEvery = 50 * time.Millisecond // between two questions where a queue was found, and once it has gone
	queueFlips = 6                     // doublings of that at most, as shares go to and fro
	costMost   = 15
	costLasts  = 30 * time.Second // without queues; then all paths get the same again
)

// load is what is known of queues on the paths of a session.
type pathQueues struct {
	costs map[Path]uint8         // of those that get less: each step of two halves their share
	asked time.Time              // when the paths were asked last
	every time.Duration          // until they are asked again
	seen  map[Path]time.Duration // answers to that; nil: none are awaited
	slow  []Path                 // before which more waited the last time,
	waits map[Path]time.Duration // how long it did,
	at    time.Time              // and when that was asked
	less  []Path                 // that got less the last time
	flips int                    // how often others did than before, of late
	last  time.Time              // when segments were last seen to wait
}

// note takes the answer to a probe.
func (l *pathQueues) note(now time.Time, pr probe) {
	if l.seen != nil && !pr.sent.Before(l.asked) {
		l.seen[pr.path] = now.Sub(pr.sent)
	}
}

// handleQueue asks all paths in use, unless that has just been done.
func (c *Core) handleQueue(now time.Time, s *session) {
	l := &s.queues
	if s.state != Established || s.dead || len(s.entry.Paths) < 2 || len(s.entry.Long) > 0 || s.tracked() {
		return
	}
	l.last = now
	if s.watch.state == settling || now.Sub(l.asked) < l.every {
		return
	}
	s.lastTx = later(s.lastTx, now)
	c.askLoad(now, s)
}

func (c *Core) askLoad(now time.Time, s *session) {
	was := s.queues.asked
	s.queues.asked, s.queues.seen = now, make(map[Path]time.Duration)
	s.monitored = time.Time{}
	if c.monitor(now, s); s.watch.state != settling {
		s.queues.asked, s.queues.seen = was, nil // it has other questions
	}
}

// judgeLoad gives less to the paths before which more has waited twice, as one answer
// may be late for a host's other work, and to those where the questions themselves
// got stuck or lost. It returns whether to ask again at once.
func (c *Core) judgeLoad(now time.Time, s *session) (again bool) {
	l := &s.queues
	if l.seen == nil || len(s.watch.answered) == 0 {
		l.seen = nil
		return false
	}
	lost := s.unansweredPaths()
	for _, p := range lost {
		l.seen[p] = now.Sub(l.asked)
	}
	waits, least, most := s.waits()
	l.seen = nil
	var slow, less []Path
	for _, p := range s.entry.Paths {
		wait, rtt := waits[p], s.lengths[p].rtt()
		if wait <= 2*least+max(queueNoise, rtt/4) {
			continue
		}
		slow = append(slow, p)
		if slices.Contains(l.slow, p) || slices.Contains(lost, p) {
			less = append(less, p)
		}
	}
	growth, first := l.growth(waits, less), len(l.slow) == 0
	l.slow, l.waits, l.at = slow, waits, l.asked
	switch {
	case len(less) == 0 && len(slow) > 0 && first:
		l.every = queueEvery
		return true
	case len(less) == 0:
		if l.every == monitorEvery && len(slow) == 0 {
			l.relax()
			c.upsert(now, s, s.entry.Paths)
		}
		l.every = min(2*max(l.every, queueEvery), monitorEvery)
	default:
		if l.less != nil && !slices.Equal(less, l.less) {
			l.flips = min(l.flips+1, queueFlips)
		} else {
			l.flips = max(l.flips-2, 0) // the rates have changed
		}
		l.less, l.slow = less, nil
		next, was := min((queueEvery+most)<<l.flips, monitorEvery), l.costs
		if l.shift(s.entry.Paths, less, growth); maps.Equal(l.costs, was) {
			next = min(2*max(l.every, queueEvery), monitorEvery)
		}
		l.every = next
		c.upsert(now, s, s.entry.Paths)
	}
	return false
}

// waits returns how much longer than their length those paths took that TCP takes,
// and the least and the most of that.
func (s *session) waits() (waits map[Path]time.Duration, least, most time.Duration) {
	waits = make(map[Path]time.Duration)
	for p, rtt := range s.queues.seen {
		if slices.Contains(s.entry.Long, p) || !slices.Contains(s.entry.Paths, p) {
			continue
		}
		w := max(rtt-s.lengths[p].rtt(), 0)
		if len(waits) == 0 || w < least {
			least = w
		}
		waits[p], most = w, max(most, w)
	}
	return waits, least, most
}

// growth is by how much the wait before those paths has grown in a second: what comes
// in excess of what leaves.
func (l *pathQueues) growth(waits map[Path]time.Duration, less []Path) (most float64) {
	for _, p := range less {
		if before, ok := l.waits[p]; ok && l.asked.After(l.at) {
			most = max(most, (waits[p]-before).Seconds()/l.asked.Sub(l.at).Seconds())
		}
	}
	return most
}

// shift gives less of paths a smaller share, by as much as comes in excess, but at
// least by half as long as no other path has had to give way, then in smaller
// steps. The cheapest costs nothing.
func (l *pathQueues) shift(paths, less []Path, growth float64) {
	step := uint8(2)
	switch {
	case l.flips > 1:
		step = 1
	case l.flips == 0:
		step = uint8(min(max(2, math.Round(2*math.Log2(1+growth))), 8))
	}
	costs, least := make(map[Path]uint8), uint8(costMost)
	for _, p := range paths {
		cost := l.costs[p]
		if slices.Contains(less, p) {
			cost = min(cost+step, costMost)
		}
		costs[p], least = cost, min(least, cost)
	}
	for p, cost := range costs {
		if costs[p] = cost - least; cost == least {
			delete(costs, p)
		}
	}
	l.costs = costs
}

// relax has paths get a little more where nothing has waited longer than elsewhere for
// a while: one that has become faster would not show otherwise.
func (l *pathQueues) relax() {
	costs := maps.Clone(l.costs)
	for p := range costs {
		if costs[p]--; costs[p] == 0 {
			delete(costs, p)
		}
	}
	l.costs = costs
}

// forgetLoad has all paths get the same again when nothing has waited for long.
func (c *Core) forgetLoad(now time.Time, s *session) {
	if !s.queues.last.IsZero() && now.Sub(s.queues.last) >= costLasts {
		s.queues = pathQueues{}
		c.upsert(now, s, s.entry.Paths)
	}
}

// costsOf returns those of paths that get less than others.
func (l *pathQueues) costsOf(paths []Path) map[Path]uint8 {
	costs := maps.Clone(l.costs)
	maps.DeleteFunc(costs, func(p Path, _ uint8) bool { return !slices.Contains(paths, p) })
	return costs
}

// shares returns what part of all that is spread by packet each path gets.
func (s *session) shares() map[Path]float64 {
	shares, sum := make(map[Path]float64), 0.0
	for _, p := range s.entry.Paths {
		cost := s.entry.Costs[p]
		shares[p] = 2 / float64(uint(2+cost&1)<<(cost>>1))
		sum += shares[p]
	}
	for p := range shares {
		shares[p] /= sum
	}
	return shares
}
