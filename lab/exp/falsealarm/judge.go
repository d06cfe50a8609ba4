package falsealarm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"roam/lab/exp"
	"roam/lab/result"
	"roam/lab/workload/udpflow"
)

const (
	window   = 400 * time.Millisecond // shorter than any path is avoided for
	leastUse = 5                      // per cent of the bytes that an end sends: a link that it uses
	settled  = window + every         // before the impairment, in which one window shows what was in use until then
)

// move is that an end has left a link or taken another one.
type move struct {
	at       time.Time
	was, now []string // the links in use
}

// moves returns those of an end within a span.
func moves(list []reading, pick func(reading) map[string]uint64, from, to time.Time) (all []move) {
	var used []string
	for i, a := range list {
		if a.at.Before(from) {
			continue
		}
		j := slices.IndexFunc(list[i:], func(r reading) bool { return r.at.Sub(a.at) >= window })
		if j < 0 || list[i+j].at.After(to) {
			break
		}
		now := usedBetween(pick(a), pick(list[i+j]))
		if used != nil && !slices.Equal(now, used) {
			all = append(all, move{a.at, used, now})
		}
		used = now
	}
	return all
}

// usedBetween returns the links that carried more than leastUse per cent of the bytes.
func usedBetween(a, b map[string]uint64) (used []string) {
	total := uint64(0)
	for _, l := range links {
		total += b[l] - a[l]
	}
	used = []string{}
	for _, l := range links {
		if 100*(b[l]-a[l]) > leastUse*total {
			used = append(used, l)
		}
	}
	return used
}

// delays returns the delays of a span's datagrams, ascending, in milliseconds.
func delays(f *udpflow.Flow, from, to time.Time) (list []float64) {
	for _, g := range f.Got {
		if g.Sent >= from.UnixNano() && g.Sent < to.UnixNano() {
			list = append(list, float64(g.At-g.Sent)/1e6)
		}
	}
	slices.Sort(list)
	return list
}

// isThere reports whether a direction was impaired as the cell says, by what the datagrams
// met.
func isThere(p exp.Params, cell string, f *udpflow.Flow, from, to time.Time) bool {
	d, c := delays(f, from, to), f.Count(from, to)
	if len(d) < 10 {
		return false
	}
	at := func(share float64) float64 { return d[int(share*float64(len(d)-1))] }
	switch cell {
	case "load":
		return at(0.9) >= p.Float("delay_ms")+20
	case "loss":
		lost := 100 * float64(c.Lost) / float64(max(c.Written, 1))
		return lost >= p.Float("loss_pct")/2 && lost <= p.Float("loss_pct")*2
	case "jitter":
		return at(0.9)-at(0.1) >= p.Float("jitter_ms")/3
	}
	return at(1) >= 1000*p.Float("queue_s")*3/4
}

// judge fills in the result.
func judge(env *exp.Env, all []*seen) {
	r, p := env.Result, env.Params
	table := result.Table{Title: "Every cell", Columns: []string{
		"mode", "cell", "moves of the mobile host", "of the other", "lost %", "delay, median and worst, ms",
	}}
	each := result.Table{Title: "Every move", Columns: []string{
		"mode", "cell", "end", "s into the cell", "links before", "links after",
	}}
	for _, mode := range []string{"soft", "duality"} {
		if !slices.ContainsFunc(all, func(v *seen) bool { return v.mode == mode }) {
			for _, cell := range cells {
				for _, m := range []string{"moves", "there"} {
					r.Miss(mode+"_"+cell+"_"+m, "the mode "+mode+" was not measured")
				}
			}
		}
	}
	for _, v := range all {
		avoided := 0
		for _, events := range v.events {
			for _, e := range events {
				if e.Kind == "path-avoided" {
					avoided++
				}
			}
		}
		r.Set("daemon_"+v.mode+"_avoided", float64(avoided))
		for i, cell := range cells {
			from := v.start.Add(begin(p, i))
			to := from.Add(p.Seconds("cell_s"))
			mobile := moves(v.readings, func(k reading) map[string]uint64 { return k.up }, from.Add(-settled), to)
			other := moves(v.readings, func(k reading) map[string]uint64 { return k.own }, from.Add(-settled), to)
			r.Set(v.mode+"_"+cell+"_moves", float64(len(mobile)+len(other)))
			for k, list := range [][]move{mobile, other} {
				for _, m := range list {
					each.Rows = append(each.Rows, []string{
						v.mode, cell, []string{"mobile host", "other"}[k], fmt.Sprintf("%.1f", m.at.Sub(from).Seconds()),
						strings.Join(m.was, ", "), strings.Join(m.now, ", "),
					})
				}
			}
			there := 0.0
			if isThere(p, cell, v.up, from, to) && isThere(p, cell, v.down, from, to) {
				there = 1
			}
			r.Set(v.mode+"_"+cell+"_there", there)
			d, c := delays(v.up, from, to), v.up.Count(from, to)
			lost := fmt.Sprintf("%.1f", 100*float64(c.Lost)/float64(max(c.Written, 1)))
			row := []string{v.mode, cell, fmt.Sprint(len(mobile)), fmt.Sprint(len(other)), lost, "-"}
			if len(d) > 0 {
				row[5] = fmt.Sprintf("%.0f, %.0f", d[len(d)/2], d[len(d)-1])
			}
			table.Rows = append(table.Rows, row)
		}
	}
	r.Tables = append(r.Tables, table)
	if len(each.Rows) > 0 {
		r.Tables = append(r.Tables, each)
	}
}
