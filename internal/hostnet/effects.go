package hostnet

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam/internal/hostnet/desired"
)

// find returns what stands under the key of an item. An address stands whatever
// its lifetime, and a neighbour only as a permanent entry: others are a cache.
func (k *kernel) find(want desired.Item) (desired.Item, error) {
	switch x := want.(type) {
	case desired.Device:
		return k.findDevice(x)
	case desired.Sysctl:
		name, err := k.sysctlLink(x)
		if err != nil {
			return nil, err
		}
		x.Value, err = k.sysctl(name, x.Param)
		return x, err
	case desired.Address:
		b, err := k.addressMessage(addrKey{x.Link, x.Addr})
		if b != nil {
			x.Bits = int(b[1])
		}
		return only(x, b != nil), err
	case desired.Neighbour:
		mac, there, err := k.findNeighbour(x.Link, x.Addr, k.links.NeighList)
		x.MAC = mac
		return only(x, there), err
	case desired.Proxy:
		_, there, err := k.findNeighbour(x.Link, x.Addr, k.links.NeighProxyList)
		return only(x, there), err
	case desired.Route:
		return k.findRoute(x)
	case desired.Rule:
		return k.findRule(x)
	}
	return nil, fmt.Errorf("look for %s: %w", want, errors.ErrUnsupported)
}

// only returns an item if it is there.
func only(x desired.Item, there bool) desired.Item {
	if !there {
		return nil
	}
	return x
}

// put makes or changes an item.
func (k *kernel) put(op desired.Op) error {
	switch x := op.Item.(type) {
	case desired.Device:
		if was, ok := op.Was.(desired.Device); ok && was.MTU != x.MTU {
			return k.setMTU(x)
		}
		return k.putDevice(x, op.Verb == desired.Make)
	case desired.Sysctl:
		name, err := k.sysctlLink(x)
		if err != nil {
			return err
		}
		return k.setSysctl(name, x.Param, x.Value)
	case desired.Address:
		was, changed := op.Was.(desired.Address)
		if !changed || was.Bits == x.Bits {
			return k.putAddress(x, op.Verb == desired.Make)
		}
		if err := k.removeAddress(addrKey{was.Link, was.Addr}, was.Bits); err != nil {
			return err
		}
		return k.putAddress(x, true)
	case desired.Neighbour:
		mac, err := net.ParseMAC(x.MAC)
		if err != nil {
			return fmt.Errorf("set %s: %w", x, err)
		}
		return tried("set", x, k.links.NeighSet(&netlink.Neigh{LinkIndex: x.Link, Family: unix.AF_INET6,
			IP: x.Addr.AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT}))
	case desired.Proxy:
		return tried("add", x, k.links.NeighSet(proxyEntry(x)))
	case desired.Route:
		if op.Verb == desired.Make {
			return tried("add", x, k.links.RouteAdd(routeOf(x)))
		}
		return tried("replace", x, k.links.RouteReplace(routeOf(x)))
	case desired.Rule:
		return tried("add", x, k.links.RuleAdd(ruleOf(x))) // an old form goes after it
	}
	return fmt.Errorf("put %s: %w", op.Item, errors.ErrUnsupported)
}

// take removes an item, or puts a sysctl back.
func (k *kernel) take(item desired.Item, old string) error {
	switch x := item.(type) {
	case desired.Device:
		return k.removeDevice(x.Name)
	case desired.Sysctl:
		name, err := k.sysctlLink(x)
		if err == nil {
			err = k.setSysctl(name, x.Param, old)
		}
		if err == nil && x.Param == acceptRA && old != "2" {
			k.deaf = append(k.deaf, x.Link)
		}
		if errors.As(err, &netlink.LinkNotFoundError{}) || errors.Is(err, fs.ErrNotExist) {
			return nil // it went with its link
		}
		return err
	case desired.Address:
		return k.removeAddress(addrKey{x.Link, x.Addr}, x.Bits)
	case desired.Neighbour:
		mac, there, err := k.findNeighbour(x.Link, x.Addr, k.links.NeighList)
		if err != nil || !there || mac != x.MAC {
			return err // somebody else's by now, if any
		}
		n := &netlink.Neigh{LinkIndex: x.Link, Family: unix.AF_INET6, IP: x.Addr.AsSlice()}
		return gone("remove", x, k.links.NeighDel(n))
	case desired.Proxy:
		return gone("remove", x, k.links.NeighDel(proxyEntry(x)))
	case desired.Route:
		return k.removeRoute(x)
	case desired.Rule:
		return k.removeRule(x)
	}
	return fmt.Errorf("take back %s: %w", item, errors.ErrUnsupported)
}

// tried names what was tried with an item.
func tried(try string, x desired.Item, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", try, x, err)
}

// gone is tried for a removal, where a lack of the item is success.
func gone(try string, x desired.Item, err error) error {
	for _, missing := range []error{unix.ENOENT, unix.ESRCH, unix.ENODEV, unix.ENXIO, unix.EADDRNOTAVAIL} {
		if errors.Is(err, missing) {
			return nil
		}
	}
	return tried(try, x, err)
}

// onDevice reports whether an item stands on one of these devices.
func (k *kernel) onDevice(x desired.Item, devices []desired.Device) bool {
	link := desired.LinkOf(x)
	return link != 0 && slices.ContainsFunc(devices, func(d desired.Device) bool {
		l, err := k.links.LinkByName(d.Name)
		return err == nil && l.Type() == "veth" && l.Attrs().Index == link
	})
}

// sysctlLink returns the present name of the link of a sysctl.
func (k *kernel) sysctlLink(x desired.Sysctl) (string, error) {
	if x.Link == 0 {
		return x.Name, nil
	}
	l, err := k.links.LinkByIndex(x.Link)
	if err != nil {
		return "", fmt.Errorf("look for the link of %s: %w", x, err)
	}
	return l.Attrs().Name, nil
}

// putAddress adds an address, or brings its lifetime up to date.
func (k *kernel) putAddress(x desired.Address, fresh bool) error {
	a := addressForm{addrKey: addrKey{x.Link, x.Addr}, bits: x.Bits, flags: unix.IFA_F_NOPREFIXROUTE}
	if fresh {
		switch x.Detection {
		case desired.Optimistic:
			a.flags |= unix.IFA_F_OPTIMISTIC
		case desired.None:
			a.flags |= unix.IFA_F_NODAD
		}
	}
	a.valid = seconds(x.Until, time.Now())
	if x.Preferred {
		a.preferred = a.valid
	}
	return k.setAddress(a)
}

// findNeighbour looks for an entry in a list of entries of a link.
func (k *kernel) findNeighbour(link int, a netip.Addr, list func(link, family int) ([]netlink.Neigh, error)) (
	mac string, there bool, err error) {
	all, err := undisturbed(func() ([]netlink.Neigh, error) { return list(link, unix.AF_INET6) })
	if err != nil {
		return "", false, fmt.Errorf("list neighbours of link %d: %w", link, err)
	}
	for _, n := range all {
		lasting := n.State&netlink.NUD_PERMANENT != 0 || n.Flags&netlink.NTF_PROXY != 0
		if ip, ok := netip.AddrFromSlice(n.IP); ok && ip == a && lasting {
			return n.HardwareAddr.String(), true, nil
		}
	}
	return "", false, nil
}

func proxyEntry(x desired.Proxy) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: x.Link, Family: unix.AF_INET6, IP: x.Addr.AsSlice(), Flags: netlink.NTF_PROXY}
}

// routeOf returns the library's form of a route.
func routeOf(x desired.Route) *netlink.Route {
	x = x.Normal()
	r := &netlink.Route{
		Family: unix.AF_INET6, LinkIndex: x.Link, Protocol: unix.RTPROT_STATIC, Type: unix.RTN_UNICAST,
		Dst: network(x.Dst), Table: x.Table, Priority: x.Metric, MTU: x.MTU,
	}
	if x.Unreachable {
		r.Type = unix.RTN_UNREACHABLE
	}
	if x.Gateway.IsValid() {
		r.Gw = x.Gateway.AsSlice()
	}
	if x.Source.IsValid() {
		r.Src = x.Source.AsSlice()
	}
	return r
}

// findRoute returns the route with the destination, table and metric of another.
func (k *kernel) findRoute(x desired.Route) (desired.Item, error) {
	x = x.Normal()
	list, err := undisturbed(func() ([]netlink.Route, error) {
		return k.links.RouteListFiltered(unix.AF_INET6, &netlink.Route{Table: x.Table}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes of table %d: %w", x.Table, err)
	}
	for _, r := range list {
		if r.Priority != x.Metric || prefixOf(r.Dst) != x.Dst {
			continue
		}
		found := desired.Route{Dst: x.Dst, Link: r.LinkIndex, Table: x.Table, Metric: x.Metric, MTU: r.MTU}
		found.Gateway, _ = netip.AddrFromSlice(r.Gw)
		found.Source, _ = netip.AddrFromSlice(r.Src)
		if r.Type == unix.RTN_UNREACHABLE {
			found = desired.Route{Dst: x.Dst, Table: x.Table, Metric: x.Metric, Unreachable: true}
		} else if r.Type != unix.RTN_UNICAST {
			found.Link = 0 // a form that no owner can want
		}
		return found, nil
	}
	return nil, nil
}

// removeRoute removes a route. A request without a next hop would remove a form
// with one as well.
func (k *kernel) removeRoute(x desired.Route) error {
	item, err := k.findRoute(x)
	found, ok := item.(desired.Route)
	switch {
	case err != nil || !ok:
		return err
	case found.Source.IsValid() && x.Source.IsValid() && found.Source != x.Source:
		return nil // the form that has replaced it
	}
	x.Source, found.Source = netip.Addr{}, netip.Addr{} // the kernel may have dropped it with its address
	if !x.Gateway.IsValid() && found != x.Normal() {
		return nil
	}
	return gone("remove", x, k.links.RouteDel(routeOf(x)))
}

// ruleOf returns the library's form of a rule.
func ruleOf(x desired.Rule) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table, r.IifName = unix.AF_INET6, x.Priority, x.Table, x.In
	r.Src, r.Dst = network(x.From), network(x.To)
	if x.Mark != 0 {
		all := uint32(forever)
		r.Mark, r.Mask = x.Mark, &all
	}
	return r
}

// findRule returns a rule of the priority of another: that one itself, if it is
// among them.
func (k *kernel) findRule(x desired.Rule) (found desired.Item, err error) {
	list, err := undisturbed(func() ([]netlink.Rule, error) { return k.links.RuleList(unix.AF_INET6) })
	if err != nil {
		return nil, fmt.Errorf("list rules of routing: %w", err)
	}
	for _, r := range list {
		if r.Priority != x.Priority {
			continue
		}
		have := desired.Rule{Priority: r.Priority, From: prefixOf(r.Src), To: prefixOf(r.Dst),
			In: r.IifName, Mark: r.Mark, Table: r.Table}
		if r.Invert || r.OifName != "" || r.IPProto != 0 || r.Dport != nil || r.Sport != nil || r.UIDRange != nil ||
			r.SuppressPrefixlen >= 0 || r.SuppressIfgroup >= 0 || r.Goto >= 0 ||
			r.Mask != nil && *r.Mask != forever && r.Mark != 0 {
			have.Table = 0 // a form that no owner can want
		}
		if found = have; have == x {
			return have, nil
		}
	}
	return found, nil
}

// removeRule removes a rule. The kernel removes the first one of the priority
// that has what the request names, so that an old form of ours with fewer
// selectors may have to go twice.
func (k *kernel) removeRule(x desired.Rule) error {
	for range 4 {
		found, err := k.findRule(x)
		if err != nil || found != x {
			return err
		}
		if err := gone("remove", x, k.links.RuleDel(ruleOf(x))); err != nil {
			return err
		}
	}
	return nil
}

// network turns a prefix into the library's form; an invalid one is nil.
func network(p netip.Prefix) *net.IPNet {
	if !p.IsValid() {
		return nil
	}
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 128)}
}

// prefixOf is the inverse of network.
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	if !ok {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits)
}
