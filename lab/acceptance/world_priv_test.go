package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/lab/linkem"
	"roam/lab/topo"
)

// patience bounds the wait for anything that takes milliseconds on an idle
// machine; only a fault reaches it.
const patience = 20 * time.Second

// place is one host of a world.
type place struct {
	name   string
	links  int  // interfaces net1, net2, ...
	mobile bool // emulated links, whose cables can be pulled, at the first router
}

// world is a topology:
//
//	mobile hosts ==net1.. r0 ---core--- r1 net1..-- the other hosts
//
// Both routers are kernels with radvd. Nothing filters.
type world struct {
	top    testing.TB // the test that the world lives as long as
	t      testing.TB // the subtest at hand
	lab    *topo.Lab
	dir    string
	r0, r1 *topo.Host
	hosts  map[string]*topo.Host
	index  map[string]int
	places []place
	links  map[string]*linkem.Link // by "host/interface"; AB is away from the host
	nodes  []*host
	taps   int // captures so far
}

// newWorld builds a topology that the test's end removes, and waits until
// every interface has its address.
func newWorld(t testing.TB, name string, delay time.Duration, places ...place) *world {
	t.Helper()
	needs(t)
	lab, err := topo.New(name)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		top: t, t: t, lab: lab, dir: t.TempDir(), hosts: map[string]*topo.Host{}, index: map[string]int{},
		places: places, links: map[string]*linkem.Link{},
	}
	t.Cleanup(w.close)
	if err := w.build(delay); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) build(delay time.Duration) (err error) {
	if w.r0, err = w.lab.Host("r0"); err != nil {
		return err
	}
	if w.r1, err = w.lab.Host("r1"); err != nil {
		return err
	}
	core := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:f::%d", i+1)) }
	err = errors.Join(w.r0.Forward(), w.r1.Forward(), w.lab.Veth(w.r0, "core", w.r1, "core"))
	if err == nil {
		err = errors.Join(
			w.r0.AddAddr("core", netip.PrefixFrom(core(0), 64)),
			w.r1.AddAddr("core", netip.PrefixFrom(core(1), 64)),
			w.r0.AddRoute(netip.MustParsePrefix("2001:db8:c000::/36"), core(1), "core"),
			w.r1.AddRoute(netip.MustParsePrefix("2001:db8:a000::/36"), core(0), "core"))
	}
	if err != nil {
		return err
	}
	adverts := map[*topo.Host][]topo.Advert{}
	for i, p := range w.places {
		if err := w.addPlace(i, p, delay, adverts); err != nil {
			return err
		}
	}
	for router, list := range adverts {
		if _, err := router.Router(list...); err != nil {
			return err
		}
	}
	return w.ready()
}

// addPlace adds one host and joins its interfaces to its router.
func (w *world) addPlace(i int, p place, delay time.Duration, adverts map[*topo.Host][]topo.Advert) error {
	h, err := w.lab.Host(p.name)
	if err != nil {
		return err
	}
	w.hosts[p.name], w.index[p.name] = h, i
	router := w.router(p.name)
	for n := 1; n <= p.links; n++ {
		ifname, there := fmt.Sprintf("net%d", n), fmt.Sprintf("%s%d", p.name, n)
		if p.mobile {
			link, err := w.lab.Link(h, ifname, router, there, linkem.Params{Delay: delay})
			if err != nil {
				return err
			}
			w.links[p.name+"/"+ifname] = link
		} else if err := w.lab.Veth(h, ifname, router, there); err != nil {
			return err
		}
		prefix := w.prefix(p.name, n)
		if err := router.AddAddr(there, netip.PrefixFrom(prefix.Addr().Next(), 64)); err != nil {
			return err
		}
		adverts[router] = append(adverts[router], topo.Advert{
			Interface: there, Prefix: prefix, MinInterval: 300 * time.Millisecond, MaxInterval: time.Second,
		})
	}
	return nil
}

func (w *world) ready() error {
	ctx, cancel := context.WithTimeout(w.top.Context(), patience)
	defer cancel()
	for _, p := range w.places {
		for n := 1; n <= p.links; n++ {
			if _, err := w.hosts[p.name].WaitAddr(ctx, fmt.Sprintf("net%d", n), w.prefix(p.name, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) router(name string) *topo.Host {
	if w.places[w.index[name]].mobile {
		return w.r0
	}
	return w.r1
}

// prefix is the network of a host's n-th interface.
func (w *world) prefix(name string, n int) netip.Prefix {
	side := "c0"
	if w.places[w.index[name]].mobile {
		side = "a0"
	}
	return netip.MustParsePrefix(fmt.Sprintf("2001:db8:%s%x%x::/64", side, w.index[name], n))
}

// nid is the Node Identifier of a host.
func (w *world) nid(name string) roam.NID { return 0x1000_0000_0000_00a0 + roam.NID(w.index[name]) }

// wire is the address of a host on the wire: prefix and Node Identifier.
func (w *world) wire(name string, n int) netip.Addr {
	return roam.ILV{L64: l64(w, name, n), NID: w.nid(name)}.Addr()
}

// session is the address by which applications know a host.
func (w *world) session(name string) netip.Addr {
	return roam.ILV{L64: roam.DefaultSessionPrefix, NID: w.nid(name)}.Addr()
}

// hostsFile names every host with the locators that it has at first.
func (w *world) hostsFile(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "nid=%s", w.nid(name))
		for n := 1; n <= w.places[w.index[name]].links; n++ {
			fmt.Fprintf(&b, " l64=%s,10", w.prefix(name, n))
		}
		fmt.Fprintf(&b, " %s\n", name)
	}
	return b.String()
}

// names lists all hosts.
func (w *world) names() (list []string) {
	for _, p := range w.places {
		list = append(list, p.name)
	}
	return list
}

// cable plugs or pulls the cable of a mobile host.
func (w *world) cable(name, ifname string, in bool) {
	w.t.Helper()
	link := w.links[name+"/"+ifname]
	f := link.Down
	if in {
		f = link.Up
	}
	if err := f(); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a command on a host and returns all that it said.
func (w *world) run(name string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.top.Context(), 30*time.Second)
	defer cancel()
	out, err := w.host(name).AppCommand(ctx, argv...).CombinedOutput()
	return string(out), err
}

// must is run for commands that do not fail.
func (w *world) must(name string, argv ...string) string {
	w.t.Helper()
	out, err := w.run(name, argv...)
	if err != nil {
		w.t.Fatalf("%s: %s: %v\n%s", name, strings.Join(argv, " "), err, out)
	}
	return out
}

func (w *world) host(name string) *topo.Host {
	switch name {
	case "r0":
		return w.r0
	case "r1":
		return w.r1
	}
	return w.hosts[name]
}

// within is the context of something that takes less than d.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.top.Context(), d)
	w.t.Cleanup(cancel)
	return ctx
}

// scratch returns an empty directory below that of the test.
func (w *world) scratch(name string) string {
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// close shows what the daemons said if the test failed, and removes all.
func (w *world) close() {
	if w.top.Failed() {
		for _, n := range w.nodes {
			b, _ := os.ReadFile(n.Log)
			w.top.Logf("roamd on %s said:\n%s", n.name, b[max(0, len(b)-4000):])
		}
	}
	if err := w.lab.Close(); err != nil {
		w.top.Error(err)
	}
}

// sub runs a subtest in this world.
func (w *world) sub(name string, f func(t *testing.T)) {
	w.top.(*testing.T).Run(name, func(t *testing.T) {
		was := w.t
		w.t = t
		defer func() { w.t = was }()
		f(t)
	})
}
