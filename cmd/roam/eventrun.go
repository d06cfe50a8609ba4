package main

import (
	"fmt"

	"roam/internal/control"
)

// eventRun is an event, and those like it that followed while nothing else happened.
type eventRun struct {
	control.Event
	times int // how often, the first included
	last  control.Event
}

// runsOf folds refreshes, which recur for as long as a session lasts, so that they do not
// hide what happened.
func runsOf(list []control.Event) (runs []eventRun) {
	open := map[string]int{} // index in runs, by kind
	for _, e := range list {
		i, ok := open[e.Kind]
		switch {
		case !e.Refresh():
			clear(open)
		case ok && runs[i].Alike(e):
			runs[i].times += 1 + e.Omitted
			runs[i].last = e
			continue
		default:
			open[e.Kind] = len(runs)
		}
		runs = append(runs, eventRun{Event: e, times: 1 + e.Omitted, last: e})
	}
	return runs
}

// folded prints a run of events of the peer that is explained: whose they are need not be said.
func (pr *printer) folded(r eventRun) {
	e := r.Event
	e.Peer, e.PeerName = 0, ""
	if r.times > 1 {
		e.Path, e.RTTMS = nil, 0 // they differ from one to the next
	}
	at, text := pr.eventParts(e)
	if r.times > 1 {
		text += fmt.Sprintf("  (%d times, last at %s)", r.times, r.last.Time.Local().Format(clock))
	}
	pr.Fill(at, text)
}
