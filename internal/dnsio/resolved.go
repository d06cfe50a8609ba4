package dnsio

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// resolvedServers is where systemd-resolved says which servers it asks: those of
// all links, and those of a resolv.conf that is not its own.
const resolvedServers = "/run/systemd/resolve/resolv.conf"

// isStub reports whether systemd-resolved answers at s.
func isStub(s netip.AddrPort) bool {
	return s.Port() == 53 && (s.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 53}) || s.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 54}))
}

// Follows returns the file that tells of other servers while resolv.conf points
// to us: where the original led, or where systemd-resolved lists its servers when
// the original led applications to that; "": there is none.
func (r ResolvConf) Follows() string {
	o, err := r.original()
	if err != nil {
		return ""
	}
	file := o.Link
	if slices.ContainsFunc(servers(o.Content, netip.AddrPort{}), isStub) {
		file = r.resolved()
	}
	if file == "" {
		return ""
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(r.Path), file)
	}
	if file, err = filepath.EvalSymlinks(file); err != nil {
		return "" // it leads nowhere
	}
	return file
}

func (r ResolvConf) resolved() string {
	if r.Resolved != "" {
		return r.Resolved
	}
	return resolvedServers
}

// past returns the servers that systemd-resolved asks, in its place: it reads a
// resolv.conf that is not its own, finds us there, and would ask us what we ask it.
// A question for a name that does not exist would go round until all are tired.
// While resolved does not ask us, and will not, it may be asked: it follows the
// links by itself.
func (r ResolvConf) past(list []netip.AddrPort, own netip.AddrPort, taken bool) []netip.AddrPort {
	if !slices.ContainsFunc(list, isStub) {
		return list
	}
	text, err := os.ReadFile(r.resolved())
	if err != nil {
		return list // something else is at that address
	}
	direct := servers(string(text), netip.AddrPort{})
	if !taken && !slices.Contains(direct, own) {
		return list
	}
	var out []netip.AddrPort
	for _, s := range append(slices.DeleteFunc(slices.Clone(list), isStub), direct...) {
		if s != own && !isStub(s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
