package phoomikiattisak

import (
	"math"
	"slices"
	"strings"

	"roam/lab/result"
	"roam/lab/stats"
)

// perSegment is the payload that a window is counted in: the paper's (§6.1.3).
const perSegment = 1400

// plainMSS is the MSS that plain IPv6 offers on these links.
const plainMSS = 1440

// whyNoMIP6 is the note of the claims about the paper's comparator.
const whyNoMIP6 = "Mobile IPv6 is not run"

// figures are the result's; one without a value says that its cells were not run.
type figures struct{ *result.Result }

// Set is result.Result's but for the reason.
func (r figures) Set(name string, v float64) {
	if math.IsNaN(v) {
		r.Miss(name, whyNoCells)
		return
	}
	r.Result.Set(name, v)
}

// pick returns the outcomes that a condition holds for.
func (m *matrix) pick(ok func(outcome) bool) (out []outcome) {
	for _, o := range m.runs {
		if ok(o) {
			out = append(out, o)
		}
	}
	return out
}

// kind returns the outcomes of one kind.
func (m *matrix) kind(k string) []outcome {
	return m.pick(func(o outcome) bool { return o.Kind == k })
}

// worst returns the greatest figure, NaN of none. One that is not known is greater than any other.
func worst(list []outcome, f func(outcome) float64) float64 {
	most := math.NaN()
	for _, o := range list {
		v := f(o)
		if math.IsNaN(v) {
			return math.Inf(1)
		}
		if math.IsNaN(most) || v > most {
			most = v
		}
	}
	return most
}

// middle returns the median figure, NaN of none.
func middle(list []outcome, f func(outcome) float64) float64 {
	var v []float64
	for _, o := range list {
		if x := f(o); !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	return stats.Median(v)
}

// key makes the part of a metric's name out of a scenario.
func key(scenario string) string { return strings.ReplaceAll(scenario, "-", "_") }

// newRTT is the round-trip time of the network in which a scenario ends.
func (m *matrix) newRTT(o outcome) float64 { return rtt(m.env, paths[o.Scenario][1]) }

// control is the gap that the machine, the network and TCP make without any
// handoff: the greater one of the two networks' medians, over the windows of
// all flows with the same congestion control.
func (m *matrix) control(o outcome) float64 {
	var gaps [2][]float64
	put := func(far bool, v []float64) {
		i := 0
		if far {
			i = 1
		}
		gaps[i] = append(gaps[i], v...)
	}
	for _, r := range m.runs {
		if r.Variant == o.Variant {
			put(paths[r.Scenario][0], r.OldGaps)
			if r.Kind != cut { // which still recovers from its loss
				put(paths[r.Scenario][1], r.NewGaps)
			}
		}
	}
	most := math.NaN()
	for _, far := range paths[o.Scenario] {
		i := 0
		if far {
			i = 1
		}
		if v := stats.Median(gaps[i]); math.IsNaN(most) || v > most {
			most = v
		}
	}
	return most
}

// beyondControl is the gap of a handoff without the outage and the control.
func (m *matrix) beyondControl(o outcome) float64 {
	return max(0, o.AfterMs-m.control(o))
}

// whyNoCells is the note of claims about cells that a preset omits.
const whyNoCells = "the cells that it needs were not run"

// metrics sets every figure that claims judge.
func (m *matrix) metrics() {
	r := figures{m.env.Result}
	r.SetBool("flows_alive", len(m.pick(func(o outcome) bool { return !o.Alive })) == 0)
	r.Set("connections_worst", worst(m.runs, func(o outcome) float64 { return float64(o.SYNs) }))
	r.SetBool("right_congestion_control", len(m.pick(func(o outcome) bool { return !o.RightControl })) == 0)
	r.Set("capture_drops", worst(m.runs, func(o outcome) float64 { return float64(o.Dropped) }))
	r.Set("queue_drops", worst(m.runs, func(o outcome) float64 { return float64(o.QueueDrops) }))
	r.Set("mss_below_plain", worst(m.runs, func(o outcome) float64 { return float64(plainMSS - o.OfferedMSS) }))
	r.Set("window_kbytes", worst(m.runs, func(o outcome) float64 { return o.WindowKB }))
	r.Set("lan_mbps", middle(m.pick(func(o outcome) bool { return !paths[o.Scenario][0] }), func(o outcome) float64 {
		return o.OldMbps
	}))
	r.Set("wan_mbps", worst(m.pick(func(o outcome) bool { return paths[o.Scenario][0] }), func(o outcome) float64 {
		return o.OldMbps
	}))
	for _, name := range []string{"mip6_gap_s", "mip6_delay_ms", "mip6_data_ratio", "mip6_optimised_ratio"} {
		r.Miss(name, whyNoMIP6)
	}
	m.softMetrics(r)
	m.hardMetrics(r)
	m.signalMetrics(r)
	m.retransmitMetrics(r)
	m.dataMetrics(r)
	m.udpMetrics(r)
	m.beyondMetrics(r)
}

// softMetrics judges the soft handoffs.
func (m *matrix) softMetrics(r figures) {
	list := m.kind(soft)
	r.Set("soft_lost", worst(list, func(o outcome) float64 { return float64(o.Lost) }))
	r.Set("soft_empty_seconds", worst(list, func(o outcome) float64 { return float64(o.EmptySeconds) }))
	for s := range paths {
		some := m.pick(func(o outcome) bool { return o.Kind == soft && o.Scenario == s })
		r.Set("soft_gap_"+key(s)+"_ms", worst(some, func(o outcome) float64 { return o.GapMs }))
		r.Set("soft_gap_rest_"+key(s)+"_ms", worst(some, func(o outcome) float64 {
			return m.beyondControl(o) - 1.2*m.newRTT(o)
		}))
	}
}

// hardMetrics judges the hard handoffs, with both links up (the paper's) and with the old
// one cut.
func (m *matrix) hardMetrics(r figures) {
	r.Set("hard_lost", worst(m.kind(hard), func(o outcome) float64 { return float64(o.Lost) }))
	r.Set("hard_stale", middle(m.kind(hard), func(o outcome) float64 { return float64(o.Stale) }))
	// For the cut, count only packets sent before it: later losses are the outage's.
	windows := m.env.Params.Float("window_kbytes") * 1000 / perSegment
	r.Set("cut_lost_windows", middle(m.kind(cut), func(o outcome) float64 { return float64(o.Lost) / windows }))
	for _, k := range []string{hard, cut} {
		list := m.kind(k)
		r.Set(k+"_gap_less_rtt_ms", worst(list, func(o outcome) float64 { return m.beyondControl(o) - 1.5*m.newRTT(o) }))
		r.Set(k+"_gap_less_rto_ms", worst(list, func(o outcome) float64 {
			if o.RTOMs == 0 {
				return math.Inf(1) // not known, and so not judged
			}
			return m.beyondControl(o) - o.RTOMs
		}))
		r.Set(k+"_gap_ms", worst(list, m.beyondControl))
	}
	r.Set("outage_ms", middle(m.kind(cut), func(o outcome) float64 { return o.OutageMs }))
	r.Set("daemon_outage_ms", middle(m.kind(cut), func(o outcome) float64 { return o.DaemonOutageMs }))
}

// signalMetrics judges the exchanges of Locator Updates.
func (m *matrix) signalMetrics(r figures) {
	for s := range paths {
		some := m.pick(func(o outcome) bool { return o.Scenario == s })
		r.Set("delay_rtts_"+key(s), middle(some, func(o outcome) float64 {
			if len(o.DelayMs) == 0 {
				return never
			}
			return o.DelayMs[0] / m.newRTT(o)
		}))
	}
	// A soft handoff has two changes of the set, a hard one a single one.
	r.Set("updates_extra", worst(m.runs, func(o outcome) float64 {
		if o.Kind == soft {
			return math.Abs(float64(o.Updates - 2))
		}
		return math.Abs(float64(o.Updates - 1))
	}))
}

// share returns a/b in sum over outcomes, NaN if b is not above a floor in any.
func share(list []outcome, floor int, a, b func(outcome) int) float64 {
	sumA, sumB := 0, 0
	for _, o := range list {
		if b(o) > floor {
			sumA, sumB = sumA+a(o), sumB+b(o)
		}
	}
	if sumB == 0 {
		return math.NaN()
	}
	return float64(sumA) / float64(sumB)
}

// retransmitMetrics judges the retransmissions and their causes.
func (m *matrix) retransmitMetrics(r figures) {
	lost := func(o outcome) int { return o.Lost }
	again := func(o outcome) int { return o.Retransmits }
	const few = "no flow of this kind sent more than ten segments again"
	set := func(name string, v float64) {
		if math.IsNaN(v) {
			r.Miss(name, few)
			return
		}
		r.Set(name, v)
	}
	set("soft_lost_share", share(m.kind(soft), 10, lost, again))
	set("cut_lost_share", share(m.kind(cut), 10, lost, again))
	crossing := m.pick(func(o outcome) bool { return o.Kind == soft && !paths[o.Scenario][1] })
	set("soft_duplicates_share", share(crossing, 10, func(o outcome) int { return o.Duplicates }, again))
	least := -worst(crossing, func(o outcome) float64 { return -float64(o.Late) })
	r.Set("soft_late_least", least)
	for s := range paths {
		some := m.pick(func(o outcome) bool { return o.Kind == soft && o.Scenario == s })
		r.Set("soft_retransmits_"+key(s), middle(some, func(o outcome) float64 { return float64(o.Retransmits) }))
	}
	more := 0.0
	for _, s := range m.scenarios {
		for _, v := range m.variants {
			of := func(k string) float64 {
				return middle(m.pick(func(o outcome) bool { return o.Scenario == s && o.Variant == v && o.Kind == k }),
					func(o outcome) float64 { return float64(o.Retransmits) })
			}
			if of(soft) > of(cut) {
				more++
			}
		}
	}
	if len(m.kind(soft)) > 0 && len(m.kind(cut)) > 0 {
		r.Set("soft_above_cut_cells", more)
	}
}

// megabytes returns the data of the flows of a scenario, kind and variant; "" matches all.
func (m *matrix) megabytes(scenario, kind, variant string) float64 {
	list := m.pick(func(o outcome) bool {
		return (scenario == "" || o.Scenario == scenario) && (kind == "" || o.Kind == kind) && o.Variant == variant
	})
	sum := 0.0
	for _, o := range list {
		sum += o.MB
	}
	if len(list) == 0 {
		return math.NaN()
	}
	return sum / float64(len(list))
}

// dataMetrics compares how much got through.
func (m *matrix) dataMetrics(r figures) {
	for _, s := range []string{"wan-lan", "wan-wan"} {
		r.Set("hybla_to_cubic_"+key(s), m.megabytes(s, "", "hybla")/m.megabytes(s, "", "cubic"))
	}
	var less, fewer, cells, least, greatest float64
	lanlan := 0.0
	for _, k := range m.kinds {
		for _, s := range m.scenarios {
			veno, cubic := m.megabytes(s, k, "veno"), m.megabytes(s, k, "cubic")
			if !math.IsNaN(veno) && !math.IsNaN(cubic) {
				cells++
				if veno < cubic {
					less++
				}
				if m.again(s, k, "veno") <= m.again(s, k, "cubic") {
					fewer++
				}
			}
			for _, v := range m.variants {
				if s != "lan-lan" && m.megabytes(s, k, v) > m.megabytes("lan-lan", k, v) {
					lanlan++
				}
			}
		}
	}
	r.Set("veno_less_data_pct", 100*less/cells)
	r.Set("veno_no_more_retransmits_pct", 100*fewer/cells)
	if slices.Contains(m.scenarios, "lan-lan") && len(m.scenarios) > 1 {
		r.Set("more_than_lan_lan_cells", lanlan)
	}
	for i, v := range m.variants {
		mb := m.megabytes("lan-lan", soft, v)
		if i == 0 {
			least, greatest = mb, mb
		}
		least, greatest = min(least, mb), max(greatest, mb)
	}
	if len(m.variants) > 1 {
		r.Set("soft_lan_lan_spread_pct", 100*(greatest-least)/greatest)
	}
}

// again is the median of the retransmissions in a cell.
func (m *matrix) again(scenario, kind, variant string) float64 {
	return middle(m.pick(func(o outcome) bool { return o.Scenario == scenario && o.Kind == kind && o.Variant == variant }),
		func(o outcome) float64 { return float64(o.Retransmits) })
}

// udpMetrics judges the UDP flows.
func (m *matrix) udpMetrics(r figures) {
	var lost, written, refused, queue, drop float64
	for _, o := range m.udps {
		r.AddLoss(o.Owned)
		lost, written, refused, queue = lost+float64(o.Owned.Roam()), written+float64(o.Written), refused+float64(o.Refused),
			queue+float64(o.QueueDrop)
		drop = max(drop, o.DropPct)
	}
	r.Set("udp_written", written)
	r.Set("udp_lost", lost)
	r.Set("udp_refused", refused)
	r.Set("udp_queue_drops", queue)
	r.Set("udp_rate_drop_pct", drop)
}
