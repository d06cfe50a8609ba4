package metrics

import "time"

// bounds are the upper ends of the buckets, from a round trip inside a building to the time
// after which an exchange has practically failed.
var bounds = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// Histogram counts durations. The zero value is empty; it is not safe for
// concurrent use.
type Histogram struct {
	buckets [16]uint64 // the first len(bounds), and one for all longer durations
	count   uint64
	sum     time.Duration
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i]++
	h.count++
	h.sum += d
}

// histogram writes h; the buckets of the text format are cumulative.
func (p *page) histogram(name, help string, h *Histogram) {
	if h == nil {
		h = &Histogram{}
	}
	p.family(name, "histogram", help)
	sum := uint64(0)
	for i, b := range bounds {
		sum += h.buckets[i]
		p.sample(name+"_bucket", float64(sum), "le", number(b.Seconds()))
	}
	p.sample(name+"_bucket", float64(h.count), "le", "+Inf")
	p.sample(name+"_sum", h.sum.Seconds())
	p.sample(name+"_count", float64(h.count))
}
