package ilnphost

import (
	"fmt"

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
		rule := flowrule.Rule{Policy: flowrule.Failover, Links: []string{}}
		for _, l := range from {
			for _, at := range h.attachments {
				if at.l64 == l {
					rule.Links = append(rule.Links, linkName(at.link))
				}
			}
		}
		h.plane.state.Rules = []decide.Rule{{Port: port, OnePath: true}}
		set = flowrule.Set{rule}
	}
	h.core.SetRules(h.net.Now(), number, set)
	h.net.Settle(h)
}

func linkName(l roam.LinkID) string { return fmt.Sprintf("net%d", l) }
