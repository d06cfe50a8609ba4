package ilnphost

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/testutil"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// A connection that is open when its peer turns out to have ILNP stays plain IPv6
// between the locators that it is bound to; all else is of the session. So is
// the next connection with its ports.
func TestConnectionStaysPlain(t *testing.T) {
	t.Run("told by the daemon", func(t *testing.T) {
		r := newRig(t)
		p := entryFor(there)
		p.State = ilnp.Plain
		staysPlain(r, p, func() {})
	})
	t.Run("before the daemon has heard of it", func(t *testing.T) {
		r := newRig(t)
		p := entryFor(there)
		p.State, p.RemoteNonce = ilnp.Initiated, ilnp.Nonce{}
		staysPlain(r, p, func() { r.setLive(p.Key, func(l *noted) { l.Birth, l.Retried = r.known[p.Key].Birth, 1 }) })
	})
}

func staysPlain(r *rig, p ilnp.Entry, retried func()) {
	t := r.t
	r.uplink(here, here+1)
	r.upsert(p)
	retried()
	r.connect(netip.AddrPortFrom(session(ours).Addr(), 40000), netip.AddrPortFrom(session(theirs).Addr(), 443))

	p.State, p.RemoteNonce, p.Rule, p.NonceAlways, p.Seq = ilnp.Established, theirNonce, ilnp.RuleIPv6, true, 2
	p.Paths = []ilnp.Path{{Local: roam.LinkLocator{Link: loopback, L64: here + 1}, Remote: else1}}
	p.Accept = []roam.L64{there}
	r.upsert(p)
	for _, c := range []struct {
		name  string
		proto uint8
		body  []byte
		plain bool
	}{
		{"segment", ip6.TCP, tcp(flagACK, 9), true},
		{"last segment", ip6.TCP, tcp(flagACK|flagFIN, 0), true},
		{"of another connection", ip6.TCP, otherPorts(tcp(flagACK, 9)), false},
		{"datagram", ip6.UDP, udp(9), false},
		{"first segment of the next one", ip6.TCP, tcp(flagSYN, 0), false},
		{"segment of the next one", ip6.TCP, tcp(flagACK, 9), false},
	} {
		var got ilnpwire.Packet
		grown := r.counted(func() { got = r.send(c.proto, c.body) })
		want, nonce, counted := at(here+1, ours), ourNonce, counts{"tx_nonce": 1}
		to := at(else1, theirs)
		if c.plain {
			want, to, nonce, counted = at(here, ours), at(there, theirs), ilnp.Nonce{}, counts{"tx_plain": 1}
		}
		if got.Src != want || got.Dst != to || got.Nonce != nonce {
			t.Errorf("%s: from %v to %v with nonce %v, want %v, %v, %v", c.name, got.Src, got.Dst, got.Nonce, want, to, nonce)
		}
		counted["tx_packets"] = 1
		r.wantCounts(c.name, grown, counted)
	}
}

// Without the locator that it is bound to, such a connection has no path.
func TestPlainConnectionWithoutItsLocator(t *testing.T) {
	r := newRig(t)
	r.uplink(here, here+1)
	p := entryFor(there)
	p.State = ilnp.Plain
	r.upsert(p)
	r.connect(netip.AddrPortFrom(session(ours).Addr(), 40000), netip.AddrPortFrom(session(theirs).Addr(), 443))
	p.State, p.Seq = ilnp.Established, 2
	p.Paths = []ilnp.Path{{Local: roam.LinkLocator{Link: loopback, L64: here + 1}, Remote: there}}
	r.upsert(p)
	r.uplink(here + 1)
	if v, _ := r.egress(toPeer(ip6.TCP, tcp(flagACK, 9))); v != consumed {
		t.Errorf("verdict %d, want %d", v, consumed)
	}
}

func otherPorts(segment []byte) []byte {
	segment[1]++
	return segment
}

// connect opens a connection between two addresses of this namespace, for as long
// as the test runs.
func (r *rig) connect(from, to netip.AddrPort) {
	r.t.Helper()
	ip(r.t, "link set lo up")
	for _, a := range []netip.AddrPort{from, to} {
		ip(r.t, "addr add "+a.Addr().String()+"/128 dev lo nodad")
	}
	l, err := net.Listen("tcp6", to.String())
	r.must(err)
	r.t.Cleanup(func() { l.Close() })
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from), Timeout: time.Second}
	testutil.Eventually(r.t, 10*time.Second, func() bool { // the routes of new addresses come a moment later
		c, err := d.Dial("tcp6", to.String())
		if err == nil {
			r.t.Cleanup(func() { c.Close() })
		}
		return err == nil
	}, "a connection")
}
