package simpson

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"roam"
	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/site"
	"roam/lab/topo"
)

//go:embed host
var hostFiles embed.FS

// Host is the experiment simpson-host, after chapter 4: a host divides its packets over two
// links by a policy of its own, beside plain IPv6 over one of them.
var Host = declareHost()

func declareHost() exp.Experiment {
	own, err := fs.Sub(hostFiles, "host")
	if err != nil {
		panic(err) // a fault of the package
	}
	return exp.Experiment{
		Name: "simpson-host", Group: Experiment.Group,
		Title:  "A host divides its packets over two links",
		Source: "B. Simpson, dissertation, chapter 4: host multihoming",
		Tools: map[string]string{"ping": "iputils-ping", "ip": "iproute2", "tc": "iproute2", "radvd": "radvd",
			"nft": "nftables"},
		Run: runHost,
	}.With(own)
}

// policy is how a host divides its packets.
type policy struct {
	name  string
	share int // of the first link, in per cent
	plain bool
}

// policies are those of the experiment. The first one is what the others are compared with.
var policies = []policy{{"ipv6", 100, true}, {"100_0", 100, false}, {"50_50", 50, false}, {"80_20", 80, false}}

// rule is the rule of roam.conf for all packets.
func (p policy) rule() string {
	shares := fmt.Sprintf("net1 = %d", p.share)
	if p.share < 100 {
		shares += fmt.Sprintf(", net2 = %d", 100-p.share)
	}
	return "[[rule]]\npolicy = \"weighted\"\nshares = { " + shares + " }\n"
}

// Node Identifiers and prefixes of both hosts.
var (
	pairNIDs     = [2]roam.NID{0x1000_0000_0000_0041, 0x1000_0000_0000_0042}
	pairNames    = [2]string{"horn", "reed"}
	pairPrefixes = [2][2]netip.Prefix{
		{netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParsePrefix("2001:db8:2::/64")},
		{netip.MustParsePrefix("2001:db8:c1::/64"), netip.MustParsePrefix("2001:db8:c2::/64")},
	}
)

// pair is the topology: two hosts with two links each to a router.
type pair struct {
	lab    *topo.Lab
	hosts  [2]*topo.Host
	router *topo.Host
	target netip.Addr // of the second host, for the first one's programs
}

// newPair builds the topology and starts Roam on both hosts, unless the policy is plain IPv6:
// then each host has its first link alone. The caller closes the lab also after an error.
func newPair(ctx context.Context, env *exp.Env, p policy) (n *pair, err error) {
	n = &pair{}
	if n.lab, err = topo.New("simpsonhost"); err != nil {
		return n, err
	}
	if n.router, err = n.lab.Host("ra"); err == nil {
		err = n.router.Forward()
	}
	var adverts []topo.Advert
	for h, name := range pairNames {
		if err == nil {
			n.hosts[h], err = n.lab.Host(name)
		}
		for l, prefix := range pairPrefixes[h] {
			if err != nil {
				return n, err
			}
			there := fmt.Sprint(name, l+1)
			err = errors.Join(n.lab.Veth(n.hosts[h], fmt.Sprint("net", l+1), n.router, there),
				n.router.AddAddr(there, netip.PrefixFrom(prefix.Addr().Next(), 64)))
			adverts = append(adverts, topo.Advert{
				Interface: there, Prefix: prefix, MinInterval: 300 * time.Millisecond, MaxInterval: time.Second,
			})
		}
	}
	if err == nil {
		_, err = n.router.Router(adverts...)
	}
	if err == nil {
		err = n.count(ctx)
	}
	if err != nil {
		return n, err
	}
	return n, n.start(ctx, env, p)
}

// start waits for addresses, and starts Roam.
func (n *pair) start(ctx context.Context, env *exp.Env, p policy) error {
	var hosts strings.Builder
	for h, name := range pairNames {
		fmt.Fprintf(&hosts, "nid=%s l64=%s,10 l64=%s,10 %s\n", pairNIDs[h], pairPrefixes[h][0], pairPrefixes[h][1], name)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for h, host := range n.hosts {
		for l, prefix := range pairPrefixes[h] {
			addr, err := host.WaitAddr(within, fmt.Sprint("net", l+1), prefix)
			if err != nil {
				return err
			}
			if l == 0 {
				n.target = addr
			}
		}
		if p.plain {
			if err := host.SetDown("net2"); err != nil {
				return err
			}
			continue
		}
		d, err := node.New(host, node.Binaries{Roam: env.Roam, Roamd: env.Roamd},
			node.Options{NID: pairNIDs[h], Mode: "duality", Hosts: hosts.String(), More: p.rule()})
		if err == nil {
			err = d.Start(ctx)
		}
		if err == nil {
			err = d.WaitUsable(ctx, "net1", "net2")
		}
		if err != nil {
			return err
		}
		n.target = site.Session(pairNIDs[h])
	}
	return nil
}

// hostTable is the table of rules by which the router counts; echoesOf ends the names of the
// counters of echoes.
const hostTable, echoesOf = "shares", "echoes"

// tally is what the router has counted of the applications by host and link: datagrams, and echoes
// that are longer than the probes of daemons.
type tally struct{ datagrams, echoes [2][2]uint64 }

// count has the router count that.
func (n *pair) count(ctx context.Context) error {
	var counters, rules strings.Builder
	for _, name := range pairNames {
		for l := range 2 {
			at := fmt.Sprint(name, l+1)
			fmt.Fprintf(&counters, "\tcounter %s {}\n\tcounter %s%s {}\n", at, at, echoesOf)
			fmt.Fprintf(&rules, "\t\tiifname %q icmpv6 type { echo-request, echo-reply } meta length >= %d counter name %s%s\n",
				at, echoBytes, at, echoesOf)
			for _, way := range []string{"sport", "dport"} {
				fmt.Fprintf(&rules, "\t\tiifname %q udp %s %d counter name %s\n", at, way, port, at)
			}
		}
	}
	cmd := n.router.Command(ctx, topo.Program("nft"), "-f", "-")
	cmd.Stdin = strings.NewReader("table ip6 " + hostTable + " {\n" + counters.String() +
		"\tchain in {\n\t\ttype filter hook prerouting priority -300;\n" + rules.String() + "\t}\n}\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("count packets: %w: %s", err, out)
	}
	return nil
}

// counted returns what was counted, by host and link.
func (n *pair) counted(ctx context.Context) (tally, error) {
	all, err := n.router.Counters(ctx)
	return tallyOf(all), err
}

// tallyOf reads the router's counters.
func tallyOf(all map[string]topo.Counter) (c tally) {
	for h, name := range pairNames {
		for l := range 2 {
			at := fmt.Sprint(name, l+1)
			c.datagrams[h][l], c.echoes[h][l] = uint64(all[at].Packets), uint64(all[at+echoesOf].Packets)
		}
	}
	return c
}

// since is what was counted after an earlier count.
func (c tally) since(before tally) tally {
	for h := range c.datagrams {
		for l := range c.datagrams[h] {
			c.datagrams[h][l] -= before.datagrams[h][l]
			c.echoes[h][l] -= before.echoes[h][l]
		}
	}
	return c
}

func (n *pair) ends() ends { return ends{n.hosts, n.target, n.counted} }

// settle has echoes pass until the first host divides them, as both know all locators of the other.
func (n *pair) settle(ctx context.Context, p policy) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last tally
	err := topo.Wait(ctx, "horn divides its echoes", func() bool {
		before, err := n.counted(ctx)
		if err != nil || n.hosts[0].AppCommand(ctx, "ping", "-n", "-q", "-i", "0.01", "-c", "20", "-s", "200",
			n.target.String()).Run() != nil {
			return false
		}
		after, err := n.counted(ctx)
		last = after.since(before)
		return err == nil && last.echoes[0] != [2]uint64{} && off(last.echoes[0], float64(p.share)/100) <= 10
	})
	if err != nil {
		return fmt.Errorf("%w: packets by host and link are %v", err, last.echoes)
	}
	return nil
}

// narrow gives the links of the first host a rate and a queue.
func (n *pair) narrow(ctx context.Context, p policy, mbps int) error {
	for l := range 2 {
		if p.plain && l > 0 {
			break
		}
		cmd := n.hosts[0].Command(ctx, topo.Program("tc"), "qdisc", "replace", "dev", fmt.Sprint("net", l+1), "root", "tbf",
			"rate", fmt.Sprintf("%dmbit", mbps), "burst", "3200", "limit", "4000000")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("limit the rate of net%d: %w: %s", l+1, err, out)
		}
	}
	return nil
}

// runHost measures all policies, one after the other.
func runHost(ctx context.Context, env *exp.Env) error {
	rates, err := ratesOf(env.Params.Text("rates"))
	if err != nil {
		return err
	}
	var all []*passage
	for _, p := range policies {
		list, err := measureHost(ctx, env, p, rates)
		if err != nil {
			return fmt.Errorf("policy %s: %w", p.name, err)
		}
		all = append(all, list...)
	}
	judgeHost(env.Result, all)
	drawHost(env.Result, all)
	return nil
}

// measureHost measures all cells of a policy.
func measureHost(ctx context.Context, env *exp.Env, p policy, rates [2][]int) (list []*passage, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n, err := newPair(ctx, env, p)
	defer func() {
		if n.lab != nil {
			err = errors.Join(err, n.lab.Close())
		}
	}()
	if err != nil {
		return nil, err
	}
	if err := n.settle(ctx, p); err != nil {
		return nil, err
	}
	if list, err = exchangeAll(ctx, env, n.ends(), p, p.title(), rates); err != nil {
		return nil, err
	}
	mbps := env.Params.Int("queue_mbps")
	v := &passage{policy: p, Frame: frameSizes[1], Rate: mbps * 9 / 10 * 1e6 / 8 / frameSizes[1], Queued: true}
	env.View.Phase("%s, links of %d Mb/s", p.title(), mbps)
	if err := n.narrow(ctx, p, mbps); err != nil {
		return nil, err
	}
	return append(list, v), v.exchange(ctx, env, n.ends())
}

// title is what tables and figures call a policy.
func (p policy) title() string {
	if p.plain {
		return "IPv6"
	}
	return "Roam, " + strings.ReplaceAll(p.name, "_", "/")
}
