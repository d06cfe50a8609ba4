package observer

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
	"roam/internal/hostnet"
	"roam/internal/testutil"
	"roam/observer"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// router is a network namespace that forwards between links of its own, whose far ends
// are in it too: tests put frames on those.
//
//	far "leftx" === near "left"  [ forwards ]  near "right" === far "rightx"
type router struct {
	*Plane
	t       *testing.T
	dir     string
	classic bool
	raw     int
}

func newRouter(t *testing.T, classic bool) *router {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "ip")
	r := &router{t: t, dir: t.TempDir(), classic: classic}
	// Never unlocked: the thread and its namespaces end with the test.
	runtime.LockOSThread()
	r.must(unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_FS))
	r.must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	r.must(unix.Mount("bpf", r.dir, "bpf", 0, ""))
	t.Cleanup(func() { unix.Unmount(r.dir, unix.MNT_DETACH) })
	r.must(os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644))
	r.must(os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0o644))
	var err error
	r.raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	r.must(err)
	t.Cleanup(func() { unix.Close(r.raw) })
	r.add("left", 1)
	r.add("right", 2)
	r.open()
	testutil.NeedKernel(t, "tcx links", classic || r.TCX())
	return r
}

func (r *router) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) ip(line string) string {
	r.t.Helper()
	out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("ip %s: %v\n%s", line, err, out)
	}
	return string(out)
}

// add makes a link whose network has this number, with a neighbour ::2 at its far end.
func (r *router) add(name string, network int) {
	r.t.Helper()
	r.ip("link add " + name + " type veth peer name " + name + "x")
	r.ip("link set " + name + "x up")
	r.ip("link set " + name + " up")
	r.ip(fmt.Sprintf("addr add 2001:db8:%d::1/64 dev %s nodad", network, name))
	r.ip(fmt.Sprintf("neigh add 2001:db8:%d::2 lladdr 02:00:00:00:00:02 dev %s nud permanent", network, name))
	// An end without FlagRunning drops what it is given: the kernel gives it a queue some time later.
	isRunning := func(name string) bool { return r.device(name).Flags&net.FlagRunning != 0 }
	testutil.Eventually(r.t, 5*time.Second, func() bool {
		return strings.Contains(r.ip("-6 route show"), "dev "+name) && isRunning(name) && isRunning(name+"x")
	}, name+" has carrier and a route")
}

func (r *router) device(name string) *net.Interface {
	r.t.Helper()
	i, err := net.InterfaceByName(name)
	r.must(err)
	return i
}

func (r *router) link(name string) roam.LinkID { return roam.LinkID(r.device(name).Index) }

// open opens the plane, as a process does that starts.
func (r *router) open() {
	r.t.Helper()
	p, err := Open(dataplane.Options{Dir: r.dir + "/pins", Classic: hostnet.Classic{}, NoTCX: r.classic})
	r.must(err)
	r.Plane = p
	r.t.Cleanup(func() { p.Close() })
}

// send puts a packet of one network for the neighbour of another one on a link's far end.
func (r *router) send(name string, from, to uint16, next uint8, body []byte) {
	r.t.Helper()
	p := ipv6(next, body...)
	for at, network := range map[int]uint16{8: from, 24: to} {
		copy(p[at:], []byte{0x20, 0x01, 0x0d, 0xb8})
		binary.BigEndian.PutUint16(p[at+4:], network)
		p[at+15] = 2
	}
	near, far := r.device(name), r.device(name+"x")
	f := frame(p)
	copy(f, near.HardwareAddr)
	copy(f[6:], far.HardwareAddr)
	r.must(unix.Sendto(r.raw, f, 0, &unix.SockaddrLinklayer{Ifindex: far.Index}))
}

const partial = 3 // CHECKSUM_PARTIAL of the kernel

var (
	datagram = []byte{0, 1, 0, 2, 0, 12, 1, 1, 1, 2, 3, 4}
	// nonced is a Destination Options header with a nonce before a datagram.
	nonced = append([]byte{ip6.UDP, 0, 0x8b, 4, 1, 2, 3, 4}, datagram...)
	update = []byte{ip6.ICMPv6, 0, 0x8b, 4, 1, 2, 3, 4, ilnp.TypeLocatorUpdate, 0, 0, 0, 0, 1, 0, 0}
)

// pass sends three datagrams, two with nonce and a Locator Update from one network to
// another one.
func (r *router) pass(name string, from, to uint16) {
	r.t.Helper()
	for range 3 {
		r.send(name, from, to, ip6.UDP, datagram)
	}
	for range 2 {
		r.send(name, from, to, ip6.DestOpts, nonced)
	}
	r.send(name, from, to, ip6.DestOpts, update)
}

// wantPassed waits until that many times what pass sends has been counted on one side of a
// link, and wants no other datagram there.
func (r *router) wantPassed(what string, dev roam.LinkID, direction observer.Flags, times uint64) {
	r.t.Helper()
	want := map[observer.Class]observer.Traffic{
		{Link: dev, Next: ip6.UDP, Flags: direction}:                  {Packets: 3 * times, Bytes: 3 * 52 * times},
		{Link: dev, Next: ip6.UDP, Flags: direction | observer.Nonce}: {Packets: 2 * times, Bytes: 2 * 60 * times},
		{Link: dev, Next: ip6.ICMPv6, Flags: direction | observer.Nonce | observer.LocatorUpdate}: {
			Packets: times, Bytes: 56 * times},
	}
	if times == 0 {
		clear(want)
	}
	var got map[observer.Class]observer.Traffic
	if !testutil.Wait(5*time.Second, func() bool {
		counts, err := r.Read()
		r.must(err)
		got = make(map[observer.Class]observer.Traffic)
		for k, n := range counts {
			if k.Link == dev && k.Flags&observer.Egress == direction && (k.Next == ip6.UDP || k.Flags != direction) {
				got[k] = n
			}
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	}) {
		r.t.Errorf("%s: link %d, direction %d: counted %v, want %v", what, dev, direction, got, want)
	}
}

// A machine that forwards counts each packet once on each of its two links. Counts go on
// after a restart, a link that appears later has its own, and one that goes loses them.
func TestForwarding(t *testing.T) {
	for _, classic := range []bool{false, true} {
		t.Run(fmt.Sprint("classic ", classic), func(t *testing.T) {
			r := newRouter(t, classic)
			a, b := r.link("left"), r.link("right")
			r.must(r.Attach(a))
			r.must(r.Attach(b))
			r.pass("left", 1, 2)
			r.wantPassed("forwarded", a, 0, 1)
			r.wantPassed("forwarded", b, observer.Egress, 1)
			r.wantPassed("forwarded", a, observer.Egress, 0)
			r.wantPassed("forwarded", b, 0, 0)
			r.must(r.Close())
			r.pass("left", 1, 2)
			r.open()
			r.pass("left", 1, 2)
			r.wantPassed("adopted", a, 0, 3)
			r.must(r.Attach(a))
			r.must(r.Attach(b))
			r.pass("right", 2, 1)
			r.wantPassed("adopted", b, 0, 1)
			r.wantPassed("adopted", a, observer.Egress, 1)
			r.wantPassed("adopted", a, 0, 3)
			r.add("late", 3)
			c := r.link("late")
			r.must(r.Attach(c))
			r.pass("late", 3, 1)
			r.wantPassed("a link that came later", c, 0, 1)
			r.wantPassed("a link that came later", a, observer.Egress, 2)
			r.ip("link del late")
			r.must(r.Detach(c))
			r.wantPassed("gone", c, 0, 0)
			r.wantPassed("the others stay", a, observer.Egress, 2)
			attached, err := r.Attached()
			slices.Sort(attached)
			if want := []roam.LinkID{a, b}; err != nil || !slices.Equal(attached, want) {
				t.Errorf("attached to %v, %v", attached, err)
			}
			r.must(r.Detach(b))
			if attached, err = r.Attached(); err != nil || !slices.Equal(attached, []roam.LinkID{a}) {
				t.Errorf("detached from one, attached to %v, %v", attached, err)
			}
			r.wantPassed("its counts are gone", b, 0, 0)
		})
	}
}

// A datagram of this machine leaves with a checksum that a device is to finish.
func TestPartialChecksum(t *testing.T) {
	r := newRouter(t, false)
	b := r.link("right")
	r.must(r.Attach(b))
	conn, err := net.Dial("udp", "[2001:db8:2::2]:9")
	r.must(err)
	defer conn.Close()
	_, err = conn.Write(make([]byte, 4))
	r.must(err)
	counts, err := r.Read()
	r.must(err)
	k := observer.Class{Link: b, Next: ip6.UDP, Flags: observer.Egress, Checksum: partial}
	if want := (observer.Traffic{Packets: 1, Bytes: 52}); counts[k] != want {
		t.Errorf("counted %+v", counts)
	}
}

// After removal no program, filter or pin is left, and packets pass as before.
func TestRemove(t *testing.T) {
	for _, classic := range []bool{false, true} {
		t.Run(fmt.Sprint("classic ", classic), func(t *testing.T) {
			r := newRouter(t, classic)
			a := r.link("left")
			r.must(r.Attach(a))
			r.must(r.Close())
			r.must(dataplane.Remove(r.dir + "/pins"))
			r.must(hostnet.DetachAllClassic())
			if left, err := os.ReadDir(r.dir + "/pins"); err != nil || len(left) != 0 {
				t.Errorf("%v is left, %v", left, err)
			}
			if classic {
				if list := r.tc(); strings.Contains(list, "clsact") {
					t.Errorf("a queueing discipline is left: %s", list)
				}
				return
			}
			for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				// The kernel lets go of a link a little after its last pin.
				testutil.Eventually(t, 5*time.Second, func() bool {
					res, err := link.QueryPrograms(link.QueryOptions{Target: int(a), Attach: at})
					return err == nil && len(res.Programs) == 0
				}, "no program is attached any more")
			}
		})
	}
}

func (r *router) tc() string {
	r.t.Helper()
	testutil.Need(r.t, "tc")
	out, err := exec.Command("tc", "qdisc", "show").CombinedOutput()
	r.must(err)
	return string(out)
}
