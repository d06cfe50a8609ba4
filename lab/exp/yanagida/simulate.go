package yanagida

import (
	"time"

	"roam/lab/exp"
	"roam/lab/packets"
	"roam/lab/virtual"
)

// simulate executes the schedule on the engine sim. It generates datagrams in place of
// iperf3; the judge is the same.
func simulate(env *exp.Env, c cell) (*outcome, error) {
	p := env.Params
	perSecond := p.Float("rate_iperf_mbps") * 1e6 / 8 / p.Float("length")
	pass, err := virtual.Run(config(env, c.name, c.arm, c.mode, c.rtt), c.plan.Schedule, []virtual.Flow{
		{Port: portOut, Rate: perSecond, Size: p.Int("length")},
		{Port: portIn, Rate: perSecond, Size: p.Int("length"), In: true},
	})
	if err != nil {
		return nil, err
	}
	s := &seen{cell: c, trace: pass.Trace, prefix: pass.Prefix, mn: pass.Mobile, cn: pass.Peer}
	o := &outcome{Arm: c.arm.Title(), RTTMs: c.rtt.Seconds() * 1e3}
	s.judge(o)
	o.Alive = s.late(portOut) && s.late(portIn)
	return o, nil
}

// late reports whether a test still delivered data in the last second of the schedule.
func (s *seen) late(port uint16) bool {
	list := s.cn
	if port == portIn {
		list = s.mn
	}
	return len(packets.Select(list, func(p packets.Packet) bool {
		to := p.DstPort == portOut && port == portOut || p.SrcPort == portIn && port == portIn
		return s.data(p) && to && p.At.After(s.trace.End.Add(-time.Second)) && p.At.Before(s.trace.End)
	})) > 0
}

// unsimulated marks the metrics that need a kernel, which the engine sim lacks.
func unsimulated(env *exp.Env) {
	for _, m := range []string{"beside_packets", "beside_changed", "beside_lost", "beside_capture_dropped",
		"beside_content_right"} {
		env.Result.Miss(m, "the engine sim has no kernel beside which plain IPv6 could run")
	}
}
