package ilnphost

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/control"
	"roam/internal/hostnet"
	"roam/internal/metrics"
)

// tally counts events for the metrics; only the engine's goroutine touches it.
type tally struct {
	handoffs                                        map[string]uint64
	handoffTime, updateRTT                          metrics.Histogram
	sent, failed, peerMoves, fellBack, plainRefused uint64
}

func (t *tally) count(e ilnp.Event) {
	switch e.Kind {
	case ilnp.HandoffDone:
		if t.handoffs == nil {
			t.handoffs = make(map[string]uint64)
		}
		t.handoffs[e.Reason]++
		t.handoffTime.Observe(e.Duration)
	case ilnp.UpdateSent:
		t.sent++
	case ilnp.UpdateAcked:
		t.updateRTT.Observe(e.RTT)
	case ilnp.UpdateFailed:
		t.failed++
	case ilnp.PeerMoved:
		t.peerMoves++
	case ilnp.UpdateReceived:
		if e.Moved {
			t.peerMoves++
		}
	case ilnp.SessionFellBack:
		t.fellBack++
	case ilnp.PlainRefused:
		t.plainRefused++
	}
}

// Metrics writes the host's metrics.
func (h *Host) Metrics(ctx context.Context, w io.Writer) error {
	s, err := h.snapshot(ctx)
	if err != nil {
		return err
	}
	return metrics.Write(w, s)
}

// snapshot takes all figures at one moment.
func (h *Host) snapshot(ctx context.Context) (metrics.Snapshot, error) {
	s := metrics.Snapshot{
		Version: h.env.Version, NID: h.nid.String(), StartSeconds: float64(h.env.Started.UnixMilli()) / 1000, Starts: h.env.Starts,
		Sessions: make(map[string]uint64), Handoffs: make(map[string]uint64),
		HandoffTime: &metrics.Histogram{}, UpdateRTT: &metrics.Histogram{},
	}
	var overview ilnp.Overview
	err := walk(ctx, h, func(now time.Time, keys []ilnp.SessionKey) { h.engine.Core().Count(now, &overview, keys) })
	if err != nil {
		return s, err
	}
	var failure error
	err = h.do(ctx, func(now time.Time) {
		core := h.engine.Core()
		s.Mode, s.Attach, s.Adopted = modeName(core.Mode()), h.plane.Attach(), h.plane.Adopted()
		tally := overview.Tally
		for state, n := range tally.Sessions {
			s.Sessions[sessionStateName(ilnp.SessionState(state))] = n
		}
		s.Sessions[control.StateKnown], s.Dead = tally.Silent, tally.Dead
		s.Proofs = proofs(tally)
		for _, l := range core.Locals(now) {
			c := locatorFrom(l, h.linkNames())
			s.Locators = append(s.Locators, metrics.Locator{Link: c.Link, L64: l.L64.Prefix().String(), State: c.State, Disabled: c.Disabled})
		}
		s.Uplinks = uplinkTraffic(procNetDev, h.engine.Links())
		s.Paths = pathMetrics(overview.Links())
		t := h.tally
		for trigger, n := range t.handoffs {
			s.Handoffs[trigger] = n
		}
		*s.HandoffTime, *s.UpdateRTT = t.handoffTime, t.updateRTT
		s.UpdatesSent, s.UpdatesFailed, s.PeerMoves, s.FellBack = t.sent, t.failed, t.peerMoves, t.fellBack
		s.PlainRefused = t.plainRefused
		s.SkippedLines = uint64(len(h.hosts.Faults))
		failure = h.counterMetrics(&s)
	})
	return s, errors.Join(err, failure)
}

// proofs counts sessions by what says who the peer is. Those of plain IPv6 have none.
func proofs(t ilnp.Tally) map[string]uint64 {
	all := t.Sessions[ilnp.Initiated] + t.Sessions[ilnp.Established]
	return map[string]uint64{
		control.ProofKeyed: t.Keyed, control.ProofListed: t.Listed, control.ProofNonce: all - min(all, t.Keyed+t.Listed),
	}
}

// pathMetrics returns what is known of paths, in the order of links.
func pathMetrics(by map[string]ilnp.LinkPaths) (list []metrics.Paths) {
	share := func(lost, arrived float64) float64 {
		if lost == 0 {
			return 0
		}
		return lost / (lost + arrived)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		t := by[name]
		list = append(list, metrics.Paths{
			Link: name, InUse: t.InUse, Avoided: t.Avoided, Left: t.Left, RTT: t.RTT.Seconds(), Least: t.Least.Seconds(),
			OutRate: t.OutRate, InRate: t.InRate, OutLoss: share(t.OutLost, t.OutRate), InLoss: share(t.InLost, t.InRate),
		})
	}
	return list
}

// procNetDev has the counters of the links of this process's network namespace. Those in sysfs
// are of the namespace that it was mounted in.
const procNetDev = "/proc/self/net/dev"

// Fields of a line of procNetDev behind the name.
const (
	devRxBytes, devRxPackets, devTxBytes, devTxPackets = 0, 1, 8, 9
	devFields                                          = 16
)

// uplinkTraffic reads the kernel's counters of uplinks. One that has just gone is left out.
func uplinkTraffic(file string, uplinks map[roam.LinkID]hostnet.Uplink) (list []metrics.Uplink) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	ours := make(map[string]bool)
	for _, u := range uplinks {
		ours[u.Name] = true
	}
	for line := range strings.Lines(string(text)) {
		i := strings.LastIndex(line, ":") // a name may have one, as an alias
		if i < 0 || !ours[strings.TrimSpace(line[:i])] {
			continue
		}
		f := strings.Fields(line[i+1:])
		if len(f) < devFields {
			continue
		}
		var failed error
		read := func(field int) uint64 {
			n, err := strconv.ParseUint(f[field], 10, 64)
			failed = cmp.Or(failed, err)
			return n
		}
		one := metrics.Uplink{
			Link: strings.TrimSpace(line[:i]), RxPackets: read(devRxPackets), RxBytes: read(devRxBytes),
			TxPackets: read(devTxPackets), TxBytes: read(devTxBytes),
		}
		if failed == nil {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b metrics.Uplink) int { return strings.Compare(a.Link, b.Link) })
	return list
}

func (h *Host) counterMetrics(s *metrics.Snapshot) error {
	counters, err := h.plane.Counters()
	if err != nil {
		return err
	}
	for _, c := range counters {
		s.Counters = append(s.Counters, metrics.Counter{Name: c.Name, Meaning: c.Meaning, Value: c.Value})
	}
	for _, c := range nameCounters(h) {
		s.Counters = append(s.Counters, metrics.Counter{Name: c.Name, Meaning: c.Meaning, Value: c.Value})
	}
	for _, c := range append(refusals("core", h.engine.Core().RejectedInput()), refusals("engine", h.engine.Refused())...) {
		s.Refused = append(s.Refused, metrics.Counter{Meaning: c.Meaning, Value: c.Value})
	}
	return nil
}
