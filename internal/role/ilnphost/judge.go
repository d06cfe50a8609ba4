package ilnphost

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"roam"
	"roam/internal/control"
	"roam/internal/dnsio"
	"roam/naming"
)

// resolveTime is how long `roam add` waits to learn what a name means today. No answer
// by then is no objection.
const resolveTime = time.Second

// etcHosts names addresses beside the DNS (hosts(5)).
const etcHosts = "/etc/hosts"

// ownMeaning are names that every host has for itself or its network (RFC 6761 and 6762,
// the hosts files of distributions, systemd-resolved); localhost has names below it as well.
var ownMeaning = []string{
	"localhost", "localdomain", "local", "localhost4", "localhost6", "loopback", "broadcasthost", "ip6-localhost",
	"ip6-loopback", "ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "ip6-allhosts",
	"_gateway", "_outbound", "_localdnsstub", "_localdnsproxy", "wpad", "isatap",
}

// judgement is what is asked of the names of one node.
type judgement struct {
	nid            roam.NID
	explicit       bool // the user has typed the name: its form is meant
	replace, force bool
	host           string            // this host's own name; "": not known
	means          map[string]string // what names resolve to today, where that is something else
}

// judgement collects what a judgement on the names of a record rests on. It may wait
// for the DNS, so no lock is held.
func (h *Host) judgement(ctx context.Context, r naming.Record, explicit, replace, force bool) judgement {
	j := judgement{nid: r.NID, explicit: explicit, replace: replace, force: force}
	if force {
		return j
	}
	j.host, _ = os.Hostname() // without one, no name can be mistaken for it
	fresh := slices.DeleteFunc(slices.Clone(r.Names), func(n string) bool {
		known, ok := h.names.Load().ByName(n)
		return ok && known.NID == r.NID // asked when it was added
	})
	j.means = elsewhere(ctx, r, fresh, h.upstream(), etcHosts)
	return j
}

// upstream returns the servers that names are asked of which are not ours.
func (h *Host) upstream() []netip.AddrPort {
	if h.dns != nil {
		return h.dns.Upstream()
	}
	servers, _ := upstreamOf(h.cfg) // none can be asked, then
	return servers
}

// elsewhere returns what those of the names resolve to, by the servers or by a file in the
// form of hosts(5), that do not mean the node of r.
func elsewhere(ctx context.Context, r naming.Record, names []string, servers []netip.AddrPort, file string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	text, _ := os.ReadFile(file) // no names in it, then
	means := make(map[string]string)
	var (
		mu    sync.Mutex
		asked sync.WaitGroup
	)
	for _, name := range names {
		asked.Go(func() {
			where := file
			list := hostsAddrs(string(text), name)
			if len(list) == 0 {
				where, list = "the DNS", dnsio.Lookup(ctx, servers, name)
			}
			for _, a := range list {
				if at := roam.ILVFromAddr(a); a.Is6() && at.NID == r.NID {
					continue // a session address, or one of its addresses
				}
				mu.Lock()
				defer mu.Unlock()
				means[name] = fmt.Sprintf("%v (%s)", a, where)
				return
			}
		})
	}
	asked.Wait()
	return means
}

// hostsAddrs returns the addresses of a name in a text of the form of hosts(5).
func hostsAddrs(text, name string) (out []netip.Addr) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 || !slices.ContainsFunc(f[1:], func(s string) bool { return strings.EqualFold(strings.TrimSuffix(s, "."), name) }) {
			continue
		}
		if a, err := netip.ParseAddr(f[0]); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// verdict is why names should not be given to a node unasked.
type verdict struct {
	why     []string
	dubious bool // force would take a name
	taken   bool // replace would move one
	fixed   bool // one is in a file that only the user edits
}

// judge looks at each name that the node does not have yet.
func (j judgement) judge(b book, names []string) (v verdict) {
	for _, name := range names {
		if b.has(j.nid, name) {
			continue
		}
		if l, ok := b.Named(name); ok {
			switch at := b.inHosts(b.Written(l.Record.NID)); {
			case slices.ContainsFunc(at, func(l naming.Line) bool { return slices.Contains(l.Record.Names, name) }):
				v.fixed = true
				v.why = append(v.why, fmt.Sprintf("%s means node %v in %v, which Roam does not edit", name, l.Record.NID, l.Place))
			case !j.replace:
				v.taken = true
				v.why = append(v.why, fmt.Sprintf("%s means node %v (%v)", name, l.Record.NID, l.Place))
			}
		}
		if why := j.dubious(name); why != "" && !j.force {
			v.dubious = true
			v.why = append(v.why, name+" "+why)
		}
	}
	return v
}

// dubious says why a name may be meant for something else; "": nothing speaks against it.
func (j judgement) dubious(name string) string {
	host := strings.ToLower(strings.TrimSuffix(j.host, "."))
	short, _, _ := strings.Cut(host, ".")
	switch {
	case slices.Contains(ownMeaning, name), strings.HasSuffix(name, ".localhost"), strings.HasPrefix(name, "localhost."):
		return "has a meaning of its own on every host"
	case host != "" && (name == host || name == short):
		return "is the name of this host"
	case j.means[name] != "":
		return "is " + j.means[name] + " today"
	case strings.Contains(name, ".") && !j.explicit:
		return "has a dot: it may be the name of another host in the DNS"
	}
	return ""
}

// ways are the command lines that lead out of a refusal.
type ways struct{ other, replace, force string }

var (
	addWays = ways{
		other:   "`roam add --as NAME LINE` gives the peer a name of your choice",
		replace: "`roam add --replace LINE` moves the name to it",
		force:   "`roam add --force LINE` takes the name as it is",
	}
	renameWays = ways{
		other:   "choose another name",
		replace: "`roam rename --replace OLD NEW` moves the name to it",
		force:   "`roam rename --force OLD NEW` takes the name as it is",
	}
)

// refusal is the error of a verdict, with every way out in its hint; nil if nothing
// speaks against the names.
func (v verdict) refusal(verb string, w ways) error {
	if len(v.why) == 0 {
		return nil
	}
	hint := []string{w.other}
	switch {
	case v.fixed:
		hint = append(hint, "or take the name out of that file, then `roam config reload`")
	default:
		if v.taken {
			hint = append(hint, w.replace)
		}
		if v.dubious {
			hint = append(hint, w.force)
		}
	}
	return control.Errorf(control.CodeChoice, "%s: %s; nothing was changed", verb, strings.Join(v.why, "; ")).
		WithHint("%s", strings.Join(hint, "; "))
}
