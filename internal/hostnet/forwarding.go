package hostnet

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/desired"
)

// acceptRA is the sysctl that says whether the kernel takes Router
// Advertisements: 1 unless the link forwards, 2 also then.
const acceptRA = "accept_ra"

// hearRouters has the kernel take Router Advertisements on uplinks that forward:
// such a host would otherwise neither get nor lose a Locator. It asks routers
// where the kernel has not listened, or has dropped their default routes since
// forwarding began. It comes before solicitRouters.
func (h *Host) hearRouters() {
	want := []desired.Sysctl{}
	for _, index := range slices.Sorted(maps.Keys(h.table.links)) {
		if h.needsHearing(index) {
			want = append(want, desired.Sysctl{Link: index, Param: acceptRA, Value: "2"})
		}
	}
	before, dropped := h.hearing, h.table.forwarded != h.asked
	if before != nil && slices.Equal(before, want) && !dropped {
		return
	}
	h.asked, h.heard = h.table.forwarded, nil
	h.hearing = want // also if it fails: tried again when it is to change next
	failed, err := h.state.set(ownerRouters, desired.State{Sysctls: want})
	if err != nil {
		failed = append(failed, failure{err: err})
	}
	for _, f := range failed {
		h.hearingTrouble(desired.LinkOf(f.item), f.err)
	}
	for index, l := range h.table.links {
		fresh := slices.ContainsFunc(want, func(s desired.Sysctl) bool { return s.Link == index }) &&
			!slices.ContainsFunc(before, func(s desired.Sysctl) bool { return s.Link == index })
		if !fresh && !dropped || !l.up() || !h.rules.accepts(l.name) || len(l.mac) != 6 || !h.kernel.hearsRouters(l.name) {
			continue // one that comes up is asked by solicitRouters
		}
		if err := h.kernel.solicit(index); err != nil {
			h.hearingTrouble(index, err)
		}
	}
}

func (h *Host) hearingTrouble(index int, err error) {
	h.trouble(roam.LinkLocator{Link: roam.LinkID(index)}, locator{name: h.table.links[index].name}, err.Error())
}

// needsHearing reports whether accept_ra is to be 2 on a link. Where it is 0,
// somebody else manages the link.
func (h *Host) needsHearing(index int) bool {
	l := h.table.links[index]
	ours := h.heard[index] || slices.ContainsFunc(h.hearing, func(s desired.Sysctl) bool { return s.Link == index })
	if !l.facts.forwards || l.facts.acceptRA != "1" && !ours || !h.rules.accepts(l.name) || h.table.port(l) {
		return false
	}
	if _, uplink := h.picture.uplinks[index]; uplink || h.rules.asksFor(l.name) {
		return true
	}
	return !l.tunnel() && !h.table.serves(index, h.rules)
}

// serves reports whether a link leads to a network that this host serves rather
// than to the Internet: a bridge, or a link with a lasting global address and no
// default route. What somebody advertises there is not for this host.
func (t *table) serves(index int, r rules) bool {
	if t.links[index].kind == "bridge" {
		return true
	}
	if slices.ContainsFunc(t.routes, func(rt route) bool { return rt.link == index }) {
		return false
	}
	for k, a := range t.addrs {
		if k.link == index && a.scope == unix.RT_SCOPE_UNIVERSE && a.valid.IsZero() && !r.isOwn(k) {
			return true
		}
	}
	return false
}

// settle removes the default routes that routers advertised on links that forward and do not
// hear routers any more. The kernel does the same when forwarding begins, and from now on it
// would not hear when such a router goes.
func (k *kernel) settle() error {
	links := slices.DeleteFunc(k.deaf, func(l int) bool { return !k.forwards(l) })
	k.deaf = nil
	if len(links) == 0 {
		return nil
	}
	filter := &netlink.Route{Protocol: unix.RTPROT_RA, Table: unix.RT_TABLE_MAIN}
	list, err := undisturbed(func() ([]netlink.Route, error) {
		return k.links.RouteListFiltered(unix.AF_INET6, filter, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return fmt.Errorf("list routes of routers: %w", err)
	}
	for _, r := range list {
		if bits, _ := r.Dst.Mask.Size(); bits != 0 || !slices.Contains(links, r.LinkIndex) {
			continue
		}
		if err := k.links.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove default route of a router on link %d: %w", r.LinkIndex, err)
		}
	}
	return nil
}

// forwards reports whether a link is there and forwards.
func (k *kernel) forwards(link int) bool {
	name, err := k.sysctlLink(desired.Sysctl{Link: link})
	if err != nil {
		return false
	}
	value, err := k.sysctl(name, "forwarding")
	return err == nil && value != "0"
}
