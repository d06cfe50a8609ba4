package ilnphost

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/internal/testutil"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// withChecksumState opens the rig's plane anew, as on a kernel that shows programs the
// state of checksums, or on one that does not.
func (r *rig) withChecksumState(shown bool) {
	r.t.Helper()
	r.reload(func(p *Plane) { p.summed = r.checksumState(shown) })
}

func (r *rig) checksumState(shown bool) dataplane.Summed {
	r.t.Helper()
	if !shown {
		return dataplane.Summed{}
	}
	s, err := dataplane.ChecksumState()
	testutil.NeedKernel(r.t, "bpf_cast_to_kern_ctx (Linux 6.2)", err == nil)
	return s
}

// dataValid is VIRTIO_NET_HDR_F_DATA_VALID: a device found the checksum right.
const dataValid = 2

// TestChecksumStates sends packets of a settled session in, whose checksums are in every
// state that a link can give them: not looked at, found right, and left to be finished.
// What passes is what the model makes of them, with and without sight of the state, and a
// wrong checksum stays wrong. CHECKSUM_COMPLETE: TestChecksumComplete.
func TestChecksumStates(t *testing.T) {
	r := newRawRig(t)
	r.uplink(here)
	entry := xlate.Entry{SessionPrefix: roam.DefaultSessionPrefix, LocalAlias: ours, LocalNID: ours, LocalL64: here,
		RemoteAlias: theirs, RemoteNID: theirs, RemoteL64: there}
	for _, shown := range []bool{false, true} {
		r.withChecksumState(shown)
		r.must(r.AttachUplink(r.in.index, false))
		p := entryFor(there)
		r.upsert(p)
		r.settle(p.Key)
		for proto, body := range map[uint8][]byte{ip6.TCP: tcp(flagACK, 333), ip6.UDP: udp(333)} {
			whole := fromPeer(there, none, proto, body)
			off, _, _ := ip6.ChecksumOffset(proto)
			field := ip6.HeaderLen + off
			want, err := xlate.Inward(whole, entry)
			r.must(err)
			r.passes("found right", offload{flags: dataValid}, whole, want)
			r.passes("not looked at", offload{}, whole, want)
			binary.BigEndian.PutUint16(whole[field:], ^ip6.Add(^binary.BigEndian.Uint16(whole[field:]), 7))
			binary.BigEndian.PutUint16(want[field:], ^ip6.Add(^binary.BigEndian.Uint16(want[field:]), 7))
			r.passes("wrong", offload{}, whole, want)
			left, unfinished, _ := seeded(fromPeer(there, none, proto, body), entry)
			finished, err := xlate.Inward(fromPeer(there, none, proto, body), entry)
			r.must(err)
			r.passes("to be finished", left, unfinished, finished)
			if proto == ip6.UDP {
				binary.BigEndian.PutUint16(whole[field:], 0)
				binary.BigEndian.PutUint16(want[field:], 0)
				r.passes("none", offload{}, whole, want)
			}
		}
		r.must(r.Delete(p.Key))
	}
}

func (r rawRig) passes(what string, h offload, p, want []byte) {
	r.t.Helper()
	if got := r.through(h, p); !bytes.Equal(got, want) {
		r.t.Errorf("protocol %d, checksum %s: %s", p[6], what, difference(got, want))
	}
}

// TestLiveChecksumStates sends datagrams of a socket out by a settled session: their
// checksum is left to the device, finished by the stack, or none.
func TestLiveChecksumStates(t *testing.T) {
	testutil.Need(t, "ethtool")
	r := newLiveRig(t)
	e := xlate.Entry{SessionPrefix: roam.DefaultSessionPrefix, LocalAlias: theirs, LocalNID: theirs, LocalL64: there,
		RemoteAlias: ours, RemoteNID: ours, RemoteL64: here}
	for seq, shown := range []bool{false, true} {
		r.withChecksumState(shown)
		r.attach()
		p := entryFor()
		p.Paths = []ilnp.Path{{Local: roam.LinkLocator{Link: r.up.index, L64: here}, Remote: there}}
		p.Seq = uint32(seq + 1)
		r.upsert(p)
		r.settle(p.Key)
		for _, device := range []string{"on", "off"} {
			set := exec.Command("ethtool", "-K", fmt.Sprintf("s%d", os.Getpid()), "tx", device)
			if out, err := set.CombinedOutput(); err != nil {
				t.Fatalf("ethtool: %v\n%s", err, out)
			}
			c, err := net.DialUDP("udp6", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(theirs).Addr(), 5001)))
			r.must(err)
			data := udp(700)[8:]
			if got := r.exchange(c, e, data); !bytes.Equal(got, data) {
				t.Errorf("tx %s: %s", device, difference(got, data))
			}
			r.must(withoutChecksum(c))
			_, err = c.Write(data)
			r.must(err)
			if b := r.sent(); binary.BigEndian.Uint16(b[ip6.HeaderLen+6:]) != 0 || !bytes.Equal(b[ip6.HeaderLen+8:], data) {
				t.Errorf("tx %s, without checksum: %x", device, b)
			}
			c.Close()
		}
	}
}

// A device's sum over a packet of a settled session stays true, whatever the kernel has.
func TestSettledChecksumComplete(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	for _, shown := range []bool{false, true} {
		for _, ipv6 := range []bool{true, false} {
			r.reload(func(p *Plane) { p.csumFlags, p.summed = checksumFlags(ipv6), r.checksumState(shown) })
			p := entryFor(there)
			r.upsert(p)
			r.settle(p.Key)
			for proto, body := range map[uint8][]byte{ip6.TCP: tcp(flagACK, 333), ip6.UDP: udp(333)} {
				b := fromPeer(there, none, proto, body)
				_, want := r.ingress(b)
				_, out, err := tryRun(r.objs.IlnpUplinkIngress, frame(b), complete)
				if err != nil || !bytes.Equal(out[ethLen:], want) {
					t.Errorf("protocol %d, BPF_F_IPV6 %v, state shown %v: %v", proto, ipv6, shown, err)
				}
			}
			r.must(r.Delete(p.Key))
		}
	}
}

// withoutChecksum has a socket send datagrams whose checksum is zero.
func withoutChecksum(c *net.UDPConn) error {
	const noCheck6 = 101 // UDP_NO_CHECK6_TX
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, noCheck6, 1) })
	if failed != nil {
		return failed
	}
	return err
}
