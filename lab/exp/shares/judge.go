package shares

import (
	"fmt"
	"math"
	"strings"
	"time"

	"roam/lab/exp"
	"roam/lab/packets"
	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload/udpflow"
)

// settle is the time after a reload in which packets of the old rules are still under way: a
// delay and two samples of the counters.
const settle = 200 * time.Millisecond

// judge fills in the result, of each figure the worst of all modes.
func judge(env *exp.Env, all []*seen) {
	r, p := env.Result, env.Params
	table := result.Table{Title: "Shares of the bytes sent", Columns: []string{"mode", "part", "net1", "net2", "net3"}}
	for _, t := range all {
		for _, one := range parts {
			from, to := t.span(one.name)
			shares, _ := t.Shares(from, to)
			off := 0.0
			row := []string{t.mode, one.name}
			for i, l := range links {
				off = max(off, math.Abs(shares[l]-float64(one.shares[i])))
				row = append(row, fmt.Sprintf("%.2f %%", shares[l]))
			}
			worst(r, one.name+"_off_points", off)
			least(r, "least_mbps", t.mbps(from, to))
			table.Rows = append(table.Rows, row)
		}
		for _, l := range lones {
			own, astray := t.ways(l)
			worst(r, l.name+"_astray", float64(astray))
			least(r, "fewest_datagrams", float64(own+astray))
		}
		from, to := t.span("")
		c := t.fast.Count(from, to)
		worst(r, "reload_lost", float64(c.Lost))
		least(r, "reload_sent_pct", 100*float64(c.Written)/(p.Float("rate")*to.Sub(from).Seconds()))
		least(r, "reload_share_pct", t.follows())
		worst(r, "udp_rcvbuf_errors", float64(t.bufferErrors))
		worst(r, "capture_dropped", float64(t.capture))
		worst(r, "emulator_drops", float64(t.Drops["queue"]+t.Drops["refused"]))
		t.AddRates(r, t.mode)
	}
	r.Tables = append(r.Tables, table)
}

// span returns the time in which the shares of a part count; of "" the time of all reloads.
func (t *seen) span(part string) (from, to time.Time) {
	for _, d := range t.Steps {
		switch {
		case part != "" && d.Name == stepFrom+part:
			from = d.At
		case part != "" && d.Name == stepTo+part, part == "" && d.Name == stepEnd:
			to = d.At
		case part == "" && from.IsZero() && strings.HasPrefix(d.Name, stepReload):
			from = d.At
		}
	}
	return from, to
}

// mbps is what left by all links.
func (t *seen) mbps(from, to time.Time) float64 {
	a, b := t.SampleAt(from), t.SampleAt(to)
	sum := 0.0
	for _, l := range links {
		sum += float64(b.Out[l] - a.Out[l])
	}
	return sum * 8e-6 / max(b.At.Sub(a.At).Seconds(), 1e-3)
}

// ways counts the datagrams of a flow that left by its link, and those that left by another.
func (t *seen) ways(l lone) (own, astray int) {
	for _, q := range t.sent {
		_, is := udpflow.Number(q.Data)
		switch {
		case q.Proto != packets.UDP || q.SourceNID() != scene.NID("mn") || int(q.DstPort) != l.port || !is:
		case q.Where == l.link:
			own++
		default:
			astray++
		}
	}
	return own, astray
}

// follows returns the share of the link of the rule between two reloads, the least of all.
func (t *seen) follows() (share float64) {
	share = 100
	for i, d := range t.Steps {
		link, ok := strings.CutPrefix(d.Name, stepReload)
		if !ok || i+1 == len(t.Steps) {
			continue
		}
		out, _ := t.Shares(d.Over.Add(settle), t.Steps[i+1].At.Add(-settle/2))
		share = min(share, out[link])
	}
	return share
}

// worst keeps the greatest of a metric's values, least the least.
func worst(r *result.Result, metric string, v float64) {
	if old, ok := r.Metrics[metric]; !ok || v > old {
		r.Set(metric, v)
	}
}

func least(r *result.Result, metric string, v float64) {
	if old, ok := r.Metrics[metric]; !ok || v < old {
		r.Set(metric, v)
	}
}
