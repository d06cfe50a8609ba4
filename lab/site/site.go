// Package site builds a site with a border router and two providers, for experiments and
// tests:
//
//	inside ==lan== border ==wan0== provider0 ==core==
//	                      ==wan1== provider1 ==core== core ==net== outside
//
// All are kernels in namespaces of their own. The site's hosts have addresses of one
// internal prefix; each provider routes a prefix of its own to the border. It omits what a
// border runs: Roam, NPTv6 or nothing. It is driven by lab/acceptance and lab/exp/simpson.
package site

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"roam"
	"roam/lab/linkem"
	"roam/lab/node"
	"roam/lab/topo"
)

// The prefixes of the topology. The second internal prefix and pair of providers' prefixes
// are those of the far site, if there is one.
var (
	Internals = [2]netip.Prefix{netip.MustParsePrefix("fd00:0:1::/64"), netip.MustParsePrefix("fd00:0:2::/64")}
	Providers = [2][2]netip.Prefix{
		{netip.MustParsePrefix("2001:db8:a::/64"), netip.MustParsePrefix("2001:db8:b::/64")},
		{netip.MustParsePrefix("2001:db8:c::/64"), netip.MustParsePrefix("2001:db8:d::/64")},
	}
	External = netip.MustParsePrefix("2001:db8:cc::/64")
)

// The Node Identifiers of both hosts.
const (
	InsideNID  roam.NID = 0x1000_0000_0000_00a1
	OutsideNID roam.NID = 0x1000_0000_0000_00c1
)

var everywhere = netip.MustParsePrefix("::/0")

// Site is the topology, and Roam on its hosts.
type Site struct {
	Lab                     *topo.Lab
	InsideHost, Far         *topo.Host
	Router, FarRouter, Core *topo.Host // FarRouter is nil unless the outside host is in a site too
	Provider                [2]*topo.Host
	Inside, Border, Outside *node.Node // after Roam
	FarBorder               *node.Node // likewise, or nil

	wires [2]linkem.Params // to the providers
}

// New builds the topology. twoSites puts a border with two links of its own between the core
// and the outside host. Close removes it, also after an error.
func New(name string, twoSites bool) (s *Site, err error) {
	return NewOver(name, twoSites, [2]linkem.Params{})
}

// NewOver is New with emulated links between the border and its providers, but those whose
// parameters are zero.
func NewOver(name string, twoSites bool, wires [2]linkem.Params) (s *Site, err error) {
	s = &Site{wires: wires}
	if s.Lab, err = topo.New(name); err != nil {
		return s, err
	}
	hosts := map[string]**topo.Host{
		"inside": &s.InsideHost, "border": &s.Router, "provider0": &s.Provider[0], "provider1": &s.Provider[1],
		"core": &s.Core, "outside": &s.Far,
	}
	if twoSites {
		hosts["farborder"] = &s.FarRouter
	}
	for name, h := range hosts {
		if *h, err = s.Lab.Host(name); err != nil {
			return s, err
		}
	}
	if err := s.join(); err != nil {
		return s, err
	}
	if err := s.route(); err != nil {
		return s, err
	}
	return s, s.advertise()
}

// join makes the links, and the routers forward.
func (s *Site) join() error {
	err := s.Lab.Veth(s.InsideHost, "net1", s.Router, "lan")
	for i, p := range s.Provider {
		err = errors.Join(err, s.wire(fmt.Sprint("wan", i), p, s.wires[i]),
			s.Lab.Veth(p, "core", s.Core, fmt.Sprint("provider", i)))
	}
	routers := []*topo.Host{s.Router, s.Core, s.Provider[0], s.Provider[1]}
	if s.FarRouter == nil {
		err = errors.Join(err, s.Lab.Veth(s.Far, "net1", s.Core, "net"))
	} else {
		routers = append(routers, s.FarRouter)
		err = errors.Join(err, s.Lab.Veth(s.Far, "net1", s.FarRouter, "lan"),
			s.Lab.Veth(s.FarRouter, "wan0", s.Core, "far0"), s.Lab.Veth(s.FarRouter, "wan1", s.Core, "far1"))
	}
	for _, h := range routers {
		err = errors.Join(err, h.Forward())
	}
	return err
}

// wire joins the border and a provider.
func (s *Site) wire(ifname string, provider *topo.Host, p linkem.Params) error {
	if p == (linkem.Params{}) {
		return s.Lab.Veth(s.Router, ifname, provider, "site")
	}
	_, err := s.Lab.Link(s.Router, ifname, provider, "site", p)
	return err
}

// Close removes everything.
func (s *Site) Close() error {
	if s.Lab == nil {
		return nil
	}
	return s.Lab.Close()
}

// via adds a route through the link-local address of another router's interface.
func via(on *topo.Host, dst netip.Prefix, ifname string, to *topo.Host, there string, metric int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var gateway netip.Addr
	err := topo.Wait(ctx, there+" of "+to.Name()+" has a link-local address", func() bool {
		var err error
		gateway, err = to.LinkLocal(there)
		return err == nil
	})
	if err != nil {
		return err
	}
	_, err = on.Command(ctx, "ip", "-6", "route", "add", dst.String(), "via", gateway.String(), "dev", ifname,
		"metric", fmt.Sprint(metric)).Output()
	return err
}

// route gives every router the routes of its place. A border has a default route by each of
// its links, the first one preferred.
func (s *Site) route() error {
	var errs []error
	for i, p := range s.Provider {
		wan, far := fmt.Sprint("wan", i), fmt.Sprint("provider", i)
		errs = append(errs,
			via(s.Router, everywhere, wan, p, "site", 100+i),
			via(p, Providers[0][i], "site", s.Router, wan, 100),
			via(p, everywhere, "core", s.Core, far, 100),
			via(s.Core, Providers[0][i], far, p, "core", 100))
		if far := fmt.Sprint("far", i); s.FarRouter != nil {
			errs = append(errs,
				via(s.FarRouter, everywhere, wan, s.Core, far, 100+i),
				via(s.Core, Providers[1][i], far, s.FarRouter, wan, 100))
		}
	}
	for _, n := range s.networks() {
		errs = append(errs, n.router.AddAddr(n.ifname, netip.PrefixFrom(n.prefix.Addr().Next(), 64)))
	}
	return errors.Join(errs...)
}

// network is that of one of the two hosts.
type network struct {
	router, host *topo.Host
	ifname       string
	prefix       netip.Prefix
}

func (s *Site) networks() []network {
	near := network{s.Router, s.InsideHost, "lan", Internals[0]}
	if s.FarRouter != nil {
		return []network{near, {s.FarRouter, s.Far, "lan", Internals[1]}}
	}
	return []network{near, {s.Core, s.Far, "net", External}}
}

// advertise has the prefixes of the two hosts' networks advertised.
func (s *Site) advertise() error {
	for _, n := range s.networks() {
		_, err := n.router.Router(topo.Advert{
			Interface: n.ifname, Prefix: n.prefix, MinInterval: 300 * time.Millisecond, MaxInterval: time.Second,
		})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, err = n.host.WaitAddr(ctx, "net1", n.prefix)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// Policy is the policy of a site, 0 or 1: both providers' locators with these precedences,
// and that advice.
func Policy(which int, advice string, a, b int) string {
	return fmt.Sprintf("%s 50 0 %s 1 2\n%s %d 0 none 2\n%s %d 0 none 2\n", Internals[which].Addr(), advice,
		Providers[which][0].Addr(), a, Providers[which][1].Addr(), b)
}

// Section is the section [border] of a site with a policy and further lines.
func Section(which int, policy, more string) string {
	return fmt.Sprintf("[border]\ninside = [\"lan\"]\nlinks = [\"%s wan0\", \"%s wan1\"]\npolicy = \"\"\"\n%s\"\"\"\n%s",
		Providers[which][0].Addr(), Providers[which][1].Addr(), policy, more)
}

// hosts writes the configuration of Roam on the two hosts, in the mode duality with further
// lines. The outside one knows the inside one by a locator of that prefix, and the inside one
// knows it by a locator that is seen from outside of the far site.
func (s *Site) hosts(bin node.Binaries, inside netip.Prefix, more string) (err error) {
	far := External
	if s.FarRouter != nil {
		far = Providers[1][0]
	}
	known := fmt.Sprintf("nid=%s l64=%s,10 inside\nnid=%s l64=%s,10 outside\n", InsideNID, inside, OutsideNID, far)
	o := node.Options{NID: InsideNID, Mode: "duality", Hosts: known, More: more}
	if s.Inside, err = node.New(s.InsideHost, bin, o); err != nil {
		return err
	}
	o.NID = OutsideNID
	s.Outside, err = node.New(s.Far, bin, o)
	return err
}

// HostsAlone writes the configuration of Roam on the two hosts, and of none between them. They
// know each other by the locators that they have, which their routers have to forward: see
// Compare and Forwarding.
func (s *Site) HostsAlone(bin node.Binaries, more string) error {
	return s.hosts(bin, Internals[0], more)
}

// Roam writes the configuration of Roam on the two hosts, in the mode duality with further
// lines, and of the borders.
func (s *Site) Roam(bin node.Binaries, more string, sections ...string) (err error) {
	if err := s.hosts(bin, Providers[0][0], more); err != nil {
		return err
	}
	if s.Border, err = node.New(s.Router, bin, node.Options{NID: 1}); err != nil {
		return err
	}
	if s.FarRouter != nil {
		if s.FarBorder, err = node.New(s.FarRouter, bin, node.Options{NID: 1}); err != nil {
			return err
		}
	}
	return s.Configure(sections...)
}

// borders are the nodes that are borders, the near one first.
func (s *Site) borders() (list []*node.Node) {
	for _, b := range []*node.Node{s.Border, s.FarBorder} {
		if b != nil {
			list = append(list, b)
		}
	}
	return list
}

// Configure replaces the section [border] of each border's configuration.
func (s *Site) Configure(sections ...string) error {
	for i, b := range s.borders() {
		dir := b.RunDir()
		text := fmt.Sprintf("[role]\nrun = [\"border\"]\n[host]\nrun_dir = %q\nstate_dir = %q\n%s",
			dir, strings.TrimSuffix(dir, "run")+"state", sections[i])
		if err := os.WriteFile(b.Config, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Start starts all daemons and waits until both hosts have their locators.
func (s *Site) Start(ctx context.Context) error {
	for _, n := range append(s.borders(), s.Inside, s.Outside) {
		if err := n.Start(ctx); err != nil {
			return err
		}
	}
	return errors.Join(s.Inside.WaitActive(ctx, "net1"), s.Outside.WaitActive(ctx, "net1"))
}

// Session is the address by which the other end's applications know a host.
func Session(nid roam.NID) netip.Addr {
	return roam.ILV{L64: roam.DefaultSessionPrefix, NID: nid}.Addr()
}

// BorderSite is one site locator in `roam border show --json`.
type BorderSite struct {
	Locator   roam.L64 `json:"locator"`
	Link      string   `json:"link"`
	State     string   `json:"state"`
	TXPackets uint64   `json:"tx_packets"`
	RXPackets uint64   `json:"rx_packets"`
}

// BorderFlow is one flow there.
type BorderFlow struct {
	Inside    roam.NID   `json:"inside"`
	Outside   roam.NID   `json:"outside"`
	Announced []roam.L64 `json:"announced"`
}

// BorderReport is what a border shows of itself.
type BorderReport struct {
	Sites []BorderSite `json:"sites"`
	Flows []BorderFlow `json:"flows"`

	Links []struct {
		Name string `json:"name"`
		XDP  string `json:"xdp"` // of a link of border.xdp
	} `json:"links"`
	Refused []struct {
		Reason   string `json:"reason"`
		Messages uint64 `json:"messages"`
		Last     struct {
			Link   string     `json:"link"`
			Source netip.Addr `json:"source"`
		} `json:"last"`
	} `json:"refused"`
}

// Report asks a border.
func Report(ctx context.Context, border *node.Node) (r BorderReport, err error) {
	err = border.AskFor(ctx, &r, "border", "show")
	return r, err
}
