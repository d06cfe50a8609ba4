package ilnp

import (
	"slices"
	"time"

	"roam"
)

// preferReserve is how much higher the number of a locator in reserve is at least than that
// of each in use.
const preferReserve = preferValid - preferActive

// preferenceOf returns what the user wants for the locators of a link, see Config.Preference.
func (h *host) preferenceOf(l *local) uint16 { return h.preferenceOn(l.Link) }

func (h *host) preferenceOn(link roam.LinkID) uint16 {
	if h.cfg.Preference == nil {
		return preferActive
	}
	return h.cfg.Preference(h.names[link])
}

// preferenceAt returns the preference of a locator in use: on several links, the best one.
func (h *host) preferenceAt(l64 roam.L64) uint16 {
	least, found := preferActive, false
	for _, l := range h.locals {
		if p := h.preferenceOf(l); l.L64 == l64 && !h.disabled[l.Link] && (!found || p < least) {
			least, found = p, true
		}
	}
	return least
}

// reserved returns the preference of a locator in reserve, given its own and the worst of
// those in use: a peer sends to the lowest number, so none in reserve may have that.
func reserved(own, worst uint16) uint16 {
	if own > worst {
		return own
	}
	return min(worst, 0xffff-preferReserve) + preferReserve
}

// worst returns the highest preference of the locators that satisfy uses.
func (h *host) worst(uses func(roam.L64) bool) (worst uint16) {
	for _, l := range h.locals {
		if uses(l.L64) {
			worst = max(worst, h.preferenceAt(l.L64))
		}
	}
	return worst
}

func (h *host) isActive(l64 roam.L64) bool {
	return slices.ContainsFunc(h.active, func(a roam.LinkLocator) bool { return a.L64 == l64 })
}

// prefer gives the locators of a list the preferences that they have if those that satisfy
// uses are in use.
func (h *host) prefer(list []listed, uses func(roam.L64) bool) {
	worst := h.worst(uses)
	for i, e := range list {
		list[i].preference = h.preferenceAt(e.l64)
		if !uses(e.l64) {
			list[i].preference = reserved(list[i].preference, worst)
		}
	}
}

// SetPreferences changes Config.Preference at run time: the active set follows at once, with
// a Locator Update to every correspondent to whom it makes a difference.
func (c *Core) SetPreferences(now time.Time, preference func(link string) uint16) {
	c.cfg.Preference = preference
	c.reselect(now, "preferences")
}
