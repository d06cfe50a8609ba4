package instants

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/result"
	"roam/lab/scene"
)

// instant is the cost of one handoff.
type instant struct {
	lost           int // datagrams, both ways, that are Roam's
	owned          result.Loss
	udpGap, tcpGap time.Duration
	moved          bool // all data went by the new link, both ways, before the old one went
	told           bool // the daemon's opinion: acknowledged by all
}

// instants takes the trace apart, handoff by handoff.
func (t *seen) instants() (list []instant) {
	var began, cuts []time.Time
	var links []string
	for _, s := range t.Steps {
		switch s.Op {
		case scene.Attach:
			began, links = append(began, s.At), append(links, s.Link)
		case scene.Detach:
			cuts = append(cuts, s.At)
		}
	}
	for i, from := range began {
		to := t.End
		if i+1 < len(began) {
			to = began[i+1]
		}
		var one instant
		one.owned = scene.Owners{Overflows: t.queues}.Account("all instants", t.up, t.down, [2]time.Time{from, to})
		one.lost = one.owned.Roam()
		one.udpGap = max(t.up.LongestGap(from, to).Length(), t.down.LongestGap(from, to).Length())
		if t.hasTCP {
			_, out := t.out.LongestGap(from, to)
			_, in := t.in.LongestGap(from, to)
			one.tcpGap = max(out, in)
		}
		one.moved = i < len(cuts) && t.Moved(links[i], cuts[i])
		for _, e := range t.Events["mn"] {
			if e.Kind == "handoff-done" && e.Time.After(from) && e.Time.Before(to) && node.HasLink(e.To, links[i]) {
				one.told = true
			}
		}
		list = append(list, one)
	}
	return list
}

// judge fills in the result.
func (t *seen) judge(env *exp.Env) {
	r, p := env.Result, env.Params
	rtt := 2 * p.Float("delay_ms")
	var lost, moved, told int
	var udp, tcp float64
	var x, yu, yt []float64
	list := t.instants()
	for i, one := range list {
		lost += one.lost
		r.AddLoss(one.owned)
		if one.moved {
			moved++
		}
		if one.told {
			told++
		}
		u, c := ms(one.udpGap), ms(one.tcpGap)
		udp, tcp = max(udp, u), max(tcp, c)
		x, yu, yt = append(x, within(p, i)), append(yu, u), append(yt, c)
	}
	r.Set("instants_moved_pct", 100*float64(moved)/float64(max(len(list), 1)))
	r.Set("daemon_instants_done_pct", 100*float64(told)/float64(max(len(list), 1)))
	r.Set("udp_lost", float64(lost))
	r.Set("udp_sent", float64(len(t.up.Sent)+len(t.down.Sent)))
	r.Set("udp_rcvbuf_errors", float64(t.bufferErrors))
	r.Set("udp_gap_worst_rtt", udp/rtt)
	if t.hasTCP {
		r.Set("tcp_whole", float64(t.whole))
		r.Set("tcp_gap_worst_rtt", tcp/rtt)
		r.AddSeries("tcp gap", "ms", x, yt)
	} else {
		r.Miss("tcp_whole", "the engine sim has no TCP")
		r.Miss("tcp_gap_worst_rtt", "the engine sim has no TCP")
	}
	r.Set("rtt_ms", rtt)
	t.AddRates(r, "")
	r.AddSeries("udp gap", "ms", x, yu)
	r.Figures = append(r.Figures, figures(1.2*rtt)...)
	r.Tables = append(r.Tables, worst(list, p, t.hasTCP))
}

// within is where in the beat an instant lies, in milliseconds.
func within(p exp.Params, i int) float64 { return p.Float("first_ms") + float64(i)*p.Float("step_ms") }

// ms rounds for the JSON.
func ms(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }

func figures(bound float64) []result.Figure {
	gaps := []string{"udp gap", "tcp gap"}
	return []result.Figure{
		{Title: "Longest gap at each instant", XLabel: "instant within the beat, ms",
			Caption: "Longest time without anything new at a receiving application, from the beginning of a handoff to that " +
				"of the next.",
			Panels: []result.Panel{{Kind: result.Points, YLabel: "ms", Series: gaps, Labels: []string{"UDP", "TCP"},
				Refs: []result.Ref{{Label: "1.2 RTT", At: bound}}}}},
		{Title: "Throughput per link", XLabel: "time since the start of traffic (s)",
			Caption: "All traffic that the access links delivered; each change of colour is a handoff.", Panels: []result.Panel{
				{Kind: result.Stack, YLabel: "Mb/s", Series: []string{"out net1", "out net2"}, Labels: []string{"net1", "net2"},
					Title: "from the mobile host"},
				{Kind: result.Stack, YLabel: "Mb/s", Series: []string{"in net1", "in net2"}, Labels: []string{"net1", "net2"},
					Title: "to the mobile host"}}},
	}
}

// worst lists the instants with a loss, and of the others those with the longest
// gaps.
func worst(list []instant, p exp.Params, tcp bool) result.Table {
	const rows = 8
	t := result.Table{Title: "Instants that cost most", Columns: []string{"instant", "lost", "UDP gap ms",
		"TCP gap ms", "moved", "daemon: acknowledged"}}
	yes := map[bool]string{true: "yes", false: "no"}
	taken := map[int]bool{}
	for range min(rows, len(list)) {
		best := -1
		for i, one := range list {
			if !taken[i] && (best < 0 || worse(one, list[best])) {
				best = i
			}
		}
		taken[best] = true
		one, gap := list[best], "-"
		if tcp {
			gap = fmt.Sprintf("%.2f", ms(one.tcpGap))
		}
		t.Rows = append(t.Rows, []string{
			fmt.Sprintf("%g ms", within(p, best)), strconv.Itoa(one.lost),
			fmt.Sprintf("%.2f", ms(one.udpGap)), gap, yes[one.moved], yes[one.told],
		})
	}
	return t
}

func worse(a, b instant) bool {
	if a.lost != b.lost {
		return a.lost > b.lost
	}
	return max(a.tcpGap, a.udpGap) > max(b.tcpGap, b.udpGap)
}
