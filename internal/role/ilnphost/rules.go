package ilnphost

import (
	"fmt"
	"slices"
	"time"

	"roam"
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

// idleRules says which rules match nothing, as something is amiss, and which of their links and peers have no effect
// at present, as may be: links come and go, and peers are added later. Call it in the engine's goroutine.
func (h *Host) idleRules() (amiss, absent []string) {
	cgroups := h.engine.Cgroups()
	for i, r := range h.cfg.Rules {
		title := config.RuleTitle(i, r)
		if r.Cgroup != "" && i < len(cgroups) && cgroups[i] == 0 {
			amiss = append(amiss, fmt.Sprintf("%s matches nothing: there is no cgroup %s", title, r.Cgroup))
		}
		for _, link := range r.Uses() {
			if _, there := h.engine.LinkByName(link); !there {
				absent = append(absent, fmt.Sprintf("%s does without the link %s, which is no uplink at present", title, link))
			}
		}
		for _, peer := range r.Peers {
			if !h.mayMeet(peer) {
				absent = append(absent, fmt.Sprintf("%s names the peer %s, of which there is no record", title, peer))
			}
		}
	}
	return amiss, absent
}

// mayMeet reports whether a session may have the peer that a rule names.
func (h *Host) mayMeet(peer string) bool {
	names := h.names.Load()
	nid, err := roam.ParseNID(peer)
	if err != nil {
		_, known := names.ByName(peer)
		return known
	}
	_, known := names.ByNID(nid)
	return known || h.cfg.Host.Accept == config.AcceptAny
}
