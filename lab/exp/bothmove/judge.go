package bothmove

import (
	"fmt"
	"math"
	"slices"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/workload/udpflow"
)

const (
	inFlight = 200 * time.Millisecond // after a move: what was under way then, queued or not, has arrived
	settled  = 2 * time.Second        // after a change of the names: from here on nothing is lost
)

// moved is what one move cost.
type moved struct {
	apart int           // datagrams that arrived between the move and the change of the names
	udp   time.Duration // from that change to the first datagram sent since, of the worse direction
	tcp   time.Duration // to the first bytes that the connection's application reads
	found bool          // all of it came before the next move; else the times are those until then
	lost  int           // datagrams sent later than settled
}

// moves takes the trace apart.
func (t *seen) moves(p exp.Params) (list []moved) {
	for i := 0; 2*i+1 < len(t.Steps); i++ {
		from, at := t.Steps[2*i].Over, t.Steps[2*i+1].At
		end := at.Add(p.Seconds("stay_s"))
		if 2*i+2 < len(t.Steps) {
			end = t.Steps[2*i+2].At
		}
		one := moved{found: true}
		// within returns how long something took, or until the end.
		within := func(first time.Time, ok bool) time.Duration {
			if !ok || first.After(end) {
				one.found = false
				return end.Sub(at)
			}
			return first.Sub(at)
		}
		for _, f := range []*udpflow.Flow{t.up, t.down} {
			one.apart += f.Arrived(from.Add(inFlight), at)
			one.udp = max(one.udp, within(f.FirstAfter(at, at)))
			one.lost += f.Count(at.Add(settled), end.Add(-inFlight)).Lost
		}
		one.tcp = within(t.bulk.FirstAfter(at))
		list = append(list, one)
	}
	return list
}

// judge fills in the result.
func judge(env *exp.Env, all []*seen) {
	r, p := env.Result, env.Params
	table := result.Table{Title: "Every move", Columns: []string{"mode", "move", "UDP ms", "TCP ms",
		"arrived before", "lost after"}}
	quiet, errs, broken := 0.0, 0, 0
	for _, t := range all {
		var x, costs []float64
		udp, tcp, apart, lost, found := 0.0, 0.0, 0, 0, 0
		list := t.moves(p)
		for i, m := range list {
			udp, tcp = max(udp, ms(m.udp)), max(tcp, ms(m.tcp))
			apart, lost = apart+m.apart, lost+m.lost
			if m.found {
				found++
			}
			x, costs = append(x, float64(i+1)), append(costs, ms(max(m.udp, m.tcp)))
			table.Rows = append(table.Rows, []string{t.mode, fmt.Sprint(i + 1), fmt.Sprint(ms(m.udp)), fmt.Sprint(ms(m.tcp)),
				fmt.Sprint(m.apart), fmt.Sprint(m.lost)})
		}
		prefix := t.mode + "_"
		r.AddSeries(t.mode, "ms", x, costs)
		r.Set(prefix+"apart", float64(apart))
		r.Set(prefix+"udp_ms", udp)
		r.Set(prefix+"tcp_ms", tcp)
		r.Set(prefix+"found_pct", 100*float64(found)/float64(max(len(list), 1)))
		r.Set(prefix+"lost", float64(lost))
		errs += t.bufferErrors
		if t.broken != nil {
			broken++
			r.Mark(result.Event{T: t.Rel(t.End), Arm: t.mode, Kind: "session-died", Label: t.broken.Error()})
		}
		for _, f := range []*udpflow.Flow{t.up, t.down} {
			quiet = max(quiet, ms(f.LongestGap(t.Start.Add(lead-leadQuiet), t.Start.Add(lead-inFlight)).Length()))
		}
	}
	for _, mode := range []string{"soft", "duality"} {
		if !slices.Contains(modes(p), mode) {
			for _, m := range []string{"apart", "udp_ms", "tcp_ms", "found_pct", "lost"} {
				r.Miss(mode+"_"+m, "the mode "+mode+" was not measured")
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
		names = append(names, t.mode)
	}
	return result.Figure{
		Title: "From the change of the names to data", XLabel: "move",
		Caption: "Time from the change of the hosts files to the first data that applications read, of datagrams in both " +
			"directions and of a connection, whichever took longest.",
		Panels: []result.Panel{{Kind: result.Points, YLabel: "ms", Series: names, Labels: names}},
	}
}

// ms rounds for the JSON.
func ms(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }
