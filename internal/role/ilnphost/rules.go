package ilnphost

import (
	"fmt"
	"slices"
	"time"

	"roam/internal/config"
)

// applyRules puts the rules of a new configuration in force; after an error the old ones are.
func (h *Host) applyRules(now time.Time, next config.Config) error {
	if slices.EqualFunc(h.cfg.Rules, next.Rules, config.SameRule) {
		return nil
	}
	if err := h.engine.SetRules(now, next.Rules); err != nil {
		return err
	}
	h.cfg.Rules = next.Rules
	return nil
}

// idleRules says which rules, or which of their links, have no effect at present; call it in
// the engine's goroutine.
func (h *Host) idleRules() (out []string) {
	cgroups := h.engine.Cgroups()
	for i, r := range h.cfg.Rules {
		title := config.RuleTitle(i, r)
		if r.Cgroup != "" && i < len(cgroups) && cgroups[i] == 0 {
			out = append(out, fmt.Sprintf("%s matches nothing: there is no cgroup %s", title, r.Cgroup))
		}
		for _, link := range r.Uses() {
			if _, there := h.engine.LinkByName(link); !there {
				out = append(out, fmt.Sprintf("%s does without the link %s, which is not there", title, link))
			}
		}
	}
	return out
}
