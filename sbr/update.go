package sbr

import (
	"slices"
	"time"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// HandlePacket takes a Locator Update, its acknowledgement or an ICMPv6 error that crosses
// the border, or a fragment of one.
func (c *Core) HandlePacket(now time.Time, p Packet) {
	p, ok := c.join(now, p)
	if !ok {
		return
	}
	m, err := ilnp.ParseControl(p.Bytes, c.port)
	switch {
	case err != nil || m.Proto != ip6.ICMPv6 || m.Fragmented:
		c.refuse(p, Malformed)
	case m.Type == ilnp.TypeEchoReply && p.Inside:
		c.insideAnswered(now, p, m)
	case m.Type == ilnp.TypeEchoReply:
		c.outsideAnswered(now, p, m)
	case m.Type != ilnp.TypeLocatorUpdate:
		if p.fragmented { // an error fits into the least MTU (RFC 4443 §2.4)
			c.refuse(p, Malformed)
			return
		}
		c.handleError(p, m)
	default:
		u, err := ilnp.ParseLocatorUpdate(m.Payload)
		if err != nil || !m.Nonce.Present() {
			c.refuse(p, Malformed)
		} else if p.Inside {
			c.updateOut(now, p, m, u)
		} else {
			c.updateIn(now, p, m, u)
		}
	}
}

func (c *Core) refuse(p Packet, why Refusal) { c.out = append(c.out, Refused{p, why}) }

// provesItself reports whether a message is a proof or a vouch: its receiver verifies it, and it changes
// no flow. It comes before the nonces of its session are known, also while the flow has those of an earlier
// one.
func provesItself(m ilnp.Packet) bool { return m.Proof != nil || m.Vouch != nil }

// updateOut passes an update or acknowledgement on from inside. An update's internal
// locators become those of the site; an acknowledgement lists the correspondent's own.
func (c *Core) updateOut(now time.Time, p Packet, m ilnp.Packet, u ilnp.LocatorUpdate) {
	group, internal := c.table.Inside[m.Src.L64]
	f := c.flows[FlowKey{m.Src.NID, m.Dst.NID}]
	live := group.locators()
	switch {
	case !internal:
		c.refuse(p, UnknownLocators)
		return
	case len(live) == 0:
		c.refuse(p, NoLink)
		return
	}
	own := f != nil && f.Outward == m.Nonce // what others send changes no flow
	switch {
	case own:
		f.Sent = now
		if u.Operation == ilnp.Acknowledgement && !provesItself(m) {
			c.accepted(now, f, false, u)
		}
	case f != nil && !provesItself(m) && !c.others.pass(now, f, true):
		c.refuse(p, OtherNonces)
		return
	}
	original := u
	switch {
	case m.Seal != nil:
		if why, deny := c.sealOut(f, own, u); deny {
			c.refuse(p, why)
			return
		}
	case provesItself(m): // covers neither its body, which says nothing more, nor its addresses
		if list := c.translate(u.Locators, live); len(list) > 0 {
			u.Locators = list
		}
	case u.Operation == ilnp.Advertisement:
		if u.Locators = c.translate(original.Locators, live); len(u.Locators) == 0 {
			c.refuse(p, UnknownLocators)
			return
		}
	}
	if f != nil && u.Operation == ilnp.Advertisement && !provesItself(m) {
		u = c.passOut(now, f, m, exchange{original: &original, outside: u, pieces: p.pieces})
	}
	if own && u.Operation == ilnp.Acknowledgement {
		f.Remote = m.Dst.L64 // the inside node has accepted an update from there
	}
	from := live[0]
	if f != nil {
		if i := slices.IndexFunc(live, func(l roam.L64) bool { return slices.Contains(f.announced, l) }); i >= 0 {
			from = live[i]
		}
	}
	link, _ := c.table.Link(from)
	c.forward(p, link, roam.ILV{L64: from, NID: m.Src.NID}, m.Dst, m, u)
}

// passOut notes an update of a flow from inside, with the flow's nonce or another one, and returns it as it leaves.
func (c *Core) passOut(now time.Time, f *flow, m ilnp.Packet, e exchange) ilnp.LocatorUpdate {
	if m.Nonce == f.Outward {
		c.claims.end(now, f, true, e.outside)
		c.remember(f, e)
		return e.outside
	}
	if m.Seal == nil {
		e.outside = distinct(now, f, e.outside)
	}
	if !hasOwnLifetimes(c, f, e.outside) {
		c.claims.add(now, f, true, m.Nonce, e)
	}
	return e.outside
}

// translate replaces internal locators by those that they are rewritten to, with the
// preference of the policy and the lifetime of the internal one. A locator that the policy
// does not know is left out. A host that has been told the live locators of its site lists these
// itself.
func (c *Core) translate(list []ilnp.LocatorEntry, live []roam.L64) (out []ilnp.LocatorEntry) {
	for _, e := range list {
		entries := c.siteEntries(e.L64, e.Lifetime)
		if slices.Contains(live, e.L64) {
			entries = []ilnp.LocatorEntry{e}
		}
		out = addEntries(out, entries)
	}
	return out
}

// locatorsOf returns the locators of entries.
func locatorsOf(entries []ilnp.LocatorEntry) []roam.L64 {
	list := make([]roam.L64, len(entries))
	for i, e := range entries {
		list[i] = e.L64
	}
	return list
}

// addEntries adds entries of locators that a list has not.
func addEntries(list, more []ilnp.LocatorEntry) []ilnp.LocatorEntry {
	for _, e := range more {
		if !slices.ContainsFunc(list, func(o ilnp.LocatorEntry) bool { return o.L64 == e.L64 }) {
			list = append(list, e)
		}
	}
	return list
}

// siteEntries lists the live site locators for an internal one. Those among which packets
// are divided have one preference, the best: a receiver sends only to locators of the best.
func (c *Core) siteEntries(internal roam.L64, lifetime uint32) (list []ilnp.LocatorEntry) {
	g := c.table.Inside[internal]
	for i, m := range g.Members {
		e, _ := c.policy.Entry(m.L64)
		prec := uint32(e.Prec)
		if i > 0 && g.Advice == AdviceVLB {
			prec = list[0].Preference
		}
		list = append(list, ilnp.LocatorEntry{L64: m.L64, Preference: prec, Lifetime: lifetime})
	}
	return list
}

// updateIn passes an update or acknowledgement on from outside.
func (c *Core) updateIn(now time.Time, p Packet, m ilnp.Packet, u ilnp.LocatorUpdate) {
	f := c.flows[FlowKey{m.Dst.NID, m.Src.NID}]
	to, known := c.table.Behind[m.Dst.L64]
	link := Routed
	if f != nil {
		to, link = f.Internal, c.linkTo(f)
	}
	switch {
	case !known:
		c.refuse(p, UnknownLocators)
		return
	}
	own := f != nil && f.Inward == m.Nonce // what others send changes no flow
	switch {
	case f != nil && !own && !provesItself(m) && !c.others.pass(now, f, false):
		c.refuse(p, OtherNonces)
		return
	case m.Seal != nil && own:
		c.sealIn(now, f, u)
	case m.Seal != nil:
	case provesItself(m):
	case u.Operation == ilnp.Acknowledgement:
		about, why := c.acknowledged(now, f, m.Nonce, u)
		if why != Refusals {
			c.refuse(p, why)
		}
		if about.original == nil {
			return
		}
		u, p.pieces = about.original.Ack(), about.pieces
	}
	if u.Operation == ilnp.Advertisement {
		if m.Proof == nil && slices.ContainsFunc(u.Locators, c.isOurs) {
			c.refuse(p, ForeignLocators)
			return
		}
		switch {
		case provesItself(m) && !own:
		case own:
			f.remotes = remotesOf(u)
			c.claims.end(now, f, false, u)
		case f != nil:
			c.claims.add(now, f, false, m.Nonce, exchange{outside: u})
		}
	}
	c.forward(p, link, m.Src, roam.ILV{L64: to, NID: m.Dst.NID}, m, u)
}

// isOurs reports whether nobody outside can have a locator.
func (c *Core) isOurs(e ilnp.LocatorEntry) bool {
	_, known := c.policy.Entry(e.L64)
	return known || !e.L64.Usable()
}

// acknowledged finds what an acknowledgement with that nonce is about. From then on the outside node knows
// the locators of that update, if it has the nonce of the flow, or shows that it has another one. If the update has an
// original, the inside node waits for the acknowledgement, too. why: it is refused, if it is not Refusals.
func (c *Core) acknowledged(now time.Time, f *flow, n ilnp.Nonce, u ilnp.LocatorUpdate) (about exchange, why Refusal) {
	if f == nil {
		return about, UnknownAck
	}
	own := f.Inward == n
	if own {
		if about, ok := c.accepted(now, f, true, u); ok {
			return about, Refusals
		}
	}
	ok := false
	for _, e := range f.sent {
		if !e.is(u) {
			continue
		}
		if ok = true; e.original != nil {
			about = e
		}
	}
	switch {
	case f.renewal.isTried(u) && own:
		return about, shown(c, now, f, n, f.renewal.trial.nonce, u)
	case f.renewal.isTried(u): // both are new, so the data plane sees a session that begins
		return about, WrongNonce
	case !ok && own:
		return about, UnknownAck
	case !ok:
		f.renews().guesses++
		return about, UnknownAck
	case own:
		c.settle(now, f, about, u)
	case about.original == nil:
		return about, shown(c, now, f, n, f.Outward, u)
	}
	return about, Refusals
}

// settle takes what an outside node has acknowledged with its nonce; about: what came from inside of it.
func (c *Core) settle(now time.Time, f *flow, about exchange, u ilnp.LocatorUpdate) {
	matches := func(e exchange) bool { return e.is(u) }
	newest := matches(f.sent[len(f.sent)-1])
	f.sent = slices.DeleteFunc(f.sent, matches)
	if !newest {
		return
	}
	if about.original != nil {
		f.listed = c.policy.internalOf(about.original.Locators)
	}
	c.learns(now, f, u)
}

// learns takes what the outside node of a flow has acknowledged of the latest update, and announces what that lacks.
func (c *Core) learns(now time.Time, f *flow, u ilnp.LocatorUpdate) {
	c.knows(f, u)
	if f.confirmed {
		c.agenda.Retire(&f.Schedule)
		f.queued = false
		if hasOwnLifetimes(c, f, u) {
			c.arm(f, lapse, now, renewAfter)
		}
	} else {
		f.tries = 0
		c.announce(now, f)
	}
}

// is reports whether an acknowledgement is about what went outside.
func (e exchange) is(u ilnp.LocatorUpdate) bool {
	return sameBody(e.outside, u)
}

// knows takes what the outside node of a flow has acknowledged.
func (c *Core) knows(f *flow, u ilnp.LocatorUpdate) {
	f.announced = f.announced[:0]
	for _, e := range u.Locators {
		f.announced = append(f.announced, e.L64)
	}
	c.tellAnnounced(f)
	f.confirmed = !f.stale && sameSet(f.announced, locatorsOf(c.entries(f)))
}

// forward sends a message on with other addresses and another body, and its checksum by the
// rule by which it came.
func (c *Core) forward(p Packet, link roam.LinkID, src, dst roam.ILV, m ilnp.Packet, u ilnp.LocatorUpdate) {
	b, err := build(src, dst, m, u)
	if err == nil && m.OverNIDs {
		err = ilnp.FinishOverNIDs(b)
	}
	if err == nil && m.Encapsulated {
		b, err = ilnp.Encapsulate(b, c.port)
	}
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	c.transmitAs(p, Transmit{link, b})
}
