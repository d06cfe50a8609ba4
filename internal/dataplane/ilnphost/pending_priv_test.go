package ilnphost

import (
	"bytes"
	"net/netip"
	"testing"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

var heldCount = counts{"rx_held": 1}

// held expects one packet in the daemon's hands, whole.
func (r *rig) held(what string, b []byte, kind EventKind) Event {
	r.t.Helper()
	var v int
	got := r.counted(func() { v, _ = r.ingress(b) })
	r.wantCounts(what, got, heldCount)
	evs := r.events()
	if v != shot || len(evs) != 1 || evs[0].Kind != kind || !bytes.Equal(evs[0].Packet, b) || evs[0].Bytes != len(b) {
		r.t.Fatalf("%s: verdict %d, events %+v", what, v, evs)
	}
	return evs[0]
}

// TestPendingElsewhere: under a known NID nothing is delivered from where neither its
// record nor its session has it. It waits with the daemon; only echo requests are
// answered. A nonce that comes from two places is answered at the first one only, and
// neither place learns the nonce of the other.
func TestPendingElsewhere(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	s := unlistedPeer(1)
	r.must(r.SetRecord(listed(s)))
	elsewhere := at(else1, s.NID)
	first := r.held("a first segment", knock(elsewhere, theirNonce), PendingPeer)
	again := r.held("from yet another place", knock(at(else2, s.NID), theirNonce), PendingPeer)
	if first.OwnNonce == again.OwnNonce || !first.OwnNonce.Present() || !again.OwnNonce.Present() {
		t.Errorf("answers with %x, then with %x", first.OwnNonce.Value(), again.OwnNonce.Value())
	}
	probe := []byte("sixteen bytes...")
	echo := mustPacket(t)(ilnpwire.BuildEcho(at(else2, s.NID), at(here, ours), theirNonce, true, 9, 7, probe))
	if ev := r.held("an echo request from there", echo, PendingPeer); ev.OwnNonce != again.OwnNonce {
		t.Errorf("would be answered with %x", ev.OwnNonce.Value())
	}
	if other := r.held("another nonce", knock(elsewhere, wrongNonce), PendingPeer); other.OwnNonce == first.OwnNonce {
		t.Error("two nodes get one nonce")
	}
	r.held("a datagram", packet(elsewhere, at(here, ours), ip6.DestOpts, with(theirNonce, ip6.UDP, udp(700))), PendingPeer)
	if v, _ := r.egress(packet(session(ours), session(s.NID), ip6.UDP, udp(9))); v != consumed {
		t.Errorf("verdict %d on a packet to the NID: it is not the pending peer's", v)
	}
	r.wantKinds("a packet to the NID", Miss)
	echo = mustPacket(t)(ilnpwire.BuildEcho(elsewhere, at(here, ours), theirNonce, true, 9, 7, probe))
	v, out := r.ingress(echo)
	if p, err := ilnpwire.ParsePacket(out); v != redirect || err != nil || p.Nonce != first.OwnNonce || p.Dst != elsewhere {
		t.Errorf("echo request: verdict %d, %+v", v, p)
	}
	r.wantKinds("echo request", PendingPeer)
	// The program cannot make room for a longer nonce, so the daemon answers; it is told
	// of the packet once, or it would count the packet twice.
	long := mustPacket(t)(ilnpwire.BuildEcho(elsewhere, at(here, ours), longNonce, true, 9, 7, []byte("sixteen bytes...")))
	if ev := r.held("a probe with a longer nonce", long, PendingPeer); ev.OwnNonce.Len != 4 {
		t.Errorf("would be answered with %x", ev.OwnNonce.Value())
	}
	// Where its record has it, it is delivered at once; and anywhere, if that says so.
	r.check([]verdictCase{{"in its place", knock(s, theirNonce), passOn, deliveredNonce, []EventKind{PendingPeer}}})
	second := unlistedPeer(2)
	r.must(r.SetRecord(Record{NID: second.NID, Anywhere: true}))
	r.check([]verdictCase{{"anywhere", knock(at(else1, second.NID), theirNonce), passOn, deliveredNonce, []EventKind{PendingPeer}}})
	r.must(r.SetRecord(Record{NID: second.NID}))
	r.held("not any more", knock(at(else1, second.NID), unlistedNonce(3)), PendingPeer)
}

// TestPendingIsNotMoved: what a second nonce shows neither moves nor delays the pending
// peer that is answered; from another place it waits, though a record has it there.
func TestPendingIsNotMoved(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	s := unlistedPeer(1)
	r.must(r.SetRecord(Record{NID: s.NID, Locators: []roam.L64{there, else1}}))
	r.ingress(knock(s, theirNonce))
	r.events()
	answered := func(what string, l roam.L64) (own ilnp.Nonce) {
		t.Helper()
		v, p := r.answer(s.NID)
		if v != redirect || p.Dst != at(l, s.NID) {
			t.Errorf("%s: verdict %d, answer to %v", what, v, p.Dst)
		}
		return p.Nonce
	}
	own := answered("first", there)
	for i := range 20 {
		r.held("another nonce from elsewhere", knock(at(else1, s.NID), unlistedNonce(i)), PendingPeer)
		r.ingress(knock(s, unlistedNonce(100+i))) // from its own place it is delivered
		r.events()
	}
	if got := answered("after others", there); got != own {
		t.Errorf("answered with %x, then with %x", own.Value(), got.Value())
	}
	// The daemon gives up one of the others, and then it.
	key := ilnp.SessionKey{Local: ours, Remote: s.NID}
	r.must(r.Dismiss(key, unlistedNonce(3)))
	answered("after another one was given up", there)
	r.must(r.Dismiss(key, theirNonce))
	r.ingress(knock(at(else1, s.NID), theirNonce))
	r.events()
	answered("after it was given up", else1)
}

// TestPendingBesideASession: another nonce in a session's name waits where the session
// does not send to, also where a record has its NID; the session is not touched.
func TestPendingBesideASession(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	r.must(r.SetRecord(Record{NID: theirs, Locators: []roam.L64{there, else1}}))
	ev := r.held("another nonce", fromPeer(else1, wrongNonce, ip6.TCP, tcp(flagSYN, 0)), OtherNonce)
	if ev.OwnNonce == ourNonce {
		t.Error("the session's nonce is shown elsewhere")
	}
	want := packet(session(theirs), session(ours), ip6.UDP, udp(9))
	if v, out := r.ingress(fromPeer(there, none, ip6.UDP, udp(9))); v != passOn || !bytes.Equal(out, want) {
		t.Errorf("the session: verdict %d, %s", v, difference(out, want))
	}
}

// TestOwnIdentifierFromOutside: nobody else is this host; and what is an alias here is
// nobody's NID.
func TestOwnIdentifierFromOutside(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	const alias = roam.NID(0x0200_0000_0000_0001)
	p := entryFor(there)
	p.Key.Remote, p.Validated = alias, []roam.L64{there}
	r.upsert(p)
	own := func(n ilnp.Nonce, next uint8, b []byte) []byte {
		if !n.Present() {
			return packet(at(else1, ours), at(here, ours), next, b)
		}
		return packet(at(else1, ours), at(here, ours), ip6.DestOpts, with(n, next, b))
	}
	refused := counts{"drop_own_nid": 1}
	r.check([]verdictCase{
		{"with a nonce", own(theirNonce, ip6.UDP, udp(9)), shot, refused, nil},
		{"without", own(none, ip6.UDP, udp(9)), shot, refused, nil},
		{"a first segment", own(none, ip6.TCP, tcp(flagSYN, 0)), shot, refused, nil},
		{"neighbour discovery", packet(at(0xfe80<<48, ours), at(here, ours), ip6.ICMPv6, []byte{136, 0, 0, 0, 0, 0, 0, 0}), passOn, nil, nil},
		{"an alias as NID", packet(at(there, alias), at(here, ours), ip6.UDP, udp(9)), shot, counts{"drop_wrong_nonce": 1}, nil},
		{"the same with a nonce", packet(at(there, alias), at(here, ours), ip6.DestOpts, with(theirNonce, ip6.UDP, udp(9))), shot,
			counts{"drop_wrong_nonce": 1}, nil},
	})
	if r2, ok, err := r.LastRefused("drop_own_nid"); err != nil || !ok || r2.Remote.NID != ours {
		t.Errorf("for the security log: %+v, %t, %v", r2, ok, err)
	}
}

// TestTwoAliases: a session that has its correspondent's NID as an alias besides that of
// its key is found by both; what comes in goes to the socket that is connected to one
// of them.
func TestTwoAliases(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	const alias = roam.NID(0x0200_0000_0000_0001)
	p := entryFor(there)
	p.Key.Remote, p.Validated, p.Named = alias, []roam.L64{there}, true
	r.upsert(p)
	own, name, other := session(ours).Addr(), session(theirs).Addr(), session(alias).Addr()
	addressed(t, own, name, other)
	realTCP(t, netip.AddrPortFrom(own, 443), netip.AddrPortFrom(name, 40000))
	realTCP(t, netip.AddrPortFrom(own, 445), netip.AddrPortFrom(other, 40001))
	realUDP(t, netip.AddrPortFrom(own, 5001), netip.AddrPortFrom(name, 5000))
	wire := at(there, theirs)
	for what, to := range map[string]roam.NID{"the name": theirs, "the alias": alias} {
		v, out := r.egress(packet(session(ours), session(to), ip6.UDP, udp(50)))
		if want := packet(at(here, ours), wire, ip6.UDP, udp(50)); v != redirect || !bytes.Equal(out, want) {
			t.Errorf("to %s: verdict %d, %s", what, v, difference(out, want))
		}
	}
	for what, c := range map[string]struct {
		next uint8
		b    []byte
		as   roam.NID
	}{
		"a connection of the name":  {ip6.TCP, segmentOf(40000, 443, flagACK), theirs},
		"a connection of the alias": {ip6.TCP, segmentOf(40001, 445, flagACK), alias},
		"a first segment":           {ip6.TCP, segmentOf(40002, 446, flagSYN), alias},
		"a socket of the name":      {ip6.UDP, udp(9), theirs},
	} {
		want := packet(session(c.as), session(ours), c.next, c.b)
		if v, out := r.ingress(fromPeer(there, none, c.next, c.b)); v != passOn || !bytes.Equal(out, want) {
			t.Errorf("%s: verdict %d, %s", what, v, difference(out, want))
		}
	}
	// A successor finds it by both as well.
	r.close()
	r.open()
	for what, sync := range map[string]bool{"as it was left": false, "synchronised": true} {
		if sync {
			r.must(r.Sync([]ilnp.Entry{p}))
		}
		for _, to := range []roam.NID{theirs, alias} {
			if v, _ := r.egress(packet(session(ours), session(to), ip6.UDP, udp(9))); v != redirect {
				t.Errorf("to %v after a restart, %s: verdict %d", to, what, v)
			}
		}
	}
	p.Named = false
	p.Seq++
	r.upsert(p)
	if v, _ := r.egress(packet(session(ours), session(theirs), ip6.UDP, udp(9))); v != consumed {
		t.Errorf("to the name when it is taken back: verdict %d", v)
	}
}

// TestUpsertLooksBefore: what runs before an entry is seen has its packets reported still, and those behind it are the
// session's. The same where an entry has other nonces wait with the daemon, and the next one does not.
func TestUpsertLooksBefore(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	s := at(else1, theirs)
	r.must(r.SetRecord(listed(at(there, theirs))))
	waits := entryFor(else1)
	waits.Holds, waits.State, waits.RemoteNonce = true, ilnp.Initiated, ilnp.Nonce{Len: 12, Bytes: [12]byte{7}}
	for name, c := range map[string]struct {
		first ilnp.Entry
		kind  EventKind
	}{"none": {kind: PendingPeer}, "one that waits": {waits, OtherNonce}} {
		if c.first.Holds {
			r.must(r.Upsert(c.first, Turn{}))
		}
		entry, looks := entryFor(else1), 0
		entry.Seq = c.first.Seq + 1
		r.must(r.Upsert(entry, Turn{Before: func() {
			looks++
			r.held(name+" before", knock(s, theirNonce), c.kind)
		}}))
		if v, _ := r.ingress(knock(s, theirNonce)); looks != 1 || v != passOn {
			t.Errorf("%s before: %d looks; verdict %d behind the entry", name, looks, v)
		}
		r.must(r.Delete(entry.Key))
	}
}
