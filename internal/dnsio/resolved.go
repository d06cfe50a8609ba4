package dnsio

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// resolvedServers is the file in which systemd-resolved lists its upstream servers: those
// of all links, and those of a resolv.conf that another program wrote.
const resolvedServers = "/run/systemd/resolve/resolv.conf"

// resolvedStub is the address on which systemd-resolved answers applications.
var resolvedStub = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 53}), 53)

// isStub reports whether systemd-resolved answers at s: its stub, or the proxy at the
// address behind it, which does not answer resolved's own names.
func isStub(s netip.AddrPort) bool {
	return s == resolvedStub || s == netip.AddrPortFrom(resolvedStub.Addr().Next(), 53)
}

// Follows returns the file that lists the upstream servers while resolv.conf names Roam:
// the target of the original link, or the server list of systemd-resolved if the original
// pointed applications to that; "" if there is none. The file need not exist yet.
func (r ResolvConf) Follows() string {
	o, err := r.original()
	if err != nil {
		return ""
	}
	if slices.ContainsFunc(servers(o.Content, netip.AddrPort{}), isStub) {
		return r.resolved()
	}
	if o.Link == "" {
		return ""
	}
	return r.target(o.Link)
}

// Followed returns the servers in the file of Follows, without the one at own.
func (r ResolvConf) Followed(own netip.AddrPort) ([]netip.AddrPort, error) {
	text, err := os.ReadFile(r.Follows())
	if err != nil {
		return nil, fmt.Errorf("follow what wrote %s: %w", r.Path, err)
	}
	return r.past(servers(string(text), own), own, true), nil
}

func (r ResolvConf) resolved() string {
	if r.Resolved != "" {
		return r.Resolved
	}
	return resolvedServers
}

// past replaces systemd-resolved in a list by resolved's own upstream servers. resolved
// reads a resolv.conf of other programs, finds Roam there, and would forward to Roam what
// Roam forwards to it: a loop for every name that does not exist. If resolved does not use
// Roam, and will not, it stays in the list, since it follows the links by itself.
func (r ResolvConf) past(list []netip.AddrPort, own netip.AddrPort, taken bool) []netip.AddrPort {
	if !slices.ContainsFunc(list, isStub) {
		return list
	}
	text, err := os.ReadFile(r.resolved())
	if err != nil {
		return list // another program answers at that address
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

// forgetTime is how long resolved may take to read resolv.conf.
const forgetTime = time.Second

// forgetUs makes systemd-resolved drop Roam's server before Restore restores resolved's own
// resolv.conf, which resolved does not read: it would query Roam forever. resolved reads
// the file when it gets a query, so forgetUs writes a file that names resolved alone, which
// resolved ignores, and sends a query. Applications can resolve names meanwhile. It reports
// whether the file is still Roam's afterwards.
func (r ResolvConf) forgetUs(o saved) bool {
	if !strings.Contains(o.Link, "systemd/resolve/") {
		return true
	}
	stub := r.Stub
	if !stub.IsValid() {
		stub = resolvedStub
	}
	if err := replace(r.Path, []byte(marker+"\nnameserver "+stub.Addr().String()+"\n"), 0o644); err != nil {
		return true // restoring the original will report the error
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	q := new(dns.Msg).SetQuestion("example.com.", dns.TypeA) // any name that resolved must forward
	_, _ = exchange(ctx, stub, q)
	text, err := os.ReadFile(r.Path)
	return err != nil || isOurs(text)
}
