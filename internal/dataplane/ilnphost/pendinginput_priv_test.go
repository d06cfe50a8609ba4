package ilnphost

import (
	"bytes"
	"encoding/binary"
	"testing"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// pending peer is a correspondent that nobody knows.
func unlistedPeer(i int) roam.ILV { return at(there, 0x0200_0000_0001_0000+roam.NID(i)) }

// listed is a record of a pending peer where it is.
func listed(s roam.ILV) Record { return Record{NID: s.NID, Locators: []roam.L64{s.L64}} }

// knock is the first packet of a pending peer.
func knock(from roam.ILV, n ilnp.Nonce) []byte {
	return packet(from, at(here, ours), ip6.DestOpts, with(n, ip6.TCP, tcp(flagSYN, 0)))
}

func unlistedNonce(i int) ilnp.Nonce {
	n := ilnp.Nonce{Len: 4}
	binary.BigEndian.PutUint32(n.Bytes[:], uint32(i)+1)
	return n
}

// answer sends a local application's packet to a correspondent and returns it
// as it is on the wire.
func (r *rig) answer(to roam.NID) (int, ilnpwire.Packet) {
	r.t.Helper()
	v, out := r.egress(packet(session(ours), session(to), ip6.TCP, tcp(flagSYN|flagACK, 0)))
	p, err := ilnpwire.ParsePacket(out)
	r.must(err)
	return v, p
}

// Only known correspondents open sessions, unless all may.
func TestPendingAdmission(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	s := unlistedPeer(1)
	first := knock(s, theirNonce)
	untouched := verdictCase{"unknown, known ones accepted", first, passOn, counts{"rx_not_admitted": 1}, nil}
	r.check([]verdictCase{untouched})
	r.must(r.SetRecord(Record{NID: s.NID, Locators: []roam.L64{s.L64}}))
	made := counts{"rx_packets": 1, "rx_nonce": 1}
	r.check([]verdictCase{{"known", first, passOn, made, []EventKind{PendingPeer}}})
	r.must(r.Forget(s.NID))
	r.check([]verdictCase{untouched})
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	r.check([]verdictCase{
		{"unknown, any accepted", first, passOn, made, []EventKind{PendingPeer}},
		{"from no place", knock(roam.ILV{NID: s.NID}, theirNonce), shot, counts{"drop_malformed": 1}, nil},
		{"from a multicast address", knock(at(0xff02<<48, s.NID), theirNonce), shot, counts{"drop_malformed": 1}, nil},
		{"from a link-local address", knock(at(0xfe80<<48, s.NID), theirNonce), shot, counts{"drop_malformed": 1}, nil},
	})
}

// Those that an earlier process knew, and this one does not, are no longer admitted.
func TestKnownAreSynced(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	stays, goes, comes := unlistedPeer(1), unlistedPeer(2), unlistedPeer(3)
	r.must(r.SetRecord(listed(stays)))
	r.must(r.SetRecord(listed(goes)))
	r.must(r.SyncRecords([]Record{listed(comes), listed(stays)}))
	made := counts{"rx_packets": 1, "rx_nonce": 1}
	r.check([]verdictCase{
		{"known before and now", knock(stays, unlistedNonce(1)), passOn, made, []EventKind{PendingPeer}},
		{"known before only", knock(goes, unlistedNonce(2)), passOn, counts{"rx_not_admitted": 1}, nil},
		{"known now only", knock(comes, unlistedNonce(3)), passOn, made, []EventKind{PendingPeer}},
	})
	r.must(r.SyncRecords(nil))
	r.check([]verdictCase{{"nobody known", knock(stays, unlistedNonce(4)), passOn, counts{"rx_not_admitted": 1}, nil}})
}

// A pending peer is told with all that the daemon needs, its packet is delivered,
// and the answer goes back to where it came from, with the nonce that the
// daemon was told.
func TestPendingAnswer(t *testing.T) {
	r := newRig(t)
	for _, length := range []uint8{4, 12} {
		r.change(func(s *HostSettings) { s.AcceptAny, s.NonceLength = true, length })
		from := unlistedPeer(int(length))
		v, out := r.ingress(knock(from, theirNonce))
		if want := packet(session(from.NID), session(ours), ip6.TCP, tcp(flagSYN, 0)); v != passOn || !bytes.Equal(out, want) {
			t.Errorf("verdict %d, %s", v, difference(out, want))
		}
		evs := r.events()
		if len(evs) != 1 {
			t.Fatalf("events %+v", evs)
		}
		own := evs[0].OwnNonce
		want := Event{Kind: PendingPeer, Link: loopback, Key: ilnp.SessionKey{Local: ours, Remote: from.NID},
			Remote: from, Local: at(here, ours), Nonce: theirNonce, OwnNonce: own}
		if got := evs[0]; got.Packet != nil || got.Kind != want.Kind || got.Link != want.Link || got.Key != want.Key ||
			got.Remote != want.Remote || got.Local != want.Local || got.Nonce != want.Nonce || own.Len != length {
			t.Errorf("event %+v, want %+v", got, want)
		}
		var p ilnpwire.Packet
		got := r.counted(func() { v, p = r.answer(from.NID) })
		if v != redirect || p.Src != at(here, ours) || p.Dst != from || p.Nonce != own {
			t.Errorf("verdict %d, answered %+v with %x, announced %x", v, p, p.Nonce.Bytes, own.Bytes)
		}
		r.wantCounts("answer", got, counts{"tx_packets": 1, "tx_pending": 1, "tx_nonce": 1})
	}
}

// An answer that fills an uplink of the minimum MTU goes without the nonce, or it would be too big.
func TestPendingAnswerFillsLink(t *testing.T) {
	for _, length := range []uint8{4, 12} {
		r := newRig(t)
		other := UplinkEntry{Local: roam.LinkLocator{Link: loopback, L64: here + 1}, Usable: true, MTU: 1500}
		uplink := UplinkEntry{Local: roam.LinkLocator{Link: loopback, L64: here}, Usable: true, MTU: 1280}
		r.must(r.SetUplinks([]UplinkEntry{other, uplink}))
		r.change(func(s *HostSettings) { s.NonceLength = length })
		from := unlistedPeer(int(length))
		r.must(r.SetRecord(listed(from)))
		r.ingress(knock(from, theirNonce))
		option := map[uint8]int{4: 8, 12: 16}[length]
		for _, c := range []struct {
			size int
			how  string
		}{{1280 - option, "tx_nonce"}, {1281 - option, "tx_nonce_left_out"}, {1280, "tx_nonce_left_out"}} {
			var v int
			got := r.counted(func() {
				v, _ = r.egress(packet(session(ours), session(from.NID), ip6.UDP, udp(c.size-40-8)))
			})
			if v != redirect {
				t.Errorf("%d bytes: verdict %d", c.size, v)
			}
			r.wantCounts("answer", got, counts{"tx_packets": 1, "tx_pending": 1, c.how: 1})
		}
	}
}

// What the daemon gave up is forgotten: the next packet to it sets a session up
// with where it may be now, instead of going to where it was seen.
func TestPendingIsForgotten(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	from := unlistedPeer(1)
	r.ingress(knock(from, theirNonce))
	r.wantKinds("knock", PendingPeer)
	r.must(r.Delete(ilnp.SessionKey{Local: ours, Remote: from.NID}))
	r.egress(packet(session(ours), session(from.NID), ip6.TCP, tcp(flagSYN, 0)))
	r.wantKinds("packet to a forgotten pending peer", Miss)
}

// What the daemon does not hear of leaves nothing behind: a Locator Update or the
// answer to a probe, from a correspondent whose session has ended here.
func TestUnlistedOfWhomNothingIsTold(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	from := unlistedPeer(1)
	lu, err := ilnpwire.BuildUpdate(from, at(here, ours), theirNonce, ilnpwire.LocatorUpdate{
		Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{{L64: from.L64, Preference: 10, Lifetime: 60}},
	})
	r.must(err)
	reply, err := ilnpwire.BuildEcho(from, at(here, ours), theirNonce, false, r.host.ProbeID, 1, make([]byte, 16))
	r.must(err)
	for name, p := range map[string][]byte{"update": lu, "reply": reply} {
		r.ingress(p)
		r.events()
		r.egress(packet(session(ours), session(from.NID), ip6.TCP, tcp(flagSYN, 0)))
		r.wantKinds("packet to the sender of a "+name, Miss)
	}
}

// The nonce of a pending peer depends on who and where it is and on the secret, and
// on nothing that a flood of others, or a packet with a forged source, could change.
func TestPendingNonceIsStable(t *testing.T) {
	r := newRig(t)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	own := func(from roam.ILV) ilnp.Nonce {
		t.Helper()
		r.ingress(knock(from, theirNonce))
		evs := r.events()
		if len(evs) != 1 || evs[0].Kind != PendingPeer {
			t.Fatalf("events %+v", evs)
		}
		return evs[0].OwnNonce
	}
	evict := func(from roam.ILV) {
		key := sessionKey(ilnp.SessionKey{Local: ours, Remote: from.NID})
		r.must(r.objs.PendingPeers.Delete(&key))
	}
	a, b, moved := unlistedPeer(1), unlistedPeer(2), at(else1, unlistedPeer(1).NID)
	n := own(a)
	if own(a) != n {
		t.Error("another nonce at the second packet")
	}
	evict(a)
	if own(a) != n {
		t.Error("another nonce after eviction")
	}
	if own(b) == n {
		t.Error("another correspondent has the same nonce")
	}
	if own(moved) == n {
		t.Error("another place learns the nonce of the first one")
	}
	evict(a)
	m := own(moved)
	if m == n {
		t.Error("another place has the same nonce from the start")
	}
	if own(a) != n {
		t.Error("another nonce at the first place, as packets came from elsewhere")
	}
	evict(a)
	own(a)
	r.must(r.RotateSecret())
	if own(a) != n {
		t.Error("another nonce for a pending peer of the epoch before")
	}
	evict(a)
	if own(a) == n {
		t.Error("the same nonce under a new secret")
	}
}

// Pending peers without number fill one bounded table and one ring; a session does
// not notice, nor does what its correspondent has to say.
func TestPendingFlood(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.change(func(s *HostSettings) { s.AcceptAny = true })
	r.upsert(entryFor(there))
	const flood = 20000
	got := r.counted(func() {
		for i := range flood {
			if v, _ := r.ingress(knock(unlistedPeer(i), unlistedNonce(i))); v != passOn {
				t.Fatalf("pending peer %d: verdict %d", i, v)
			}
		}
	})
	if got["rx_packets"] != flood || got["drop_ring_full"]+got["rx_pending_unreported"] == 0 {
		t.Errorf("counted %v", got)
	}
	n := 0
	var key bpfSessionKey
	var val bpfPendingPeer
	for it := r.objs.PendingPeers.Iterate(); it.Next(&key, &val); {
		n++
	}
	if limit := int(r.objs.PendingPeers.MaxEntries()); n > limit || n < limit/2 {
		t.Errorf("%d pending peers, the table is for %d", n, limit)
	}
	// The daemon has heard enough of pending peers; of correspondents it still hears.
	moved := fromPeer(else1, theirNonce, ip6.UDP, udp(20))
	if v, _ := r.ingress(moved); v != passOn {
		t.Errorf("packet of the session: verdict %d", v)
	}
	evs := r.events()
	if len(evs) < 1000 || evs[0].Kind != LocatorSeen {
		t.Errorf("%d events, the first of kind %d", len(evs), evs[0].Kind)
	}
	if v, p := r.answer(theirs); v != redirect || p.Dst != at(else1, theirs) {
		t.Errorf("session sends to %v, verdict %d", p.Dst, v)
	}
	// Who sends again means it, and is told of whatever else comes.
	r.ingress(knock(unlistedPeer(flood-1), unlistedNonce(flood-1)))
	r.wantKinds("again", PendingPeer)
}

// A pending peer's control messages are refused or handed over by what they are.
func TestPendingControl(t *testing.T) {
	r := newRig(t)
	r.must(r.SetRecord(Record{NID: theirs, Locators: []roam.L64{there}}))
	r.check([]verdictCase{
		{"update", update(t, there, theirNonce), shot, counts{"drop_update_no_session": 1}, nil},
		{"reply to a probe", echo(t, there, theirNonce, false, r.host.ProbeID), shot, counts{"control_handed_over": 1}, []EventKind{Control}},
		{"other reply", echo(t, there, theirNonce, false, 1), passOn, deliveredNonce, []EventKind{PendingPeer}},
		{"update after a packet", update(t, there, theirNonce), shot, counts{"control_handed_over": 1}, []EventKind{Control}},
		{"update after a packet with another nonce", update(t, there, longNonce), shot, counts{"drop_update_no_session": 1}, nil},
	})
}

// Probes are answered on the spot, with everything swapped that must be, by
// sessions with their own nonce and by pending peers with theirs.
func TestReflection(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	r.must(r.SetRecord(Record{NID: unlistedPeer(1).NID, Locators: []roam.L64{there}}))
	mine := func(from roam.ILV, n ilnp.Nonce) []byte {
		return mustPacket(t)(ilnpwire.BuildEcho(from, at(here, ours), n, true, 9, 7, []byte("sixteen bytes...")))
	}
	for name, c := range map[string]struct {
		packet []byte
		from   roam.ILV
		own    *ilnp.Nonce
		events int
	}{
		"session":                {mine(at(there, theirs), theirNonce), at(there, theirs), &ourNonce, 0},
		"session from elsewhere": {mine(at(else1, theirs), theirNonce), at(else1, theirs), &ourNonce, 2},
		"pending":                {mine(unlistedPeer(1), theirNonce), unlistedPeer(1), nil, 1},
		"other nonce":            {mine(at(there, theirs), wrongNonce), at(there, theirs), nil, 1},
	} {
		var v int
		var out []byte
		got := r.counted(func() { v, out = r.run(r.objs.IlnpUplinkIngress, frame(c.packet)) })
		if v != redirect || !bytes.Equal(out[:6], theirMAC) || !bytes.Equal(out[6:12], ourMAC) {
			t.Errorf("%s: verdict %d, MAC addresses %x", name, v, out[:12])
		}
		r.wantCounts(name, got, counts{"rx_echo_reflected": 1})
		evs := r.events()
		if len(evs) != c.events {
			t.Fatalf("%s: events %+v", name, evs)
		}
		own := ilnp.Nonce{}
		if c.own != nil {
			own = *c.own
		} else {
			own = evs[0].OwnNonce
		}
		// The codec verifies the checksum too.
		p, err := ilnpwire.ParsePacket(out[ethLen:])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e, err := ilnpwire.ParseEcho(p.Payload)
		if err != nil || e.Request || e.ID != 9 || e.Seq != 7 || string(e.Data) != "sixteen bytes..." {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if p.Src != at(here, ours) || p.Dst != c.from || p.HopLimit != 64 || p.Nonce != own {
			t.Errorf("%s: reply %+v", name, p)
		}
	}
}

// TestOwnNonceStays: whoever comes with another nonce than the session's is shown
// the session's own where its packets go anyway, in whatever state it is, and a
// pending peer's elsewhere; the daemon is told the same.
func TestOwnNonceStays(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	for name, change := range map[string]func(){
		"established": func() {},
		"dead":        func() { p.Dead = true },
		"plain":       func() { p.State, p.RemoteNonce = ilnp.Plain, ilnp.Nonce{} },
	} {
		p = entryFor(there)
		change()
		r.upsert(p)
		for from, known := range map[roam.L64]bool{there: true, else1: false} {
			nonce := wrongNonce
			if !known {
				nonce = ilnp.Nonce{Len: 4, Bytes: [12]byte{4, 3, 2, 1}} // one nonce from two places would wait
			}
			_, out := r.ingress(echo(t, from, nonce, true, 9))
			q, err := ilnpwire.ParsePacket(out)
			r.must(err)
			evs := r.events()
			if len(evs) != 1 || evs[0].Kind != OtherNonce {
				t.Fatalf("%s, from %v: events %+v", name, from, evs)
			}
			if q.Nonce != evs[0].OwnNonce || (q.Nonce == ourNonce) != known || !q.Nonce.Present() {
				t.Errorf("%s, from %v: answered with %x, told %x", name, from, q.Nonce.Value(), evs[0].OwnNonce.Value())
			}
		}
	}
}

// TestProbeWithAnotherLength: a nonce of another length than ours cannot be put
// in the place of the one that came. The stack answers, over the session; only
// probes, and only from where the session's packets go. One from elsewhere the daemon
// answers, which is told once: it counts what came.
func TestProbeWithAnotherLength(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	request := packet(at(there, theirs), at(here, ours), ip6.DestOpts, with(longNonce, ip6.ICMPv6, make([]byte, 8+17)))
	request[40+16] = 128
	r.check([]verdictCase{
		{"probe", echo(t, there, longNonce, true, 9), passOn, deliveredNonce, []EventKind{OtherNonce}},
		{"ping", request, shot, counts{"drop_wrong_nonce": 1}, []EventKind{OtherNonce}},
		{"probe from elsewhere", echo(t, else1, longNonce, true, 9), shot, counts{"rx_held": 1}, []EventKind{OtherNonce}},
	})
}

// What cannot be answered on the spot goes to the stack: fragments, and nonces
// of another length than ours.
func TestReflectionLeftToTheStack(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	p.LocalNonce = longNonce
	r.upsert(p)
	request := []byte{128, 0, 0, 0, 0, 9, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8}
	fragmentFrom := func(from roam.ILV) []byte {
		return packet(from, at(here, ours), ip6.DestOpts, with(theirNonce, ip6.Fragment, fragment(ip6.ICMPv6, 0, true, request)))
	}
	r.must(r.SetRecord(Record{NID: unlistedPeer(1).NID, Locators: []roam.L64{there}}))
	r.check([]verdictCase{
		{"shorter nonce", echo(t, there, theirNonce, true, 9), passOn, deliveredNonce, nil},
		{"fragment", fragmentFrom(at(there, theirs)), passOn, deliveredNonce, nil},
		{"fragment of a pending peer", fragmentFrom(unlistedPeer(1)), passOn, deliveredNonce, []EventKind{PendingPeer}},
	})
}
