package ilnp

import (
	"cmp"
	"slices"
	"time"

	"roam"
)

// Preferences that we give our own locators in a Locator Update unless the user wants
// others (preference.go); lower is preferred (RFC 6742 §2.3).
const (
	preferActive uint16 = 10
	preferValid  uint16 = 20
)

// confirmWithin bounds how long a locator that came from a predecessor's state
// is believed before the system has shown it again.
const confirmWithin = 3 * time.Second

// local is one locator of this host. Its state is that of RFC 6741 §5.1 and
// changes so:
//
//	from     event                              to
//	-        prefix appears                     VALID, as new
//	VALID    reselect takes it                  ACTIVE
//	ACTIVE   reselect leaves it                 VALID
//	VALID    lifetime over                      AGED
//	ACTIVE   lifetime over, a replacement       AGED
//	ACTIVE   lifetime over, no replacement      EXPIRED
//	EXPIRED  prefix refreshed                   ACTIVE
//	EXPIRED  a replacement                      AGED
//	AGED     prefix refreshed                   VALID, as new
//	any      prefix or link gone                -
//
// "As new" is what may start a handoff; a refresh never does, so that two
// networks in reach do not throw the host to and fro.
type local struct {
	roam.LinkLocator
	state     LocatorState
	expires   time.Time // of the preferred lifetime; zero: never
	since     time.Time // in this state of being there
	rank      int       // the newest link has the highest
	arrival   int       // tells locators of one rank apart, the older first
	confirmBy time.Time // zero: the system has shown it
}

func (l *local) within(now time.Time) bool { return l.expires.IsZero() || l.expires.After(now) }

// host is this host's own half of the cache (RFC 6741 §5.1): its locators, and which of
// them are in use. It tells people what becomes of them; whoever changes it calls
// reselect, which says whether sessions have to follow.
type host struct {
	schedule schedule
	cfg      *Config
	out      *outbox
	agenda   *agenda
	locals   []*local // by link and locator
	names    map[roam.LinkID]string
	mtus     map[roam.LinkID]int
	disabled map[roam.LinkID]bool
	left     map[roam.LinkID]bool    // disabled by a predecessor, and not seen by this process
	active   []roam.LinkLocator      // newest first
	told     []listed                // what a Locator Update would list
	border   map[roam.L64][]roam.L64 // what a site border makes of a locator of ours, as it has told
	ranks    int
	arrivals int
}

func newHost(cfg *Config, out *outbox, agenda *agenda) host {
	return host{
		cfg: cfg, out: out, agenda: agenda,
		names: make(map[roam.LinkID]string), mtus: make(map[roam.LinkID]int), disabled: make(map[roam.LinkID]bool),
		left: make(map[roam.LinkID]bool),
	}
}

// listed is one locator as a Locator Update lists it.
type listed struct {
	l64        roam.L64
	preference uint16
}

func (h *host) find(at roam.LinkLocator) (int, bool) {
	return slices.BinarySearchFunc(h.locals, at, func(l *local, at roam.LinkLocator) int { return compareLocal(l.LinkLocator, at) })
}

func compareLocal(a, b roam.LinkLocator) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.L64, b.L64))
}

// ranked returns the locals that satisfy keep, the one to prefer first.
func (h *host) ranked(keep func(*local) bool) []*local {
	var ls []*local
	for _, l := range h.locals {
		if keep(l) {
			ls = append(ls, l)
		}
	}
	slices.SortStableFunc(ls, func(a, b *local) int {
		return cmp.Or(cmp.Compare(h.preferenceOf(a), h.preferenceOf(b)), cmp.Compare(h.placeOf(a), h.placeOf(b)),
			cmp.Compare(b.rank, a.rank), cmp.Compare(a.arrival, b.arrival))
	})
	return ls
}

// placeOf is where the user puts the link of a locator, see Config.Place.
func (h *host) placeOf(l *local) int {
	if h.cfg.Place == nil {
		return 0
	}
	return h.cfg.Place(h.names[l.Link])
}

// rankNew gives a locator that counts as new its place. On another link than
// the one in use it comes before all others; on the same link it comes right
// behind those that are there, as it renumbers and does not move the host.
func (h *host) rankNew(l *local) {
	h.arrivals++
	l.arrival = h.arrivals
	for _, a := range h.active {
		i, ok := h.find(a)
		if ok && a.Link == l.Link && h.locals[i] != l && h.locals[i].state == Active {
			l.rank = h.locals[i].rank
			return
		}
	}
	h.ranks++
	l.rank = h.ranks
}

// present takes that a prefix on a link appeared or was refreshed. It returns why the
// locators in use may change.
func (h *host) present(now time.Time, ev roam.PrefixEvent) (why string) {
	if ev.LinkName != "" {
		// The index may mean another link than it did to a predecessor. A link that this process has seen was
		// renamed.
		if old := h.names[ev.Link]; old != "" && old != ev.LinkName && h.left[ev.Link] {
			delete(h.disabled, ev.Link)
		}
		h.names[ev.Link] = ev.LinkName
		delete(h.left, ev.Link)
	}
	i, there := h.find(ev.LinkLocator)
	if !there {
		h.locals = slices.Insert(h.locals, i, &local{LinkLocator: ev.LinkLocator, state: Aged, since: now})
	}
	l := h.locals[i]
	l.expires, l.confirmBy = deadline(now, max(ev.Preferred, 0)), time.Time{}
	if l.state != Aged || !l.within(now) {
		return "lifetime renewed"
	}
	l.state, l.since = Valid, now
	h.rankNew(l)
	h.out.notify(Event{Time: now, Kind: LocatorAdded, To: []roam.LinkLocator{l.LinkLocator}, Locators: []roam.L64{l.L64}})
	return "new locator"
}

// withdraw takes that a prefix went. It reports whether it was there.
func (h *host) withdraw(now time.Time, at roam.LinkLocator) bool {
	i, there := h.find(at)
	if there {
		h.drop(now, i, "withdrawn")
	}
	return there
}

// lose takes that a link and all its locators are lost at once.
func (h *host) lose(now time.Time, link roam.LinkID) {
	for i := len(h.locals) - 1; i >= 0; i-- {
		if h.locals[i].Link == link {
			h.drop(now, i, "link lost")
		}
	}
}

// forgetName forgets the name of a link without locators: one that is plugged
// in again comes back with another index, and a year has many. A command that
// disabled the link outlives it, with the name that tells whether it is meant.
func (h *host) forgetName(link roam.LinkID) {
	if !h.disabled[link] && !slices.ContainsFunc(h.locals, func(l *local) bool { return l.Link == link }) {
		delete(h.names, link)
	}
}

// enable takes a link back into use; its locators count as new.
func (h *host) enable(link roam.LinkID) {
	delete(h.disabled, link)
	h.forgetName(link)
	h.ranks++
	for _, l := range h.locals {
		if l.Link == link {
			l.rank = h.ranks
		}
	}
}

func (h *host) drop(now time.Time, i int, reason string) {
	l := h.locals[i]
	h.locals = slices.Delete(h.locals, i, i+1)
	h.forgetName(l.Link)
	if l.state != Aged {
		h.removed(now, l, reason)
	}
}

func (h *host) removed(now time.Time, l *local, reason string) {
	h.out.notify(Event{Time: now, Kind: LocatorRemoved, From: []roam.LinkLocator{l.LinkLocator}, Locators: []roam.L64{l.L64}, Reason: reason})
}

// dropUnconfirmed drops the locators of a predecessor's state that the system has not
// shown again in time.
func (h *host) dropUnconfirmed(now time.Time) {
	for i := len(h.locals) - 1; i >= 0; i-- {
		if by := h.locals[i].confirmBy; !by.IsZero() && !by.After(now) {
			h.drop(now, i, "not there any more")
		}
	}
}

// reselect brings the states of the locators and the active set in line with the mode.
// It returns the active set before, and whether that, or what correspondents ought to
// know, has changed.
func (h *host) reselect(now time.Time) (before []roam.LinkLocator, changed bool) {
	before, told := h.active, h.told
	h.restateAll(now)
	return before, !slices.Equal(before, h.active) || !slices.Equal(told, h.told)
}

func (h *host) restateAll(now time.Time) {
	chosen := h.choose(now)
	for _, l := range h.locals {
		h.restate(now, l, slices.Contains(chosen, l))
	}
	h.active = placesOf(chosen)
	h.told = h.listing(now)
	h.arm(now)
}

// choose returns the locators to be ACTIVE, the newest first. Past-lifetime
// ones serve when there is nothing else (RFC 6741 §5.1, "expired").
func (h *host) choose(now time.Time) []*local {
	chosen := h.ranked(func(l *local) bool { return !h.disabled[l.Link] && l.within(now) })
	if len(chosen) > 1 && h.cfg.Mode != Duality {
		chosen = chosen[:1]
	}
	if len(chosen) == 0 {
		chosen = h.ranked(func(l *local) bool { return !h.disabled[l.Link] })
		chosen = chosen[:min(len(chosen), 1)]
	}
	return chosen
}

func (h *host) restate(now time.Time, l *local, inUse bool) {
	was := l.state
	switch within := l.within(now); {
	case within && inUse:
		l.state = Active
	case within:
		l.state = Valid
	case inUse:
		l.state = Expired
	default:
		l.state = Aged
	}
	if l.state == Aged && was != Aged {
		h.removed(now, l, "lifetime over")
	}
}

// arm sets the timer for the next end of a lifetime.
func (h *host) arm(now time.Time) {
	var next time.Time
	for _, l := range h.locals {
		if l.within(now) {
			next = sooner(next, l.expires)
		}
		next = sooner(next, l.confirmBy)
	}
	if next.IsZero() {
		h.agenda.disarm(&h.schedule, timerLocal)
		return
	}
	h.agenda.arm(&h.schedule, timerLocal, now, next.Sub(now))
}

// listing returns what a Locator Update lists: every VALID and ACTIVE locator
// (RFC 6743 §4), the active ones with the better preference. An immediate
// handoff ends the validity of what it leaves (RFC 6740 §6.2), so the hard
// mode lists the active ones only. A locator on two links is listed once.
func (h *host) listing(now time.Time) []listed {
	var list []listed
	for _, l := range h.usable(now) {
		known := slices.ContainsFunc(list, func(e listed) bool { return e.l64 == l.L64 })
		if !known && (l.state == Active || l.state == Valid && h.cfg.Mode != Hard) {
			list = append(list, listed{l64: l.L64})
		}
	}
	h.prefer(list, func(l roam.L64) bool {
		return slices.ContainsFunc(h.locals, func(o *local) bool { return o.L64 == l && o.state == Active })
	})
	return list
}

// isOnly reports whether a locator is all that the host has. If so, a
// correspondent that has it needs not be told; else it may have looked up
// more, which answer and yet are not listed: those that the hard mode has left,
// or a command has disabled.
func (h *host) isOnly(l64 roam.L64) bool {
	return !slices.ContainsFunc(h.locals, func(l *local) bool { return l.L64 != l64 })
}

// usable returns the locators that packets can leave from: the active ones
// first, then those held in reserve. What is active is so until reselect has
// said otherwise, however late the timer of its lifetime is.
func (h *host) usable(now time.Time) []*local {
	ls := h.ranked(func(l *local) bool {
		return !h.disabled[l.Link] && (l.within(now) || l.useOrder() > 0)
	})
	slices.SortStableFunc(ls, func(a, b *local) int { return cmp.Compare(b.useOrder(), a.useOrder()) })
	return ls
}

func (l *local) useOrder() int {
	if l.state == Active || l.state == Expired {
		return 1
	}
	return 0
}

// expiry returns when the last of the prefixes with locator l64 ends; false if
// there is none within its lifetime.
func (h *host) expiry(now time.Time, l64 roam.L64) (end time.Time, ok bool) {
	for _, l := range h.locals {
		switch {
		case !h.isSeenAs(l.L64, l64) || h.disabled[l.Link] || !l.within(now):
		case l.expires.IsZero():
			return time.Time{}, true
		default:
			end, ok = later(end, l.expires), true
		}
	}
	return end, ok
}

// show returns the locators as people see them.
func (h *host) show(now time.Time) []LocalState {
	states := make([]LocalState, len(h.locals))
	worst := h.worst(h.isActive)
	for i, l := range h.locals {
		states[i] = LocalState{
			LinkLocator: l.LinkLocator, LinkName: h.names[l.Link], State: l.state, Disabled: h.disabled[l.Link],
			Preferred: remaining(now, l.expires), Since: l.since, Preference: h.preferenceAt(l.L64),
		}
		if !h.isActive(l.L64) {
			states[i].Preference = reserved(states[i].Preference, worst)
		}
	}
	return states
}

// HandleLocator tells that a prefix on a link appeared, was refreshed or went.
// Locators that cannot stand on the wire are refused.
func (c *Core) HandleLocator(now time.Time, ev roam.PrefixEvent) {
	switch {
	case ev.Link == 0 || !c.cfg.acceptable(ev.L64):
		c.refuse(now, SessionKey{}, reasonLocator)
	case ev.Present:
		c.reselect(now, c.host.present(now, ev))
	case c.host.withdraw(now, ev.LinkLocator):
		c.reselect(now, "locator withdrawn")
	}
}

// Detach tells that a link and all its locators are lost at once.
func (c *Core) Detach(now time.Time, link roam.LinkID) {
	c.finish()
	c.host.lose(now, link)
	c.reselect(now, "link lost")
}

// SetLinkDisabled takes a link out of use although it is up, or back in. Its
// locators keep receiving but are not listed any more. Taking a link back in
// is a command to use it: its locators count as new.
func (c *Core) SetLinkDisabled(now time.Time, link roam.LinkID, disabled bool) {
	delete(c.host.left, link)
	switch {
	case c.host.disabled[link] == disabled:
	case disabled:
		c.host.disabled[link] = true
		c.reselect(now, "link disabled")
	default:
		c.host.enable(link)
		c.reselect(now, "link enabled")
	}
}

// hostTimeout is called when the lifetime of a locator has ended, and for the next batch
// of correspondents that are told of a move.
func (c *Core) hostTimeout(now time.Time, t timer) {
	if t == timerMove {
		c.nextBatch(now)
		return
	}
	if t == timerVouch {
		handshakes{c}.announce(now)
		return
	}
	if t == timerShow {
		c.showSome(now)
		return
	}
	if t == timerSpare {
		handshakes{c}.drawSpare(now)
		return
	}
	c.host.dropUnconfirmed(now)
	c.reselect(now, "lifetime over")
}

// reselect lets the host choose its locators anew, and tells the sessions if that
// changes what they use or what their correspondents ought to know. Events of a handoff
// that follows say why.
func (c *Core) reselect(now time.Time, why string) {
	if before, changed := c.host.reselect(now); changed {
		c.localsChanged(now, before, why)
	}
}

// Locals returns the locators of this host, in the order of link and locator.
func (c *node) Locals(now time.Time) []LocalState { return c.host.show(now) }
