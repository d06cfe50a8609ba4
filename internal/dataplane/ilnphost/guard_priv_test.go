package ilnphost

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
	"roam/internal/testutil"
	"roam/wire/ip6"
)

// What another node sends, and this host forwards to the session device, is
// dropped: it has arrived on some link, and not by the segmentation device.
func TestForwardedIsDropped(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	arrived := func(from, at roam.LinkID) func(*ebpf.RunOptions) {
		return func(o *ebpf.RunOptions) { o.Context = skbContext{Arrived: uint32(from), Ifindex: uint32(at)} }
	}
	for _, c := range []struct {
		what     string
		from, at roam.LinkID
		verdict  int
		want     counts
	}{
		{"of a socket", 0, loopback, redirect, counts{"tx_packets": 1}},
		{"round the segmentation device", loopback, loopback, redirect, counts{"tx_packets": 1}},
	} {
		got := r.counted(func() {
			if v, _ := r.egress(toPeer(ip6.UDP, udp(9)), arrived(c.from, c.at)); v != c.verdict {
				t.Errorf("%s: verdict %d", c.what, v)
			}
		})
		r.wantCounts(c.what, got, c.want)
	}
	// A test run sets the link of a packet by its index, so there must be a second one.
	testutil.Need(t, "ip")
	ip(t, fmt.Sprintf("link add f%d type veth peer name g%d", os.Getpid(), os.Getpid()))
	other, err := net.InterfaceByName(fmt.Sprintf("f%d", os.Getpid()))
	r.must(err)
	got := r.counted(func() {
		if v, _ := r.egress(toPeer(ip6.UDP, udp(9)), arrived(roam.LinkID(other.Index), loopback)); v != shot {
			t.Errorf("forwarded: verdict %d", v)
		}
	})
	r.wantCounts("forwarded", got, counts{"drop_forwarded": 1})
	last, ok, err := r.LastRefused("drop_forwarded")
	if err != nil || !ok || last.Link != roam.LinkID(other.Index) || last.Remote != session(ours) || last.Local != session(theirs) || last.Proto != ip6.UDP {
		t.Errorf("noted: %+v, %t, %v", last, ok, err)
	}
}

// guarded is a host with a session address, a link that nobody knows of, and a
// socket on the session address.
type guarded struct {
	*rig
	near, far *net.Interface
	raw       int
	server    *net.UDPConn
}

func newGuarded(t *testing.T) guarded {
	testutil.Need(t, "ip")
	g := guarded{rig: newRig(t)}
	ip(t, "link set lo up")
	ip(t, "-6 addr add "+session(ours).Addr().String()+"/128 dev lo nodad")
	wantLocal(t, session(ours).Addr())
	g.near, g.far = g.veth("v")
	var err error
	g.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	g.must(err)
	t.Cleanup(func() { unix.Close(g.raw) })
	g.server, err = net.ListenUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(ours).Addr(), 5001)))
	g.must(err)
	t.Cleanup(func() { g.server.Close() })
	return g
}

func (g guarded) veth(name string) (near, far *net.Interface) {
	g.t.Helper()
	n, f := fmt.Sprint(name, os.Getpid()), fmt.Sprint(name, "x", os.Getpid())
	ip(g.t, "link add "+n+" type veth peer name "+f)
	ip(g.t, "link set "+f+" up")
	ip(g.t, "link set "+n+" up")
	testutil.Eventually(g.t, 5*time.Second, func() bool {
		var errs [2]error
		near, errs[0] = net.InterfaceByName(n)
		far, errs[1] = net.InterfaceByName(f)
		g.must(errors.Join(errs[:]...))
		return near.Flags&far.Flags&net.FlagRunning != 0
	}, "both ends have carrier")
	return near, far
}

// needAll skips the test on kernels whose netfilter runs no programs of eBPF. On
// others the guard of all links must load.
func (g guarded) needAll() {
	g.t.Helper()
	symbols, err := os.ReadFile("/proc/kallsyms")
	g.must(err)
	testutil.NeedKernel(g.t, "programs on the hooks of netfilter", strings.Contains(string(symbols), " bpf_nf_link_attach\n"))
	if each, why := g.GuardsEachLink(); each {
		g.t.Fatalf("the guard of all links cannot be used: %v", why)
	}
}

// delivered sends a datagram into a link, and reports whether the socket gets it.
func (g guarded) delivered(near, far *net.Interface, src, dst roam.ILV) bool {
	g.t.Helper()
	body := udp(12)
	body[2], body[3] = 5001>>8, 5001&0xff
	body[6], body[7] = 0, 0
	sum := ip6.Checksum(src.Addr(), dst.Addr(), ip6.UDP, body)
	body[6], body[7] = byte(sum>>8), byte(sum)
	f := append(append(append([]byte(nil), near.HardwareAddr...), far.HardwareAddr...), 0x86, 0xdd)
	f = append(f, packet(src, dst, ip6.UDP, body)...)
	g.must(unix.Sendto(g.raw, f, 0, &unix.SockaddrLinklayer{Protocol: 0xdd86, Ifindex: far.Index, Halen: 6}))
	g.server.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _, err := g.server.ReadFromUDPAddrPort(make([]byte, 2000))
	return err == nil
}

// want sends what pretends to be a session from all sides.
func (g guarded) want(what string, near, far *net.Interface, delivered bool) {
	g.t.Helper()
	for name, src := range map[string]roam.ILV{"the peer": session(theirs), "a pending peer": at(there, theirs)} {
		if got := g.delivered(near, far, src, session(ours)); got != delivered {
			g.t.Errorf("%s: a datagram of %s delivered: %t", what, name, got)
		}
	}
}

// A link that nobody knows of delivers no session packets, nor does one that
// appears later; the session device and uplinks do. It holds for a successor, who
// leaves one guard, and ends with the pins.
func TestGuard(t *testing.T) {
	g := newGuarded(t)
	g.want("without guard", g.near, g.far, true)
	g.must(g.AttachGuard(roam.DefaultSessionPrefix, 77))
	g.needAll()
	got := g.counted(func() { g.want("guarded", g.near, g.far, false) })
	g.wantCounts("guarded", got, counts{"drop_session_link": 2})
	last, ok, err := g.LastRefused("drop_session_link")
	if err != nil || !ok || last.Link != roam.LinkID(g.near.Index) || last.Local != session(ours) || last.Proto != ip6.UDP {
		t.Errorf("noted: %+v, %t, %v", last, ok, err)
	}
	near, far := g.veth("w")
	g.want("a link that came later", near, far, false)
	g.must(g.guard.admit(roam.LinkID(near.Index)))
	g.want("a link that may", near, far, true)
	g.must(g.AttachGuard(roam.DefaultSessionPrefix, roam.LinkID(g.near.Index)))
	g.want("the session device", g.near, g.far, true)
	g.want("what was it before", near, far, false)
	for range 3 {
		g.restart()
		g.want("between two processes", near, far, false)
		g.must(g.AttachGuard(roam.DefaultSessionPrefix, roam.LinkID(g.near.Index)))
		g.want("a successor", near, far, false)
		g.want("the session device of a successor", g.near, g.far, true)
	}
	if pins, err := g.set.HookPins("guard"); err != nil || len(pins) != 1 {
		t.Errorf("guards: %v, %v", pins, err)
	}
	g.must(Remove(g.dir + "/pins"))
	// The kernel lets go of what is not pinned any more in its own time.
	testutil.Eventually(t, 5*time.Second, func() bool {
		return g.delivered(near, far, session(theirs), session(ours))
	}, "without pins nothing guards")
}

// An uplink may deliver sessions once its programs are attached, and no more when
// they are not; its own program goes on refusing session addresses.
func TestGuardKnowsUplinks(t *testing.T) {
	g := newGuarded(t)
	g.must(g.AttachGuard(roam.DefaultSessionPrefix, 77))
	g.needAll()
	up := roam.LinkID(g.near.Index)
	g.must(g.AttachUplink(up, true))
	got := g.counted(func() { g.want("an uplink", g.near, g.far, false) })
	g.wantCounts("an uplink", got, counts{"drop_session_outside": 2})
	g.uplink(here)
	g.upsert(entryFor(there))
	if !g.delivered(g.near, g.far, at(there, theirs), at(here, ours)) {
		t.Error("an uplink does not deliver its session")
	}
	g.restart()
	g.must(g.AttachGuard(roam.DefaultSessionPrefix, 77))
	if !g.delivered(g.near, g.far, at(there, theirs), at(here, ours)) {
		t.Error("an uplink of before does not deliver its session to a successor")
	}
	g.must(g.DetachUplink(up))
	testutil.Eventually(t, 5*time.Second, func() bool {
		got := g.counted(func() { g.want("no uplink any more", g.near, g.far, false) })
		return got["drop_session_link"] == 2
	}, "the guard covers what is no uplink any more")
}

// Where no program covers all links, each has one of its own, which gives way to
// that of an uplink and comes back after it.
func TestGuardOfEachLink(t *testing.T) {
	for _, classic := range []bool{false, true} {
		t.Run(fmt.Sprint("classic ", classic), func(t *testing.T) {
			g := newGuarded(t)
			g.opts.NoNetfilter = true
			opts := g.options()
			opts.NoTCX = classic
			var err error
			g.set, err = dataplane.Open(setOptions(opts))
			g.must(err)
			g.must(g.AttachGuard(roam.DefaultSessionPrefix, 77))
			if each, why := g.GuardsEachLink(); !each || why == nil {
				t.Fatalf("each link: %t, %v", each, why)
			}
			g.want("not guarded yet", g.near, g.far, true)
			up := roam.LinkID(g.near.Index)
			g.must(g.GuardLink(up, true))
			got := g.counted(func() { g.want("guarded", g.near, g.far, false) })
			g.wantCounts("guarded", got, counts{"drop_session_link": 2})
			g.must(g.AttachUplink(up, true))
			g.uplink(here)
			g.upsert(entryFor(there))
			if !g.delivered(g.near, g.far, at(there, theirs), at(here, ours)) {
				t.Error("an uplink does not deliver its session")
			}
			g.must(g.DetachUplink(up))
			g.must(g.GuardLink(up, true))
			g.want("guarded again", g.near, g.far, false)
			if list, err := g.AttachedUplinks(); err != nil || len(list) > 0 {
				t.Errorf("uplinks: %v, %v", list, err)
			}
		})
	}
}
