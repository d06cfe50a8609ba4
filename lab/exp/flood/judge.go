package flood

import (
	"time"

	"roam/lab/result"
	"roam/lab/scene"
	"roam/lab/workload/udpflow"
)

// measured holds the records of a run.
type measured struct {
	base       time.Duration // median time to the first echo without flood
	most, rate float64       // packets a second: of saturation, of the flood
	sent       int           // packets of both floods
	arrived    uint64        // of them, as the router counts them on the link to the host
	during     []honest      // honest peers that came during the floods
	acked      int           // honest peers whose locators the host acknowledged at the end
	start, end memory
	peak       int // greatest size of the daemon
	up, down   *udpflow.Flow
	overflows  int // datagrams that receive buffers refused
	// What the daemon says. No claim judges it.
	daemonArrived  uint64
	daemonSessions int
}

// wanted is how many honest peers the host should have a session with.
func (m *measured) wanted() int { return before + len(m.during) }

// entry is the size of a session's entry in the hash, in bytes. Each honest peer has a
// session by the end.
const entry = 256

// metrics sets the metrics of all claims. A peer that failed counts as one that took all the time that it had.
func (m *measured) metrics(r *result.Result) {
	var slowest, sum time.Duration
	failed := 0
	for _, h := range m.during {
		if h.err != nil {
			failed++
			slowest = max(slowest, patience)
			continue
		}
		slowest, sum = max(slowest, h.first), sum+h.first
	}
	r.Set("saturating_pps", m.most)
	r.Set("flood_pps", m.rate)
	r.Set("arrived_share", float64(m.arrived)/float64(m.sent))
	r.Set("daemon_arrived_share", float64(m.daemonArrived)/float64(m.sent))
	r.Set("daemon_sessions", float64(m.daemonSessions))
	r.Set("honest_rtt_ms", m.base.Seconds()*1000)
	r.Set("honest_during", float64(len(m.during)))
	r.Set("honest_failed", float64(failed))
	r.Set("honest_left_out", float64(max(m.wanted()-m.acked, failed)))
	r.Set("honest_slowest_ms", slowest.Seconds()*1000)
	r.Set("honest_slowest_rtts", float64(slowest)/float64(m.base))
	if n := len(m.during) - failed; n > 0 {
		r.Set("honest_mean_ms", sum.Seconds()*1000/float64(n))
	}
	grown := float64(m.end.maps-m.start.maps) - entry*float64(len(m.during))
	r.Set("map_growth_kib", max(grown, 0)/1024)
	r.Set("maps_kib", float64(m.end.maps)/1024)
	r.Set("rss_growth_mib", float64(max(m.peak, m.end.rss)-m.start.rss)/(1<<20))
	r.Set("rss_before_mib", float64(m.start.rss)/(1<<20))
	out, in := m.up.Count(time.Time{}, time.Now()), m.down.Count(time.Time{}, time.Now())
	r.Set("udp_written", float64(out.Written+in.Written))
	lost := scene.Owners{}.Account("the session", m.up, m.down, [2]time.Time{{}, time.Now()})
	r.AddLoss(lost)
	r.Set("udp_lost", float64(lost.Roam()))
	r.Set("udp_refused_by_buffers", float64(m.overflows))
}
