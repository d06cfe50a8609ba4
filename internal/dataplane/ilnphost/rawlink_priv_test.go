package ilnphost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/internal/testutil"
	"roam/wire/golden"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// offload is the header that a TUN device puts ahead of each packet
// (struct virtio_net_hdr).
type offload struct {
	flags, gsoType       uint8
	hdrLen, gsoSize      uint16
	csumStart, csumField uint16
}

const (
	offloadLen    = 10
	needsChecksum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
)

// tunnel is a link whose other end is this test.
type tunnel struct {
	t     *testing.T
	f     *os.File
	index roam.LinkID
}

// newTunnel makes a link without MAC header.
func newTunnel(t *testing.T, name string) tunnel { return newLink(t, name, unix.IFF_TUN) }

func newLink(t *testing.T, name string, kind uint16) tunnel {
	t.Helper()
	testutil.Need(t, "/dev/net/tun")
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatalf("open tun device: %v", err)
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	req.SetUint16(kind | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		t.Fatalf("make tun device: %v", err)
	}
	f := os.NewFile(uintptr(fd), name) // not earlier: it cannot be polled before it is a device
	t.Cleanup(func() { f.Close() })
	// Nothing but what the test sends: no addresses, no discovery.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/addr_gen_mode", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	req.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
		t.Fatalf("set %s up: %v", name, err)
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFINDEX, req); err != nil {
		t.Fatal(err)
	}
	return tunnel{t, f, roam.LinkID(req.Uint32())}
}

// ahead returns the packet behind its header.
func (h offload) ahead(p []byte) []byte {
	b := []byte{h.flags, h.gsoType}
	for _, v := range []uint16{h.hdrLen, h.gsoSize, h.csumStart, h.csumField} {
		b = binary.NativeEndian.AppendUint16(b, v)
	}
	return append(b, p...)
}

func (n tunnel) write(h offload, p []byte) {
	n.t.Helper()
	if _, err := n.f.Write(h.ahead(p)); err != nil {
		n.t.Fatalf("send through tun device: %v", err)
	}
}

func (n tunnel) read() []byte {
	n.t.Helper()
	return n.readWhole()[offloadLen:]
}

// readWhole returns a packet with the header ahead of it.
func (n tunnel) readWhole() []byte {
	n.t.Helper()
	b := make([]byte, 4096)
	n.f.SetReadDeadline(time.Now().Add(5 * time.Second))
	l, err := n.f.Read(b)
	if err != nil {
		n.t.Fatalf("receive from tun device: %v", err)
	}
	return b[:l]
}

// rawRig is a rig with a link without MAC header as uplink; what the programs
// let pass there comes out of the other tunnel.
type rawRig struct {
	*rig
	in, out tunnel
}

func newRawRig(t *testing.T) rawRig {
	r := rawRig{rig: newRig(t)}
	testutil.NeedKernel(t, "tcx links", r.set.TCX()) // for the program behind ours
	r.in = newTunnel(t, fmt.Sprintf("in%d", os.Getpid()))
	r.out = newTunnel(t, fmt.Sprintf("out%d", os.Getpid()))
	r.must(r.AttachUplink(r.in.index, false))
	t.Cleanup(func() { r.DetachUplink(r.in.index) })
	catch, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.SchedCLS,
		License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(r.out.index)),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
			asm.Return(),
		},
	})
	r.must(err)
	l, err := link.AttachTCX(link.TCXOptions{Interface: int(r.in.index), Program: catch, Attach: ebpf.AttachTCXIngress})
	r.must(err)
	t.Cleanup(func() { l.Close(); catch.Close() })
	return r
}

// through sends a packet into the uplink and returns what passes, or nil.
func (r rawRig) through(h offload, p []byte) []byte {
	r.t.Helper()
	marker := packet(at(else1, 1), at(else1, 2), 253, []byte("marker"))
	r.in.write(h, p)
	r.in.write(offload{}, marker)
	got := r.out.read()
	if bytes.Equal(got, marker) {
		return nil
	}
	if next := r.out.read(); !bytes.Equal(next, marker) {
		r.t.Fatalf("after the packet came %x", next)
	}
	return got
}

// seeded returns the packet as a device gets it that is to finish the transport
// checksum, if it has one that is right now.
func seeded(p []byte, e xlate.Entry) (offload, []byte, bool) {
	c, err := ip6.Walk(p)
	off, _, ok := ip6.ChecksumOffset(c.Upper)
	if err != nil || !ok || !c.Whole() || c.Upper == ip6.ICMPv6 {
		return offload{}, nil, false
	}
	src, dst := roam.ILVFromAddr(c.Header.Src), roam.ILVFromAddr(c.Header.Dst)
	if e.Rule == xlate.RuleRFC6741 {
		src.L64, dst.L64 = 0, 0
	}
	b := bytes.Clone(p)
	field := b[c.UpperOffset+off:]
	if binary.BigEndian.Uint16(field) == 0 || ip6.Checksum(src.Addr(), dst.Addr(), c.Upper, b[c.UpperOffset:c.End]) != 0 {
		return offload{}, nil, false
	}
	// The checksum over nothing is the complement of the pseudo-header's sum.
	seed := ^ip6.Checksum(src.Addr(), dst.Addr(), c.Upper, nil)
	binary.BigEndian.PutUint16(field, ip6.Add(seed, uint16(c.End-c.UpperOffset)))
	return offload{flags: needsChecksum, csumStart: uint16(c.UpperOffset), csumField: uint16(off)}, b, true
}

// The golden packets that come in, on a real link without MAC header: whole,
// and with a checksum that is still to be finished.
func TestRawLink(t *testing.T) {
	r := newRawRig(t)
	unfinished := 0
	for name, c := range goldenCases(t) {
		if c.Direction != golden.Inward {
			continue
		}
		p := r.install(c)
		if got := r.through(offload{}, c.Wire); !bytes.Equal(got, c.Session) {
			t.Errorf("%s: %s", name, difference(got, c.Session))
		}
		if h, b, ok := seeded(c.Wire, c.Entry); ok {
			unfinished++
			if got := r.through(h, b); !bytes.Equal(got, c.Session) {
				t.Errorf("%s, unfinished checksum: %s", name, difference(got, c.Session))
			}
		}
		r.must(r.Delete(p.Key))
	}
	if unfinished < 3 {
		t.Errorf("only %d cases with an unfinished checksum", unfinished)
	}
}

// What the programs refuse does not pass on a real link either, packets that
// end within the IPv6 header are left to the stack, and the guard holds.
func TestRawLinkRefusals(t *testing.T) {
	r := newRawRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	whole := fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 0))
	for n := 1; n <= len(whole); n++ {
		var got []byte
		counted := r.counted(func() { got = r.through(offload{}, whole[:n]) })
		switch {
		case n < ip6.HeaderLen:
			if !bytes.Equal(got, whole[:n]) || len(counted) != 0 {
				t.Errorf("%d bytes: %x, counted %v", n, got, counted)
			}
		case n < len(whole):
			if got != nil || counted["drop_malformed"] != 1 {
				t.Errorf("%d bytes: %x, counted %v", n, got, counted)
			}
		case got == nil:
			t.Error("the whole packet did not pass")
		}
	}
	leak := packet(session(ours), at(there, theirs), ip6.UDP, udp(9))
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	r.must(err)
	defer unix.Close(s)
	to := unix.SockaddrLinklayer{Protocol: hostToNet16(unix.ETH_P_IPV6), Ifindex: int(r.in.index)}
	counted := r.counted(func() {
		if err := unix.Sendto(s, leak, 0, &to); err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	})
	r.wantCounts("leak", counted, counts{"drop_leak": 1})
}

// A correspondent's probe is answered out of the link that it came in on.
func TestRawLinkReflection(t *testing.T) {
	r := newRawRig(t)
	r.upsert(ilnp.Entry{Key: ilnp.SessionKey{Local: ours, Remote: theirs}, State: ilnp.Established, LocalNID: ours, RemoteNID: theirs,
		LocalNonce: ourNonce, RemoteNonce: theirNonce, Seq: 1, Accept: []roam.L64{there}})
	r.in.write(offload{}, echo(t, there, theirNonce, true, 3))
	p, err := ilnpwire.ParsePacket(r.in.read())
	r.must(err)
	if p.Src != at(here, ours) || p.Dst != at(there, theirs) || p.Type != ilnpwire.TypeEchoReply || p.Nonce != ourNonce {
		t.Errorf("reply %+v", p)
	}
}
