package multipath

// TCP ends its first slow start when it sees a queue grow, or lose packets. Before several paths it sees one late, as
// what comes by the path with the shortest queue hides the others, and the last doubling of the window overflows short
// queues. Segments that are lost there among others that were only overtaken cost a retransmission time-out (see
// docs/design/scheduler.md). What the paths hold is known, so slow start ends there.
const (
	slowStartMore = 1.1      // of what the paths hold without queues: rates are known to a tenth
	slowStartFast = 20 << 20 // bytes a second from which on trains do not tell how fast a path is
	slowStartNews = 1.125    // what is less news than this changes nothing
)

// slowStart returns how many bytes the first slow start of a connection may have under way, where several paths are in
// use; 0: that is not known, or connections keep to one path each.
func (m *Machine[P]) slowStart(u Use[P]) int {
	bytes := 0.0
	if !u.PerFlow {
		bytes = slowStartMore * m.holds(u)
	}
	if was := float64(m.bound); bytes == 0 || max(bytes, was) > slowStartNews*min(bytes, was) {
		m.bound = int(bytes)
	}
	return m.bound
}

// holds returns how many bytes the paths that TCP takes hold in a round trip without queues; 0: of one it is not known.
func (m *Machine[P]) holds(u Use[P]) (bytes float64) {
	for _, p := range u.Paths {
		if !u.taken(p) {
			continue
		}
		r, rtt := m.rates[p], m.lengths.by[p].rtt()
		if !r.Sure || r.Bytes >= slowStartFast || rtt == 0 {
			return 0
		}
		bytes += r.Bytes * rtt.Seconds()
	}
	return bytes
}
