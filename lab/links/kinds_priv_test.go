package links

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// vanished is what the sudden end of the link in use may cost. It takes
// milliseconds; a busy machine gets time.
const vanished = time.Second / 2

// kind is one sort of link: it joins the mobile host with the router and
// returns how to end it without a word.
type kind struct {
	name, needs string // needs: the kind of link that the kernel must support
	ifname      string
	add         func(w *world, l roam.L64) (cut func())
}

var kinds = []kind{
	{"Ethernet", "veth", "eth7", func(w *world, l roam.L64) func() {
		w.veth(w.mn, "eth7", "there")
		w.route("there", l)
		w.advertise("there", lasting(l))
		return func() { w.ip(w.mn.Host, "link del eth7") }
	}},
	{"macvlan", "macvlan", "mv0", func(w *world, l roam.L64) func() {
		w.parent(l)
		w.ip(w.mn.Host, "link add mv0 link par0 type macvlan mode bridge")
		w.ip(w.mn.Host, "link set mv0 up")
		return func() { w.ip(w.mn.Host, "link del mv0") }
	}},
	{"VLAN", "vlan", "par0.5", func(w *world, l roam.L64) func() {
		w.veth(w.mn, "par0", "there0")
		w.ip(w.r, "link add link there0 name there type vlan id 5")
		w.ip(w.r, "link set there up")
		w.ip(w.mn.Host, "link add link par0 name par0.5 type vlan id 5")
		w.ip(w.mn.Host, "link set par0.5 up")
		w.route("there", l)
		w.advertise("there", lasting(l))
		return func() { w.ip(w.mn.Host, "link del par0.5") }
	}},
	{"bridge", "bridge", "br0", func(w *world, l roam.L64) func() {
		w.ip(w.mn.Host, "link add br0 type bridge forward_delay 0")
		w.parent(l)
		w.ip(w.mn.Host, "link set par0 master br0")
		w.ip(w.mn.Host, "link set br0 up")
		return func() { w.ip(w.mn.Host, "link del br0") }
	}},
	{"bond", "bond", "bond0", func(w *world, l roam.L64) func() {
		w.ip(w.mn.Host, "link add bond0 type bond mode active-backup miimon 50")
		w.parent(l)
		w.ip(w.mn.Host, "link set par0 down")
		w.ip(w.mn.Host, "link set par0 master bond0")
		w.ip(w.mn.Host, "link set bond0 up")
		return func() { w.ip(w.mn.Host, "link del bond0") }
	}},
	{"raw IP with a router", "tun", "wwan0", func(w *world, l roam.L64) func() {
		cut := w.tunPair(w.t, "wwan0", "there")
		w.route("there", l)
		w.advertise("there", lasting(l))
		return cut
	}},
	{"point to point without a router", "tun", "ppp0", func(w *world, l roam.L64) func() {
		cut := w.tunPair(w.t, "ppp0", "there")
		w.ip(w.r, "route add "+l.Prefix().String()+" dev there")
		w.ip(w.mn.Host, "addr add "+roam.ILV{L64: l, NID: 2}.Addr().String()+" peer "+
			roam.ILV{L64: l, NID: 1}.Addr().String()+" dev ppp0")
		w.ip(w.mn.Host, "-6 route add default dev ppp0 metric 2048")
		return cut
	}},
}

// parent adds Ethernet par0 that has no IPv6 itself, only what stands on it.
func (w *world) parent(l roam.L64) {
	w.t.Helper()
	w.veth(w.mn, "par0", "there")
	if err := w.mn.Sysctl("net.ipv6.conf.par0.disable_ipv6", "1"); err != nil {
		w.t.Fatal(err)
	}
	w.route("there", l)
	w.advertise("there", lasting(l))
}

// clear removes what a kind left.
func (w *world) clear() {
	if r := w.radios["there"]; r != nil {
		r.stop()
		delete(w.radios, "there")
	}
	for _, name := range []string{"par0", "eth7", "br0", "bond0"} {
		_, _ = w.tryIP(w.mn.Host, "link del "+name) // most no longer exist
	}
	_, _ = w.tryIP(w.r, "link del there0")
	_, _ = w.tryIP(w.r, "link del there")
}

// TestKinds moves a session to links of each sort and back: by command, and
// when the link vanishes. Each is made while the daemon runs.
func TestKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "kinds").start()
	before := w.mn.pins()
	for i, k := range kinds {
		w.sub(k.name, func(t *testing.T) {
			w.needKind(k.needs)
			defer w.clear()
			l := numbered(0x10 + i)
			p := w.trip()
			w.uses("net1", numbered(1))
			var cut func()
			p.phase("the link appears", 0, func() { cut = k.add(w, l); w.uses(k.ifname, l) })
			p.phase("it is disabled", 0, func() { w.mn.roam("locator", "disable", k.ifname); w.uses("net1", numbered(1)) })
			p.phase("it is enabled", 0, func() { w.mn.roam("locator", "enable", k.ifname); w.uses(k.ifname, l) })
			p.phase("it stays in use", 0, p.settled)
			p.phase("it vanishes", vanished, func() { cut(); w.uses("net1", numbered(1)) })
			p.end()
			w.has(map[string]string{at("net1", numbered(1)): "active"})
		})
	}
	if after := w.mn.pins(); len(before) == 0 || !slices.Equal(after, before) {
		t.Errorf("pinned programs before %v, after %v", before, after)
	}
}

// TestOnTop puts devices on a link that is an uplink itself: what passes it on its
// way to them is theirs.
func TestOnTop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ontop").start()
	w.sub("macvlan", func(t *testing.T) {
		w.needKind("macvlan")
		p := w.trip()
		p.phase("the link below", 0, func() { w.plug("net2", 2); w.uses("net2", numbered(2)) })
		p.phase("a macvlan on it", vanished, func() {
			w.ip(w.mn.Host, "link add mv0 link net2 type macvlan mode bridge")
			w.ip(w.mn.Host, "link set mv0 up")
			w.has(map[string]string{at("net1", numbered(1)): "valid", at("net2", numbered(2)): "valid",
				at("mv0", numbered(2)): "active"})
		})
		p.phase("which alone is used", 0, func() {
			w.mn.roam("locator", "disable", "net2")
			w.uses("mv0", numbered(2))
			p.flows(rate)
		})
		p.end()
		w.mn.roam("locator", "enable", "net2")
		w.ip(w.mn.Host, "link del mv0")
		w.unplug("net2")
		w.uses("net1", numbered(1))
	})
	w.sub("bridge", func(t *testing.T) {
		w.needKind("bridge")
		p := w.trip()
		p.phase("the link", 0, func() { w.plug("net3", 3); w.uses("net3", numbered(3)) })
		p.phase("it becomes a port", 2*time.Second, func() {
			w.ip(w.mn.Host, "link add br0 type bridge forward_delay 0")
			w.ip(w.mn.Host, "link set net3 master br0")
			w.ip(w.mn.Host, "link set br0 up")
			w.uses("br0", numbered(3))
		})
		p.phase("the bridge is used", 0, func() { p.flows(rate) })
		p.end()
	})
	w.sub("bridge made while no daemon runs", func(t *testing.T) {
		w.needKind("bridge")
		p := w.trip()
		p.phase("the link", 0, func() { w.plug("net4", 4); w.uses("net4", numbered(4)) })
		p.phase("it becomes a port", 2*time.Second, func() {
			if err := w.mn.Signal(t.Context(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			w.ip(w.mn.Host, "link add br4 type bridge forward_delay 0")
			w.ip(w.mn.Host, "link set net4 master br4")
			w.ip(w.mn.Host, "link set br4 up")
			if err := w.mn.Node.Start(w.top.Context()); err != nil {
				t.Fatal(err)
			}
			w.uses("br4", numbered(4))
		})
		p.phase("the bridge is used", 0, func() { p.flows(rate) })
		p.end()
		if left, _ := filepath.Glob(filepath.Join(w.mn.Dir(), "run", "bpf", "ilnp", "link_"+w.index("net4")+"_*")); len(
			left) > 0 {
			t.Errorf("programs stay on the port: %v", left)
		}
	})
}

// index is the number of an interface of the mobile host.
func (w *world) index(ifname string) string {
	w.t.Helper()
	out, err := w.tryIP(w.mn.Host, "-o link show dev "+ifname)
	n, _, found := strings.Cut(out, ":")
	if err != nil || !found {
		w.t.Fatalf("index of %s: %v: %s", ifname, err, out)
	}
	return n
}

// pins are the programs that stay attached to interfaces without the daemon.
func (h *host) pins() []string {
	list, err := filepath.Glob(filepath.Join(h.RunDir(), "bpf", "*", "link_[0-9]*"))
	if err != nil {
		h.w.t.Fatal(err)
	}
	return list
}

// needKind skips unless the kernel can make links of that sort.
func (w *world) needKind(kind string) {
	w.t.Helper()
	if kind == "tun" || kind == "veth" {
		return
	}
	on := ""
	if kind == "vlan" || kind == "macvlan" {
		on = " link probe1"
	}
	w.ip(w.r, "link add probe1 type veth peer name probe2")
	defer w.ip(w.r, "link del probe1")
	_, err := w.tryIP(w.r, "link add"+on+" name probe0 type "+kind+map[string]string{"vlan": " id 9"}[kind])
	if err == nil {
		w.ip(w.r, "link del probe0")
	}
	testutil.NeedKernel(w.t, "links of type "+kind, err == nil)
}
