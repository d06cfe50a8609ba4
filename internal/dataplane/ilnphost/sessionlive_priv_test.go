package ilnphost

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/testutil"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// liveRig is a whole host: a session device, and an uplink whose other end is
// the model in Go.
type liveRig struct {
	*rig
	up tunnel
}

func newLiveRig(t *testing.T) liveRig {
	testutil.Need(t, "ip")
	r := liveRig{rig: newRig(t)}
	dev, far := fmt.Sprintf("s%d", os.Getpid()), fmt.Sprintf("x%d", os.Getpid())
	r.up = newTunnel(t, fmt.Sprintf("up%d", os.Getpid()))
	for _, line := range []string{
		"link add " + dev + " type veth peer name " + far,
		"link set " + dev + " arp off up",
		"link set " + far + " arp off up",
		"-6 addr add " + session(ours).Addr().String() + "/128 dev " + dev + " nodad",
		"-6 route add " + roam.DefaultSessionPrefix.Prefix().String() + " dev " + dev,
		"-6 route add 2001:db8::/32 dev up" + fmt.Sprint(os.Getpid()),
	} {
		ip(t, line)
	}
	wantLocal(t, session(ours).Addr())
	r.attach()
	r.must(r.SetUplinks([]UplinkEntry{{Local: roam.LinkLocator{Link: r.up.index, L64: here}, Usable: true, MTU: 1500}}))
	return r
}

// attach puts the programs on the links.
func (r liveRig) attach() {
	r.t.Helper()
	index := func(name string) roam.LinkID {
		l, err := net.InterfaceByName(fmt.Sprint(name, os.Getpid()))
		r.must(err)
		return roam.LinkID(l.Index)
	}
	r.must(r.AttachSession(index("s"), index("x")))
	r.must(r.AttachUplink(r.up.index, false))
}

// sent returns the next packet of ours on the wire.
func (r liveRig) sent() []byte {
	r.t.Helper()
	for {
		p := r.up.read()
		if c, err := ip6.Walk(p); err == nil && roam.ILVFromAddr(c.Header.Src) == at(here, ours) {
			return p
		}
	}
}

// exchange sends data through an ordinary socket, lets the model at the other
// end send the same back, and returns what the socket receives.
func (r liveRig) exchange(c *net.UDPConn, e xlate.Entry, data []byte) []byte {
	r.t.Helper()
	if _, err := c.Write(data); err != nil {
		r.t.Fatalf("send %d bytes: %v", len(data), err)
	}
	in, err := xlate.Inward(r.sent(), e)
	r.must(err)
	chain, err := ip6.Walk(in)
	r.must(err)
	up := bytes.Clone(in[chain.UpperOffset:chain.End])
	if chain.Upper != ip6.UDP || !bytes.Equal(up[8:], data) ||
		ip6.Checksum(chain.Header.Src, chain.Header.Dst, ip6.UDP, up) != 0 {
		r.t.Errorf("the other end has\n%x", in)
	}
	copy(up, append(bytes.Clone(up[2:4]), up[0:2]...)) // ports
	out, err := xlate.Outward(packet(session(theirs), session(ours), ip6.UDP, up), e)
	r.must(err)
	r.up.write(offload{}, out)
	back := make([]byte, 2048)
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := c.Read(back)
	r.must(err)
	return back[:n]
}

// An ordinary UDP socket, the programs and the kernel on one side, the model on
// the other: both checksum rules, with and without nonces.
func TestLiveSession(t *testing.T) {
	r := newLiveRig(t)
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(theirs).Addr(), 5001))
	c, err := net.DialUDP("udp6", nil, to)
	r.must(err)
	defer c.Close()
	seq := uint32(0)
	for _, rule := range []ilnp.ChecksumRule{ilnp.RuleIPv6, ilnp.RuleRFC6741} {
		for _, n := range []ilnp.Nonce{{}, ourNonce, longNonce} {
			seq++
			p := entryFor()
			p.Paths = []ilnp.Path{{Local: roam.LinkLocator{Link: r.up.index, L64: here}, Remote: there}}
			p.Rule, p.Seq = rule, seq
			e := xlate.Entry{SessionPrefix: roam.DefaultSessionPrefix, LocalAlias: theirs, LocalNID: theirs, LocalL64: there,
				RemoteAlias: ours, RemoteNID: ours, RemoteL64: here}
			if rule == ilnp.RuleRFC6741 {
				e.Rule = xlate.RuleRFC6741
			}
			if n.Present() {
				p.LocalNonce, p.RemoteNonce, p.NonceUntil = n, n, time.Now().Add(time.Hour)
				e.Nonce = n
			}
			r.upsert(p)
			for _, size := range []int{1, 100, 1400} {
				data := udp(size)[8:]
				if got := r.exchange(c, e, data); !bytes.Equal(got, data) {
					t.Errorf("rule %d, nonce of %d, %d bytes: %s", rule, n.Len, size, difference(got, data))
				}
			}
		}
	}
}

// A socket that sends to a correspondent without a session is told that all is
// well; what the programs consumed does not come back.
func TestLiveMiss(t *testing.T) {
	r := newLiveRig(t)
	c, err := net.DialUDP("udp6", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(theirs).Addr(), 5001)))
	r.must(err)
	defer c.Close()
	if _, err := c.Write([]byte("first")); err != nil {
		t.Errorf("send: %v", err)
	}
	evs := r.events()
	if len(evs) != 1 || evs[0].Kind != Miss {
		t.Fatalf("events %+v", evs)
	}
	// The kernel left the checksum to a device: only its seed is here.
	if p, err := ilnpwire.ParsePacket(evs[0].Packet); err != nil || p.Proto != ip6.UDP || string(p.Payload[8:]) != "first" {
		t.Errorf("handed over %+v: %v", p, err)
	}
}

// A packet on the session device may be larger than what is handed over.
func TestLiveMissTooBig(t *testing.T) {
	r := newLiveRig(t)
	ip(t, fmt.Sprintf("link set s%d mtu 9000", os.Getpid()))
	c, err := net.DialUDP("udp6", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(theirs).Addr(), 5001)))
	r.must(err)
	defer c.Close()
	const largest = 8191 - ip6.HeaderLen - 8
	for size, want := range map[int]counts{largest: {"miss_handed_over": 1}, largest + 1: {"drop_too_big": 1}} {
		got := r.counted(func() {
			if _, err := c.Write(make([]byte, size)); err != nil {
				t.Errorf("send %d bytes: %v", size, err)
			}
		})
		r.wantCounts(fmt.Sprintf("%d bytes", size), got, want)
		for _, ev := range r.events() {
			if len(ev.Packet) != size+ip6.HeaderLen+8 {
				t.Errorf("%d bytes of %d were handed over", len(ev.Packet), size)
			}
		}
	}
}
