package ilnphost

import (
	"bytes"
	"testing"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// overNIDs has a packet summed over NIDs.
func overNIDs(t testing.TB, packet []byte) []byte {
	t.Helper()
	b := bytes.Clone(packet)
	if err := ilnpwire.FinishOverNIDs(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// A probe is answered by the rule by which it came, whoever asks, also in UDP.
func TestReflectionKeepsTheRule(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	r.must(r.SetRecord(Record{NID: unlistedPeer(1).NID, Locators: []roam.L64{there}}))
	for name, from := range map[string]roam.ILV{"session": at(there, theirs), "pending peer": unlistedPeer(1)} {
		for _, nids := range []bool{false, true} {
			for _, encap := range []bool{false, true} {
				b := mustPacket(t)(ilnpwire.BuildEcho(from, at(here, ours), theirNonce, true, 9, 7, []byte("sixteen bytes...")))
				if nids {
					b = overNIDs(t, b)
				}
				if encap {
					b = mustPacket(t)(ilnpwire.Encapsulate(b, encapPort))
				}
				v, out := r.ingress(b)
				if v != redirect {
					t.Fatalf("%s, over NIDs %v, in UDP %v: verdict %d", name, nids, encap, v)
				}
				p, err := ilnpwire.ParseControl(out, encapPort)
				if err != nil || p.Type != ilnpwire.TypeEchoReply || p.OverNIDs != nids || p.Encapsulated != encap {
					t.Errorf("%s, over NIDs %v, in UDP %v: reply %+v, %v", name, nids, encap, p, err)
				}
				r.events()
			}
		}
	}
}

// A message over NIDs is delivered as one that is right, where its nonce permits that:
// of a session whatever is known of its rule, and of a pending peer. Without nonce, or
// damaged, it stays wrong.
func TestICMPShowsItsRule(t *testing.T) {
	ping := func(from roam.ILV, n ilnp.Nonce) []byte {
		return mustPacket(t)(ilnpwire.BuildEcho(from, at(here, ours), n, false, 1, 7, []byte("odd length, 19 byte")))
	}
	r := newRig(t)
	r.uplink(here)
	r.must(r.SetRecord(Record{NID: unlistedPeer(1).NID, Locators: []roam.L64{there}}))
	for _, rule := range []ilnp.ChecksumRule{ilnp.RuleIPv6, ilnp.RuleRFC6741} {
		p := entryFor(there)
		p.ICMPRule, p.Rule = rule, ilnp.RuleRFC6741
		r.upsert(p)
		for name, c := range map[string]struct {
			packet []byte
			good   bool
		}{
			"ordinary":                {ping(at(there, theirs), theirNonce), true},
			"over NIDs":               {overNIDs(t, ping(at(there, theirs), theirNonce)), true},
			"pending peer":            {ping(unlistedPeer(1), theirNonce), true},
			"pending peer, over NIDs": {overNIDs(t, ping(unlistedPeer(1), theirNonce)), true},
			"damaged":                 {damaged(overNIDs(t, ping(at(there, theirs), theirNonce))), false},
		} {
			v, out := r.ingress(c.packet)
			r.events()
			if _, err := ilnpwire.ParsePacket(out); v != passOn || (err == nil) != c.good {
				t.Errorf("rule %v, %s: verdict %d, %v", rule, name, v, err)
			}
		}
	}
	p := entryFor(there)
	p.State, p.ICMPRule = ilnp.Plain, ilnp.RuleRFC6741
	r.upsert(p)
	v, out := r.ingress(ping(at(there, theirs), none))
	if _, err := ilnpwire.ParsePacket(out); v != passOn || err != nil {
		t.Errorf("plain: verdict %d, %v", v, err)
	}
	b := bytes.Clone(ping(at(there, theirs), none))
	sum := ip6.Checksum(roam.ILV{NID: theirs}.Addr(), roam.ILV{NID: ours}.Addr(), ip6.ICMPv6, append([]byte{129, 0, 0, 0}, b[44:]...))
	b[42], b[43] = byte(sum>>8), byte(sum)
	v, out = r.ingress(b)
	if _, err := ilnpwire.ParsePacket(out); v != passOn || err == nil {
		t.Errorf("plain, over NIDs: verdict %d, and the sum is right", v)
	}
}

// A first fragment shows nothing: it goes by the rule of the session, and the stack sums
// the whole.
func TestICMPRuleOfFragments(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	body := append([]byte{129, 0, 0x12, 0x34}, make([]byte, 28)...)
	b := packet(at(there, theirs), at(here, ours), ip6.DestOpts, with(theirNonce, ip6.Fragment, fragment(ip6.ICMPv6, 0, true, body)))
	for rule, same := range map[ilnp.ChecksumRule]bool{ilnp.RuleIPv6: false, ilnp.RuleRFC6741: true} {
		p := entryFor(there)
		p.ICMPRule = rule
		r.upsert(p)
		v, out := r.ingress(b)
		if v != passOn || bytes.Contains(out, body[:4]) != same {
			t.Errorf("rule %v: verdict %d, %x", rule, v, out)
		}
	}
}

func damaged(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)-1] ^= 0x40
	return b
}

// What leaves is by the session's rule for ICMPv6, whatever that for TCP and UDP.
func TestICMPRuleOfWhatLeaves(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	ping := mustPacket(t)(ilnpwire.BuildEcho(session(ours), session(theirs),
		ilnp.Nonce{}, true, 77, 1, []byte("odd length, 19 byte")))
	for _, state := range []ilnp.SessionState{ilnp.Established, ilnp.Plain} {
		for _, icmp := range []ilnp.ChecksumRule{ilnp.RuleIPv6, ilnp.RuleRFC6741} {
			for _, rule := range []ilnp.ChecksumRule{ilnp.RuleIPv6, ilnp.RuleRFC6741} {
				p := entryFor(there)
				p.State, p.Rule, p.ICMPRule = state, rule, icmp
				r.upsert(p)
				v, out := r.egress(ping)
				q, err := ilnpwire.ParsePacket(out)
				if want := icmp == ilnp.RuleRFC6741 && state == ilnp.Established; v != redirect || err != nil || q.OverNIDs != want {
					t.Errorf("%v, rules %v and %v: verdict %d, %+v, %v", state, rule, icmp, v, q, err)
				}
			}
		}
	}
}

// An error that may answer a probe to a pending peer that waits is the daemon's.
func TestErrorOfAWaitingPeer(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.must(r.SetRecord(Record{NID: unlistedPeer(1).NID, Locators: []roam.L64{else1}}))
	peer := unlistedPeer(1)
	if v, _ := r.ingress(packet(peer, at(here, ours), ip6.DestOpts, with(theirNonce, ip6.UDP, udp(20)))); v != shot {
		t.Fatalf("verdict %d on a packet that waits", v)
	}
	r.events()
	probe := mustPacket(t)(ilnpwire.BuildEcho(at(here, ours), peer, ourNonce, true, r.host.ProbeID, 1, make([]byte, 16)))
	for _, c := range []struct {
		nonce ilnp.Nonce
		want  int
	}{{theirNonce, 1}, {none, 0}} {
		b := mustPacket(t)(ilnpwire.BuildError(peer, at(here, ours), c.nonce,
			ilnpwire.ErrorMessage{Type: ilnpwire.TypeUnreachable, Code: 4, Quoted: probe}))
		r.ingress(b)
		if ks := r.kinds(); len(ks) != c.want {
			t.Errorf("nonce of %d bytes: events %v", c.nonce.Len, ks)
		}
	}
}
