package ilnphost

import (
	"testing"

	"roam"
	"roam/ilnp"
	"roam/wire/ip6"
)

// TestUnconfirmedIsNotFollowed: a first nonce may be made up, and whoever did that could
// be anywhere. Its packets from elsewhere are refused, and nothing goes there; but an
// answer to a probe is handed over, as its token tells whose it is, and so is an update: it
// may return what ours had drawn.
func TestUnconfirmedIsNotFollowed(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	p.Unconfirmed = true
	r.upsert(p)
	refused := counts{"drop_unknown_locator": 1}
	part := fragment(ip6.ICMPv6, 0, true, update(t, else1, theirNonce)[ip6.HeaderLen+8:])
	r.check([]verdictCase{
		{"from elsewhere", fromPeer(else1, theirNonce, ip6.UDP, udp(9)), shot, refused, []EventKind{LocatorSeen}},
		{"a fragment of an update", fromPeer(else1, theirNonce, ip6.Fragment, part), shot, refused, []EventKind{LocatorSeen}},
		{"without the nonce then", fromPeer(else1, none, ip6.UDP, udp(9)), shot, refused, nil},
	})
	if got := r.send(ip6.UDP, udp(9)); got.Dst.L64 != there {
		t.Errorf("a packet to %v: it follows whoever made the nonce up", got.Dst.L64)
	}
	reply := echo(t, else1, theirNonce, false, r.host.ProbeID)
	if v, _ := r.ingress(reply); v != shot {
		t.Errorf("answer to a probe: verdict %d", v)
	}
	r.wantKinds("answer to a probe", LocatorSeen, Control)
	r.ingress(update(t, else1, theirNonce))
	r.wantKinds("acknowledgement of an update", LocatorSeen, Control)
	p.Seq, p.Unconfirmed = 2, false
	r.upsert(p)
	r.ingress(fromPeer(else1, theirNonce, ip6.UDP, udp(9)))
	if got := r.send(ip6.UDP, udp(9)); got.Dst.L64 != else1 {
		t.Errorf("a packet to %v after it was confirmed", got.Dst.L64)
	}
}

// TestAnnouncedPlaceOfAnother: where a correspondent only announced a locator, and
// another node with its NID shows a nonce there, packets without one are not its own.
func TestAnnouncedPlaceOfAnother(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := namedByPeer(unvalidated(1, there, else1))
	r.upsert(p)
	plain := fromPeer(else1, none, ip6.UDP, udp(9))
	deliver := func(when string, want int) {
		t.Helper()
		if v, _ := r.ingress(plain); v != want {
			t.Errorf("%s: verdict %d, want %d", when, v, want)
		}
		r.events()
	}
	deliver("before", passOn)
	r.ingress(fromPeer(else1, wrongNonce, ip6.UDP, udp(9)))
	deliver("after another node's nonce", shot)
	p.Seq, p.Unvalidated = 2, nil
	r.upsert(p)
	deliver("after it was validated", passOn)
	p.Seq, p.Unrecorded = 3, true
	r.upsert(p)
	deliver("of a node without a record, where it was validated", passOn)
	p = namedByPeer(unvalidated(4, there, else2))
	p.Unrecorded = true
	r.upsert(p)
	plain = fromPeer(else2, none, ip6.UDP, udp(9))
	deliver("of a node without a record, where it only says to be", shot)
	plain = fromPeer(else2, theirNonce, ip6.UDP, udp(9))
	deliver("with its nonce", passOn)
	p = namedByPeer(unvalidated(5, else2))
	p.Unrecorded = true
	r.upsert(p)
	plain = fromPeer(else2, none, ip6.UDP, udp(9))
	deliver("of a node without a record, where all answers go", passOn)
	r.ingress(fromPeer(else1, theirNonce, ip6.UDP, udp(9)))
	deliver("when answers follow its nonce elsewhere", shot)
}

// TestOwnNonceIsShownWhereValidated: whoever claims a session's NID from a locator that
// its correspondent only announced does not learn our nonce.
func TestOwnNonceIsShownWhereValidated(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	shown := func(p ilnp.Entry, from roam.L64) ilnp.Nonce {
		t.Helper()
		r.upsert(p)
		r.ingress(fromPeer(from, wrongNonce, ip6.UDP, udp(9)))
		evs := r.events()
		if len(evs) != 1 || evs[0].Kind != OtherNonce {
			t.Fatalf("events %+v", evs)
		}
		return evs[0].OwnNonce
	}
	if shown(namedByPeer(unvalidated(1, there, else1)), else1) == ourNonce {
		t.Error("our nonce is shown where the correspondent only says to be")
	}
	if shown(unvalidated(2, there, else1), else1) != ourNonce {
		t.Error("another nonce where a record has it")
	}
	if shown(entryFor(there, else1), else1) != ourNonce {
		t.Error("another nonce where it was validated")
	}
}

// TestAliasHoldsNoPlace: a session under an alias does not place its correspondent's
// NID: another nonce from there is not delivered under it before it is validated. A session
// that is found by its NID as well does, and what bears another nonce there is not held.
func TestAliasHoldsNoPlace(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	p.Key.Remote = 0x0600_0000_0000_0001
	p.Validated = []roam.L64{there}
	r.upsert(p)
	r.held("another nonce", fromPeer(there, wrongNonce, ip6.TCP, tcp(flagSYN, 0)), OtherNonce)
	r.must(r.Delete(p.Key))
	p.Named = true
	r.upsert(p)
	got := r.counted(func() { r.ingress(fromPeer(there, wrongNonce, ip6.UDP, udp(9))) })
	r.wantCounts("where the session has the name", got, counts{"drop_wrong_nonce": 1}) // not held
}
