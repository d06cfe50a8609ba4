package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"roam/ilnp"
	"roam/internal/control"
	"roam/internal/metrics"
)

// tally counts events for the metrics; only the engine's goroutine touches it.
type tally struct {
	handoffs                          map[string]uint64
	handoffTime, updateRTT            metrics.Histogram
	sent, failed, peerMoves, fellBack uint64
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
	case ilnp.PeerMoved, ilnp.UpdateReceived:
		t.peerMoves++
	case ilnp.SessionFellBack:
		t.fellBack++
	}
}

// startMetrics serves the metrics. Without them the host works as well, so a
// fault is a warning.
func (d *Daemon) startMetrics() {
	at := d.cfg.Metrics.Listen
	if !at.IsValid() {
		return
	}
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		d.warn("metrics are not served: " + err.Error())
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", d.serveMetrics)
	d.metrics = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	go func() {
		if err := d.metrics.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.opts.Log.Warn("metrics are not served any more", "err", err)
		}
	}()
}

func (d *Daemon) serveMetrics(w http.ResponseWriter, r *http.Request) {
	s, err := d.snapshot(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", metrics.Content)
	_ = metrics.Write(w, s) // a reader that has gone needs no error
}

// snapshot takes all figures at one moment.
func (d *Daemon) snapshot(ctx context.Context) (metrics.Snapshot, error) {
	s := metrics.Snapshot{
		Version: d.opts.Version, NID: d.nid.String(), StartSeconds: float64(d.started.UnixMilli()) / 1000, Starts: d.starts,
		Sessions: make(map[string]uint64), Handoffs: make(map[string]uint64),
		HandoffTime: &metrics.Histogram{}, UpdateRTT: &metrics.Histogram{},
	}
	var failure error
	err := d.do(ctx, func(now time.Time) {
		core := d.engine.Core()
		s.Mode, s.Attach, s.Adopted = control.ModeName(core.Mode()), d.plane.Attach(), d.plane.Adopted()
		tally := core.Tally()
		for state, n := range tally.Sessions {
			s.Sessions[control.SessionStateName(ilnp.SessionState(state))] = n
		}
		s.Sessions[control.StateKnown], s.Dead = tally.Silent, tally.Dead
		for _, l := range core.Locals(now) {
			c := control.LocatorFrom(l, d.linkNames())
			s.Locators = append(s.Locators, metrics.Locator{Link: c.Link, L64: l.L64.Prefix().String(), State: c.State, Disabled: c.Disabled})
		}
		t := d.tally
		for trigger, n := range t.handoffs {
			s.Handoffs[trigger] = n
		}
		*s.HandoffTime, *s.UpdateRTT = t.handoffTime, t.updateRTT
		s.UpdatesSent, s.UpdatesFailed, s.PeerMoves, s.FellBack = t.sent, t.failed, t.peerMoves, t.fellBack
		s.SkippedLines = uint64(len(d.hosts.Faults))
		failure = d.counterMetrics(&s)
	})
	return s, errors.Join(err, failure)
}

func (d *Daemon) counterMetrics(s *metrics.Snapshot) error {
	counters, err := d.plane.Counters()
	if err != nil {
		return err
	}
	for _, c := range counters {
		s.Counters = append(s.Counters, metrics.Counter{Name: c.Name, Meaning: c.Meaning, Value: c.Value})
	}
	for _, c := range d.nameCounters() {
		s.Counters = append(s.Counters, metrics.Counter{Name: c.Name, Meaning: c.Meaning, Value: c.Value})
	}
	for _, c := range append(refusals("core", d.engine.Core().RejectedInput()), refusals("engine", d.engine.Refused())...) {
		s.Refused = append(s.Refused, metrics.Counter{Meaning: c.Meaning, Value: c.Value})
	}
	return nil
}

// countStart returns how many daemons were started on this run directory,
// which a reboot empties.
func countStart(runDir string) (uint64, error) {
	file := filepath.Join(runDir, "starts")
	n := uint64(0)
	if b, err := os.ReadFile(file); err == nil {
		// Whatever else stands there is not worth to fail for: count from one.
		n, _ = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	}
	n++
	if err := os.WriteFile(file, []byte(strconv.FormatUint(n, 10)+"\n"), 0o644); err != nil {
		return n, fmt.Errorf("count starts: %w", err)
	}
	return n, nil
}
