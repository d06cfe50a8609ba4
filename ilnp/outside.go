package ilnp

import (
	"slices"

	"roam"
)

// asSeenOutside returns what Locator Updates and proofs list: in place of a locator of a site with
// a border the locators that the border makes of it (Config.Outside), with its preference.
func (h *host) asSeenOutside(own []listed) []listed {
	if len(h.cfg.Outside) == 0 {
		return own
	}
	var list []listed
	for _, e := range own {
		outside := h.cfg.Outside[e.l64]
		if len(outside) == 0 {
			list = append(list, e)
		}
		for _, l := range outside {
			list = append(list, listed{l, e.preference})
		}
	}
	return list
}

// isSeenAs reports whether peers may know a locator of ours by another one.
func (h *host) isSeenAs(own, outside roam.L64) bool {
	return own == outside || slices.Contains(h.cfg.Outside[own], outside)
}
