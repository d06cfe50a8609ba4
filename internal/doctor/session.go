package doctor

import (
	"encoding/json"
	"net/netip"
	"slices"

	"roam/internal/hostnet"
)

// SessionRoute is a route into the session prefix.
type SessionRoute struct {
	Dst    netip.Prefix
	Dev    string
	Table  string // "main" or "local" by name, others by number
	Local  bool   // to an address of this host
	Direct bool   // Roam's own, through an uplink
}

// sessionRoutes reads the output of `ip -j -6 route show table all root PREFIX`. It ignores
// entries that it cannot read; nil: unknown.
func sessionRoutes(text string) []SessionRoute {
	var rs []struct {
		Type  string `json:"type"`
		Dst   string `json:"dst"`
		Dev   string `json:"dev"`
		Table string `json:"table"`
		Via   string `json:"gateway"`
	}
	if json.Unmarshal([]byte(text), &rs) != nil {
		return nil
	}
	out := []SessionRoute{}
	for _, r := range rs {
		dst, err := netip.ParsePrefix(r.Dst)
		if a, e := netip.ParseAddr(r.Dst); e == nil {
			dst, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || r.Dev == "" || r.Type != "" && r.Type != "unicast" && r.Type != "local" {
			continue
		}
		if r.Table == "" {
			r.Table = "main"
		}
		out = append(out, SessionRoute{Dst: dst, Dev: r.Dev, Table: r.Table, Local: r.Type == "local",
			Direct: r.Via == hostnet.DirectGateway.String()})
	}
	return out
}

// lookSession checks that session addresses lead to the session device alone, and whether
// other users may use them.
func lookSession(e *examination, f Facts) {
	if f.Daemon == nil {
		return // the session device does not exist then
	}
	device := f.Config.Host.Device
	here := slices.ContainsFunc(f.Links, func(l Link) bool { return l.Name == device })
	routed := slices.ContainsFunc(f.SessionRoutes, func(r SessionRoute) bool {
		return r.Dev == device && r.Dst == f.Config.SessionNet() && !r.Local
	})
	switch {
	case f.LinksKnown && !here:
		e.add(Fault, "device", "restart the daemon: `systemctl restart roamd`", "%s, the device of session addresses, is "+
			"gone or has no address: all sessions are blocked", device)
	case f.LinksKnown && slices.ContainsFunc(f.Links, func(l Link) bool { return l.Name == device && !l.Up }):
		e.add(Fault, "device", "ip link set "+device+" up; systemctl restart roamd", "%s, the device of session addresses, "+
			"is down: all sessions are blocked", device)
	case f.SessionRoutes != nil && !routed:
		e.add(Fault, "device", "restart the daemon: `systemctl restart roamd`",
			"no route leads %v to %s: all sessions are blocked", f.Config.SessionNet(), device)
	}
	for _, r := range f.SessionRoutes {
		switch {
		case r.Direct, r.Dev == device || hostnet.OwnDevice(device, r.Dev) && r.Local:
		case r.Local:
			e.add(Warning, "device", "look for what gave it that address: a router or DHCPv6 server that advertises the prefix "+
				"does no good",
				"%s has the address %s in the session prefix: a peer with that identifier cannot be reached", r.Dev, r.Dst.Addr())
		default:
			e.add(Warning, "device", "look for what made it: a router that advertises the session prefix does no good",
				"another route leads %s to %s (table %s), within the session prefix; Roam's own goes before it", r.Dst, r.Dev,
				r.Table)
		}
	}
	if !slices.Contains(f.Daemon.Plane.Features, "netfilter-bpf") {
		e.add(Note, "device", "", "links are guarded one by one, as this kernel runs no eBPF on the hooks of netfilter "+
			"(Linux 6.4): the first packets on a link that appears are not checked for session addresses")
	}
	if e.clean("device") && f.LinksKnown {
		e.ok("device", "session addresses lead to %s, and no other link may use them", device)
	}
}
