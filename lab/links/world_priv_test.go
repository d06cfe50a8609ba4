package links

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/lab/workload"
)

// patience bounds the wait for anything that takes milliseconds on an idle
// machine; only a fault reaches it.
const patience = 20 * time.Second

// The Node Identifiers of the two hosts.
const (
	mnNID roam.NID = 0x1000_0000_0000_00a0
	cnNID roam.NID = 0x1000_0000_0000_00c0
	// cnL64 is the correspondent's only locator.
	cnL64 roam.L64 = 0x2001_0db8_000c_0000
)

// numbered returns the locator of a mobile host's n-th network.
func numbered(n int) roam.L64 { return 0x2001_0db8_00a0_0000 + roam.L64(n)<<16 }

// world is a topology:
//
//	mn ==net1, and what the test adds== r --- cn
//
// r is a kernel that forwards; it advertises on each of its interfaces.
type world struct {
	top, t testing.TB // the test, and the subtest at hand
	lab    *topo.Lab
	dir    string
	r      *topo.Host
	mn, cn *host
	radios map[string]*advertiser // by interface of r
}

// host is an end of the session, with Roam on it.
type host struct {
	*topo.Host
	*node.Node
	w           *world
	fromAddress bool // its identifier is that of its address
	log         string
}

// newWorld builds the topology without starting Roam.
func newWorld(t testing.TB, name string) *world {
	t.Helper()
	w := emptyWorld(t, name)
	w.veth(w.cn, "net1", "cn1")
	w.route("cn1", cnL64)
	w.advertise("cn1", lasting(cnL64))
	w.plug("net1", 1)
	return w
}

// emptyWorld builds its hosts without a link.
func emptyWorld(t testing.TB, name string) *world {
	t.Helper()
	needs(t)
	lab, err := topo.New(name)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{top: t, t: t, lab: lab, dir: t.TempDir(), radios: map[string]*advertiser{}}
	t.Cleanup(w.close)
	if w.r, err = lab.Host("r"); err == nil {
		err = w.r.Forward()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.mn, w.cn = w.newHost("mn"), w.newHost("cn")
	return w
}

func (w *world) newHost(name string) *host {
	w.t.Helper()
	h, err := w.lab.Host(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return &host{Host: h, w: w, log: filepath.Join(w.dir, name+".log")}
}

// start configures and starts Roam on both hosts, and waits for the session
// that the trips of the test use.
func (w *world) start() *world {
	w.t.Helper()
	w.cn.start(cnNID, "")
	w.mn.start(mnNID, "")
	return w
}

// start writes the files of a host and starts its daemon; more is appended to
// the configuration.
func (h *host) start(nid roam.NID, more string) {
	h.w.t.Helper()
	hosts := fmt.Sprintf("nid=%s l64=%s,10 mn\nnid=%s l64=%s,10 cn\n", mnNID, numbered(1).Prefix(), cnNID, cnL64.Prefix())
	n, err := node.New(h.Host, binaries, node.Options{
		NID:         nid,
		FromAddress: h.fromAddress,
		Hosts:       hosts,
		More:        more,
		Log:         h.log,
	})
	if err != nil {
		h.w.t.Fatal(err)
	}
	h.Node = n
	if err := errors.Join(n.Start(h.w.top.Context()), n.WaitActive(h.w.top.Context(), "net1")); err != nil {
		h.w.t.Fatal(err)
	}
}

// close shows what the daemons said if the test failed, and removes all.
func (w *world) close() {
	for _, r := range w.radios {
		r.stop()
	}
	if w.top.Failed() {
		for _, h := range []*host{w.mn, w.cn} {
			if h != nil {
				b, _ := os.ReadFile(h.log)
				w.top.Logf("roamd on %s said:\n%s", h.Host.Name(), b[max(0, len(b)-6000):])
			}
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

// ip runs ip(8) on a host.
func (w *world) ip(h *topo.Host, args string) {
	w.t.Helper()
	if out, err := w.tryIP(h, args); err != nil {
		w.t.Fatalf("%s: ip %s: %v\n%s", h.Name(), args, err, out)
	}
}

func (w *world) tryIP(h *topo.Host, args string) (string, error) {
	ctx, cancel := context.WithTimeout(w.top.Context(), patience)
	defer cancel()
	out, err := h.Command(ctx, append([]string{"ip"}, strings.Fields(args)...)...).CombinedOutput()
	return string(out), err
}

// veth joins a host with the router.
func (w *world) veth(h *host, ifname, there string) {
	w.t.Helper()
	if err := w.lab.Veth(h.Host, ifname, w.r, there); err != nil {
		w.t.Fatal(err)
	}
}

// route gives an interface of the router its address in a network.
func (w *world) route(there string, l roam.L64) {
	w.t.Helper()
	if err := w.r.AddAddr(there, netip.PrefixFrom(roam.ILV{L64: l, NID: 1}.Addr(), 64)); err != nil {
		w.t.Fatal(err)
	}
}

// advertise starts to advertise on an interface of the router.
func (w *world) advertise(there string, a advert) {
	w.t.Helper()
	r, err := advertise(w.r, there, a)
	if err != nil {
		w.t.Fatal(err)
	}
	if old := w.radios[there]; old != nil {
		old.stop()
	}
	w.radios[there] = r
}

// plug joins the mobile host with the router by Ethernet, as its n-th network.
func (w *world) plug(ifname string, n int) {
	w.t.Helper()
	w.veth(w.mn, ifname, "to"+ifname)
	w.route("to"+ifname, numbered(n))
	w.advertise("to"+ifname, lasting(numbered(n)))
}

// unplug removes an interface of the mobile host.
func (w *world) unplug(ifname string) {
	w.t.Helper()
	if r := w.radios["to"+ifname]; r != nil {
		r.stop()
		delete(w.radios, "to"+ifname)
	}
	w.ip(w.mn.Host, "link del "+ifname)
}

// roam runs the command line on a host as a user would.
func (h *host) roam(args ...string) {
	h.w.t.Helper()
	if _, err := h.Ask(h.w.top.Context(), args...); err != nil {
		h.w.t.Fatal(err)
	}
}

// paths lists what a host sends to its correspondent on; nil without a session
// or while it is held for dead.
func (h *host) paths() []node.SessionPath {
	list, _ := h.Sessions(h.w.top.Context())
	for _, s := range list {
		if s.State == "established" && !s.Dead {
			return s.Paths
		}
	}
	return nil
}

// uses waits until the mobile host sends by one link from one locator, and the
// correspondent to that.
func (w *world) uses(link string, l roam.L64) {
	w.t.Helper()
	w.comesToUse(patience, link, l)
}

// comesToUse is uses with a deadline of its own.
func (w *world) comesToUse(within time.Duration, link string, l roam.L64) {
	w.t.Helper()
	var ours, theirs []node.SessionPath
	if !testutil.Wait(within, func() bool {
		ours, theirs = w.mn.paths(), w.cn.paths()
		return len(ours) == 1 && ours[0].Link == link && ours[0].Local == l && len(theirs) == 1 && theirs[0].Remote == l
	}) {
		w.t.Fatalf("not within %v: session by %s and locator %s; mn sends by %v, cn by %v", within, link, l, ours, theirs)
	}
}

// states are the locators of the mobile host, as "link l64": state. Those past
// their lifetime are left out: a host keeps their addresses for up to two hours.
func (w *world) states() map[string]string {
	m := map[string]string{}
	list, _ := w.mn.Locators(w.top.Context())
	for _, l := range list {
		if l.State == "aged" {
			continue
		}
		m[l.Link+" "+l.L64.String()] = l.State
	}
	return m
}

// has waits until the locators of the mobile host are those, each in its state:
// "net1 2001:0db8:00a1:0000": "active".
func (w *world) has(want map[string]string) {
	w.t.Helper()
	var have map[string]string
	if !testutil.Wait(patience, func() bool {
		have = w.states()
		if len(have) != len(want) {
			return false
		}
		for k, v := range want {
			if have[k] != v {
				return false
			}
		}
		return true
	}) {
		w.t.Fatalf("locators are %v, want %v", have, want)
	}
}

// rate is the rate of the datagrams in each direction, per second.
const rate = 500

// port is the port of the next flow; each has its own, so that late datagrams of one do not
// count for the next.
var port = 7000

// trip is a flow of numbered datagrams both ways, in phases.
type trip struct {
	w      *world
	u      *workload.UDP
	phases []phase
	before map[string]uint64 // counters of both hosts
}

type phase struct {
	name     string
	allowed  time.Duration // how much of the flow may be lost each way
	from, to time.Time
}

// trip starts a flow by name.
func (w *world) trip() *trip {
	w.t.Helper()
	port++
	dir := filepath.Join(w.dir, fmt.Sprint("flow", port))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	u, err := workload.StartUDP(w.top.Context(), w.cn.Host, w.mn.Host, dir, workload.UDPOptions{
		Name: "udp", Target: "cn", Port: port, Up: rate, Down: rate, Size: 200,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(u.Kill)
	p := &trip{w: w, u: u, before: w.counters()}
	p.flows(100)
	return p
}

// flows waits until that many datagrams more have arrived.
func (p *trip) flows(more uint64) {
	p.w.t.Helper()
	from := p.u.State().Progress
	testutil.Eventually(p.w.t, patience, func() bool { return p.u.State().Progress >= from+more }, "progress of the flow")
}

// underWay is how long before the end of a phase datagrams must have been sent
// to have arrived: what the next phase does to later ones is its own affair.
const underWay = 50 * time.Millisecond

// phase does something to the flow, and says how much of it that may cost.
func (p *trip) phase(name string, allowed time.Duration, do func()) {
	p.w.t.Helper()
	ph := phase{name: name, allowed: allowed, from: time.Now().Add(-underWay)}
	do()
	p.flows(150)
	ph.to = time.Now().Add(-underWay)
	p.phases = append(p.phases, ph)
}

// counters are those of both hosts, by host and name.
func (w *world) counters() map[string]uint64 {
	all := map[string]uint64{}
	for _, h := range []*host{w.mn, w.cn} {
		counts, _ := h.Counts(w.top.Context())
		for name, n := range counts {
			all[h.Host.Name()+" "+name] = n
		}
	}
	return all
}

// explain shows what a failure may come from: what the data planes counted, what the daemons
// did when, and what the interfaces dropped.
func (p *trip) explain() {
	p.w.t.Helper()
	for name, n := range p.w.counters() {
		if n > p.before[name] {
			p.w.t.Logf("counted since it began: %s %d", name, n-p.before[name])
		}
	}
	for h, peer := range map[*host]string{p.w.mn: "cn", p.w.cn: "mn"} {
		said, err := h.Ask(p.w.top.Context(), "explain", peer)
		p.w.t.Logf("%s explains %s: %v\n%s", h.Host.Name(), peer, err, said)
	}
	for _, h := range []*topo.Host{p.w.mn.Host, p.w.r, p.w.cn.Host} {
		out, _ := p.w.tryIP(h, "-s -o link")
		p.w.t.Logf("%s:\n%s", h.Name(), out)
	}
}

// end ends the flow and judges the phases.
func (p *trip) end() {
	t := p.w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(p.w.top.Context(), patience)
	defer cancel()
	up, down, err := p.u.Stop(ctx, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if n := p.u.BufferErrors(); n > 0 {
		t.Fatalf("the receivers of the probe lost %d datagrams themselves: this measured nothing", n)
	}
	sound := true
	for _, ph := range p.phases {
		a, b := up.Count(ph.from, ph.to), down.Count(ph.from, ph.to)
		lost := []int{int(a.Lost + a.Refused), int(b.Lost + b.Refused)}
		t.Logf("%s: %v, lost %d up and %d down, longest gap %v up and %v down", ph.name,
			ph.to.Sub(ph.from).Round(time.Millisecond), lost[0], lost[1],
			up.LongestGap(ph.from, ph.to).Length().Round(time.Millisecond),
			down.LongestGap(ph.from, ph.to).Length().Round(time.Millisecond))
		if limit := int(ph.allowed.Seconds() * rate); slices.Max(lost) > limit {
			t.Errorf("%s: lost %d datagrams up and %d down, at most %d are allowed", ph.name, lost[0], lost[1], limit)
			sound = false
		}
	}
	if !sound {
		p.explain()
	}
}
