package site

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"roam/lab/topo"
)

// ErrUnavailable is wrapped by errors about a comparator whose program or kernel module this
// machine lacks.
var ErrUnavailable = errors.New("not available on this machine")

// Comparator is a way for borders to connect a site without Roam.
type Comparator struct {
	Name, Title   string
	Tool, Package string // the program that sets it up, and Debian's package with that
	// argv is the command that sets up one border, input what that reads.
	argv  func(internal, provider netip.Prefix, link string) [][]string
	input func(internal netip.Prefix, providers [2]netip.Prefix) string
	undo  []string
	// outside is the address by which a host is known beyond its border.
	outside func(host netip.Addr, provider netip.Prefix) netip.Addr
}

// The comparators: forwarding alone, with routes to the internal prefixes in every router;
// stateless NPTv6 (RFC 6296); and translation of prefixes with connection tracking.
var (
	Forwarding = Comparator{
		Name: "forwarding", Title: "plain IPv6 forwarding", Tool: "ip", Package: "iproute2",
		outside: func(host netip.Addr, _ netip.Prefix) netip.Addr { return host },
	}
	NPTv6 = Comparator{
		Name: "nptv6", Title: "stateless NPTv6", Tool: "ip6tables", Package: "iptables",
		argv: nptRules, undo: []string{"ip6tables", "-t", "mangle", "-F"}, outside: nptAddr,
	}
	PrefixNAT = Comparator{
		Name: "prefixnat", Title: "prefix NAT of nftables", Tool: "nft", Package: "nftables",
		input: natRules, undo: []string{"nft", "delete", "table", "ip6", natTable},
		outside: func(host netip.Addr, provider netip.Prefix) netip.Addr { return withPrefix(host, provider) },
	}
	Comparators = []Comparator{Forwarding, NPTv6, PrefixNAT}
)

// Outside is the address by which a host is known beyond its border, if packets use that
// provider.
func (c Comparator) Outside(host netip.Addr, provider netip.Prefix) netip.Addr {
	return c.outside(host, provider)
}

// natTable is the table of rules of PrefixNAT.
const natTable = "site"

// nptRules translate at one link in both directions.
func nptRules(internal, provider netip.Prefix, link string) [][]string {
	in, out := internal.String(), provider.String()
	return [][]string{
		{"ip6tables", "-t", "mangle", "-A", "POSTROUTING", "-o", link, "-s", in, "-j", "SNPT",
			"--src-pfx", in, "--dst-pfx", out},
		{"ip6tables", "-t", "mangle", "-A", "PREROUTING", "-i", link, "-d", out, "-j", "DNPT",
			"--src-pfx", out, "--dst-pfx", in},
	}
}

// natRules translate at both links of a border.
func natRules(internal netip.Prefix, providers [2]netip.Prefix) string {
	var out, in strings.Builder
	for i, p := range providers {
		fmt.Fprintf(&out, "\t\toifname \"wan%d\" snat ip6 prefix to ip6 saddr map { %s : %s }\n", i, internal, p)
		fmt.Fprintf(&in, "\t\tiifname \"wan%d\" dnat ip6 prefix to ip6 daddr map { %s : %s }\n", i, p, internal)
	}
	return "table ip6 " + natTable + " {\n\tchain out {\n\t\ttype nat hook postrouting priority srcnat;\n" + out.String() +
		"\t}\n\tchain in {\n\t\ttype nat hook prerouting priority dstnat;\n" + in.String() + "\t}\n}\n"
}

// withPrefix replaces the upper half of an address.
func withPrefix(host netip.Addr, p netip.Prefix) netip.Addr {
	a, prefix := host.As16(), p.Addr().As16()
	copy(a[:8], prefix[:8])
	return netip.AddrFrom16(a)
}

// nptAddr translates an address as RFC 6296 section 3.5 does with prefixes of 64 bits: the
// first word of the lower half makes up for the change of the sum of the others.
func nptAddr(host netip.Addr, p netip.Prefix) netip.Addr {
	a, b := host.As16(), withPrefix(host, p).As16()
	sum := uint32(binary.BigEndian.Uint16(a[8:]))
	for i := 0; i < 8; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(a[i:])) + uint32(^binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum == 0xffff {
		sum = 0
	}
	binary.BigEndian.PutUint16(b[8:], uint16(sum))
	return netip.AddrFrom16(b)
}

// Compare sets a comparator up on every border, and returns the address by which the inside
// host knows the other one. All packets use the first link. An error that wraps
// ErrUnavailable names what is missing.
func (s *Site) Compare(ctx context.Context, c Comparator) (target netip.Addr, err error) {
	if _, err := exec.LookPath(c.Tool); err != nil {
		return target, fmt.Errorf("%s: %w: %w: apt-get install %s", c.Title, ErrUnavailable, err, c.Package)
	}
	addrs, err := s.Far.Addrs("net1")
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("%s has no address", s.Far.Name())
	}
	if err != nil {
		return target, err
	}
	if target = addrs[0].Addr(); s.FarRouter != nil {
		target = c.outside(target, Providers[1][0])
	}
	for i, r := range s.routers() {
		if err := c.apply(ctx, r, Internals[i], Providers[i]); err != nil {
			return target, fmt.Errorf("%s: %w: %w", c.Title, ErrUnavailable, err)
		}
	}
	if c.argv == nil && c.input == nil {
		err = s.routeInternals()
	}
	return target, err
}

// apply gives a border the rules of the comparator.
func (c Comparator) apply(ctx context.Context, r *topo.Host, internal netip.Prefix, providers [2]netip.Prefix) error {
	if c.argv != nil {
		for i, p := range providers {
			for _, argv := range c.argv(internal, p, fmt.Sprint("wan", i)) {
				if err := runOn(ctx, r, "", argv...); err != nil {
					return err
				}
			}
		}
	}
	if c.input != nil {
		return runOn(ctx, r, c.input(internal, providers), c.Tool, "-f", "-")
	}
	return nil
}

// Restore removes what Compare set up.
func (s *Site) Restore(ctx context.Context, c Comparator) (err error) {
	if c.undo == nil {
		for _, h := range s.beyond() {
			err = errors.Join(err, runOn(ctx, h.on, "", "ip", "-6", "route", "del", h.dst.String()))
		}
		return err
	}
	for _, r := range s.routers() {
		err = errors.Join(err, runOn(ctx, r, "", c.undo...))
	}
	return err
}

func runOn(ctx context.Context, h *topo.Host, input string, argv ...string) error {
	cmd := h.Command(ctx, argv...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v on %s: %w: %s", argv, h.Name(), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// routers are the borders, the near one first.
func (s *Site) routers() []*topo.Host {
	if s.FarRouter != nil {
		return []*topo.Host{s.Router, s.FarRouter}
	}
	return []*topo.Host{s.Router}
}

// hop is a route to an internal prefix.
type hop struct {
	on     *topo.Host
	dst    netip.Prefix
	ifname string
	to     *topo.Host
	there  string
}

// beyond lists the routes to internal prefixes that forwarding without translation takes.
func (s *Site) beyond() []hop {
	list := []hop{
		{s.Provider[0], Internals[0], "site", s.Router, "wan0"},
		{s.Core, Internals[0], "provider0", s.Provider[0], "core"},
	}
	if s.FarRouter != nil {
		list = append(list, hop{s.Core, Internals[1], "far0", s.FarRouter, "wan0"})
	}
	return list
}

func (s *Site) routeInternals() (err error) {
	for _, h := range s.beyond() {
		err = errors.Join(err, via(h.on, h.dst, h.ifname, h.to, h.there, 100))
	}
	return err
}
