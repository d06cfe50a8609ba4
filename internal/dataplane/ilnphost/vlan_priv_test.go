package ilnphost

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/internal/testutil"
	"roam/wire/ip6"
)

const (
	vlanLen = 4
	mss     = 1000 // of the GSO packets; their last segment is shorter
	gsoTCP6 = 4    // VIRTIO_NET_HDR_GSO_TCPV6
)

// vlanRig is a host whose uplink is a VLAN of a link with offloads, and a correspondent with
// a settled session. What arrives for a local socket comes out of another link.
type vlanRig struct {
	*rig
	below, stack tunnel
	raw          int              // sends frames on the session device
	mac          net.HardwareAddr // of the VLAN
	uplink, far  roam.LinkID
	session      int
}

func newVLANRig(t *testing.T) vlanRig {
	testutil.Need(t, "ip")
	r := vlanRig{rig: newRig(t)}
	testutil.NeedKernel(t, "tcx links", r.set.TCX()) // for the program behind ours
	r.below = newLink(t, "below", unix.IFF_TAP)
	r.stack = newTunnel(t, "stack")
	add := strings.Fields("link add link below name vlan5 type vlan id 5")
	out, err := exec.Command("ip", add...).CombinedOutput()
	testutil.NeedKernel(t, "VLAN", !bytes.Contains(out, []byte("Unknown device type")))
	r.must(err)
	for _, line := range []string{
		"link set vlan5 addrgenmode none up",
		"-6 neigh add " + hop.String() + " lladdr " + hopMAC.String() + " dev vlan5 nud permanent",
		"-6 route add 2001:db8::/32 via " + hop.String() + " dev vlan5",
		"link add s type veth peer name x",
		"link set s addrgenmode none up",
		"link set x addrgenmode none up",
	} {
		ip(t, line)
	}
	index := func(name string) *net.Interface {
		l, err := net.InterfaceByName(name)
		r.must(err)
		return l
	}
	up := index("vlan5")
	r.uplink, r.mac, r.session = roam.LinkID(up.Index), up.HardwareAddr, index("s").Index
	r.far = roam.LinkID(index("x").Index)
	r.attach()
	r.catch()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	r.must(err)
	t.Cleanup(func() { unix.Close(fd) })
	const headerAhead = 15 // PACKET_VNET_HDR
	r.must(unix.SetsockoptInt(fd, unix.SOL_PACKET, headerAhead, 1))
	r.raw = fd
	return r
}

// attach puts the programs on the links.
func (r vlanRig) attach() {
	r.t.Helper()
	r.must(r.AttachSession(roam.LinkID(r.session), r.far))
	r.must(r.AttachUplink(r.uplink, true))
}

// catch redirects what our program passes on.
func (r vlanRig) catch() {
	r.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(r.stack.index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
	}})
	r.must(err)
	l, err := link.AttachTCX(link.TCXOptions{Interface: int(r.uplink), Program: prog, Attach: ebpf.AttachTCXIngress})
	r.must(err)
	r.t.Cleanup(func() { l.Close(); prog.Close() })
}

// large makes a GSO packet of TCP whose checksum a device is to finish.
func large(src, dst roam.ILV, n int) []byte {
	p := packet(src, dst, ip6.TCP, tcp(flagACK, n))
	seed := ^ip6.Checksum(src.Addr(), dst.Addr(), ip6.TCP, nil)
	binary.BigEndian.PutUint16(p[ip6.HeaderLen+ip6.TCPChecksumAt:], ip6.Add(seed, uint16(20+n)))
	return p
}

// gsoAt is the header of such a packet whose IPv6 header is there.
func gsoAt(l3 int) offload {
	start := uint16(l3 + ip6.HeaderLen)
	return offload{needsChecksum, gsoTCP6, start + 20, mss, start, ip6.TCPChecksumAt}
}

// left returns the next packet from the VLAN, without its MAC header, and does what a device
// does to its checksum.
func (r vlanRig) left() []byte {
	r.t.Helper()
	b := r.below.readWhole()
	for b[offloadLen]&1 != 0 { // to a multicast address: the kernel's own
		b = r.below.readWhole()
	}
	flags, f := b[0], b[offloadLen:]
	tag := []byte{0x81, 0, 0, 5, 0x86, 0xdd}
	if want := append(append(bytes.Clone(hopMAC), r.mac...), tag...); !bytes.HasPrefix(f, want) {
		r.t.Fatalf("the frame is %x, want %x first", f[:ethLen+vlanLen], want)
	}
	p := f[ethLen+vlanLen:]
	if flags&needsChecksum != 0 {
		binary.BigEndian.PutUint16(p[ip6.HeaderLen+ip6.TCPChecksumAt:], ^ip6.Sum(p[ip6.HeaderLen:]))
	}
	return p
}

// wantSegments has packets bring all data of one, with right checksums.
func (r vlanRig) wantSegments(what string, next func() []byte, src, dst roam.ILV, data []byte) (packets int) {
	r.t.Helper()
	for ; len(data) > 0; packets++ {
		p := next()
		up := p[ip6.HeaderLen:]
		c, err := ip6.Walk(p)
		r.must(err)
		if c.Header.Src != src.Addr() || c.Header.Dst != dst.Addr() ||
			ip6.Checksum(src.Addr(), dst.Addr(), ip6.TCP, up) != 0 {
			r.t.Fatalf("%s: packet %d is %x", what, packets, p[:ip6.HeaderLen+20])
		}
		if !bytes.HasPrefix(data, up[20:]) || len(up) == 20 {
			r.t.Fatalf("%s: packet %d has other data", what, packets)
		}
		data = data[len(up)-20:]
	}
	return packets
}

// TestVLANLargePackets exchanges GSO packets of a settled session over a VLAN, whose link
// segments and sums itself, or leaves both to the kernel: with the checksum adjusted in
// place and by the helper, by the known hardware address and by the kernel's own.
func TestVLANLargePackets(t *testing.T) {
	r := newVLANRig(t)
	data := tcp(0, 2500)[20:]
	for _, shown := range []bool{false, true} {
		r.withChecksumState(shown)
		r.attach()
		for _, known := range []bool{false, true} {
			e := UplinkEntry{Local: roam.LinkLocator{Link: r.uplink, L64: here}, Usable: true, MTU: 1500}
			if known {
				k := hopUplink()
				e.NextHop, e.MAC, e.NextHopMAC, e.KnownAt = k.NextHop, r.mac, k.NextHopMAC, k.KnownAt
			}
			r.must(r.SetUplinks([]UplinkEntry{e}))
			p := entryFor(there)
			p.Paths = []ilnp.Path{{Local: e.Local, Remote: there}}
			r.upsert(p)
			for _, device := range []uint{0, 1 | 4} { // TUN_F_CSUM, TUN_F_TSO6
				r.settle(p.Key)
				r.kernelWay(lately)
				what := fmt.Sprintf("state shown %v, address known %v, offloads %d", shown, known, device)
				r.must(unix.IoctlSetInt(int(r.below.f.Fd()), unix.TUNSETOFFLOAD, int(device)))
				r.sendLarge()
				n := r.wantSegments(what+", out", r.left, at(here, ours), at(there, theirs), data)
				if (n == 1) != (device != 0) {
					t.Errorf("%s: %d packets left", what, n)
				}
				r.arriveLarge()
				r.wantSegments(what+", in", r.stack.read, session(theirs), session(ours), data)
			}
			r.must(r.Delete(p.Key))
		}
	}
}

// sendLarge sends a GSO packet on the session device.
func (r vlanRig) sendLarge() {
	r.t.Helper()
	p := large(session(ours), session(theirs), 2500)
	to := &unix.SockaddrLinklayer{Protocol: hostToNet16(unix.ETH_P_IPV6), Ifindex: r.session, Halen: 6}
	r.must(unix.Sendto(r.raw, gsoAt(ethLen).ahead(frame(p)), 0, to))
}

// arriveLarge has a GSO packet arrive on the VLAN.
func (r vlanRig) arriveLarge() {
	r.t.Helper()
	f := append(append(bytes.Clone(r.mac), hopMAC...), 0x81, 0, 0, 5, 0x86, 0xdd)
	r.below.write(gsoAt(ethLen+vlanLen), append(f, large(at(there, theirs), at(here, ours), 2500)...))
}
