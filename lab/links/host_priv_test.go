package links

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// TestHost plays what a host and its owner do besides.
func TestHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "host").start()
	w.sub("a carrier that flaps", func(t *testing.T) { flapping(w) })
	w.sub("the only carrier flaps", func(t *testing.T) { flappingAlone(w) })
	w.sub("an interface is renamed", func(t *testing.T) { renamed(w) })
	w.sub("containers and tunnels are left alone", func(t *testing.T) { leftAlone(w) })
	w.sub("static addresses", func(t *testing.T) { static(w) })
	w.sub("forwarding", func(t *testing.T) { forwarding(w) })
}

// flaps takes the carrier of an interface and gives it back, twenty times in
// three seconds.
func (w *world) flaps(there string) {
	w.t.Helper()
	const flaps, within = 20, 3 * time.Second
	tick := time.NewTicker(within / flaps / 2)
	defer tick.Stop()
	for range flaps {
		for _, f := range []func(string) error{w.r.SetDown, w.r.SetUp} {
			<-tick.C
			if err := f(there); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// flapping has a second link at the edge of its reach. The session must not go
// to and fro with it, and use it when it has become steady.
func flapping(w *world) {
	p := w.trip()
	w.plug("net2", 2)
	w.keepAddresses("tonet2")
	w.uses("net2", numbered(2))
	before := w.updates()
	p.phase("flaps", vanished, func() { w.flaps("tonet2") })
	if n := w.updates() - before; n > 12 {
		w.t.Errorf("%d Locator Updates for 20 flaps", n)
	}
	p.phase("steady", 0, func() { w.uses("net2", numbered(2)) })
	p.phase("vanishes", vanished, func() { w.unplug("net2"); w.uses("net1", numbered(1)) })
	p.end()
}

// keepAddresses lets an interface of the router keep its addresses while it is
// down, as one whose cable is pulled does.
func (w *world) keepAddresses(there string) {
	w.t.Helper()
	if err := w.r.Sysctl("net.ipv6.conf."+there+".keep_addr_on_down", "1"); err != nil {
		w.t.Fatal(err)
	}
}

// flappingAlone has nothing else: each moment of carrier counts.
func flappingAlone(w *world) {
	w.keepAddresses("tonet1")
	p := w.trip()
	// Half of the time there is none.
	p.phase("flaps", 3*time.Second, func() { w.flaps("tonet1"); w.uses("net1", numbered(1)) })
	p.phase("steady", 0, func() {})
	p.end()
}

// renamed renames the link in use, then to an excluded name.
func renamed(w *world) {
	l := numbered(3)
	p := w.trip()
	w.plug("net2", 3)
	w.uses("net2", l)
	name := func(was, is string) { w.ip(w.mn.Host, "link set "+was+" name "+is) }
	if out, err := w.tryIP(w.mn.Host, "link set net2 name lan2"); err != nil {
		testutil.NeedKernel(w.t, "renaming of interfaces that are up: "+out, false)
	}
	p.phase("renamed", 0, func() { w.uses("lan2", l) })
	p.phase("renamed to what is excluded", vanished, func() { name("lan2", "docker9"); w.uses("net1", numbered(1)) })
	if list, err := w.mn.Addrs("docker9"); err != nil || slices.ContainsFunc(list, func(a netip.Prefix) bool {
		return roam.ILVFromAddr(a.Addr()).NID == mnNID
	}) {
		w.t.Errorf("addresses of what is excluded: %v, %v", list, err)
	}
	p.phase("renamed back", 0, func() { name("docker9", "net2"); w.uses("net2", l) })
	p.phase("vanishes", vanished, func() { w.unplug("net2"); w.uses("net1", numbered(1)) })
	p.end()
}

// leftAlone puts a bridge of containers and a tunnel beside the uplinks, both
// with global prefixes and default routes, the tunnel's the best one.
func leftAlone(w *world) {
	w.needKind("bridge")
	p := w.trip()
	look := func() string {
		var all string
		for _, dev := range []string{"docker0", "wg0"} {
			out, err := w.tryIP(w.mn.Host, "-o addr show dev "+dev)
			if err != nil {
				w.t.Fatal(err)
			}
			all += out
		}
		return all
	}
	p.phase("they appear", 0, func() {
		w.ip(w.mn.Host, "link add docker0 type bridge")
		w.ip(w.mn.Host, "link add veth1a type veth peer name veth1b")
		for _, c := range []string{"veth1b master docker0", "docker0 up", "veth1a up", "veth1b up"} {
			w.ip(w.mn.Host, "link set "+c)
		}
		f, err := openTun(w.mn.Host, "wg0")
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { f.Close() })
		w.ip(w.mn.Host, "addr add 2001:db8:d0c::1/64 dev docker0 nodad")
		w.ip(w.mn.Host, "addr add 2001:db8:3::2/128 dev wg0 nodad")
		w.ip(w.mn.Host, "-6 route add default dev wg0 metric 50")
		w.ip(w.mn.Host, "-6 route add default via 2001:db8:d0c::9 dev docker0 metric 60")
	})
	before := look()
	p.phase("a move beside them", 0, func() { w.plug("net2", 4); w.uses("net2", numbered(4)) })
	if after := look(); after != before {
		w.t.Errorf("before:\n%safter:\n%s", before, after)
	}
	if s, err := w.mn.Status(w.top.Context()); err != nil || !slices.Equal(slices.Sorted(slices.Values(s.Plane.Uplinks)),
		[]string{"net1", "net2"}) {
		w.t.Errorf("programs are attached to %v, %v", s.Plane.Uplinks, err)
	}
	p.phase("a move back", vanished, func() { w.unplug("net2"); w.uses("net1", numbered(1)) })
	p.phase("they go", 0, func() { w.ip(w.mn.Host, "link del docker0"); w.ip(w.mn.Host, "link del wg0") })
	p.end()
	w.ip(w.mn.Host, "link del veth1a")
}

// static configures a link by hand: nothing is advertised on it.
func static(w *world) {
	l := numbered(5)
	p := w.trip()
	w.veth(w.mn, "net2", "tonet2")
	w.route("tonet2", l)
	p.phase("it is configured", 0, func() {
		w.ip(w.mn.Host, "addr add "+roam.ILV{L64: l, NID: 0x77}.Addr().String()+"/64 dev net2")
		w.ip(w.mn.Host, "-6 route add default via "+roam.ILV{L64: l, NID: 1}.Addr().String()+" dev net2 metric 2048")
		w.uses("net2", l)
	})
	p.phase("its route is removed", soonGone, func() {
		w.ip(w.mn.Host, "-6 route del default dev net2 metric 2048")
		w.uses("net1", numbered(1))
	})
	p.end()
	w.unplug("net2")
}

// forwarding makes a router of the host, as one that shares its modem does. Its
// kernel would take no advertisement any more, had Roam not asked it to.
func forwarding(w *world) {
	p := w.trip()
	w.plug("net2", 6)
	w.uses("net2", numbered(6))
	// The kernel drops the default routes, and says so before it says why.
	p.phase("it begins", 20*time.Millisecond, func() {
		if err := w.mn.Sysctl("net.ipv6.conf.all.forwarding", "1"); err != nil {
			w.t.Fatal(err)
		}
		w.uses("net2", numbered(6))
	})
	p.phase("another link appears", 0, func() { w.plug("net3", 7); w.uses("net3", numbered(7)) })
	p.phase("it vanishes", vanished, func() { w.unplug("net3"); w.uses("net2", numbered(6)) })
	if v, err := w.mn.GetSysctl("net.ipv6.conf.all.forwarding"); err != nil || v != "1" {
		w.t.Errorf("forwarding is %q, %v", v, err)
	}
	p.end()
	w.unplug("net2")
}

// TestSuspend stops the daemon for 40 s, as a machine that sleeps does, and
// takes away meanwhile the link that it used.
func TestSuspend(t *testing.T) {
	t.Parallel()
	const asleep = 40 * time.Second
	w := newWorld(t, "suspend").start()
	p := w.trip()
	w.plug("net2", 2)
	w.uses("net2", numbered(2))
	s, err := w.mn.Status(t.Context())
	if err != nil || s.PID == 0 {
		t.Fatalf("the daemon does not tell its process id: %v", err)
	}
	p.phase("asleep and awake", asleep+2*vanished, func() {
		if err := syscall.Kill(s.PID, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		w.unplug("net2")
		timer := time.NewTimer(asleep) // the test is about this span
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.Context().Done():
		}
		if err := syscall.Kill(s.PID, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		w.uses("net1", numbered(1))
	})
	p.phase("after it", 0, func() {})
	p.end()
}

// rented is a world whose correspondent has one address of 128 bits and no prefix: it takes
// its Node Identifier from there, not from the bridge of its containers.
func rented(t *testing.T, name string) (w *world, addr roam.ILV) {
	t.Helper()
	w = emptyWorld(t, name)
	w.needKind("bridge")
	w.cn.fromAddress = true
	addr = roam.ILV{L64: cnL64, NID: cnNID}
	w.ip(w.cn.Host, "link add docker0 type bridge")
	w.ip(w.cn.Host, "link set docker0 up")
	w.ip(w.cn.Host, "addr add 2001:db8:d0c::1/64 dev docker0 nodad")
	w.veth(w.cn, "net1", "cn1")
	w.ip(w.r, "addr add fe80::1/64 dev cn1")
	w.ip(w.r, "route add "+addr.Addr().String()+"/128 dev cn1")
	w.ip(w.cn.Host, "addr add "+addr.Addr().String()+"/128 dev net1 nodad")
	w.ip(w.cn.Host, "-6 route add default via fe80::1 dev net1")
	w.plug("net1", 1)
	return w.start(), addr
}

// TestRentedServer serves plain IPv6 and sessions at its one address.
func TestRentedServer(t *testing.T) {
	t.Parallel()
	w, at := rented(t, "rented")
	addr := at.Addr()
	p := w.trip()
	p.phase("the mobile host moves", 0, func() { w.plug("net2", 2); w.uses("net2", numbered(2)) })
	p.phase("and returns", vanished, func() { w.unplug("net2"); w.uses("net1", numbered(1)) })
	p.phase("plain IPv6 goes on", 0, func() {
		out, err := w.r.Command(t.Context(), "ping", "-6", "-c", "1", "-W", "3", addr.String()).CombinedOutput()
		if err != nil {
			t.Errorf("ping of %s: %v\n%s", addr, err, out)
		}
	})
	p.end()
	w.cn.roam("down")
	if list, err := w.cn.Addrs("net1"); err != nil || !slices.Equal(list, []netip.Prefix{netip.PrefixFrom(addr, 128)}) {
		t.Errorf("the server's address after down: %v, %v", list, err)
	}
}
