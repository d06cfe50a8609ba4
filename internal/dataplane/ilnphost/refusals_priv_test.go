package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/wire/ip6"
)

// What is refused as a possible forgery is there for the security log: addresses,
// protocol, ports or ICMPv6 type, and when (RFC 6741 §11.1, RFC 6744 §§2 and 7).
func TestRefusalsAreNoted(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	unlisted := roam.ILV{L64: there, NID: 0x0200_0000_0000_0077}
	two := options(t, ip6.TCP, tcp(flagACK, 0), nonceOption(theirNonce.Value()...), nonceOption(theirNonce.Value()...))
	began := time.Now().Add(-time.Second)
	for _, c := range []struct {
		counter string
		packet  []byte
		want    Refusal
	}{
		{"drop_unknown_locator", fromPeer(else1, none, ip6.TCP, tcp(flagACK, 0)), Refusal{Remote: at(else1, theirs), Proto: ip6.TCP}},
		{"drop_wrong_nonce", fromPeer(there, wrongNonce, ip6.UDP, udp(9)), Refusal{Remote: at(there, theirs), Proto: ip6.UDP}},
		{"drop_icmp_no_nonce", echo(t, there, none, true, 1), Refusal{Remote: at(there, theirs), Proto: ip6.ICMPv6, Type: 128}},
		{"drop_update_no_nonce", fromPeer(there, none, ip6.ICMPv6, []byte{156, 0, 0, 0, 0, 0, 0, 0}), Refusal{Remote: at(there, theirs), Proto: ip6.ICMPv6, Type: 156}},
		{"drop_two_nonces", packet(unlisted, at(here, ours), ip6.DestOpts, two), Refusal{Remote: unlisted, Proto: ip6.TCP}},
		{"drop_session_outside", packet(session(theirs), at(here, ours), ip6.UDP, udp(9)), Refusal{Remote: session(theirs)}},
	} {
		if _, ok, err := r.LastRefused(c.counter); ok || err != nil {
			t.Errorf("%s before there was any: %t, %v", c.counter, ok, err)
		}
		if v, _ := r.ingress(c.packet); v != shot {
			t.Errorf("%s: verdict %d", c.counter, v)
		}
		r.events()
		got, ok, err := r.LastRefused(c.counter)
		if !ok || err != nil || got.At.Before(began) || got.At.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: %+v, %t, %v", c.counter, got, ok, err)
		}
		if p := c.want.Proto; (got.SrcPort != 0 && got.DstPort != 0) != (p == ip6.TCP || p == ip6.UDP) {
			t.Errorf("%s: ports %d and %d", c.counter, got.SrcPort, got.DstPort)
		}
		c.want.At, c.want.Link, c.want.SrcPort, c.want.DstPort = got.At, got.Link, got.SrcPort, got.DstPort
		c.want.Local = at(here, ours)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.counter, got, c.want)
		}
	}
	if _, ok, err := r.LastRefused("rx_packets"); ok || err != nil {
		t.Errorf("of packets that are delivered: %t, %v", ok, err)
	}
}
