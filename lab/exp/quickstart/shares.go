package quickstart

import (
	"fmt"
	"math"
	"slices"
	"time"

	"roam/lab/linkem"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/stats"
)

// sharesBy returns when shares of a phase begin to count at the latest: on a busy machine TCP joins a path up to 2.1 s
// late, which is a time, and has a claim of its own.
func sharesBy(begun, to time.Time) time.Time { return begun.Add(min(4*time.Second, to.Sub(begun)*5/6)) }

// grossPoints is how far datagrams, which wait for no rate of a path, may be off their shares where a late daemon
// excuses those of TCP.
const grossPoints = 10

// shareMetrics judges the shares of the links in each phase of duality, from when its links are
// in use until the next step; in all of it, if they are not in time.
func (t *trace) shareMetrics(r *result.Result) {
	worst, took, least, other, udpError := 0.0, 0.0, math.Inf(1), 0.0, 0.0
	all, datagrams := true, true
	udp := t.udp()
	for _, p := range t.plan.shares {
		begun, to := t.phase(p)
		from, ok := t.inEffect(p, begun, to)
		if !ok {
			from = to
		}
		took = max(took, stats.Millis(from.Sub(begun)))
		a, b := t.Within(begun, to)
		least = min(least, stats.Millis(b.At.Sub(a.At)))
		if !ok || from.After(sharesBy(begun, to)) {
			all, from = false, begun
			at, ok := udp.inEffect(p, begun, to)
			datagrams, udpError = datagrams && ok, max(udpError, udp.shareError(p, at, to))
		} else {
			udpError = max(udpError, udp.shareError(p, from, to))
		}
		a, b = t.Within(from, to)
		other = max(other, 100-pct(a.Data.Of(linkem.AB), b.Data.Of(linkem.AB), a.Out, b.Out),
			100-pct(a.Data.Of(linkem.BA), b.Data.Of(linkem.BA), a.In, b.In))
		worst = max(worst, t.shareError(p, from, to))
		out, in := t.DataShares(p.links, from, to)
		for _, l := range access {
			r.Set(fmt.Sprintf("share_%s_out_%s_pct", metricName(p.name), l), out[l])
			r.Set(fmt.Sprintf("share_%s_in_%s_pct", metricName(p.name), l), in[l])
		}
	}
	r.Set("duality_share_error_points", worst)
	r.Set("duality_change_ms", took)
	r.Set("duality_phase_ms", least)
	r.Set("duality_no_data_pct", other)
	r.SetBool("duality_in_effect", all)
	r.Set("duality_udp_error_points", udpError)
	r.SetBool("duality_tcp_alone_late", !all && datagrams && udpError <= grossPoints)
}

// shareError is how far a link is off its share of a phase, in points, in the worse direction.
func (t *trace) shareError(p sharePhase, from, to time.Time) (worst float64) {
	out, in := t.DataShares(p.links, from, to)
	for _, shares := range []map[string]float64{out, in} {
		for _, l := range access {
			want := 0.0
			if slices.Contains(p.links, l) {
				want = 100 / float64(len(p.links))
			}
			worst = max(worst, math.Abs(shares[l]-want))
		}
	}
	return worst
}

// udp is the trace without all that is no data of UDP.
func (t *trace) udp() *trace {
	seen := *t.Trace
	seen.Samples = slices.Clone(seen.Samples)
	for i, s := range seen.Samples {
		s.Data = s.Data.Only(packets.UDP)
		s.Out, s.In = s.Data.Of(linkem.AB), s.Data.Of(linkem.BA)
		seen.Samples[i] = s
	}
	return &trace{Trace: &seen}
}

// pct is what one set of counters has grown by between two readings, in per cent of another.
func pct(partA, partB, a, b map[string]uint64) float64 {
	var part, whole uint64
	for _, l := range access {
		part, whole = part+partB[l]-partA[l], whole+b[l]-a[l]
	}
	return 100 * float64(part) / float64(max(whole, 1))
}

// phase returns when the first step of a phase was begun, and the first one of the next phase:
// a busy lab is late.
func (t *trace) phase(p sharePhase) (from, to time.Time) {
	from, to = t.At(p.span.from), t.End
	for i := len(t.Steps) - 1; i >= 0; i-- {
		switch s := t.Steps[i]; s.Step.At {
		case p.span.from:
			from = s.At
		case p.span.to:
			to = s.At
		}
	}
	return from, to
}

// inEffect returns when the sessions had come to use the links of a phase, and no others, both ways: the
// end of the first interval between two samples in which each link carried at least half of its
// share of all data, and of those of each transport protocol with each correspondent. Before that the links get
// addresses, the ends agree, each correspondent for itself, and TCP waits until the rates of new paths are known.
func (t *trace) inEffect(p sharePhase, from, to time.Time) (at time.Time, ok bool) {
	for i := 1; i < len(t.Samples); i++ {
		a, b := t.Samples[i-1], t.Samples[i]
		if !a.At.Before(from) && !b.At.After(to) && used(a, b, linkem.AB, p.links) &&
			used(a, b, linkem.BA, p.links) {
			return b.At, true
		}
	}
	return from, false
}

// used reports whether the links carried data one way between two samples, and the others nothing. A flow that is
// next to idle need not use each of them.
func used(a, b scene.Sample, way linkem.Direction, links []string) bool {
	for _, flow := range b.Data.ByFlow(a.Data, way) {
		if sum(flow) > aFew && !divided(flow, links) {
			return false
		}
	}
	all, before := b.Used(way, links), a.Used(way, links)
	for l := range all {
		all[l] -= before[l]
	}
	return sum(all) > aFew && divided(all, links)
}

// sum is what all links carried.
func sum(bytes map[string]uint64) (total uint64) {
	for _, n := range bytes {
		total += n
	}
	return total
}

// divided reports whether each of the links has at least half of its share, and no other one more than a few bytes.
func divided(bytes map[string]uint64, links []string) bool {
	total := sum(bytes)
	for _, l := range access {
		n := bytes[l]
		if in := slices.Contains(links, l); in && 2*n*uint64(len(links)) < total || !in && n > aFew {
			return false
		}
	}
	return true
}

// aFew are the bytes that a flow, or a link without data, may carry between two samples.
const aFew = 2000
