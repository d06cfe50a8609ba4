package dnsio

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// resolvedServers is where systemd-resolved says which servers it asks: those of
// all links, and those of a resolv.conf that is not its own.
const resolvedServers = "/run/systemd/resolve/resolv.conf"

// resolvedStub is where it answers applications.
var resolvedStub = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 53}), 53)

// isStub reports whether systemd-resolved answers at s: there, or at the address behind
// it, without the names that it knows by itself.
func isStub(s netip.AddrPort) bool {
	return s == resolvedStub || s == netip.AddrPortFrom(resolvedStub.Addr().Next(), 53)
}

// Follows returns the file that tells of other servers while resolv.conf points
// to us: where the original led, or where systemd-resolved lists its servers when
// the original led applications to that; "": there is none. The file need not
// exist yet.
func (r ResolvConf) Follows() string {
	o, err := r.original()
	if err != nil {
		return ""
	}
	file, text := o.Link, o.Content
	if file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(r.Path), file)
		}
		if b, err := os.ReadFile(file); err == nil {
			text = string(b)
		}
	}
	if slices.ContainsFunc(servers(text, netip.AddrPort{}), isStub) {
		return r.resolved()
	}
	return file
}

// Followed returns the servers of the file of Follows, without the one at own.
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

// forgetTime is how long resolved may take to look at resolv.conf.
const forgetTime = time.Second

// forgetUs has systemd-resolved drop us before its own resolv.conf is put back:
// that one it does not read, and it would go on asking us for ever. It looks at
// the file when it is asked, so it is shown one that names itself alone, which it
// leaves out, and asked. Applications that read that file meanwhile find names.
// It reports whether the file is still ours afterwards.
func (r ResolvConf) forgetUs(o saved) bool {
	if !strings.Contains(o.Link, "systemd/resolve/") {
		return true
	}
	stub := r.Stub
	if !stub.IsValid() {
		stub = resolvedStub
	}
	if err := replace(r.Path, []byte(marker+"\nnameserver "+stub.Addr().String()+"\n"), 0o644); err != nil {
		return true // putting the original back will tell
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	q := new(dns.Msg).SetQuestion("example.com.", dns.TypeA) // any name that it does not know by itself
	_, _ = exchange(ctx, stub, q)
	text, err := os.ReadFile(r.Path)
	return err != nil || isOurs(text)
}
