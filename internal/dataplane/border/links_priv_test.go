package border

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
	"roam/internal/hostnet"
	"roam/internal/testutil"
	"roam/sbr"
	"roam/wire/ilnp"
)

// network is a namespace that forwards between links whose far ends are in it, too: tests put
// frames on those, and read what comes out there.
//
//	far "lanx" === "lan" [ border ] "wan0" === far "wan0x"
//	                                "wan1" === far "wan1x"
type network struct {
	*rig
	dir string
	fds map[string]int
}

func newNetwork(t *testing.T, classic bool) *network {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "ip")
	n := &network{rig: &rig{T: t}, dir: t.TempDir(), fds: map[string]int{}}
	// Never unlocked: the thread and its namespaces end with the test.
	runtime.LockOSThread()
	n.must(unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_FS))
	n.must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	n.must(unix.Mount("bpf", n.dir, "bpf", 0, ""))
	t.Cleanup(func() { unix.Unmount(n.dir, unix.MNT_DETACH) })
	n.must(os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644))
	n.must(os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0o644))
	for _, name := range []string{"lan", "wan0", "wan1"} {
		n.add(name)
	}
	n.ip("addr add %s/64 dev lan nodad", internal.Prefix().Addr().Next())
	n.ip("neigh add %s lladdr 02:00:00:00:00:02 dev lan nud permanent", mine.Addr())
	for i, wan := range []string{"wan0", "wan1"} {
		n.ip("neigh add fe80::2 lladdr 02:00:00:00:00:0%d dev %s nud permanent", i, wan)
		n.ip("-6 route add default via fe80::2 dev %s metric %d", wan, 100+i)
	}
	n.open(classic)
	testutil.NeedKernel(t, "tcx links", classic || n.TCX())
	return n
}

func (n *network) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *network) ip(format string, args ...any) {
	n.Helper()
	line := fmt.Sprintf(format, args...)
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		n.Fatalf("ip %s: %v\n%s", line, err, out)
	}
}

// add makes a link, and a socket that reads and writes frames at its far end.
func (n *network) add(name string) {
	n.Helper()
	n.ip("link add %s type veth peer name %sx", name, name)
	n.ip("link set %sx up", name)
	n.ip("link set %s up", name)
	testutil.Eventually(n.T, 5*time.Second, func() bool { return n.device(name).Flags&net.FlagRunning != 0 }, name+" is up")
	const ipv6 = 0xdd86 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, ipv6)
	n.must(err)
	n.Cleanup(func() { unix.Close(fd) })
	n.must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ipv6, Ifindex: n.device(name + "x").Index}))
	n.fds[name] = fd
}

func (n *network) device(name string) *net.Interface {
	n.Helper()
	i, err := net.InterfaceByName(name)
	n.must(err)
	return i
}

// open opens the plane, as a process does that starts, with the tables of the test's policy.
func (n *network) open(classic bool) {
	n.Helper()
	p, err := Open(dataplane.Options{Dir: n.dir + "/pins", Classic: hostnet.Classic{}, NoTCX: classic}, encapPort, maxFlows)
	n.must(err)
	n.Plane = p
	n.Cleanup(func() { p.Close() })
	n.configure(Settings{})
	policy, err := sbr.ParsePolicy([]byte(policyText(50, 50)))
	n.must(err)
	a, b := roam.LinkID(n.device("wan0").Index), roam.LinkID(n.device("wan1").Index)
	n.table = sbr.NewTable(policy, []sbr.Site{{L64: siteA, Link: a, Up: true}, {L64: siteB, Link: b, Up: true}})
	known := Hop{MTU: 1500, NextHop: netip.MustParseAddr("fe80::2")}
	copy(known.MACs[:], []byte{2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 9})
	n.must(n.Install(n.table, everyIndex, map[roam.LinkID]Hop{a: known, b: {MTU: 1500, NextHop: known.NextHop}}))
	n.must(n.AttachInside(roam.LinkID(n.device("lan").Index)))
	n.must(n.AttachUplink(a))
	n.must(n.AttachUplink(b))
	n.must(n.TakeOver())
}

// send puts a packet on the far end of a link.
func (n *network) send(name string, packet []byte) {
	n.Helper()
	near := n.device(name)
	frame := append(append(append([]byte{}, near.HardwareAddr...), 2, 0, 0, 0, 0, 2, 0x86, 0xdd), packet...)
	n.must(unix.Sendto(n.fds[name], frame, 0, &unix.SockaddrLinklayer{Ifindex: n.device(name + "x").Index}))
}

// came waits for the packet with that source and destination at the far end of a link; the
// hardware address is the one that it was sent to.
func (n *network) came(name string, src, dst roam.ILV) (mac, packet []byte) {
	n.Helper()
	want := append(src.Addr().AsSlice(), dst.Addr().AsSlice()...)
	b := make([]byte, 2000)
	testutil.Eventually(n.T, 5*time.Second, func() bool {
		for {
			size, from, err := unix.Recvfrom(n.fds[name], b, 0)
			if errors.Is(err, unix.EAGAIN) {
				return false
			}
			n.must(err)
			if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype != unix.PACKET_OUTGOING && size > 54 &&
				bytes.Equal(b[22:54], want) {
				mac, packet = bytes.Clone(b[:6]), bytes.Clone(b[14:size])
				return true
			}
		}
	}, fmt.Sprintf("a packet from %v to %v on %s", src, dst, name))
	return mac, packet
}

// Packets pass links in both directions, through tcx and clsact, by a known hardware address
// and by the kernel's, and go on after a restart.
func TestForwarding(t *testing.T) {
	for _, classic := range []bool{false, true} {
		t.Run(fmt.Sprint("classic ", classic), func(t *testing.T) {
			n := newNetwork(t, classic)
			sites := map[string]roam.ILV{"wan0": {L64: siteA, NID: insideNID}, "wan1": {L64: siteB, NID: insideNID}}
			n.confirmOver(sites["wan0"])
			for round := range 2 {
				for i, wan := range []string{"wan0", "wan1"} {
					n.must(n.Announce(theKey, n.table, []roam.L64{sites[wan].L64}))
					request := n.echo(mine, theirs, outward, true, uint16(10*round+i), 56)
					n.send("lan", request)
					mac, out := n.came(wan, sites[wan], theirs)
					if _, err := ilnp.ParsePacket(out); err != nil || mac[5] != byte(i) || out[7] != request[7]-1 {
						t.Errorf("%s: to %x, hop limit %d, %v", wan, mac, out[7], err)
					}
					n.send(wan, n.echo(theirs, sites[wan], inward, true, uint16(10*round+i), 56))
					if _, in := n.came("lan", theirs, mine); in[7] != request[7]-1 {
						t.Errorf("%s: hop limit %d inside", wan, in[7])
					}
				}
				n.must(n.Close())
				n.open(classic)
			}
		})
	}
}

// confirmOver has both nodes of the flow send a nonce.
func (n *network) confirmOver(site roam.ILV) {
	n.Helper()
	n.send("lan", n.echo(mine, theirs, outward, true, 1, 56))
	n.came("wan0", site, theirs)
	n.send("wan0", n.echo(theirs, site, inward, false, 1, 56))
	n.came("lan", theirs, mine)
	if _, ok := n.Flow(theKey, n.table); !ok {
		n.Fatal("no flow")
	}
}

// A link to the inside that is made anew has another index: the next packet with a nonce of the flow has the border
// find its host there, by the kernel's way and by a known one.
func TestLinkMadeAnew(t *testing.T) {
	n := newNetwork(t, false)
	site := roam.ILV{L64: siteA, NID: insideNID}
	n.confirmOver(site)
	was := n.device("lan").Index
	n.ip("link del lan")
	n.add("spare") // so that the index is another one in any case
	n.add("lan")
	n.ip("addr add %s/64 dev lan nodad", internal.Prefix().Addr().Next())
	n.ip("neigh add %s lladdr 02:00:00:00:00:02 dev lan nud permanent", mine.Addr())
	is := n.device("lan").Index
	n.must(n.AttachInside(roam.LinkID(is)))
	n.quiet()
	n.send("lan", n.echo(mine, theirs, outward, false, 2, 56))
	n.came("wan0", site, theirs)
	if f, ok := n.Flow(theKey, n.table); !ok || f.Link != roam.LinkID(is) || is == was {
		t.Errorf("the flow's host is on link %d, want %d, not %d", f.Link, is, was)
	}
	n.configure(Settings{Direct: true})
	before := n.counter("rx_direct")
	for seq := range uint16(3) {
		n.send("wan0", n.echo(theirs, site, inward, true, seq, 56))
		n.came("lan", theirs, mine)
	}
	if n.counter("rx_direct") == before {
		t.Error("all packets from outside take the stack")
	}
}
