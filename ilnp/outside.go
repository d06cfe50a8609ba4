package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// asSeenOutside returns what Locator Updates and proofs list: in place of a locator of a site with
// a border the locators that the border makes of it, with its preference. The first ones are listed, as many as the
// format has: an acknowledgement is compared with the list.
func (h *host) asSeenOutside(own []listed) []listed {
	var list []listed
	for _, e := range own {
		outside := h.outside(e.l64)
		if len(outside) == 0 {
			list = append(list, e)
		}
		for _, l := range outside {
			list = append(list, listed{l, e.preference})
		}
	}
	return list[:min(len(list), ilnpwire.MaxLocators)]
}

// outside returns the locators that a border makes of one of ours: as the border has told, or by
// Config.Outside.
func (h *host) outside(own roam.L64) []roam.L64 {
	if list, told := h.border[own]; told {
		return list
	}
	return h.cfg.Outside[own]
}

// saveBorder and restoreBorder keep what a border has told over a restart: else every session would
// list the internal locators until the border answers again.
func (h *host) saveBorder() (list []savedSite) {
	for _, own := range slices.Sorted(maps.Keys(h.border)) {
		list = append(list, savedSite{own, slices.Clone(h.border[own])})
	}
	return list
}

func (h *host) restoreBorder(list []savedSite) {
	h.border = make(map[roam.L64][]roam.L64)
	for _, v := range list {
		usable := slices.DeleteFunc(slices.Clone(v.Outside), func(l roam.L64) bool { return !h.cfg.acceptable(l) })
		if len(usable) > 0 {
			h.border[v.Own] = usable
		}
	}
}

// isSeenAs reports whether peers may know a locator of ours by another one.
func (h *host) isSeenAs(own, outside roam.L64) bool {
	return own == outside || slices.Contains(h.outside(own), outside)
}

// SeenOutside returns the locators by which the outside knows one of ours: that one itself, or
// those that a border makes of it.
func (c *node) SeenOutside(own roam.L64) []roam.L64 {
	if list := c.host.outside(own); len(list) > 0 {
		return list
	}
	return []roam.L64{own}
}

// Sites returns what HandleSite took last, or an earlier core had saved.
func (c *node) Sites() map[roam.L64][]roam.L64 { return maps.Clone(c.host.border) }

// HandleSite takes which locators the border of a site makes of ours now, the most preferred first,
// in place of what it told before. Peers are told if that changes what they know. The caller knows
// that the border says so.
func (c *Core) HandleSite(now time.Time, sites map[roam.L64][]roam.L64) {
	if maps.EqualFunc(sites, c.host.border, slices.Equal) {
		return
	}
	c.host.border = maps.Clone(sites)
	c.localsChanged(now, c.host.active, "the site border reports its locators")
}

// The pace at which nonces are shown to a border.
const (
	showEvery = 10 * time.Millisecond
	showBatch = 32
	// showUsed is how long ago a session may have been used last.
	showUsed = 20 * time.Second
)

// HandleBorder has one packet with our nonce go to each correspondent of a session that is in use
// over a link, and one with the correspondent's come back, so that a border on the way which has
// lost its state knows both. One that began anew does not know either which locators the correspondents have
// acknowledged. It announces them itself, but in sessions with keys, which announce theirs once more.
func (c *Core) HandleBorder(now time.Time, link roam.LinkID, anew bool) {
	over := func(s *session) bool {
		return slices.ContainsFunc(s.entry.Paths, func(p Path) bool { return p.Local.Link == link })
	}
	for _, s := range c.sessions {
		if anew && s.keys != nil && s.state == Established && over(s) {
			s.borderAnew = borderAnew{now, link}
		}
	}
	c.showing = slices.DeleteFunc(c.byUse(), func(s *session) bool {
		return s.state != Established || now.Sub(later(s.lastTx, s.lastRx)) > showUsed || !over(s)
	})
	c.showOn = link
	c.showSome(now)
}

// borderAnew is when a border on a link began anew that is to read the set of a session; zero: it knows that.
type borderAnew struct {
	at   time.Time
	link roam.LinkID
}

// showSome sends the next probes.
func (c *Core) showSome(now time.Time) {
	n := min(len(c.showing), showBatch)
	for _, s := range c.showing[:n] {
		if c.sessions[s.key] == s && s.state == Established && len(s.entry.Paths) > 0 {
			c.probes.forget(&s.sent, now.Add(-tokenLife))
			i := slices.IndexFunc(s.entry.Paths, func(p Path) bool { return p.Local.Link == c.showOn })
			c.sendProbe(now, c.ask(now, s), probe{path: s.entry.Paths[max(i, 0)], lone: true, moot: true})
		}
	}
	if c.showing = c.showing[n:]; len(c.showing) > 0 {
		c.arm(&c.host.schedule, timerShow, now, showEvery)
	}
}

// announceForBorder announces the present set of a session once more by a link whose border began anew: since this
// probe was answered by it, the border knows the nonces of both ends, and reads the acknowledgement.
func (c *updates) announceForBorder(now time.Time, s *session, pr probe) {
	b := s.borderAnew
	if b.at.IsZero() || pr.sent.Before(b.at) || pr.path.Local.Link != b.link {
		return
	}
	s.borderAnew = borderAnew{}
	others := slices.DeleteFunc(c.pathsFor(now, s), func(p Path) bool { return p == pr.path })
	if list := c.listingFor(s, c.pathsKept(now, s)); len(list) > 0 {
		c.startUpdate(now, s, list, append([]Path{pr.path}, others...))
	}
}
