package doctor

import (
	"context"
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"roam/naming"
)

// World is the machine, as Gather sees it.
type World interface {
	// Root reports whether this process may read everything.
	Root() bool
	// Output returns the output of a program; "" if it is not installed.
	Output(ctx context.Context, name string, args ...string) string
	// Read returns the text of a file; "" when it cannot be read.
	Read(path string) string
	// Free returns the bytes available to files of a directory; false if it does not exist.
	Free(dir string) (uint64, bool)
	// BPF reports whether a bpffs is mounted at a directory.
	BPF(dir string) bool
	// Lookup resolves a name with the system's resolver.
	Lookup(ctx context.Context, name string) []netip.Addr
}

// Gather adds the facts of the machine to those of the daemon. f.Config is set; the caller
// adds the time and the faults of the configuration.
func Gather(ctx context.Context, w World, f Facts) Facts {
	cfg := f.Config
	f.Root, f.NoIPv6 = w.Root(), isOff(w)
	f.Kernel = strings.TrimSpace(w.Read("/proc/sys/kernel/osrelease"))
	f.NFT, f.IPTables = w.Output(ctx, "nft", "-j", "list", "ruleset"), w.Output(ctx, "ip6tables-save")
	f.ResolvConf = w.Read(cfg.DNS.ResolvConf)
	f.RunDir, f.StateDir = directory(w, cfg.Host.RunDir), directory(w, cfg.Host.StateDir)
	f.HostsFaults = naming.ReadHosts(
		naming.File{Name: cfg.Host.Hosts, Text: w.Read(cfg.Host.Hosts)},
		naming.File{Name: cfg.Peers(), Text: w.Read(cfg.Peers())}).Faults
	f.Refused = counted(w.Read("/proc/net/snmp6"), "Icmp6OutParmProblems")
	f.RunDir.BPF = w.BPF(cfg.Pins())
	f.Links = links(w.Output(ctx, "ip", "-j", "-6", "address", "show"),
		w.Output(ctx, "ip", "-j", "-6", "route", "show", "default"))
	setKinds(f.Links, w.Output(ctx, "ip", "-d", "-j", "link", "show"))
	f.NoForwarding = strings.TrimSpace(w.Read("/proc/sys/net/ipv6/conf/all/forwarding")) == "0"
	f.LinksKnown = len(f.Links) > 0
	f.SessionRoutes = sessionRoutes(w.Output(ctx, "ip", "-j", "-6", "route", "show", "table", "all", "root",
		cfg.SessionNet().String()))
	for i := range f.Links {
		l := &f.Links[i]
		l.Forwarding, l.AcceptRA = setting(w, l.Name, "forwarding"), setting(w, l.Name, "accept_ra")
	}
	return f
}

// isOff reports whether IPv6 is switched off. Its settings do not exist when the kernel was
// started with ipv6.disable=1.
func isOff(w World) bool {
	const settings = "/proc/sys/net/ipv6"
	_, exists := w.Free(settings)
	return !exists || strings.TrimSpace(w.Read(settings+"/conf/all/disable_ipv6")) == "1"
}

func directory(w World, path string) Dir {
	free, ok := w.Free(path)
	return Dir{Path: path, Exists: ok, Free: free}
}

// counted returns a counter of /proc/net/snmp6, or 0 if it is missing.
func counted(snmp, name string) int {
	for line := range strings.Lines(snmp) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// setting returns a sysctl of a link, -1 when it cannot be read.
func setting(w World, link, name string) int {
	// A path, since in a key a dot in the link's name would be a separator.
	n, err := strconv.Atoi(strings.TrimSpace(w.Read(filepath.Join("/proc/sys/net/ipv6/conf", link, name))))
	if err != nil {
		return -1
	}
	return n
}

// links reads the JSON output of ip(8), and ignores entries that it cannot read.
func links(addresses, routes string) []Link {
	var as []struct {
		Name  string   `json:"ifname"`
		MTU   int      `json:"mtu"`
		Flags []string `json:"flags"`
		Info  []struct {
			Family string `json:"family"`
			Local  string `json:"local"`
			Prefix int    `json:"prefixlen"`
			Scope  string `json:"scope"`
			Failed bool   `json:"dadfailed"`
		} `json:"addr_info"`
	}
	var rs []struct {
		Dev   string   `json:"dev"`
		From  string   `json:"from"` // "": all sources
		Flags []string `json:"flags"`
		Hops  []struct {
			Dev string `json:"dev"`
		} `json:"nexthops"`
	}
	if json.Unmarshal([]byte(addresses), &as) != nil {
		return nil
	}
	_ = json.Unmarshal([]byte(routes), &rs) // no routes, then
	var out []Link
	for _, a := range as {
		l := Link{Name: a.Name, MTU: a.MTU, Up: slices.Contains(a.Flags, "UP") && slices.Contains(a.Flags, "LOWER_UP")}
		l.Tunnel = slices.Contains(a.Flags, "POINTOPOINT") && !strings.HasPrefix(a.Name, "ppp")
		for _, i := range a.Info {
			addr, err := netip.ParseAddr(i.Local)
			if err == nil && i.Family == "inet6" && i.Scope == "global" && !i.Failed {
				l.Global = append(l.Global, netip.PrefixFrom(addr, i.Prefix))
			}
		}
		for _, r := range rs {
			uses := r.Dev == a.Name
			for _, h := range r.Hops {
				uses = uses || h.Dev == a.Name
			}
			l.Routed = l.Routed || uses && r.From == ""
			l.BySource = l.BySource || uses && r.From != ""
		}
		out = append(out, l)
	}
	return out
}

// setKinds adds what only the output of `ip -d -j link show` says of links.
func setKinds(links []Link, text string) {
	var ls []struct {
		Name   string `json:"ifname"`
		Master string `json:"master"`
		Info   struct {
			Kind  string `json:"info_kind"`
			Slave string `json:"info_slave_kind"`
		} `json:"linkinfo"`
	}
	if json.Unmarshal([]byte(text), &ls) != nil {
		return
	}
	for i := range links {
		for _, l := range ls {
			if l.Name == links[i].Name {
				links[i].Kind = l.Info.Kind
				links[i].Port = l.Master != "" && l.Info.Slave != "vrf" // a VRF leaves its members their own IPv6
			}
		}
	}
}

// PathMTU reads the path MTU that the kernel has learned from the output of `ip -j -6 route
// get`; 0: none.
func PathMTU(route string) int {
	var rs []struct {
		Metrics []struct {
			MTU int `json:"mtu"`
		} `json:"metrics"`
	}
	if json.Unmarshal([]byte(route), &rs) != nil || len(rs) == 0 {
		return 0
	}
	for _, m := range rs[0].Metrics {
		if m.MTU > 0 {
			return m.MTU
		}
	}
	return 0
}
