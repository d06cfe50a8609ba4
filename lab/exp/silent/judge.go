package silent

import (
	"fmt"
	"math"
	"slices"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/workload/udpflow"
)

// cut is the cost of one cut.
type cut struct {
	way    int
	hit    bool          // the dead directions carried datagrams before
	gap    time.Duration // longest without an arrival, of the dead directions
	lost   time.Duration // datagrams lost by them, as the time in which that many are sent
	living int           // datagrams lost by the other direction
	stayed bool          // the other direction still used the path at the end of the cut
	bulk   time.Duration // longest without bytes of the connection, from when the last lost datagram would have come
}

// bulkWithin is the time after the switch in which the connection is looked at.
const bulkWithin = time.Second

// lastLost returns when the last of the datagrams lost within a span was sent.
func lastLost(f *udpflow.Flow, from, to time.Time) (at time.Time) {
	for _, seq := range f.Missing(from, to) {
		if sent := time.Unix(0, f.Sent[seq].At); sent.After(at) {
			at = sent
		}
	}
	return at
}

// direction is one of the two flows.
type direction struct {
	*udpflow.Flow
	dead bool
	used func(from, to time.Time) float64 // share of the link that is cut, in per cent
}

// directions returns the flow out and the flow in of a cut.
func (t *seen) directions(way int) [2]direction {
	return [2]direction{
		{t.up, ways[way].out, func(from, to time.Time) float64 { out, _ := t.Shares(from, to); return out[victim] }},
		{t.down, ways[way].in, func(from, to time.Time) float64 { _, in := t.Shares(from, to); return in[victim] }},
	}
}

// cuts takes the trace apart.
func (t *seen) cuts(p exp.Params) (list []cut) {
	for i := 0; 2*i+1 < len(t.Steps); i++ {
		from, to := t.Steps[2*i].At, t.Steps[2*i+1].At
		one, last := cut{way: i % len(ways), hit: true, stayed: true}, from
		for _, d := range t.directions(one.way) {
			// What was on the wire is lost too: it was sent up to a delay before.
			lost := d.Count(from.Add(-p.Millis("delay_ms")), to).Lost
			if !d.dead {
				one.living += lost
				one.stayed = one.stayed && d.used(to.Add(-600*time.Millisecond), to.Add(-100*time.Millisecond)) > leastShare
				continue
			}
			one.hit = one.hit && d.used(from.Add(-600*time.Millisecond), from.Add(-100*time.Millisecond)) > leastShare
			one.gap = max(one.gap, d.LongestGap(from.Add(-20*time.Millisecond), to).Length())
			one.lost = max(one.lost, time.Duration(float64(lost)/p.Float("udp_rate")*float64(time.Second)))
			if at := lastLost(d.Flow, from, to); at.After(last) {
				last = at
			}
		}
		last = last.Add(p.Millis("delay_ms"))
		_, one.bulk = t.bulk.LongestGap(last, last.Add(bulkWithin))
		list = append(list, one)
	}
	return list
}

// leastShare is the share of a link that data use, in per cent: half in duality.
const leastShare = 30

// judge fills in the result.
func judge(env *exp.Env, all []*seen) {
	r, p := env.Result, env.Params
	table := result.Table{Title: "Every cut", Columns: []string{
		"mode", "level", "cut", "gap ms", "lost ms", "TCP ms", "lost of the living", "in use", "stayed",
	}}
	errs, broken, quiet := 0, 0, 0.0
	for _, t := range all {
		list, prefix := t.cuts(p), t.mode+"_"+t.level+"_"
		var costs, x []float64
		bulk := 0.0
		living, hits, stayed, single := 0, 0, 0, 0
		for i, c := range list {
			costs, x = append(costs, ms(max(c.gap, c.lost))), append(x, float64(i+1))
			living += c.living
			bulk = max(bulk, ms(c.bulk))
			hits += count(c.hit)
			if ways[c.way].name != "both" {
				single++
				stayed += count(c.stayed)
			}
			table.Rows = append(table.Rows, []string{t.mode, t.level, fmt.Sprintf("%d %s", i+1, ways[c.way].name),
				fmt.Sprint(ms(c.gap)), fmt.Sprint(ms(c.lost)), fmt.Sprint(ms(c.bulk)), fmt.Sprint(c.living), yes(c.hit), yes(c.stayed)})
		}
		r.AddSeries(t.mode+" "+t.level, "ms", x, costs)
		ordered := slices.Sorted(slices.Values(costs))
		r.Set(prefix+"median_ms", ordered[len(ordered)/2])
		r.Set(prefix+"worst_ms", ordered[len(ordered)-1])
		r.Set(prefix+"tcp_ms", bulk)
		r.Set(prefix+"living_lost", float64(living))
		r.Set(prefix+"stayed_pct", 100*float64(stayed)/float64(max(single, 1)))
		r.Set(prefix+"hit_pct", 100*float64(hits)/float64(max(len(list), 1)))
		errs += t.bufferErrors
		if t.broken != nil {
			broken++
			r.Mark(result.Event{T: t.Rel(t.End), Arm: t.mode + " " + t.level, Kind: "session-died", Label: t.broken.Error()})
		}
		for _, f := range []*udpflow.Flow{t.up, t.down} {
			quiet = max(quiet, ms(f.LongestGap(t.Start.Add(lead-leadQuiet), t.Start.Add(lead-100*time.Millisecond)).Length()))
		}
	}
	for _, level := range []string{"normal", "fast"} {
		if !slices.Contains(levels(p), level) {
			for _, mode := range []string{"soft", "duality"} {
				for _, m := range []string{"median_ms", "worst_ms", "tcp_ms", "living_lost", "stayed_pct", "hit_pct"} {
					r.Miss(mode+"_"+level+"_"+m, "the level "+level+" was not measured")
				}
			}
		}
	}
	r.Set("tcp_broken", float64(broken))
	r.Set("udp_rcvbuf_errors", float64(errs))
	r.Set("lead_gap_ms", quiet)
	r.Tables = append(r.Tables, table)
	r.Figures = append(r.Figures, figure(all))
}

func figure(all []*seen) result.Figure {
	var names []string
	for _, t := range all {
		names = append(names, t.mode+" "+t.level)
	}
	return result.Figure{
		Title: "What each cut cost", XLabel: "cut",
		Caption: "Longest time without an arrival in a direction that died, or the time in which as many datagrams are " +
			"sent as were lost, whichever is longer.",
		Panels: []result.Panel{{Kind: result.Points, YLabel: "ms", Series: names, Labels: names}},
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func yes(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }

// ms rounds for the JSON.
func ms(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }
