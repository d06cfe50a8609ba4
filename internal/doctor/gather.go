package doctor

import (
	"context"
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"roam/internal/config"
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
	// Lookup resolves a name with the system's resolver.
	Lookup(ctx context.Context, name string) []netip.Addr
}

// Gather collects the facts of the machine. The caller adds the daemon's facts, the time,
// and the faults of the configuration.
func Gather(ctx context.Context, w World, cfg config.Config) Facts {
	f := Facts{
		Root: w.Root(), Config: cfg,
		Kernel:     strings.TrimSpace(w.Read("/proc/sys/kernel/osrelease")),
		NoIPv6:     strings.TrimSpace(w.Read("/proc/sys/net/ipv6/conf/all/disable_ipv6")) == "1",
		NFT:        w.Output(ctx, "nft", "-j", "list", "ruleset"),
		IPTables:   w.Output(ctx, "ip6tables-save"),
		ResolvConf: w.Read(cfg.DNS.ResolvConf),
		RunDir:     directory(w, cfg.Host.RunDir),
		StateDir:   directory(w, cfg.Host.StateDir),
	}
	f.HostsFaults = naming.ReadHosts(
		naming.File{Name: cfg.Host.Hosts, Text: w.Read(cfg.Host.Hosts)},
		naming.File{Name: cfg.Peers(), Text: w.Read(cfg.Peers())}).Faults
	f.Refused = counted(w.Read("/proc/net/snmp6"), "Icmp6OutParmProblems")
	f.RunDir.BPF = mounted(w.Read("/proc/self/mountinfo"), filepath.Join(cfg.Host.RunDir, "bpf"), "bpf")
	f.Links = links(w.Output(ctx, "ip", "-j", "-6", "address", "show"),
		w.Output(ctx, "ip", "-j", "-6", "route", "show", "default"))
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

// mounted reports whether a file system of a type is mounted at a directory.
func mounted(mountinfo, dir, fstype string) bool {
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(line, " - ")
		fields := strings.Fields(left)
		if ok && len(fields) > 4 && fields[4] == dir && strings.HasPrefix(right, fstype+" ") {
			return true
		}
	}
	return false
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
