package quickstart

import (
	"math"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/stats"
	"roam/lab/workload/tcpflow"
	"roam/lab/workload/udpflow"
)

// metrics sets the metrics of the claims about the pass with Roam.
func (t *trace) metrics(env *exp.Env) {
	r := env.Result
	t.sessionMetrics(r)
	t.softMetrics(r)
	t.hardMetrics(r, map[string]int{"out": env.Params.Int("udp_rate"), "in": env.Params.Int("udp_rate_in")})
	r.Set("rtt_ms", 2*env.Params.Float("delay_ms"))
	r.Set("udp_rcvbuf_errors", float64(t.traffic.bufferErrors))
	drops := 0.0
	for why, n := range t.Drops {
		r.Set("emulator_drops_"+why, float64(n))
		if why != "cut" {
			drops += float64(n)
		}
	}
	r.Set("emulator_drops", drops)
	t.levelMetrics(r, env.Params.Bool("keys"))
	r.SetBool("routes_unchanged", len(t.routeDiff) == 0)
	for _, d := range t.routeDiff {
		r.Mark(result.Event{T: t.Rel(t.End), Arm: "routes", Kind: "route", Label: d})
	}
	r.Set("cut_late_ms", stats.Millis(t.Late()))
	r.Set("schedule_late_ms", stats.Millis(t.Behind()))
	r.Set("step_begun_late_ms", stats.Millis(t.BegunLate()))
	r.Set("cut_still_came_ms", stats.Millis(t.StillCame()))
	t.shareMetrics(r)
}

// levelMetrics says what the sessions are. With correspondents that acknowledged a Locator Update they are ILNP's, and
// keyed if every message of theirs has a MAC.
func (t *trace) levelMetrics(r *result.Result, keys bool) {
	var sum scene.Updates
	ilnp := 0
	for _, u := range t.updates {
		if u.Acks > 0 {
			ilnp++
		}
		sum.MACs, sum.Plain, sum.Uncaptured = sum.MACs+u.MACs, sum.Plain+u.Plain, sum.Uncaptured+u.Uncaptured
	}
	other := sum.MACs
	if keys {
		other = sum.Plain
	}
	r.Set("ilnp_correspondents", float64(ilnp))
	r.Set("updates_with_mac", float64(sum.MACs))
	r.Set("updates_without_mac", float64(sum.Plain))
	r.Set("updates_of_another_level", float64(other))
	r.Set("updates_uncaptured", float64(sum.Uncaptured))
	r.Set("daemon_sessions_established", float64(t.established))
	r.Set("daemon_sessions_keyed", float64(t.keyed))
}

// metricName makes part of a metric's name out of words.
func metricName(words string) string {
	b := []byte(words)
	for i, c := range b {
		if c == ' ' || c == '-' {
			b[i] = '_'
		}
	}
	return string(b)
}

func (t *trace) sessionMetrics(r *result.Result) {
	all := true
	for _, s := range t.traffic.sessions {
		if err := t.traffic.outcome[s.Name()]; err != nil {
			all = false
			r.Mark(result.Event{T: t.Rel(t.End), Kind: "session-died", Label: s.Name() + ": " + err.Error()})
		}
	}
	r.SetBool("sessions_alive", all)
	r.SetBool("ssh_same_connection", t.traffic.outcome["ssh"] == nil)
	r.SetBool("curl_checksum_right", t.traffic.outcome["curl"] == nil)
	for name, rep := range t.traffic.iperf {
		kind := map[string]string{"iperf3 TCP": "tcp", "iperf3 UDP": "udp"}[name]
		r.Set("iperf_"+kind+"_mbps", rep.Mbps)
		if kind == "udp" {
			r.Set("iperf_udp_lost", float64(rep.LostPackets))
			r.Set("iperf_udp_sent", float64(rep.Packets))
		} else {
			r.Set("iperf_tcp_retransmits", float64(rep.Retransmits))
		}
	}
	worst := 0.0
	for _, e := range t.traffic.echoes {
		if e.Sent.Before(t.Start) {
			continue // the session was still being set up
		}
		worst = max(worst, stats.Millis(e.RTT))
	}
	r.Set("ssh_echo_worst_ms", worst)
}

// softMetrics judges everything but the hard handoff.
func (t *trace) softMetrics(r *result.Result) {
	var doubled, misorders int
	for _, s := range t.softSpans() {
		for _, f := range []*udpflow.Flow{t.traffic.flowUp, t.traffic.flowDown} {
			c := f.Count(t.At(s.from), t.At(s.to))
			doubled, misorders = doubled+c.Doubled, misorders+c.Misorders
		}
	}
	lost := t.softLoss()
	r.AddLoss(lost)
	r.Set("udp_soft_sent", float64(lost.Sent-lost.Refused))
	r.Set("udp_soft_lost", float64(lost.Roam()))
	r.Set("udp_soft_lost_emulator", float64(lost.Emulator))
	r.Set("udp_soft_lost_sockets", float64(lost.Sockets))
	r.Set("udp_soft_refused", float64(lost.Refused))
	r.Set("udp_soft_doubled", float64(doubled))
	r.Set("udp_soft_misordered", float64(misorders))
	udp, tcp := t.staticGaps()
	r.Set("udp_static_gap_ms", udp)
	r.Set("tcp_static_gap_ms", tcp)
	var tcpGap, udpGap, ra, data float64
	lead := math.Inf(1)
	for _, h := range t.handoffs() {
		if h.hard {
			continue
		}
		lead = min(lead, since(h.advert, h.cut))
		ra = max(ra, since(h.advert, h.opinion.usable))
		data = max(data, h.toData())
		tcpGap, udpGap = max(tcpGap, h.tcpGapMs), max(udpGap, h.udpGapMs)
	}
	r.Set("tcp_soft_gap_ms", tcpGap)
	r.Set("udp_soft_gap_ms", udpGap)
	r.Set("soft_advert_lead_ms", lead)
	r.Set("daemon_ra_to_locator_ms", ra)
	r.Set("ra_to_data_ms", data)
}

// softLoss says whose the datagrams are that were lost outside the hard handoff.
func (t *trace) softLoss() result.Loss {
	var spans [][2]time.Time
	for _, s := range t.softSpans() {
		spans = append(spans, [2]time.Time{t.At(s.from), t.At(s.to)})
	}
	return scene.Owners{Overflows: t.traffic.overflows}.Account("all but the hard handoff", t.traffic.flowUp,
		t.traffic.flowDown, spans...)
}

// since is the time between two moments in milliseconds; NaN if one of them never was.
func since(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return math.NaN()
	}
	return stats.Millis(to.Sub(from))
}

// never is the time, in milliseconds, of what did not happen although the network was there.
const never = 1e6

// toData is the time in milliseconds from the advertisement to data on the new link; NaN if there was no advertisement.
func (h handoff) toData() float64 {
	if h.carried.IsZero() && !h.advert.IsZero() {
		return never
	}
	return since(h.advert, h.carried)
}

// took is the time in milliseconds from a moment to another one that may not have come.
func took(from, to time.Time, ok bool) float64 {
	if !ok {
		return never
	}
	return stats.Millis(to.Sub(from))
}

// inFlight is how long before the hard cut a datagram may have left that the cut still
// caught, on the wire or in a queue: the hard handoff's own loss.
const inFlight = 200 * time.Millisecond

// softSpans are the parts of the schedule without the hard handoff: up to its step, and
// again from two seconds after it, or from the next step if that is earlier.
func (t *trace) softSpans() []span {
	after := t.plan.hard + 2*time.Second
	for _, s := range t.plan.Steps {
		if s.At > t.plan.hard && s.Name != "" {
			after = min(after, s.At)
			break
		}
	}
	return []span{{0, t.plan.hard - inFlight}, {after, t.plan.Length}}
}

func (t *trace) hardMetrics(r *result.Result, rate map[string]int) {
	udp, _ := t.staticGaps()
	for _, h := range t.handoffs() {
		if !h.hard {
			continue
		}
		if h.advert.IsZero() {
			why := "no Router Advertisement came on the new link"
			r.Miss("hard_first_ms", why)
			r.Miss("hard_full_rate_ms", why)
			return
		}
		from := h.advert
		if h.cut.After(from) {
			from = h.cut
		}
		var first, full float64
		for i, f := range []*udpflow.Flow{t.traffic.flowUp, t.traffic.flowDown} {
			way := []string{"out", "in"}[i]
			at, ok := f.FirstAfter(from, h.up)
			ms := took(from, at, ok)
			r.Set("hard_first_"+way+"_ms", ms)
			first = max(first, ms)
			at, ok = fullRate(f, from, rate[way])
			ms = took(from, at, ok)
			r.Set("hard_full_rate_"+way+"_ms", ms)
			full = max(full, ms)
		}
		r.Set("hard_first_ms", max(0, first-udp))
		r.Set("hard_full_rate_ms", max(0, full-udp))
		for way, read := range map[string]tcpflow.Stream{"out": t.traffic.readUp, "in": t.traffic.readDown} {
			// To the next step, not to the end of a window, so that a stall of seconds is
			// one gap.
			_, gap := read.LongestGap(from, h.end)
			r.Set("hard_tcp_gap_"+way+"_ms", stats.Millis(gap))
		}
		r.Set("hard_away_ms", stats.Millis(from.Sub(h.cut)))
		r.Set("daemon_hard_away_ms", since(h.cut, h.opinion.usable))
		if ms := h.toData(); ms < 0 {
			r.Miss("hard_ra_to_data_ms", "data used the new link before the first Router Advertisement that was received")
		} else {
			r.Set("hard_ra_to_data_ms", ms)
		}
		r.Set("hard_lost", float64(h.lost))
	}
}

// controlMetrics counts the data that the pass without Roam delivered while its first
// network was away: from just after the cut, when all data past the link has been read,
// until the network has carrier again.
func (t *trace) controlMetrics(r *result.Result) {
	from, to, ok := t.away()
	if !ok {
		r.Miss("control_delivered_away", "the control never lost its first network")
		return
	}
	sum := 0
	for what, n := range t.delivered(from, to) {
		r.Set("control_away_"+what, float64(n))
		sum += n
	}
	r.Set("control_delivered_away", float64(sum))
	sum = 0
	for _, n := range t.delivered(t.Start, from.Add(-controlGrace)) {
		sum += n
	}
	r.Set("control_delivered_before", float64(sum))
	r.Set("control_away_s", to.Sub(from).Seconds())
}

// controlGrace is how long after the cut data may still arrive from buffers behind the
// link.
const controlGrace = 50 * time.Millisecond

// curlGrace is how long curl, which paces its reading, may still read data that the kernel
// received before the cut.
const curlGrace = 1500 * time.Millisecond

// away is the span without the first network.
func (t *trace) away() (from, to time.Time, ok bool) {
	for _, s := range t.Steps {
		switch {
		case s.Op == scene.Detach && s.Link == "net1":
			from = s.At.Add(controlGrace)
		case s.Op == scene.Attach && s.Link == "net1" && !from.IsZero():
			return from, s.At, true
		}
	}
	return from, to, false
}

// delivered counts datagrams, bytes read, echoes and growths of the download.
func (t *trace) delivered(from, to time.Time) map[string]int {
	tr := t.traffic
	n := map[string]int{
		"datagrams": tr.flowUp.Arrived(from, to) + tr.flowDown.Arrived(from, to),
		"tcp_bytes": tr.readUp.Bytes(from, to) + tr.readDown.Bytes(from, to),
		"echoes":    0, "downloads": 0,
	}
	for _, e := range tr.echoes {
		if back := e.Sent.Add(e.RTT); e.RTT > 0 && !back.Before(from) && back.Before(to) {
			n["echoes"]++
		}
	}
	for _, at := range tr.curlGrew {
		if !at.Before(from.Add(curlGrace)) && at.Before(to) {
			n["downloads"]++
		}
	}
	return n
}
