package ilnphost

import (
	"context"
	"time"
)

// The search for sockets on real addresses takes a processor about 2 ms, and 5 ms with 10,000
// sockets; with any number at most a hundredth of its time.
const (
	firstSweeps = time.Second
	sweepEach   = 5 * time.Second
	sweepShare  = 100
)

// watchSockets keeps the marks of sockets on real addresses until ctx is done. Without
// them the programs look sockets up for each packet that may be for one, which is only
// slower. It begins when the programs of an earlier process are out of use: they do not
// read what hooks of this process mark.
func (h *Host) watchSockets(ctx context.Context) {
	select {
	case <-h.tookOver:
	case <-ctx.Done():
		return
	}
	if err := h.sweepSockets(ctx); err != nil {
		h.log.Info("sockets on real addresses are looked up for each packet", "why", err)
	}
}

func (h *Host) sweepSockets(ctx context.Context) error {
	cgroup, err := h.cgroup()
	if err != nil {
		return err
	}
	w, err := h.plane.WatchSockets(cgroup, h.cfg.Host.SessionPrefix)
	if err != nil {
		return err
	}
	defer w.Close()
	for wait, n := firstSweeps, 1; ; wait, n = sweepEach, n+1 {
		begun := time.Now()
		if err := w.Sweep(); err != nil {
			return err
		}
		if n == 2 {
			h.log.Info("sockets on real addresses are looked up where hooks have marked them", "cgroup", cgroup)
		}
		select {
		case <-time.After(max(wait, sweepShare*time.Since(begun))):
		case <-ctx.Done():
			return nil
		}
	}
}
