package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
)

const (
	// silence is how many packets leave from a locator before it is odd that none has come back.
	silence = 100
	// fullFlows is the part of the table of flows, in per cent, above which it is nearly full.
	fullFlows = 90
)

// borderLook is the look at a site border that runs.
type borderLook struct {
	*examination
	f      Facts
	r      control.BorderReport
	usable bool // packets can leave by some link
}

// borderReport returns what a border that runs reports; false: there is none.
func borderReport(roles []control.RoleReport) (r control.BorderReport, ok bool, err error) {
	for _, role := range roles {
		if role.Name == config.RoleBorder && role.State == control.RoleRunning && len(role.Report) > 0 {
			return r, true, json.Unmarshal(role.Report, &r)
		}
	}
	return r, false, nil
}

// BehindRoutes asks the kernel for the links by which packets to the hosts of a border's site
// leave, by their locator.
func BehindRoutes(ctx context.Context, w World, roles []control.RoleReport) map[roam.L64]string {
	report, _, _ := borderReport(roles) // lookBorder says what cannot be read
	out := make(map[roam.L64]string)
	for _, l := range report.Internal {
		// It does not matter whether a host has this Node Identifier: the route is to its prefix.
		somebody := roam.ILV{L64: l, NID: 0xffff_ffff_ffff_fffe}.Addr()
		var rs []struct {
			Dev string `json:"dev"`
		}
		text := w.Output(ctx, "ip", "-j", "-6", "route", "get", somebody.String())
		if json.Unmarshal([]byte(text), &rs) == nil && len(rs) > 0 {
			out[l] = rs[0].Dev
		}
	}
	return out
}

// lookBorder judges a site border: what it needs of the host, its links, its policy and its flows.
func lookBorder(e *examination, f Facts) {
	b := borderLook{examination: e, f: f}
	report, ok, err := borderReport(f.Roles)
	if err != nil {
		b.warn("restart the daemon: `systemctl restart roamd`; sessions go on", "the border's report cannot be read: %v", err)
	}
	if b.r = report; err != nil || !ok || b.r.Links == nil {
		return // no links: a daemon of an older version, which lookDaemon names
	}
	b.usable = slices.ContainsFunc(b.r.Sites, func(s control.BorderSite) bool { return s.State == control.BorderUp })
	b.lookHost()
	for _, l := range b.r.Links {
		b.lookLink(l)
	}
	b.lookPolicy()
	b.lookFlows()
	if b.usable && !b.amiss("border") {
		b.ok("border", "%s; every line of the policy can act; %d of %d flows", b.inUse(), len(b.r.Flows), b.r.MaxFlows)
	}
}

func (b *borderLook) warn(do, format string, args ...any) {
	b.add(Warning, "border", do, format, args...)
}

func (b *borderLook) fault(do, format string, args ...any) {
	b.add(Fault, "border", do, format, args...)
}

// place says where the configuration has a key.
func (b *borderLook) place(key string) string { return config.Place(b.f.ConfigFile, key) }

// inUse names the links by which packets leave.
func (b *borderLook) inUse() string {
	var list []string
	for _, s := range b.r.Sites {
		if s.State == control.BorderUp && !slices.Contains(list, s.Link) {
			list = append(list, s.Link)
		}
	}
	return "packets leave by " + strings.Join(list, " and ")
}

// lookHost looks at what the host itself has to do.
func (b *borderLook) lookHost() {
	if b.f.NoForwarding {
		b.fault("sysctl -w net.ipv6.conf.all.forwarding=1",
			"this host does not forward IPv6: nothing from outside reaches the hosts of the site")
	}
	if !slices.ContainsFunc(b.r.Links, func(l control.BorderLink) bool { return len(l.Locators) == 0 && l.Exists }) {
		b.fault("list it in border.inside ("+b.place("border.inside")+"), then restart roamd", "no link to the inside exists")
	}
	if !slices.ContainsFunc(b.r.Links, func(l control.BorderLink) bool { return len(l.Locators) > 0 }) {
		b.fault("list each locator with its link in border.links ("+b.place("border.links")+"), then `roam config reload`",
			"no link to a provider is configured")
	}
}

// lookLink looks at one link; the first thing that is missing hides what follows from it.
func (b *borderLook) lookLink(l control.BorderLink) {
	outside := len(l.Locators) > 0
	what := l.Name + ", a link to the inside,"
	if outside {
		what = fmt.Sprintf("%s (%s)", l.Name, prefixes(l.Locators))
	}
	level := Warning
	if !outside || !b.usable {
		level = Fault
	}
	switch {
	case !l.Exists:
		b.add(level, "border", "bring it up, or correct border.links ("+b.place("border.links")+")",
			"%s does not exist on this host", what)
	case !l.Up:
		b.add(level, "border", "ip link set "+l.Name+" up; look at its cable", "%s is down or has no carrier", what)
	case !l.Programs:
		b.fault("restart the daemon: `systemctl restart roamd`; its log says what fails",
			"the programs are not attached to %s: its packets pass untranslated", l.Name)
	case outside && !l.Routed:
		b.add(level, "border", b.routeBy(l.Name), "no default route leads over %s: nothing leaves by it", what)
	case outside:
		b.lookRouter(l)
	}
	b.lookXDP(l)
	if outside {
		b.lookDrained(l)
		b.lookSilent(l)
		b.lookLocators(l)
	}
}

// routeBy says how a link gets a default route.
func (b *borderLook) routeBy(link string) string {
	for _, l := range b.f.Links {
		if l.Name == link && l.Forwarding > 0 && l.AcceptRA == 1 {
			return "sysctl -w net.ipv6.conf." + link + ".accept_ra=2, as a link that forwards ignores Router Advertisements; " +
				"or ip -6 route add default via ROUTER dev " + link
		}
	}
	return "ip -6 route add default via ROUTER dev " + link
}

// lookRouter looks at the provider's router.
func (b *borderLook) lookRouter(l control.BorderLink) {
	switch {
	case l.Hardware == control.HardwareNone:
	case l.Router == "":
		b.add(Note, "border", "name the provider's router: ip -6 route replace default via ROUTER dev "+l.Name,
			"the default route of %s names no router: the kernel asks for the hardware address of each destination", l.Name)
	case l.Hardware == control.HardwareUnknown && b.sent(l) > 0:
		b.warn("ping -c 3 -I "+l.Name+" "+l.Router, "the router %s on %s does not answer: its hardware address is not known",
			l.Router, l.Name)
	case l.Hardware == control.HardwareUnknown:
		b.add(Note, "border", "", "the hardware address of the router %s on %s is not known yet: the kernel asks "+
			"for it with the first packet", l.Router, l.Name)
	}
}

// sent returns how many packets have left from the locators of a link.
func (b *borderLook) sent(l control.BorderLink) (n uint64) {
	for _, s := range b.r.Sites {
		if slices.Contains(l.Locators, s.Locator) {
			n += s.TXPackets
		}
	}
	return n
}

// lookSilent says that a provider passes nothing.
func (b *borderLook) lookSilent(l control.BorderLink) {
	if slices.ContainsFunc(b.r.Sites, func(s control.BorderSite) bool {
		return s.Link == l.Name && s.State == control.BorderSilent
	}) {
		b.warn("ask the provider; the border uses the link again once answers come",
			"nobody outside answers by %s (%s), and by other links they do: nothing leaves by it", l.Name,
			prefixes(l.Locators))
	}
}

// lookXDP says what becomes of the XDP that was asked of a link.
func (b *borderLook) lookXDP(l control.BorderLink) {
	do := "take it out of border.xdp (" + b.place("border.xdp") + "), or leave it: its packets take the programs at tc"
	switch l.XDP {
	case control.XDPNone:
		b.add(Note, "border", do, "%s has no XDP: its driver has none, or another program is there", l.Name)
	case control.XDPReceives:
		b.add(Note, "border", do, "%s sends no frames of XDP programs on other links", l.Name)
	case control.XDPUnknown:
		b.add(Note, "border", do, "this kernel does not say whether %s sends frames of XDP programs (Linux 6.3)", l.Name)
	}
}

// lookDrained says by what a link is drained, and whether that leaves none.
func (b *borderLook) lookDrained(l control.BorderLink) {
	i := slices.IndexFunc(b.r.Sites, func(s control.BorderSite) bool { return s.Link == l.Name && s.DrainedBy != "" })
	if i < 0 {
		return
	}
	by, do := "by command", "roam border undrain "+l.Name
	if b.r.Sites[i].DrainedBy == control.DrainedByConfig {
		by = "by border.drained"
		do = "take it out of border.drained (" + b.place("border.drained") + "), then `roam config reload`"
	}
	if b.usable {
		b.add(Note, "border", "when the work is done: "+do, "%s is drained %s: nothing leaves by it", l.Name, by)
	} else {
		b.fault(do, "%s is drained %s, and no other link can be used: nothing leaves the site", l.Name, by)
	}
}

// lookLocators looks at what a provider has assigned and routes to the border.
func (b *borderLook) lookLocators(l control.BorderLink) {
	for _, locator := range l.Locators {
		inPolicy := slices.ContainsFunc(b.r.Sites, func(s control.BorderSite) bool { return s.Locator == locator }) ||
			slices.ContainsFunc(b.r.Idle, func(i control.BorderIdle) bool { return i.Locator == locator })
		if !inPolicy {
			b.warn("give it a line in border.policy ("+b.place("border.policy")+"), then `roam config reload`",
				"%v of %s is not used: the policy has no line for it", locator.Prefix(), l.Name)
		}
	}
	for _, s := range b.r.Sites {
		if slices.Contains(l.Locators, s.Locator) && s.TXPackets >= silence && s.RXPackets == 0 {
			b.warn(fmt.Sprintf("have the provider route %v to this host over %s", s.Locator.Prefix(), l.Name),
				"%d packets left from %v by %s, and none has come for it", s.TXPackets, s.Locator.Prefix(), l.Name)
		}
	}
}

// lookPolicy looks for lines that can never act, and for the routes behind those of the inside.
func (b *borderLook) lookPolicy() {
	if len(b.r.Internal) == 0 {
		b.fault("write it into border.policy ("+b.place("border.policy")+"), then `roam config reload`: docs/howto/border.md",
			"the policy has no line with a Rewrite: no packet is rewritten")
	}
	for i, line := range b.r.Idle {
		if i == mostLines {
			b.warn("`roam policy show` lists the policy", "%d more lines of the policy can never act", len(b.r.Idle)-i)
			break
		}
		b.warn("correct or remove it in border.policy ("+b.place("border.policy")+"), then `roam config reload`",
			"the line of %v in the policy can never act as it stands: %s", line.Locator.Prefix(), line.Why)
	}
	for _, l := range b.r.Internal {
		if b.f.LinksKnown {
			b.lookBehind(l)
		}
	}
}

// lookBehind looks for a route to the hosts of an internal locator.
func (b *borderLook) lookBehind(l roam.L64) {
	dev, routed := b.f.BehindRoutes[l]
	leadsInside := slices.ContainsFunc(b.r.Links, func(o control.BorderLink) bool {
		return len(o.Locators) == 0 && o.Name == dev
	})
	do := fmt.Sprintf("give a link to the inside an address of it, or a route: ip -6 route add %v via ROUTER dev LINK",
		l.Prefix())
	switch {
	case leadsInside:
	case routed:
		b.warn(do, "packets for the hosts of %v would leave by %s, which is no link to the inside", l.Prefix(), dev)
	default:
		b.warn(do, "no route leads to the hosts of %v: what comes for them is dropped", l.Prefix())
	}
}

// lookFlows looks at the space for flows.
func (b *borderLook) lookFlows() {
	const do = "raise border.max_flows, or shorten border.idle_timeout if many flows are idle (`roam border flows`), and restart roamd"
	n, most := len(b.r.Flows), b.r.MaxFlows
	if most > 0 && n*100 >= most*fullFlows {
		b.warn(do, "the table of flows is nearly full, with %d of %d: further flows keep to the preferred locator, and end "+
			"if its link fails", n, most)
	} else if b.r.FlowsRefused > 0 {
		b.add(Note, "border", "", "the table of flows was full %d times since the programs were loaded: "+
			"a flow without an entry keeps to the preferred locator until an idle one leaves", b.r.FlowsRefused)
	}
}

// prefixes lists locators.
func prefixes(list []roam.L64) string {
	out := make([]string, len(list))
	for i, l := range list {
		out[i] = l.Prefix().String()
	}
	return strings.Join(out, ", ")
}
