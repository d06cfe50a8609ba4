package ilnphost

import "context"

// boundSlowStarts has slow start of connections over several paths end at what these hold, until ctx is done. It begins
// when sessions do not wait to begin.
func (h *Host) boundSlowStarts(ctx context.Context) {
	select {
	case <-h.tookOver:
	case <-ctx.Done():
		return
	}
	cgroup, err := h.cgroup()
	if err != nil {
		h.log.Info("slow start of connections is not bounded", "why", err)
		return
	}
	s, err := h.plane.BoundSlowStarts(cgroup, h.cfg.Host.SessionPrefix)
	if err != nil {
		h.log.Info("slow start of connections is not bounded", "why", err)
		return
	}
	<-ctx.Done()
	if err := s.Close(); err != nil {
		h.log.Warn("cannot end bounds of slow start", "err", err)
	}
}
