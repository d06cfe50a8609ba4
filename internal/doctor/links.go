package doctor

import (
	"net/netip"
	"slices"
	"strings"

	"roam/internal/control"
	"roam/internal/hostnet"
)

// minimumMTU is the least MTU of an IPv6 link (RFC 8200 §5).
const minimumMTU = 1280

// lookLinks lists the links in use, and why others are not.
func lookLinks(e *examination, f Facts) {
	if f.NoIPv6 && len(uplinksOf(f)) == 0 {
		e.add(Fault, "uplinks", "sysctl -w net.ipv6.conf.all.disable_ipv6=0; where there is no such setting, take "+
			"ipv6.disable=1 from the kernel's command line", "IPv6 is switched off on this host")
		return
	}
	used := usedLinks(f.Locators)
	for _, l := range f.Links {
		if !slices.Contains(used, l.Name) {
			if why, do := unused(f, l); why != "" {
				e.add(Note, "uplinks", do, "%s is not used: %s", l.Name, why)
			}
			continue
		}
		if l.MTU > 0 && l.MTU < minimumMTU+16 {
			e.add(Warning, "uplinks", "raise its MTU, if the network allows", "%s has an MTU of %d, so full-sized packets "+
				"cannot carry the nonce: after a move, bulk data waits for the Locator Update", l.Name, l.MTU)
		}
	}
	for _, l := range f.Locators {
		if l.Disabled {
			e.add(Note, "uplinks", "roam locator enable "+l.Link, "%s is disabled, by command or by uplinks.disabled", l.Link)
		}
	}
	switch {
	case f.Daemon == nil:
		lookFitLinks(e, f)
	case len(used) == 0:
		e.add(Fault, "uplinks", "connect to a network with IPv6; the notes say what is missing on each link",
			"no link can be used: a link needs a global IPv6 prefix and a default route")
	default:
		e.ok("uplinks", "%s: %d of this host's links in use", strings.Join(used, ", "), len(used))
	}
}

// lookFitLinks lists the links that a daemon would use. It runs if there is no daemon.
func lookFitLinks(e *examination, f Facts) {
	fit := fitLinks(f)
	switch {
	case len(fit) > 0:
		e.ok("uplinks", "%s could be used", strings.Join(fit, ", "))
	case f.LinksKnown:
		e.add(Fault, "uplinks", "connect to a network with IPv6", "no link could be used: a link needs a global IPv6 "+
			"prefix and a default route")
	}
}

// fitLinks returns the links that a daemon would use.
func fitLinks(f Facts) (fit []string) {
	for _, l := range f.Links {
		if l.Up && l.Routed && len(l.Global) > 0 && !isPrivateTunnel(f, l) && l.Name != "lo" &&
			f.Config.Uplinks.Allows(l.Name) {
			fit = append(fit, l.Name)
		}
	}
	return fit
}

// uplinksOf returns the links in use, or those that a daemon would use.
func uplinksOf(f Facts) []string {
	if used := usedLinks(f.Locators); len(used) > 0 {
		return used
	}
	return fitLinks(f)
}

// isPrivateTunnel reports whether a link is no uplink because it is a tunnel into a private
// network.
func isPrivateTunnel(f Facts, l Link) bool {
	named := len(f.Config.Uplinks.Include) > 0 && f.Config.Uplinks.Allows(l.Name)
	return l.Tunnel && !named && len(l.Global) > 0 &&
		!slices.ContainsFunc(l.Global, func(p netip.Prefix) bool { return !p.Addr().IsPrivate() })
}

func usedLinks(list []control.Locator) (out []string) {
	for _, l := range list {
		if !slices.Contains(out, l.Link) && !l.Disabled && l.State != "aged" {
			out = append(out, l.Link)
		}
	}
	return out
}

// unused says why a link that could be an uplink is not in use; "" if there is nothing to
// say.
func unused(f Facts, l Link) (why, do string) {
	if l.Name == "lo" || hostnet.OwnDevice(f.Config.Host.Device, l.Name) {
		return "", ""
	}
	global := slices.Clone(l.Global)
	for i := len(global) - 1; i >= 0; i-- {
		if f.Config.SessionNet().Contains(global[i].Addr()) {
			global = slices.Delete(global, i, i+1)
		}
	}
	switch {
	case !f.Config.Uplinks.Allows(l.Name):
		return "uplinks.exclude or uplinks.include leaves it out", ""
	case !l.Up:
		return "it has no carrier", ""
	case len(global) == 0 && !l.Routed:
		return "", "" // no IPv6 at all: an ordinary internal link
	case len(global) == 0:
		return "it has no global IPv6 address", "let it take one: Router Advertisements, DHCPv6, or by hand"
	case isPrivateTunnel(f, l):
		return "it is a tunnel whose prefixes are all in fc00::/7", "if correspondents are to be reached through it, name " +
			"it in uplinks.include, with all other links: docs/howto/vpn.md"
	case !l.Routed && l.BySource:
		return "its only default route is for packets from some sources (from, in the output of ip -6 route)",
			"ip -6 route add default via ROUTER dev " + l.Name
	case !l.Routed:
		return "no default route leads over it", "ip -6 route add default via ROUTER dev " + l.Name
	case f.Daemon == nil:
		return "", ""
	}
	return "the daemon has made no locator of its prefix", "look at the daemon's log"
}

// internalKinds are the kinds of links that seldom lead to a router: those of containers and
// guests.
var internalKinds = []string{"bridge", "dummy", "geneve", "ifb", "tun", "veth", "vxlan"}

// lookForwarding finds links whose Router Advertisements the kernel ignores because the
// link forwards packets. While another link works, nothing may be missing there.
func lookForwarding(e *examination, f Facts) {
	works := len(uplinksOf(f)) > 0
	for _, l := range f.Links {
		if l.Name == "lo" || l.Port || l.Forwarding <= 0 || l.AcceptRA != 1 || !f.Config.Uplinks.Allows(l.Name) ||
			hostnet.OwnDevice(f.Config.Host.Device, l.Name) {
			continue
		}
		internal := slices.Contains(internalKinds, l.Kind)
		level := Warning // it has an address, configured by hand or by another program
		switch {
		case l.Routed && len(l.Global) > 0:
		case internal && works:
			continue
		case internal, works:
			level = Note
		case l.Up && len(l.Global) == 0:
			level = Fault
		}
		e.add(level, "sysctl", "sysctl -w net.ipv6.conf."+l.Name+".accept_ra=2", "%s forwards packets, so the kernel "+
			"ignores Router Advertisements there: new prefixes and routers are not noticed", l.Name)
	}
	if f.LinksKnown && e.clean("sysctl") {
		e.ok("sysctl", "no setting keeps Router Advertisements out")
	}
}
