package hostnet

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"roam"
)

// mendEvery is how often the session device or its route is made again at most,
// should somebody else remove it again and again.
const mendEvery = 2 * time.Second

// sessionRoute is a unicast route into the session prefix.
type sessionRoute struct {
	dst     netip.Prefix
	gateway netip.Addr // invalid: none
	link    int
	table   uint32
}

// sessionRouteOf reads a route message; false if it is no such route.
func (t *table) sessionRouteOf(b []byte) (sessionRoute, bool) {
	if t.session == 0 || len(b) < sizeRtMsg || b[0] != unix.AF_INET6 || b[1] < 64 || b[1] > 128 ||
		b[7] != unix.RTN_UNICAST || u32(b[8:])&unix.RTM_F_CLONED != 0 {
		return sessionRoute{}, false
	}
	a := attrs(b, sizeRtMsg)
	dst := addr6(a[unix.RTA_DST])
	if !dst.IsValid() || roam.ILVFromAddr(dst).L64 != t.session {
		return sessionRoute{}, false
	}
	r := sessionRoute{
		dst: netip.PrefixFrom(dst, int(b[1])), gateway: addr6(a[unix.RTA_GATEWAY]),
		link: int(u32(a[unix.RTA_OIF])), table: uint32(b[4]),
	}
	if x, ok := a[unix.RTA_TABLE]; ok {
		r.table = u32(x)
	}
	return r, true
}

// intruders says, for each route and address within the session prefix that is not
// ours, what it is. Routes in other tables than ours change nothing, since the
// kernel looks there first; an address takes what is sent to it.
func (t *table) intruders(device int) map[string]string {
	found := map[string]string{}
	for _, r := range t.sessionRoutes {
		if name := t.links[r.link].name; r.link != device && r.gateway != DirectGateway {
			found[fmt.Sprint(r)] = fmt.Sprintf("another program, or a router, leads %s to %q (table %d), which is the prefix of session addresses: "+
				"sessions are not affected, as Roam's route goes before it", r.dst, name, r.table)
		}
	}
	for k := range t.addrs {
		if k.link != device && t.session != 0 && roam.ILVFromAddr(k.addr).L64 == t.session {
			found[fmt.Sprint(k)] = fmt.Sprintf("%q has the address %s of the session prefix, which another program, or a router, has given to it: "+
				"a peer with that identifier cannot be reached", t.links[k.link].name, k.addr)
		}
	}
	return found
}

// checkSession keeps the session device and its route, and tells of what somebody
// else has put into the session prefix. It returns when to look again.
func (h *Host) checkSession(now time.Time) (wake time.Time) {
	d := h.Device()
	if d.Index == 0 {
		return time.Time{}
	}
	found := h.table.intruders(d.Index)
	for _, what := range slices.Sorted(maps.Keys(found)) {
		if !h.intruders[what] {
			h.trouble(roam.LinkLocator{}, locator{name: h.rules.device}, found[what])
		}
	}
	h.intruders = map[string]bool{}
	for what := range found {
		h.intruders[what] = true
	}
	_, exists := h.table.links[d.Index]
	if _, segdev := h.table.links[d.Segmentation]; !segdev {
		exists = false
	}
	switch {
	case exists && (!h.deviceSound || h.table.hasSessionRoute(d.Index)):
		return time.Time{}
	case now.Before(h.mended.Add(mendEvery)):
		return h.mended.Add(mendEvery)
	}
	h.mended = now
	if exists {
		h.mendRoute()
	} else {
		h.remake()
	}
	return now.Add(mendEvery)
}

// hasSessionRoute reports whether the session route stands as it was made.
func (t *table) hasSessionRoute(device int) bool {
	return slices.ContainsFunc(t.sessionRoutes, func(r sessionRoute) bool {
		return r.link == device && r.dst.Bits() == 64 && r.gateway == sessionGateway
	})
}

// mendRoute adds the session route again that somebody has removed or changed, and
// looks after its gateway.
func (h *Host) mendRoute() {
	said := "somebody else removed the route of session addresses; it was added again"
	for _, r := range h.session.Routes {
		h.state.lost(r)
	}
	for _, n := range h.session.Neighbours {
		h.state.lost(n)
	}
	if err := joined(h.state.set(ownerSession, h.session)); err != nil {
		said = err.Error()
	}
	h.trouble(roam.LinkLocator{}, locator{name: h.rules.device}, said)
}

// remake makes the session device again that somebody has deleted. Connections
// live on: what is bound to the session address finds it again.
func (h *Host) remake() {
	for _, x := range h.devices {
		h.state.lost(x)
	}
	d, err := h.setup()
	if err != nil {
		h.trouble(roam.LinkLocator{}, locator{name: h.rules.device}, "the session device is gone: "+err.Error())
		return
	}
	h.mu.Lock()
	h.device = d
	h.mu.Unlock()
	h.pending = append(h.pending, DeviceRemade{d})
}

// tellLinks tells of links that are new, and of those that have ceased to be
// uplinks.
func (h *Host) tellLinks(before picture) {
	if !h.everyLink {
		return
	}
	for i := range before.uplinks {
		if _, still := h.picture.uplinks[i]; !still {
			delete(h.told, i)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(h.table.links)) {
		l := h.table.links[i]
		if h.told[i] || h.rules.internal(l.name) {
			continue
		}
		h.told[i] = true
		h.pending = append(h.pending, LinkSeen{roam.LinkID(i), l.name, l.arphrd == unix.ARPHRD_ETHER})
	}
	maps.DeleteFunc(h.told, func(i int, _ bool) bool { _, there := h.table.links[i]; return !there })
}
