package ilnphost

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/wire/golden"
	"roam/wire/ip6"
)

// A device's sum over the whole packet stays true wherever the nonce is taken out.
func TestNonceTakenOutOfSummedPackets(t *testing.T) {
	r := newRig(t)
	for name, c := range goldenCases(t) {
		if c.Direction != golden.Inward || name == "in-udp-zero" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := r.enter(t)
			p := r.install(c)
			defer r.Delete(p.Key)
			v, out, err := tryRun(r.objs.IlnpUplinkIngress, frame(c.Wire), complete)
			if errors.Is(err, unix.EINVAL) {
				t.Log("the kernel's test run knows nothing of CHECKSUM_COMPLETE: not tested")
				return
			}
			r.must(err)
			if v != passOn || !bytes.Equal(out[ethLen:], c.Session) {
				t.Errorf("verdict %d, %s", v, difference(out[ethLen:], c.Session))
			}
		})
	}
}

// A nonce behind more headers than can move is refused whole.
func TestNonceTooFarBehind(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	long := []ip6.Option{{Type: 0x1e, Data: make([]byte, 255)}, {Type: 0x1e, Data: make([]byte, 255)}}
	b := options(t, ip6.DestOpts, with(theirNonce, ip6.UDP, udp(9)), long...)
	got := r.counted(func() {
		if v, _ := r.ingress(packet(at(there, theirs), at(here, ours), ip6.DestOpts, b)); v != shot {
			t.Errorf("verdict %d", v)
		}
	})
	r.wantCounts("behind 520 bytes", got, counts{"drop_kernel_helper": 1})
}

// What is left of a header from which a nonce was taken is what the kernel's own stack
// takes: a socket gets every datagram.
func TestLiveNonceAmongOptions(t *testing.T) {
	r := newLiveRig(t)
	c, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(ours).Addr(), 40001)))
	r.must(err)
	defer c.Close()
	seq, cases := uint32(0), 0
	for name, g := range goldenCases(t) {
		if g.Direction != golden.Inward || !strings.Contains(g.Description, "among options") {
			continue
		}
		chain, err := ip6.Walk(g.Session)
		r.must(err)
		if !chain.Whole() {
			continue
		}
		seq++
		cases++
		p := entryFor()
		p.Seq, p.Accept, p.RemoteNonce = seq, []roam.L64{there}, g.Entry.Nonce
		p.LocalNonce = unlistedNonce(int(seq))
		r.upsert(p)
		r.up.write(offload{}, g.Wire)
		b := make([]byte, 2048)
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := c.Read(b)
		if want := g.Session[chain.UpperOffset+8 : chain.End]; err != nil || !bytes.Equal(b[:n], want) {
			t.Errorf("%s: %v, %s", name, err, difference(b[:n], want))
		}
		r.must(r.Delete(p.Key))
	}
	if cases < 20 {
		t.Errorf("%d cases", cases)
	}
}
