package ilnphost

import (
	"roam"
	"roam/flowrule"
	"roam/wire/xlate/decide"
)

// setRule gives a host the rule that flows to a port of its peers leave from the first of some
// locators that works, or takes its rules away.
func (h *Node) setRule(number uint32, port uint16, from ...roam.L64) {
	h.plane.state.Rules = nil
	var set flowrule.Set
	if len(from) > 0 {
		h.plane.state.Rules = []decide.Rule{{Port: port, From: from}}
		set = flowrule.Set{{Policy: flowrule.Failover}}
	}
	h.core.SetRules(h.net.Now(), number, set)
	h.net.Settle(h)
}
