package multipath

import (
	"maps"
	"slices"
	"time"
)

// Paths of different rates get different shares from the first packet on, if the rates are
// known by then. A train measures one: packets sent at once wait before the narrowest
// link of the path, and leave it one after the other. Two small probes, one before them and
// one behind, arrive as far apart as the packets took to leave.
const (
	RateLasts     = 10 * time.Minute       // after which a rate is measured anew
	rateTrains    = 8                      // trains that measure a rate, at most,
	rateMissed    = 3                      // and those of them that may stay without an answer
	rateEnough    = 3                      // trains that suffice
	rateAgree     = 1.2                    // if their rates differ by less,
	rateConfirmed = 5                      // or so many if others were faster
	rateAlike     = 1.6                    // rates that differ by less are treated as equal,
	checkEvery    = 2 * time.Second        // between two times that a known rate is measured, at least,
	checkPart     = 0.002                  // and the part of its rate that trains may take then
	doubtsInRow   = 3                      // that may follow each other sooner
	alarmLasts    = time.Second            // after data were lost at once a single slow train counts for so long
	vainMost      = 8                      // doubts in vain in a row, each of which doubles the time to the next
	trainLeast    = 500 * time.Microsecond // and so are those of paths that take less: hosts are not that exact
)

// Train is the measurement of one path's rate.
type Train struct{ first, last Arrival }

// Arrival is when one of the two probes arrived. By the clock of the other end it is free of what
// the answer meets on its way back, as that may wait behind a train of the other end's own.
type Arrival struct {
	Came  time.Time // when the answer came
	Timed bool      // the other end says when the probe came:
	Clock uint32    // on its clock, in microseconds, which wraps
	Epoch uint32    // of its counts; 0: it has given none
	Data  Traffic   // that had come on this path by then, by these counts
}

// since returns how much later a probe arrived than an earlier one; false: in another order.
func (a Arrival) since(b Arrival) (time.Duration, bool) {
	d := a.Came.Sub(b.Came)
	if a.Timed && b.Timed {
		d = time.Duration(int32(a.Clock-b.Clock)) * time.Microsecond
	}
	return d, d >= 0
}

// dataHeaders is what each packet of data has on a link beside what is counted: headers of Ethernet, IPv6 and TCP.
const dataHeaders = 14 + 40 + 32

// dataSince returns how many bytes of data took up the link between an earlier probe and this one, as far as that is
// known.
func (a Arrival) dataSince(b Arrival) float64 {
	if a.Epoch == 0 || a.Epoch != b.Epoch || a.Data.runsBack(b.Data) {
		return 0
	}
	d := a.Data.since(b.Data)
	return float64(d.Bytes) + dataHeaders*float64(d.Packets)
}

// Took returns how long the first probe of a train, which was sent at that time, had no answer.
func (t *Train) Took(sent time.Time) time.Duration { return t.first.Came.Sub(sent) }

// HandleAnswer takes the answer to one of the two probes. It returns the rate of the
// bytes between them, once both are answered; false: not yet, or they arrived in another
// order. Data that came between them are a part of these bytes: a train on a path that a connection fills
// seems slow else.
func (t *Train) HandleAnswer(a Arrival, last bool, bytes int) (rate float64, ok bool) {
	if last {
		t.last = a
	} else {
		t.first = a
	}
	if t.first.Came.IsZero() || t.last.Came.IsZero() {
		return 0, false
	}
	took, ok := t.last.since(t.first)
	if !ok {
		return 0, false
	}
	return (float64(bytes) + t.last.dataSince(t.first)) / max(took, trainLeast).Seconds(), true
}

// Rate is what is known of the rate of a path. Other packets and a busy host slow a train down,
// and a late answer to its first probe makes it look fast. So the fastest train counts that
// others confirm, if there are more of these than of faster ones: among much data several may be slow
// by chance in the same way. Where all differ, the second fastest counts in the end if the third is like it.
type Rate struct {
	trains []float64 // bytes a second, the fastest first
	missed int       // trains that were not answered
	at     time.Time // of the last one

	held    float64   // counts until enough trains agree, as the path had this rate before; 0: it is not known
	spent   time.Time // by when the trains of all doubts are a small part of what the path carries
	checked time.Time // when a train last showed that the path has become no faster
	alarmed time.Time // when data were lost at once,
	vain    int       // doubts in a row after which the rate was what it had been
}

// Held returns a rate that was measured before this host began to measure. It counts until enough trains agree.
func Held(bytes float64) Rate { return Rate{held: bytes} }

// Last returns the rate that was last known for sure, whatever its age, in bytes a second; 0: none was.
func (r Rate) Last() float64 {
	if m := r.measured(); m.Sure {
		return m.Bytes
	}
	return 0
}

// With returns the rate after one more train.
func (r Rate) With(now time.Time, bytes float64) Rate {
	r = r.lasting(now)
	wanted := r.measured().Wants
	r.trains = append(slices.Clone(r.trains), bytes)
	slices.Sort(r.trains)
	slices.Reverse(r.trains)
	r.at = now
	return r.decided(wanted)
}

// Without returns the rate after a train without an answer.
func (r Rate) Without(now time.Time) Rate {
	r = r.lasting(now)
	wanted := r.measured().Wants
	r.missed, r.at = r.missed+1, now
	return r.decided(wanted)
}

// decided counts whether there was a reason to measure it anew, once that is known.
func (r Rate) decided(wanted bool) Rate {
	m := r.measured()
	if r.held == 0 || !wanted || m.Wants {
		return r
	}
	if r.vain = min(r.vain+1, vainMost); !isAlike(m.Bytes, r.held) {
		r.vain = 0
	}
	return r
}

func isAlike(a, b float64) bool { return max(a, b) < rateAlike*min(a, b) }

// Doubted returns a rate that is to be measured anew, as it may have changed; false: it is not known for sure, or that
// was done too often of late. Until enough trains agree, the one before counts. bytes is what a train has.
func (r Rate) Doubted(now time.Time, bytes int) (Rate, bool) {
	m := r.Measured(now)
	pause := m.pause(rateEnough * bytes)
	if !m.Sure || r.spent.Sub(now) > (doubtsInRow-1)*pause {
		return r, false
	}
	if r.spent.Before(now) {
		r.spent = now
	}
	return Rate{at: now, held: m.Bytes, spent: r.spent.Add(pause), vain: r.vain}, true
}

// IsRise reports whether a train shows that a path has become faster, or is faster than it was measured: then slower
// ones have too large a share, and hold it back.
func (r Rate) IsRise(now time.Time, bytes float64) bool {
	m := r.Measured(now)
	return m.Sure && !m.Wants && bytes >= rateAgree*m.Bytes
}

// IsFilled reports whether data that have this rate take a third of what the path has, or more: half may be all that it
// gets where shares are equal.
func (r Rate) IsFilled(now time.Time, rate float64) bool {
	m := r.Measured(now)
	return m.Sure && !m.Wants && 3*rate >= m.Bytes
}

// IsSlower reports whether a path that carries so much has become slower. Behind what passes a train faster than data
// it seems so for ever: the more often trains have shown otherwise, the more seldom it counts.
func (r Rate) IsSlower(now time.Time, carries float64) bool {
	m := r.Measured(now)
	rests := r.vain > 0 && now.Sub(r.at) < checkEvery<<r.vain
	return m.Sure && !m.Wants && carries > 0 && rateAlike*carries <= m.Bytes && !rests
}

// Checks reports whether a train is to look whether the path has become faster: data that have this rate fill it, and
// cannot show more. bytes is what a train has.
func (r Rate) Checks(now time.Time, rate float64, bytes int) bool {
	if !r.IsFilled(now, rate) {
		return false
	}
	m := r.Measured(now)
	return min(now.Sub(r.at), now.Sub(r.checked)) >= m.pause(bytes)
}

// Alarmed returns the rate after data were lost at once; false: they were just before. A train is to show what the path
// carries.
func (r Rate) Alarmed(now time.Time) (Rate, bool) {
	if now.Sub(r.alarmed) < checkEvery {
		return r, false
	}
	r.alarmed = now
	return r, true
}

// IsFall reports whether a train shows that a path has become slower which has just lost data: trains alone may be slow
// by chance.
func (r Rate) IsFall(now time.Time, bytes float64) bool {
	return now.Sub(r.alarmed) < alarmLasts && r.IsSlower(now, bytes)
}

// pause returns how long it takes until so many bytes of trains are a small part of what the path carries.
func (m Measured) pause(bytes int) time.Duration {
	return max(checkEvery, time.Duration(float64(bytes)/(checkPart*m.Bytes)*float64(time.Second)))
}

// Checked returns the rate after a train that was to look whether it has risen.
func (r Rate) Checked(now time.Time) Rate {
	r.checked = now
	return r
}

// IsOld reports whether a rate is to be measured anew.
func (r Rate) IsOld(now time.Time) bool {
	age := now.Sub(r.at)
	return age < 0 || age >= RateLasts
}

// lasting returns the rate. One that is old is measured anew, and counts until then: age alone must not give a slow
// path an equal share, in the midst of a transfer or where one begins after a pause.
func (r Rate) lasting(now time.Time) Rate {
	if !r.IsOld(now) {
		return r
	}
	return Rate{at: r.at, held: r.Last()}
}

// Measured is the rate of a path at present.
type Measured struct {
	Bytes float64 // a second; 0: unknown
	Most  float64 // of the fastest train
	Sure  bool    // enough trains agree
	Wants bool    // it needs another train
}

// Measured returns the rate. As long as trains do not agree, it is that of the second fastest, and
// no share goes by it.
func (r Rate) Measured(now time.Time) Measured { return r.lasting(now).measured() }

func (r Rate) measured() Measured {
	n := len(r.trains)
	m := Measured{Wants: n < rateTrains && r.missed < rateMissed}
	if n > 0 {
		m.Bytes, m.Most = r.trains[min(1, n-1)], r.trains[0]
	}
	for i := range n {
		agree := 0 // with this one, of those that are no faster
		for _, t := range r.trains[i:] {
			if r.trains[i] <= rateAgree*t {
				agree++
			}
		}
		if agree >= rateEnough && i <= agree-2 {
			return r.agreed(i, agree, m.Wants)
		}
	}
	m.Sure = n == rateTrains && r.trains[1] <= rateAlike*r.trains[2]
	if r.held > 0 && !m.Sure {
		m.Bytes, m.Sure = r.held, true
	}
	return m
}

// agreed returns the rate that so many trains agree about, given how many were faster. These may be right, as a busy
// host slows trains down. So more of the others are to follow: then these were but seemingly faster.
func (r Rate) agreed(faster, agree int, mayFollow bool) Measured {
	m := Measured{Bytes: r.trains[faster], Most: r.trains[0], Sure: true}
	switch {
	case faster == 0:
	case agree >= rateConfirmed:
		m.Most = m.Bytes
	default:
		m.Wants = mayFollow
	}
	return m
}

// rateCosts returns the costs of paths by their rates, as far as these are sure. A path of which
// a single train was about as fast as the fastest path may be as fast.
func rateCosts[P comparable](rates map[P]Measured) map[P]uint8 {
	costs, most := make(map[P]uint8), 0.0
	for _, r := range rates {
		if r.Sure {
			most = max(most, r.Bytes)
		}
	}
	for p, r := range rates {
		if r.Sure && most >= rateAlike*max(r.Bytes, r.Most) {
			costs[p] = stepFor(most / r.Bytes)
		}
	}
	return costs
}

// stepFor returns what a path costs beside one that is so many times as fast: the step at which both together carry
// most. A step too high leaves a part of the slow path empty. One too low has the slow path hold back the other one as
// well, which costs more: over 100 and 20 Mb/s a step of a fourth gives 100 Mb/s together, one of a sixth gives 117.
func stepFor(ratio float64) (step uint8) {
	for step < CostMost && together(step+1, ratio) > together(step, ratio) {
		step++
	}
	return step
}

// together returns what two paths carry of which one is so many times as fast as the other, which costs a step more:
// in the rate of the fast one.
func together(step uint8, ratio float64) float64 {
	cost := float64(byteCost(step)) / 2
	return min(1+1/cost, (1+cost)/ratio)
}

// handleRates takes the rates of paths, of none if they are not measured. Costs go by them until
// queues show otherwise, and TCP waits for those that are wanted.
func (m *Machine[P]) handleRates(rates map[P]Measured) {
	m.rates = rates
	maps.DeleteFunc(m.late, func(p P, _ late) bool { return !rates[p].Wants })
	if costs := rateCosts(rates); !maps.Equal(costs, m.queues.base) {
		m.queues.base, m.queues.costs = costs, maps.Clone(costs)
	}
}

// RateCost returns what a path costs by its measured rate; 0 if that is not known.
func (m *Machine[P]) RateCost(p P) uint8 { return m.queues.base[p] }

// mayBeSlow reports whether a path is still measured, and no train was about as fast as those of
// the fastest path; or whether it is known to be slower than a train of one that is still measured: by an equal share
// both would be as fast as this one until then.
func (m *Machine[P]) mayBeSlow(p P) bool {
	most, unsure := 0.0, 0.0
	for _, r := range m.rates {
		if most = max(most, r.Most, r.Bytes); r.Wants && !r.Sure {
			unsure = max(unsure, r.Most)
		}
	}
	r := m.rates[p]
	if r.Sure && !r.Wants {
		return unsure >= rateAlike*r.Bytes
	}
	return r.Wants && (r.Most == 0 || most >= rateAlike*r.Most)
}

// isOutpaced reports whether trains have shown a path as much slower than the fastest one, before its rate is known.
func (m *Machine[P]) isOutpaced(p P) bool {
	r := m.rates[p]
	return !r.Sure && r.Most > 0 && m.mayBeSlow(p)
}

// areSure reports whether the rates of all paths that TCP takes are known for sure.
func (m *Machine[P]) areSure(u Use[P]) bool {
	return len(m.rates) > 0 && !slices.ContainsFunc(u.Paths, func(p P) bool { return u.taken(p) && !m.rates[p].Sure })
}

// allButFastest returns all of paths but the one that seems to be the fastest.
func (m *Machine[P]) allButFastest(paths []P) []P {
	best := 0
	for i, p := range paths {
		if m.rates[p].Bytes > m.rates[paths[best]].Bytes {
			best = i
		}
	}
	return slices.Delete(slices.Clone(paths), best, best+1)
}
