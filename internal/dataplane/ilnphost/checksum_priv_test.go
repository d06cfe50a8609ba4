package ilnphost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/internal/testutil"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// complete makes the test run give the packet CHECKSUM_COMPLETE, as a network
// device does that sums whole packets, and fail if that sum is not the packet's
// any more when the program ends.
func complete(o *ebpf.RunOptions) { o.Flags |= checksumComplete }

// withChecksumFlags opens the rig's plane anew with other flags for changed
// pseudo-headers, as on a kernel with or without BPF_F_IPV6.
func (r *rig) withChecksumFlags(ipv6 bool) {
	r.t.Helper()
	r.reload(func(p *Plane) { p.csumFlags = checksumFlags(ipv6) })
}

func checksumFlags(ipv6 bool) uint64 {
	if ipv6 {
		return dataplane.ChecksumFlags()
	}
	return 1 << 4 // BPF_F_PSEUDO_HDR
}

// reload opens the rig's plane anew, with what it finds of the kernel changed, or its label bit. Programs that would
// be the same stay: a guest takes seconds to verify them.
func (r *rig) reload(change func(*Plane)) {
	r.t.Helper()
	p := newPlane(r.opts)
	p.set, p.csumFlags, p.summed = r.set, r.csumFlags, r.summed
	change(p)
	if p.csumFlags == r.csumFlags && p.summed == r.summed && p.opts.LabelBit == r.opts.LabelBit {
		return
	}
	r.close()
	r.must(p.load())
	r.must(errors.Join(p.ticks.start(p.changeHost), p.adopt()))
	r.use(p)
}

// A device's sum over the whole packet stays true through every rewriting, so
// that the stack takes its word for the transport checksum and never cries out
// about the device. It holds with and without the kernel's flag for IPv6.
func TestChecksumComplete(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	_, _, err := tryRun(r.objs.IlnpUplinkIngress, frame(fromPeer(there, none, ip6.TCP, tcp(flagACK, 9))), complete)
	if errors.Is(err, unix.EINVAL) {
		t.Log("the kernel's test run knows nothing of CHECKSUM_COMPLETE: not tested")
		return
	}
	for _, ipv6 := range []bool{true, false} {
		r.withChecksumFlags(ipv6)
		for _, rule := range []ilnp.ChecksumRule{ilnp.RuleIPv6, ilnp.RuleRFC6741} {
			r.completeOf(ipv6, rule)
		}
	}
}

func (r *rig) completeOf(ipv6 bool, rule ilnp.ChecksumRule) {
	r.t.Helper()
	p := entryFor(there)
	p.Rule = rule
	r.upsert(p)
	r.setLive(p.Key, func(l *noted) { l.UnansweredTx = 1 }) // so that echoes are forgotten
	shared := options(r.t, ip6.TCP, tcp(flagACK, 9), ip6.Option{Type: 0x3e, Data: []byte{1, 2, 3}}, nonceOption(theirNonce.Value()...))
	later := fragment(ip6.UDP, 9, false, udp(30))
	src, dst := at(there, theirs), at(here, ours)
	for name, p := range map[string][]byte{
		"tcp":                      fromPeer(there, none, ip6.TCP, tcp(flagACK, 40)),
		"tcp with nonce":           fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 41)),
		"tcp with an old echo":     fromPeer(there, none, ip6.TCP, stamped(flagACK, 41, stamps...)),
		"udp with nonce":           fromPeer(there, theirNonce, ip6.UDP, udp(300)),
		"echo reply":               echo(r.t, there, theirNonce, false, 1),
		"nonce in a shared header": packet(src, dst, ip6.DestOpts, shared),
		"later fragment":           packet(src, dst, ip6.Fragment, later),
		"later fragment, nonce":    packet(src, dst, ip6.DestOpts, with(theirNonce, ip6.Fragment, later)),
		"other transport":          fromPeer(there, theirNonce, 253, make([]byte, 33)),
	} {
		v, out, err := tryRun(r.objs.IlnpUplinkIngress, frame(p), complete)
		if err != nil {
			r.t.Errorf("%s, rule %d, BPF_F_IPV6 %v: %v", name, rule, ipv6, err)
			continue
		}
		_, same := r.ingress(p)
		if v != passOn || !bytes.Equal(out[ethLen:], same) {
			r.t.Errorf("%s, rule %d: verdict %d, %s", name, rule, v, difference(out[ethLen:], same))
		}
	}
}

// notSummed is what bpf_csum_update returns for packets without
// CHECKSUM_COMPLETE (-ENOTSUPP).
const notSummed = -524

// watchSum puts a program behind ours that keeps the device's sum over the
// packet, as the stack is going to see it.
func (r *rig) watchSum(dev roam.LinkID) (last func() int64) {
	r.t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	r.must(err)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, 0),
		asm.FnCsumUpdate.Call(),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.StoreMem(asm.R0, 0, asm.R6, asm.DWord),
		asm.Mov.Imm(asm.R0, passOn).WithSymbol("out"),
		asm.Return(),
	}})
	r.must(err)
	l, err := link.AttachTCX(link.TCXOptions{Interface: int(dev), Program: prog, Attach: ebpf.AttachTCXIngress})
	r.must(err)
	r.t.Cleanup(func() { l.Close(); prog.Close(); m.Close() })
	return func() (v int64) {
		r.t.Helper()
		r.must(m.Lookup(uint32(0), &v))
		return v
	}
}

// folded is a device's sum as package ip6 has it.
func folded(sum int64) uint16 {
	low, high := uint16(sum), uint16(sum>>16)
	return bits.ReverseBytes16(ip6.Add(low, high))
}

// A VXLAN device sums the packets inside: what its sockets get through the
// programs has the right sum, and arrives.
func TestLiveChecksumComplete(t *testing.T) {
	r := newLiveRig(t)
	testutil.NeedKernel(t, "tcx links", r.set.TCX()) // for the program that watches
	name, outside := fmt.Sprintf("v%d", os.Getpid()), at(else2, 1)
	for _, line := range []string{
		"-6 addr add " + outside.Addr().String() + "/128 dev lo nodad",
		"link set lo up",
		"link add " + name + " address 02:00:00:00:00:01 type vxlan id 5 dstport 4789 local " + outside.Addr().String(),
		"link set " + name + " up",
	} {
		ip(t, line)
	}
	wantLocal(t, outside.Addr())
	dev, err := net.InterfaceByName(name)
	r.must(err)
	c, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(ours).Addr(), 5001)))
	r.must(err)
	defer c.Close()
	var last func() int64
	for _, ipv6 := range []bool{true, false} {
		r.withChecksumFlags(ipv6)
		r.must(r.AttachUplink(roam.LinkID(dev.Index), true))
		if last == nil {
			last = r.watchSum(roam.LinkID(dev.Index))
		}
		for seq, rule := range []ilnp.ChecksumRule{ilnp.RuleIPv6, ilnp.RuleRFC6741} {
			p := entryFor()
			p.Rule, p.Seq, p.Accept = rule, uint32(seq+1), []roam.L64{there}
			r.upsert(p)
			for _, n := range []ilnp.Nonce{{}, theirNonce} {
				r.arrives(c, outside, rule, n, last)
			}
		}
	}
}

// arrives sends a datagram of the correspondent through the VXLAN device to a
// socket.
func (r liveRig) arrives(c *net.UDPConn, outside roam.ILV, rule ilnp.ChecksumRule, n ilnp.Nonce, last func() int64) {
	r.t.Helper()
	want := packet(session(theirs), session(ours), ip6.UDP, udp(700))
	e := xlate.Entry{SessionPrefix: roam.DefaultSessionPrefix, LocalAlias: theirs, LocalNID: theirs, LocalL64: there,
		RemoteAlias: ours, RemoteNID: ours, RemoteL64: here, Nonce: n}
	if rule == ilnp.RuleRFC6741 {
		e.Rule = xlate.RuleRFC6741
	}
	inner, err := xlate.Outward(want, e)
	r.must(err)
	tunnelled := append(udp(0)[:8:8], 8, 0, 0, 0, 0, 0, 5, 0) // the VXLAN header: a valid identifier, 5
	f := frame(inner)
	f[0], f[5] = 2, 1 // the device's address
	tunnelled = append(tunnelled, f...)
	binary.BigEndian.PutUint16(tunnelled[2:], 4789)
	binary.BigEndian.PutUint16(tunnelled[4:], uint16(len(tunnelled)))
	r.up.write(offload{flags: dataValid}, packet(at(else1, 1), outside, ip6.UDP, tunnelled))
	b := make([]byte, 2048)
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	l, err := c.Read(b)
	r.must(err)
	if !bytes.Equal(b[:l], udp(700)[8:]) {
		r.t.Errorf("rule %d: %s", rule, difference(b[:l], udp(700)[8:]))
	}
	sum := last()
	if sum == notSummed {
		r.t.Fatal("the packet came without CHECKSUM_COMPLETE")
	}
	if got := folded(sum); ip6.Add(got, ^ip6.Sum(want)) != 0xffff {
		r.t.Errorf("rule %d, nonce of %d: the device's sum is %#04x, the packet's %#04x", rule, n.Len, got, ip6.Sum(want))
	}
}
