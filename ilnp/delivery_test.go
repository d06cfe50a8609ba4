package ilnp

import (
	"testing"
	"time"

	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// countsAt is what a path's counts were when it was asked about, at a time in ms: packets sent by then, sent when the
// answer came, and received by the answer; -1: it has no counts.
type countsAt struct {
	at, left, now, got int
	epoch              uint32
}

// TestDeliveryIsWhatArrives: only counts that follow each other, of enough packets that left within the doubt, show
// that a path delivers. Less than before, and more than was sent, are refused.
func TestDeliveryIsWhatArrives(t *testing.T) {
	for name, c := range map[string]struct {
		counts []countsAt
		want   bool
		reason string
	}{
		"all":              {[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 190, 1}}, true, ""},
		"three quarters":   {[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 165, 1}}, true, ""},
		"less":             {[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 164, 1}}, false, ""},
		"one answer":       {[]countsAt{{10, 100, 105, 90, 1}}, false, ""},
		"few":              {[]countsAt{{10, 100, 105, 90, 1}, {200, 115, 116, 105, 1}}, false, ""},
		"before the doubt": {[]countsAt{{-10, 100, 105, 90, 1}, {200, 200, 205, 190, 1}}, false, ""},
		"before the doubt, and in": {
			[]countsAt{{-10, 90, 105, 90, 1}, {10, 100, 105, 90, 1}, {200, 200, 205, 190, 1}}, true, "",
		},
		"overtaken":              {[]countsAt{{100, 100, 105, 90, 1}, {10, 200, 205, 190, 1}}, false, ""},
		"another epoch":          {[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 190, 2}}, false, ""},
		"less than before":       {[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 89, 1}}, false, reasonReportBack},
		"all that was under way": {[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 205, 1}}, true, ""},
		"more than was sent":     {[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 206, 1}}, false, reasonReportAbove},
		"more, from the start":   {[]countsAt{{10, 100, 105, 190, 1}, {200, 200, 205, 301, 1}}, false, reasonReportAbove},
		"all, and then less": {
			[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 190, 1}, {300, 300, 305, 200, 1}}, false, "",
		},
		"all, and then nothing of a few": {
			[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 190, 1}, {300, 210, 210, 190, 1}}, false, "",
		},
		"all, and then no counts": {
			[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 190, 1}, {300, 210, 210, -1, 1}}, false, "",
		},
		"all, and then less than before": {
			[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 190, 1}, {300, 210, 210, 189, 1}}, false, reasonReportBack,
		},
		"all, and then more than was sent": {
			[]countsAt{{10, 100, 105, 90, 1}, {200, 200, 205, 190, 1}, {300, 300, 305, 400, 1}}, false, reasonReportAbove,
		},
	} {
		b, _ := reporting(t)
		s, start := b.sessions[theKey], b.now
		paths := s.entry.Paths
		sent := 0
		b.cfg.PathCounts = func(SessionKey, Path) (PathCounts, bool) {
			return PathCounts{Epoch: 7, Sent: multipath.Traffic{Packets: uint64(sent)}}, true
		}
		h := s.check.of(paths[0])
		h.since, h.delivery.asked, s.lastTx = start, start.Add(1), start
		for _, v := range c.counts {
			sent = v.now
			b.now = start.Add(500 * time.Millisecond)
			pr := probe{
				path: paths[1], about: paths[0], sent: start.Add(time.Duration(v.at) * time.Millisecond), counted: true,
				left: PathCounts{Epoch: 7, Sent: multipath.Traffic{Packets: uint64(v.left)}},
			}
			questions{&b.liveness}.takeDelivery(b.now, s, pr, ilnpwire.Report{
				Other: true, Counted: v.got >= 0, Epoch: v.epoch, Received: ilnpwire.Counts{Packets: uint64(max(v.got, 0))},
			})
		}
		if got := h.delivers(b.now, s); got != c.want {
			t.Errorf("%s: delivers %t, want %t", name, got, c.want)
		}
		refused := b.RejectedInput()
		n := refused[reasonReportBack] + refused[reasonReportAbove]
		if (n > 0) != (c.reason != "") || n != refused[c.reason] {
			t.Errorf("%s: %d reports refused, want %q", name, n, c.reason)
		}
		if !c.want {
			continue
		}
		for end, set := range map[string]func(){
			"the application is idle":      func() { s.lastTx = b.now.Add(-checkTraffic) },
			"no question has an answer":    func() { h.delivery.asks = deliverAsks + 1 },
			"the doubt has lasted long":    func() { h.since = b.now.Add(-deliverMost) },
			"nothing was asked in a doubt": func() { h.delivery.asked = h.since },
		} {
			was, tx := *h, s.lastTx
			if set(); h.delivers(b.now, s) {
				t.Errorf("%s: the path delivers, although %s", name, end)
			}
			*h, s.lastTx = was, tx
		}
	}
}
