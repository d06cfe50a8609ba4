package links

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// followed bounds the cost of a router that changes its hardware address and says so: what
// is under way, until its message arrives.
const followed = 20 * time.Millisecond

// TestNextHop plays what happens to a router whose hardware address the data plane knows.
func TestNextHop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "nexthop")
	w.hasty("net1")
	w.start()
	w.sub("another hardware address, announced", func(t *testing.T) { announcedAddress(w) })
	w.sub("another hardware address, without a word", func(t *testing.T) { silentAddress(w) })
	w.sub("another hardware address while no daemon runs", func(t *testing.T) { addressWithoutDaemon(w) })
	w.sub("our own hardware address", func(t *testing.T) { ownAddress(w) })
	w.sub("the kernel checks its neighbour", func(t *testing.T) { checkedNeighbour(w) })
	w.sub("another router", func(t *testing.T) { anotherRouter(w) })
}

// settled waits until the data plane has known the router long enough to address frames
// itself.
func (p *trip) settled() { p.w.t.Helper(); p.flows(3 * rate) }

// knows waits until the kernel of the mobile host has a hardware address for a router.
func (w *world) knows(link, mac string) {
	w.t.Helper()
	var out string
	if !testutil.Wait(patience, func() bool {
		out, _ = w.tryIP(w.mn.Host, "-6 neigh show dev "+link)
		return strings.Contains(out, "lladdr "+mac+" router")
	}) {
		w.t.Fatalf("the neighbours on %s are %s, want %s among them", link, out, mac)
	}
}

// routers waits until the kernel of the mobile host has that many default routers on a link.
func (w *world) routers(link string, n int) {
	w.t.Helper()
	testutil.Eventually(w.t, patience, func() bool {
		out, err := w.tryIP(w.mn.Host, "-6 -o route show default dev "+link)
		return err == nil && strings.Count(out, "via ") == n
	}, fmt.Sprint(n, " default routers on ", link))
}

// announces says whether an interface of the router announces its hardware address when
// that changes, by an unsolicited Neighbour Advertisement.
func (w *world) announces(there string, does bool) {
	w.t.Helper()
	value := map[bool]string{false: "0", true: "1"}[does]
	if err := w.r.Sysctl("net.ipv6.conf."+there+".ndisc_notify", value); err != nil {
		w.t.Fatal(err)
	}
}

// changes gives the router on net1 another hardware address, and waits until the mobile
// host's kernel knows it. From then on nothing is lost.
func (p *trip) changes(name, mac string) {
	p.w.t.Helper()
	p.phase(name, followed, func() {
		p.w.ip(p.w.r, "link set tonet1 address "+mac)
		p.w.knows("net1", mac)
	})
	p.phase("the kernel knows", 0, func() { p.flows(2 * rate) })
}

// announcedAddress is a router whose card was replaced, or another one that takes over its
// address (VRRP without a virtual hardware address).
func announcedAddress(w *world) {
	w.announces("tonet1", true)
	p := w.trip()
	p.settled()
	p.changes("the first change", "02:00:00:00:01:01")
	p.settled()
	p.changes("the second", "02:00:00:00:01:02")
	p.end()
}

// silentAddress says nothing. The router asks for the mobile host anew, which shows.
func silentAddress(w *world) {
	w.announces("tonet1", false)
	p := w.trip()
	p.settled()
	p.changes("the change", "02:00:00:00:02:01")
	p.end()
}

// addressWithoutDaemon changes it while the programs are alone.
func addressWithoutDaemon(w *world) {
	w.announces("tonet1", true)
	p := w.trip()
	p.settled()
	if err := w.mn.Signal(w.top.Context(), syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	p.changes("the first change", "02:00:00:00:03:01")
	p.changes("the second", "02:00:00:00:03:02")
	p.phase("the daemon is back", 0, func() {
		if err := w.mn.Node.Start(w.top.Context()); err != nil {
			w.t.Fatal(err)
		}
		w.uses("net1", numbered(1))
		p.settled()
	})
	p.changes("the third", "02:00:00:00:03:03")
	p.end()
}

// ownAddress changes that of the mobile host: frames have to come from it.
func ownAddress(w *world) {
	const mac = "02:00:00:00:04:01"
	testutil.Need(w.t, "tcpdump")
	if err := w.mn.Host.Sysctl("net.ipv6.conf.net1.ndisc_notify", "1"); err != nil {
		w.t.Fatal(err)
	}
	before := w.hardware("net1")
	p := w.trip()
	p.settled()
	p.phase("the change", time.Second, func() { w.ip(w.mn.Host, "link set net1 address "+mac) })
	p.phase("after it", 0, func() {
		old, fresh := p.framesFrom(before, "tonet1"), p.framesFrom(mac, "tonet1")
		p.settled()
		if n, m := old(), fresh(); n != 0 || m == 0 {
			w.t.Errorf("datagrams come in %d bytes of frames from the old hardware address, %d from the new one", n, m)
		}
	})
	p.end()
}

// hardware returns the hardware address of a link of the mobile host.
func (w *world) hardware(link string) string {
	w.t.Helper()
	out, err := w.tryIP(w.mn.Host, "-o link show dev "+link)
	_, after, _ := strings.Cut(out, "link/ether ")
	mac, _, found := strings.Cut(after, " ")
	if err != nil || !found {
		w.t.Fatalf("hardware address of %s: %v: %s", link, err, out)
	}
	return mac
}

// framesFrom captures what arrives at an interface of the router in frames from a hardware
// address; the result ends that, and returns the bytes.
func (p *trip) framesFrom(mac, there string) (end func() int64) {
	t := p.w.t
	t.Helper()
	file := filepath.Join(p.w.dir, strings.ReplaceAll(mac, ":", "-")+".pcap")
	c, err := p.w.r.Capture(p.w.top.Context(), there, file, 64, "udp and ether src "+mac)
	if err != nil {
		t.Fatal(err)
	}
	const header = 24 // pcap-savefile(5)
	return func() int64 {
		t.Helper()
		dropped, err := c.Stop()
		info, statErr := os.Stat(file)
		if err != nil || statErr != nil || dropped > 0 {
			t.Fatalf("capture: %v, %v, %d dropped", err, statErr, dropped)
		}
		return info.Size() - header
	}
}

// solicitations is how many Neighbour Solicitations the mobile host has sent.
func (w *world) solicitations() (n int) {
	w.t.Helper()
	out, err := w.mn.Host.Command(w.top.Context(), "cat", "/proc/net/snmp6").Output()
	if err != nil {
		w.t.Fatal(err)
	}
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) == 2 && f[0] == "Icmp6OutNeighborSolicits" {
			n, _ = strconv.Atoi(f[1])
		}
	}
	return n
}

// hasty makes the mobile host's kernel doubt the neighbours of a link a second after it
// heard of them, and ask one second later. It is for links without neighbours yet.
func (w *world) hasty(link string) {
	w.t.Helper()
	for key, value := range map[string]string{"base_reachable_time_ms": "1000", "delay_first_probe_time": "1"} {
		if err := w.mn.Host.Sysctl(fmt.Sprintf("net.ipv6.neigh.%s.%s", link, key), value); err != nil {
			w.t.Fatal(err)
		}
	}
}

// fixes gives the router permanent entries for the mobile host, which it then never
// solicits: answers to it would have the kernel check its neighbour as well.
func (w *world) fixes(link string, l roam.L64) {
	w.t.Helper()
	mac := w.hardware(link)
	own, err := w.mn.LinkLocal(link)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range []string{own.String(), roam.ILV{L64: l, NID: mnNID}.Addr().String()} {
		w.ip(w.r, "neigh replace "+a+" lladdr "+mac+" dev to"+link+" nud permanent")
	}
}

// checkedNeighbour lets datagrams flow, which confirm nothing: the kernel has to ask the
// router again and again whether it is there.
func checkedNeighbour(w *world) {
	w.fixes("net1", numbered(1))
	p := w.trip()
	p.settled()
	before, began := w.solicitations(), time.Now()
	p.phase("it flows", 0, func() {
		testutil.Eventually(w.t, patience, func() bool { return w.solicitations() >= before+4 }, "four solicitations")
	})
	w.t.Logf("%d solicitations in %v", w.solicitations()-before, time.Since(began).Round(time.Millisecond))
	p.end()
}

// anotherRouter is a segment with two routers, of which one takes over from the other by
// advertisements, and then dies without a word.
func anotherRouter(w *world) {
	w.needKind("bridge")
	l := numbered(2)
	w.ip(w.r, "link add segment type bridge forward_delay 0")
	w.ip(w.r, "link set segment up")
	spare, err := w.lab.Host("spare")
	if err == nil {
		err = spare.Forward()
	}
	for _, v := range [][2]string{{"lan", "tospare"}, {"up", "fromspare"}} {
		if err == nil {
			err = w.lab.Veth(spare, v[0], w.r, v[1])
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.ip(w.r, "link set tospare master segment")
	w.route("segment", l)
	up := roam.L64(0x2001_0db8_00ff_0000)
	w.route("fromspare", up)
	w.ip(spare, "addr add "+roam.ILV{L64: up, NID: 2}.Addr().String()+"/64 dev up nodad")
	w.ip(spare, "route add default via "+roam.ILV{L64: up, NID: 1}.Addr().String()+" dev up")
	w.ip(spare, "addr add "+roam.ILV{L64: l, NID: 2}.Addr().String()+"/64 dev lan nodad")

	p := w.trip()
	p.phase("the link appears", 0, func() {
		w.veth(w.mn, "net2", "tonet2")
		w.hasty("net2")
		w.ip(w.r, "link set tonet2 master segment")
		w.advertise("segment", lasting(l))
		w.uses("net2", l)
		p.settled()
	})
	p.phase("another router takes over", 0, func() {
		second, err := advertise(spare, "lan", advert{router: 1800})
		if err != nil {
			w.t.Fatal(err)
		}
		w.radios["spare"] = second
		w.routers("net2", 2) // or the kernel has none for a moment
		w.radios["segment"].set(advert{router: 0, prefixes: lasting(l).prefixes})
		sent := func() uint64 {
			n, err := spare.Stats("up")
			if err != nil {
				w.t.Fatal(err)
			}
			return n.TxPackets
		}
		testutil.Eventually(w.t, patience, func() bool { return sent() > 0 }, "datagrams by way of the other router")
		p.flows(rate / 4)
		before := sent()
		p.flows(rate)
		if n := sent() - before; n < rate/3 {
			w.t.Errorf("%d datagrams went by way of the other router, want some %d", n, rate/2)
		}
	})
	// Nothing leads back to the segment either, or the data plane would answer probes by
	// the first router, from which they come.
	p.phase("it dies", noticed, func() {
		w.ip(w.r, "-6 route add blackhole "+l.Prefix().String()+" metric 1")
		w.radios["spare"].stop()
		delete(w.radios, "spare")
		w.ip(spare, "link set dev lan address 02:00:00:00:05:01 arp off")
		w.ip(spare, "link set dev up down")
		w.uses("net1", numbered(1))
	})
	p.end()
	w.radios["segment"].stop()
	delete(w.radios, "segment")
	w.unplug("net2")
	w.ip(w.r, "-6 route del blackhole "+l.Prefix().String()+" metric 1")
	w.ip(w.r, "link del segment")
}
