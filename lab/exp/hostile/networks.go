package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"roam/lab/exp"
	"roam/lab/scene"
	"roam/lab/topo"
)

// network is one kind of network that people find themselves in.
type network struct {
	name  string
	says  string
	rules string // of nftables, in the router's forward chain
	chain string // further chains, whole
	mtu   int    // of the wire behind the router; 0: as it is
	// atPeer puts the rules in front of the correspondent, which then opens the session.
	atPeer bool
	// late installs the rules after the mobile host has left for the clean network, which
	// stays when it returns.
	late  bool
	route bool // answers come back by another router
	// duality makes the mobile host keep the network when it attaches to the clean one, and
	// use both paths; both puts the rules into that one, too.
	duality, both bool
	udp           bool   // control is expected in UDP encapsulation there
	acked         bool   // the Locator Update is acknowledged in UDP
	told          string // part of the line by which doctor tells; "" where it cannot
}

const onlyAnswers = `ct state established,related accept
		iifname "lan" accept
		drop`

const (
	trackedOnly = "ct state invalid drop"
	tracksTold  = "a firewall on one of them tracks connections"
)

var networks = []network{
	{name: "clean", says: "nothing is filtered"},
	{name: "options", says: "drops every packet with a Destination Options header", rules: "exthdr dst exists drop",
		udp: true, acked: true,
		told: "packets with destination options are dropped"},
	{name: "updates", says: "drops ICMPv6 type 156", rules: "icmpv6 type 156 drop", acked: true,
		told: "something drops ICMPv6 type 156"},
	{name: "icmp", says: "drops all ICMPv6", rules: "meta l4proto ipv6-icmp drop", udp: true, acked: true,
		told: "ICMPv6 is dropped"},
	{name: "label", says: "rewrites the flow label", rules: "ip6 flowlabel set 0x54321", told: "rewrites the flow label"},
	{name: "firewall", says: "default drop in front of the mobile host: only answers come in", rules: onlyAnswers,
		acked: true, told: "a firewall there had lost the connection"},
	{name: "firewallpeer", says: "default drop in front of the correspondent, which begins", rules: onlyAnswers,
		atPeer: true, udp: true, acked: true},
	{name: "mtu", says: "a path MTU of 1280, and routers say so", mtu: 1280, told: "a router says so"},
	{name: "blackhole", says: "a path MTU of 1280, and Packet Too Big is dropped", mtu: 1280,
		chain: `chain output { type filter hook output priority 0; icmpv6 type packet-too-big drop; }`, told: "a black hole"},
	{name: "asymmetric", says: "out by one router, back by another", route: true},
	{name: "tracked", says: "one of two paths in duality drops what connection tracking takes for invalid",
		rules: trackedOnly, duality: true, told: tracksTold},
	{name: "trackedboth", says: "both paths in duality drop what connection tracking takes for invalid",
		rules: trackedOnly, duality: true, both: true, told: tracksTold},
	{name: "oneway", says: "loses what comes in, while the old network is still there", rules: `iifname "wan" drop`,
		late: true, told: "does not answer"},
}

// chosen returns the networks that a parameter names.
func chosen(word string) ([]network, error) {
	if word == "all" {
		return networks, nil
	}
	var list []network
	for _, name := range strings.Split(word, ",") {
		i := len(list)
		for _, n := range networks {
			if n.name == strings.TrimSpace(name) {
				list = append(list, n)
			}
		}
		if len(list) == i {
			return nil, fmt.Errorf("no network is called %q", name)
		}
	}
	return list, nil
}

// install applies n to the scene's first access network, or to that of the correspondent.
func (n network) install(ctx context.Context, env *exp.Env, s *scene.Scene) error {
	r := s.Mobile().Routers["net1"]
	if n.atPeer {
		r = s.Peer(0).Routers["net1"]
	}
	if n.mtu > 0 {
		for h, ifname := range map[*topo.Host]string{r: "wan", s.Core: r.Name()} {
			if err := run(ctx, h, "/usr/sbin/ip", "link", "set", ifname, "mtu", fmt.Sprint(n.mtu)); err != nil {
				return err
			}
		}
	}
	if n.route {
		if err := anotherWay(ctx, s, r); err != nil {
			return err
		}
	}
	if n.rules+n.chain == "" {
		return nil
	}
	text := fmt.Sprintf("table ip6 hostile {\n\tchain forward {\n\t\ttype filter hook forward priority "+
		"0;\n\t\t%s\n\t}\n\t%s\n}\n", n.rules, n.chain)
	path := filepath.Join(env.Dir, n.name+".nft")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	hosts := []*topo.Host{r}
	switch {
	case n.chain != "":
		hosts = append(hosts, s.Core) // the other end of the small wire
	case n.both:
		hosts = append(hosts, s.Mobile().Routers["net2"])
	}
	for _, h := range hosts {
		if err := run(ctx, h, "/usr/sbin/nft", "-f", path); err != nil {
			return err
		}
	}
	return nil
}

// anotherWay routes packets back to the first network through a router of their own.
func anotherWay(ctx context.Context, s *scene.Scene, r *topo.Host) error {
	rb, err := s.Lab.Host("rb")
	if err != nil {
		return fmt.Errorf("make second router: %w", err)
	}
	if err := rb.Forward(); err != nil {
		return err
	}
	p := s.Mobile().Prefix["net1"]
	up, down := netip.MustParsePrefix("2001:db8:fb:1::/64"), netip.MustParsePrefix("2001:db8:fb:2::/64")
	first, second := func(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr().Next(), 64) },
		func(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr().Next().Next(), 64) }
	for _, err := range []error{
		s.Lab.Veth(rb, "up", s.Core, "rb"), s.Lab.Veth(rb, "down", r, "back"),
		s.Core.AddAddr("rb", first(up)), rb.AddAddr("up", second(up)),
		rb.AddAddr("down", first(down)), r.AddAddr("back", second(down)),
		rb.AddRoute(p, second(down).Addr(), "down"),
	} {
		if err != nil {
			return fmt.Errorf("second router: %w", err)
		}
	}
	return run(ctx, s.Core, "/usr/sbin/ip", "-6", "route", "replace", p.String(), "via", second(up).Addr().String(),
		"dev", "rb")
}

// run runs a program on a host.
func run(ctx context.Context, h *topo.Host, argv ...string) error {
	if out, err := h.Command(ctx, argv...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s on %s: %w: %s", strings.Join(argv, " "), h.Name(), err, out)
	}
	return nil
}
