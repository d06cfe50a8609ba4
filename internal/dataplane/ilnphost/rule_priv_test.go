package ilnphost

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
	"roam/wire/xlate"
)

// inward is what the model makes of a packet of the correspondent, under a rule.
func inward(t *testing.T, b []byte, rule xlate.Rule, n ilnp.Nonce) []byte {
	t.Helper()
	out, err := xlate.Inward(b, xlate.Entry{SessionPrefix: roam.DefaultSessionPrefix, LocalAlias: ours, LocalNID: ours, LocalL64: here,
		RemoteAlias: theirs, RemoteNID: theirs, RemoteL64: there, Rule: rule, Nonce: n})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Packets without nonce of a peer that counts locators as zero are judged by their own
// checksum, finished or not, GSO packets by the seed that they have; those with its
// nonce keep the session's rule.
func TestRuleOfEachPacket(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	for _, learned := range []bool{false, true} {
		p := entryFor(there)
		p.Rule, p.LocalNonce = ilnp.RuleRFC6741, unlistedNonce(1)
		if learned {
			p.Rule, p.RuleSought, p.LocalNonce = ilnp.RuleIPv6, true, unlistedNonce(2)
		}
		r.upsert(p)
		if learned {
			r.ingress(under(ilnp.FoundRFC6741, false, at(there, theirs), theirNonce, ip6.UDP, udp(30)))
		}
		for _, rule := range []ilnp.FoundRule{ilnp.FoundIPv6, ilnp.FoundRFC6741} {
			for _, c := range []struct {
				name  string
				open  bool
				proto uint8
				body  []byte
				set   []func(*ebpf.RunOptions)
			}{
				{"udp", false, ip6.UDP, udp(300), nil},
				{"udp of an odd length", false, ip6.UDP, udp(301), nil},
				{"unfinished udp", true, ip6.UDP, udp(300), nil},
				{"syn", false, ip6.TCP, tcp(flagSYN, 0), nil},
				{"unfinished segment", true, ip6.TCP, tcp(flagACK, 1000), nil},
				{"GSO packet", true, ip6.TCP, tcp(flagACK, 3000), []func(*ebpf.RunOptions){gso}},
				{"long packet", true, ip6.UDP, udp(3000), nil},
			} {
				b := under(rule, c.open, at(there, theirs), ilnp.Nonce{}, c.proto, c.body)
				v, out := r.ingress(b, c.set...)
				want := inward(t, b, map[bool]xlate.Rule{true: xlate.RuleRFC6741}[rule == ilnp.FoundRFC6741], ilnp.Nonce{})
				if v != passOn || !bytes.Equal(out, want) {
					t.Errorf("learned %v, %s under rule %d: verdict %d, %s", learned, c.name, rule, v, difference(out, want))
				}
			}
		}
		damaged := under(ilnp.FoundIPv6, false, at(there, theirs), ilnp.Nonce{}, ip6.UDP, udp(30))
		damaged[len(damaged)-1] ^= 1
		if _, out := r.ingress(damaged); isSound(t, out) {
			t.Error("a damaged packet becomes a sound one")
		}
		if _, out := r.ingress(under(ilnp.FoundIPv6, false, at(there, theirs), theirNonce, ip6.UDP, udp(30))); isSound(t, out) {
			t.Error("a packet with the nonce is taken under the other rule")
		}
	}
	r.events()
	p := entryFor(there)
	p.LocalNonce = unlistedNonce(3)
	r.upsert(p)
	if _, out := r.ingress(under(ilnp.FoundRFC6741, false, at(there, theirs), ilnp.Nonce{}, ip6.UDP, udp(30))); isSound(t, out) {
		t.Error("a peer that does not count locators as zero may do so without its nonce")
	}
}

// isSound reports whether the transport checksum of a delivered packet is right.
func isSound(t *testing.T, b []byte) bool {
	t.Helper()
	c, err := ip6.Walk(b)
	if err != nil {
		t.Fatal(err)
	}
	return ip6.Checksum(c.Header.Src, c.Header.Dst, c.Upper, b[c.UpperOffset:c.End]) == 0
}

// The same before the peer has a session.
func TestRuleOfEachPacketOfPendingPeers(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	from := unlistedPeer(1)
	r.ingress(under(ilnp.FoundRFC6741, false, from, theirNonce, ip6.TCP, tcp(flagSYN, 0)))
	for _, rule := range []ilnp.FoundRule{ilnp.FoundIPv6, ilnp.FoundRFC6741} {
		v, out := r.ingress(under(rule, false, from, ilnp.Nonce{}, ip6.TCP, tcp(flagACK, 50)))
		if v != passOn || !isSound(t, out) {
			t.Errorf("rule %d: verdict %d, checksum right: %v", rule, v, isSound(t, out))
		}
	}
}

// An answer of plain IPv6 does not show the rule of a peer that has sent none yet: it is
// what some of them send whatever their rule is.
func TestRuleIsNotShownWithoutNonce(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	from := unlistedPeer(1)
	r.ingress(mustPacket(t)(ilnpwire.BuildEcho(from, at(here, ours), theirNonce, true, 1, 1, []byte("x"))))
	r.ingress(under(ilnp.FoundIPv6, false, from, ilnp.Nonce{}, ip6.TCP, tcp(flagACK, 5)))
	r.ingress(under(ilnp.FoundRFC6741, false, from, theirNonce, ip6.TCP, tcp(flagACK, 5)))
	if _, q := r.answer(from.NID); !soundUnder(ilnp.FoundRFC6741, q) {
		t.Error("it is answered under the rule of plain IPv6")
	}
}

// A stack answers datagrams as plain IPv6, though it counts locators as zero: the socket
// gets every answer.
func TestLiveOrdinaryAnswers(t *testing.T) {
	r := newLiveRig(t)
	p := entryFor()
	p.Paths = []ilnp.Path{{Local: roam.LinkLocator{Link: r.up.index, L64: here}, Remote: there}}
	p.Rule = ilnp.RuleRFC6741
	r.upsert(p)
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(theirs).Addr(), 5000))
	c, err := net.DialUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(ours).Addr(), 5001)), to)
	r.must(err)
	defer c.Close()
	for size := range 20 {
		b := under(ilnp.FoundIPv6, false, at(there, theirs), ilnp.Nonce{}, ip6.UDP, udp(50*size))
		r.up.write(offload{}, b)
		got := make([]byte, 2048)
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := c.Read(got); err != nil || !bytes.Equal(got[:n], udp(50 * size)[8:]) {
			t.Fatalf("%d bytes: %v, got %d", 50*size, err, n)
		}
	}
}
