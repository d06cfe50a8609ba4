package quickstart

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"roam/lab/exp"
	"roam/lab/linkem"
	"roam/lab/topo"
)

// access are the names of the mobile host's interfaces, one per network.
var access = []string{"net1", "net2", "net3"}

// setupWithin bounds the wait for addresses and daemons.
const setupWithin = 20 * time.Second

// network is the topology of drawing.txt.
type network struct {
	lab      *topo.Lab
	mn       *topo.Host
	cn       [2]*topo.Host
	r0       *topo.Host
	links    map[string]*linkem.Link // direction AB is away from the mobile host
	cnAddr   [2]netip.Addr           // the correspondents' own SLAAC addresses
	mnPrefix map[string]netip.Prefix
}

func accessPrefix(i int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/64", i+1))
}

func cnPrefix(i int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("2001:db8:c%d::/64", i+1))
}

// first returns the router's own address in a prefix.
func first(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr().Next(), p.Bits()) }

// build makes the topology with net1 up and net2 and net3 without carrier, and
// waits until the mobile host and the correspondents have addresses.
func build(ctx context.Context, p exp.Params, name string, seed uint64) (n *network, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupWithin)
	defer cancel()
	n = &network{links: map[string]*linkem.Link{}, mnPrefix: map[string]netip.Prefix{}}
	lab, err := topo.New(name)
	if err != nil {
		return nil, fmt.Errorf("make topology: %w", err)
	}
	n.lab = lab
	defer func() {
		if err != nil {
			err = errors.Join(err, lab.Close())
		}
	}()
	for name, h := range map[string]**topo.Host{"mn": &n.mn, "cn1": &n.cn[0], "cn2": &n.cn[1], "r0": &n.r0} {
		if *h, err = n.lab.Host(name); err != nil {
			return nil, fmt.Errorf("make host: %w", err)
		}
	}
	// A download that is paced by its reader would else rush into the socket's
	// buffer, megabytes ahead, and leave the network idle.
	if err = n.mn.Sysctl("net.ipv4.tcp_rmem", "4096 131072 262144"); err != nil {
		return nil, err
	}
	if err = n.r0.Forward(); err != nil {
		return nil, err
	}
	for i := range access {
		if err = n.addAccess(ctx, p, i, seed); err != nil {
			return nil, fmt.Errorf("access network %d: %w", i+1, err)
		}
	}
	if err = n.addCorrespondents(p); err != nil {
		return nil, err
	}
	return n, n.ready(ctx)
}

// advert is what all routers advertise, but for interface and prefix.
func advert(p exp.Params, ifname string, prefix netip.Prefix) topo.Advert {
	return topo.Advert{Interface: ifname, Prefix: prefix, MinInterval: p.Seconds("ra_min_s"), MaxInterval: p.Seconds("ra_max_s")}
}

// addAccess adds one access network with its router, joined to R0.
func (n *network) addAccess(ctx context.Context, p exp.Params, i int, seed uint64) error {
	ifname, prefix := access[i], accessPrefix(i)
	r, err := n.lab.Host(fmt.Sprintf("r%d", i+1))
	if err != nil {
		return err
	}
	if err := r.Forward(); err != nil {
		return err
	}
	link, err := n.lab.Link(n.mn, ifname, r, "lan", linkem.Params{
		Delay: p.Millis("delay_ms"), Rate: int64(p.Float("rate_mbps") * 1e6), QueuePackets: p.Int("queue_packets"), Seed: seed + uint64(i),
	})
	if err != nil {
		return err
	}
	n.links[ifname], n.mnPrefix[ifname] = link, prefix
	wan := netip.MustParsePrefix(fmt.Sprintf("2001:db8:f%d::/64", i+1))
	core := fmt.Sprintf("r%d", i+1)
	err = errors.Join(
		n.lab.Veth(r, "wan", n.r0, core),
		r.AddAddr("lan", first(prefix)),
		n.r0.AddAddr(core, first(wan)),
		r.AddAddr("wan", netip.PrefixFrom(first(wan).Addr().Next(), 64)),
		r.AddRoute(netip.MustParsePrefix("::/0"), first(wan).Addr(), "wan"),
		n.r0.AddRoute(prefix, first(wan).Addr().Next(), core),
		ingressFilter(ctx, r, prefix))
	if err != nil {
		return err
	}
	if i > 0 {
		if err := link.Down(); err != nil {
			return err
		}
	}
	_, err = r.Router(advert(p, "lan", prefix))
	return err
}

// ingressFilter makes a router drop what does not come from its own network, as
// every access network should (BCP 38): a host cannot cheat by sending from one
// network with another's address.
func ingressFilter(ctx context.Context, r *topo.Host, prefix netip.Prefix) error {
	for _, rule := range [][]string{
		{"add", "table", "ip6", "bcp38"},
		{"add", "chain", "ip6", "bcp38", "forward", "{ type filter hook forward priority 0 ; }"},
		{"add", "rule", "ip6", "bcp38", "forward", "iifname", "lan", "ip6", "saddr", "!=", prefix.String(), "counter", "drop"},
	} {
		if out, err := r.Command(ctx, append([]string{"/usr/sbin/nft"}, rule...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("filter on %s: %w: %s", r.Name(), err, out)
		}
	}
	return nil
}

// addCorrespondents joins CN1 and CN2 to R0, which advertises to them.
func (n *network) addCorrespondents(p exp.Params) error {
	var adverts []topo.Advert
	for i, h := range n.cn {
		ifname, prefix := fmt.Sprintf("cn%d", i+1), cnPrefix(i)
		if err := errors.Join(n.lab.Veth(h, "eth0", n.r0, ifname), n.r0.AddAddr(ifname, first(prefix))); err != nil {
			return fmt.Errorf("correspondent %d: %w", i+1, err)
		}
		adverts = append(adverts, advert(p, ifname, prefix))
	}
	_, err := n.r0.Router(adverts...)
	return err
}

// ready waits for the addresses that SLAAC makes.
func (n *network) ready(ctx context.Context) error {
	if _, err := n.mn.WaitAddr(ctx, access[0], accessPrefix(0)); err != nil {
		return err
	}
	for i, h := range n.cn {
		a, err := h.WaitAddr(ctx, "eth0", cnPrefix(i))
		if err != nil {
			return err
		}
		n.cnAddr[i] = a
	}
	return nil
}

// drops counts the frames that the emulator dropped, by reason. Only those that
// met a cut link were asked for.
func (n *network) drops() map[string]uint64 {
	d := map[string]uint64{"queue": 0, "loss": 0, "refused": 0, "cut": 0}
	for _, k := range n.links {
		for _, dir := range []linkem.Direction{linkem.AB, linkem.BA} {
			c := k.Counters(dir)
			d["queue"] += c.DropQueue
			d["loss"] += c.DropLoss
			d["refused"] += c.DropError
			d["cut"] += c.DropDown
		}
	}
	return d
}
