package hostnet

import (
	"cmp"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"roam"
)

// rules are the parts of the configuration that picture needs.
type rules struct {
	session          roam.L64
	nid              roam.NID
	former           roam.NID // whose prefix:NID stands beside it; 0: none
	device           string
	include, exclude []string
}

// accepts reports whether a link of that name may be an uplink. Globs are those
// of path.Match; a malformed one matches nothing.
func (r rules) accepts(name string) bool {
	if r.internal(name) {
		return false
	}
	matches := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(g string) bool {
			ok, err := path.Match(g, name)
			return ok && err == nil
		})
	}
	return !matches(r.exclude) && (len(r.include) == 0 || matches(r.include))
}

// asksFor reports whether the user has named a link as an uplink.
func (r rules) asksFor(name string) bool { return len(r.include) > 0 && r.accepts(name) }

// internal reports whether a link leads nowhere out of this host: the loopback and
// Roam's own.
func (r rules) internal(name string) bool {
	for _, own := range []string{r.device, r.device + segmentationSuffix} {
		if name == own || name == own+peerSuffix {
			return true
		}
	}
	return name == "lo"
}

// own returns the key of prefix:NID.
func (r rules) own(l roam.LinkLocator) addrKey {
	return addrKey{link: int(l.Link), addr: roam.ILV{NID: r.nid, L64: l.L64}.Addr()}
}

// owns returns the keys of prefix:NID for each Node Identifier of this host, the present one first.
func (r rules) owns(l roam.LinkLocator) []addrKey {
	keys := []addrKey{r.own(l)}
	if r.former != 0 {
		keys = append(keys, addrKey{link: int(l.Link), addr: roam.ILV{NID: r.former, L64: l.L64}.Addr()})
	}
	return keys
}

// isOwn reports whether an address is a prefix:NID of this host.
func (r rules) isOwn(k addrKey) bool { return slices.Contains(r.owns(k.local()), k) }

// picture is what a table means to us.
type picture struct {
	uplinks  map[int]Uplink
	locators map[roam.LinkLocator]locator
}

// locator is a prefix that a link of ours has.
type locator struct {
	name             string
	preferred, valid time.Time
	heard            uint64
	complete         bool // link up, default route present: prefix:NID belongs there
	usable           bool // complete, and the kernel answers for prefix:NID
}

// draw concludes from a table. ours are the addresses that we added: they are
// no evidence for their prefix. known are the links that are uplinks already.
func (t *table) draw(r rules, ours map[addrKey]bool, known map[int]Uplink, now time.Time) picture {
	p := picture{uplinks: map[int]Uplink{}, locators: t.prefixes(r, ours, now)}
	has, global := map[int]bool{}, map[int]bool{}
	for l := range p.locators {
		has[int(l.Link)] = true
		global[int(l.Link)] = global[int(l.Link)] || !isULA(l.L64)
	}
	for index, l := range t.links {
		u := t.uplink(index, l, now)
		_, was := known[index]
		if l.tunnel() && has[index] && !global[index] && !r.asksFor(l.name) {
			continue // the inside of somebody's network, which leads to no correspondent
		}
		if r.accepts(l.name) && !t.port(l) && (was || u.Up && u.Routed && has[index]) {
			p.uplinks[index] = u
		}
	}
	for l, x := range p.locators {
		u, ok := p.uplinks[int(l.Link)]
		if !ok {
			delete(p.locators, l)
			continue
		}
		x.name = u.Name
		x.complete = u.Up && u.Routed
		x.usable = x.complete && t.answers(r.own(l))
		p.locators[l] = x
	}
	return p
}

// prefixes collects the evidence for each prefix: the host's own addresses in
// it, of whatever length and origin, and Router Advertisements.
func (t *table) prefixes(r rules, ours map[addrKey]bool, now time.Time) map[roam.LinkLocator]locator {
	found := map[roam.LinkLocator]locator{}
	add := func(l roam.LinkLocator, preferred, valid time.Time, heard uint64) {
		if !l.L64.Usable() || l.L64 == r.session || ended(valid, now) {
			return
		}
		x, ok := found[l]
		if ok {
			preferred, valid = later(x.preferred, preferred), later(x.valid, valid)
			heard = max(x.heard, heard)
		}
		found[l] = locator{preferred: preferred, valid: valid, heard: heard}
	}
	for k, a := range t.addrs {
		if !ours[k] && a.scope == unix.RT_SCOPE_UNIVERSE && a.flags&unix.IFA_F_DADFAILED == 0 {
			add(k.local(), a.preferred, a.valid, a.heard)
		}
	}
	for l, a := range t.ras {
		add(l, a.preferred, a.valid, a.heard)
	}
	return found
}

func (t *table) uplink(index int, l link, now time.Time) Uplink {
	u := Uplink{
		Link: roam.LinkID(index), Name: l.name, MTU: l.mtuIPv6(), Up: l.up(),
		HasMAC: l.arphrd == unix.ARPHRD_ETHER, MAC: l.mac,
		Physical: l.facts.physical && l.kind == "",
	}
	u.Addrs = t.lasting(index)
	var best *route
	for i := range t.routes {
		rt := &t.routes[i]
		if rt.link == index && !ended(rt.expires, now) && (best == nil || t.better(rt, best)) {
			best = rt
		}
	}
	if best == nil {
		return u
	}
	u.Routed = true
	u.NextHop = best.gateway
	if n, ok := t.neighs[addrKey{index, best.gateway}]; ok && best.gateway.IsValid() {
		u.NextHopMAC, u.NextHopValid = n.mac, n.usable()
	}
	return u
}

// lasting returns the global addresses of a link that are not temporary.
func (t *table) lasting(index int) (addrs []netip.Addr) {
	const passing = unix.IFA_F_TEMPORARY | unix.IFA_F_DADFAILED
	for k, a := range t.addrs {
		if k.link == index && a.scope == unix.RT_SCOPE_UNIVERSE && a.flags&passing == 0 {
			addrs = append(addrs, k.addr)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs
}

// better orders default routes of one link the way the kernel would: main
// table, metric, a router that answers, its preference. The address makes the
// order total, so that equal routers do not alternate.
func (t *table) better(a, b *route) bool {
	if a.main != b.main {
		return a.main
	}
	if a.metric != b.metric {
		return a.metric < b.metric
	}
	ua := t.neighs[addrKey{a.link, a.gateway}].usable()
	ub := t.neighs[addrKey{b.link, b.gateway}].usable()
	if ua != ub {
		return ua
	}
	if ra, rb := rank(a.pref), rank(b.pref); ra != rb {
		return ra < rb
	}
	return a.gateway.Less(b.gateway)
}

// rank turns the two bits of RFC 4191 §2.1 into an order, best first.
func rank(pref uint8) int {
	switch pref & 3 {
	case 1:
		return 0 // high
	case 3:
		return 2 // low
	}
	return 1
}

// diff tells how to come from one picture to the next, in the order in which
// to act. What came goes before what went, so that a session is never without
// a path in between.
func diff(before, after picture, now time.Time) []Event {
	var events, gone []Event
	for _, i := range slices.Sorted(maps.Keys(after.uplinks)) {
		if u, ok := before.uplinks[i]; !ok || !reflect.DeepEqual(u, after.uplinks[i]) {
			events = append(events, UplinkChanged{after.uplinks[i]})
		}
	}
	for _, l := range sortedLocals(after.locators) {
		x, was := after.locators[l], before.locators[l]
		switch {
		case x.usable && (!was.usable || was.heard != x.heard || !was.preferred.Equal(x.preferred)):
			events = append(events, x.event(l, now))
		case !x.usable && was.usable:
			gone = append(gone, was.absent(l))
		}
	}
	for _, l := range sortedLocals(before.locators) {
		if _, still := after.locators[l]; !still && before.locators[l].usable {
			gone = append(gone, before.locators[l].absent(l))
		}
	}
	events = append(events, gone...)
	for _, i := range slices.Sorted(maps.Keys(before.uplinks)) {
		if _, still := after.uplinks[i]; !still {
			events = append(events, LinkGone{Link: roam.LinkID(i), Name: before.uplinks[i].Name})
		}
	}
	return events
}

func (x locator) event(l roam.LinkLocator, now time.Time) LocatorChanged {
	return LocatorChanged{roam.PrefixEvent{LinkLocator: l, Present: true, Preferred: left(x.preferred, now), LinkName: x.name}}
}

func (x locator) absent(l roam.LinkLocator) LocatorChanged {
	return LocatorChanged{roam.PrefixEvent{LinkLocator: l, LinkName: x.name}}
}

// wake returns when time alone changes the picture; zero: never. The kernel
// removes addresses by itself, but an expired route only at its next collection.
func (t *table) wake(now time.Time) time.Time {
	var at time.Time
	note := func(deadline time.Time) {
		if deadline.After(now) {
			at = sooner(at, deadline)
		}
	}
	for _, rt := range t.routes {
		note(rt.expires)
	}
	for _, a := range t.ras {
		note(a.valid)
	}
	return at
}

// overdue reports whether a default route should have ended: routers prolong them,
// which is not announced, and a message that comes in just then would otherwise
// take the link out of use with nothing to wake for.
func (t *table) overdue(now time.Time) bool {
	return slices.ContainsFunc(t.routes, func(rt route) bool { return ended(rt.expires, now) })
}

// snapshot shows a picture to people.
func (p picture) snapshot(now time.Time) Snapshot {
	var s Snapshot
	for _, i := range slices.Sorted(maps.Keys(p.uplinks)) {
		s.Uplinks = append(s.Uplinks, p.uplinks[i])
	}
	for _, l := range sortedLocals(p.locators) {
		if x := p.locators[l]; x.usable {
			s.Locators = append(s.Locators, x.event(l, now).PrefixEvent)
		}
	}
	return s
}

func sortedLocals(m map[roam.LinkLocator]locator) []roam.LinkLocator {
	return slices.SortedFunc(maps.Keys(m), func(a, b roam.LinkLocator) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.L64, b.L64))
	})
}
