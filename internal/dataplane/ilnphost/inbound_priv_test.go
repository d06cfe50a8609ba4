package ilnphost

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// verdictCase is one packet from outside and what must become of it.
type verdictCase struct {
	name    string
	packet  []byte
	verdict int
	counts  counts
	events  []EventKind
}

// check runs the cases against the sessions that the rig has now. A packet
// that passes without being counted must pass untouched.
func (r *rig) check(cases []verdictCase) {
	r.t.Helper()
	for _, c := range cases {
		var v int
		var out []byte
		got := r.counted(func() { v, out = r.ingress(c.packet) })
		if v != c.verdict {
			r.t.Errorf("%s: verdict %d, want %d", c.name, v, c.verdict)
		}
		r.wantCounts(c.name, got, c.counts)
		r.wantKinds(c.name, c.events...)
		if v == passOn && c.counts["rx_packets"] == 0 && !bytes.Equal(out, c.packet) {
			r.t.Errorf("%s: passes, but %s", c.name, difference(out, c.packet))
		}
	}
}

var (
	delivered      = counts{"rx_packets": 1}
	deliveredNonce = counts{"rx_packets": 1, "rx_nonce": 1}
	none           ilnp.Nonce
	wrongNonce     = ilnp.Nonce{Len: 4, Bytes: [12]byte{1, 2, 3, 4}}
)

// options is a Destination Options header with the given options and body.
func options(t testing.TB, next uint8, body []byte, list ...ip6.Option) []byte {
	t.Helper()
	b, err := ip6.AppendOptions(nil, next, list)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, body...)
}

func nonceOption(n ...byte) ip6.Option { return ip6.Option{Type: 0x8b, Data: n} }

// fragment is a Fragment header, with the offset in units of 8 bytes.
func fragment(next uint8, offset uint16, more bool, body []byte) []byte {
	h := []byte{next, 0, 0, 0, 0, 0, 0, 9}
	binary.BigEndian.PutUint16(h[2:], offset<<3)
	if more {
		h[3] |= 1
	}
	return append(h, body...)
}

// What an established session accepts and refuses.
func TestInboundOfSession(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	p.Accept = []roam.L64{else1}
	r.upsert(p)
	dest := func(next uint8, list ...ip6.Option) []byte {
		return packet(at(there, theirs), at(here, ours), ip6.DestOpts, options(t, next, tcp(flagACK, 30), list...))
	}
	r.check([]verdictCase{
		{"no nonce, known locator", fromPeer(there, none, ip6.TCP, tcp(flagACK, 9)), passOn, delivered, nil},
		{"no nonce, locator in grace", fromPeer(else1, none, ip6.TCP, tcp(flagACK, 9)), passOn, counts{"rx_packets": 1, "rx_stale_locator": 1}, nil},
		{"no nonce, unknown locator", fromPeer(else2, none, ip6.TCP, tcp(flagACK, 9)), shot, counts{"drop_unknown_locator": 1}, nil},
		{"right nonce", fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 9)), passOn, deliveredNonce, nil},
		{"right nonce, unknown locator", fromPeer(else2, theirNonce, ip6.UDP, udp(20)), passOn, deliveredNonce, []EventKind{LocatorSeen, More}},
		{"the same again", fromPeer(else2, theirNonce, ip6.UDP, udp(20)), passOn, deliveredNonce, []EventKind{More}},
		{"no nonce, from where the right one was seen", fromPeer(else2, none, ip6.TCP, tcp(flagACK, 9)), passOn, delivered, nil},
		{"no nonce, update from there", fromPeer(else2, none, ip6.ICMPv6, []byte{156, 0, 0, 0, 0, 0, 0, 0}), shot,
			counts{"drop_update_no_nonce": 1}, nil},
		{"wrong nonce, known locator", fromPeer(there, wrongNonce, ip6.TCP, tcp(flagACK, 9)), shot,
			counts{"drop_wrong_nonce": 1}, []EventKind{OtherNonce}},
		{"longer nonce", fromPeer(there, longNonce, ip6.TCP, tcp(flagACK, 9)), shot, counts{"drop_wrong_nonce": 1}, []EventKind{OtherNonce}},
		{"our own nonce", fromPeer(there, ourNonce, ip6.TCP, tcp(flagACK, 9)), shot, counts{"drop_wrong_nonce": 1}, []EventKind{OtherNonce}},
		{"two nonces in one header", dest(ip6.TCP, nonceOption(0x71, 8, 0xde, 0x2b), nonceOption(0x71, 8, 0xde, 0x2b)), shot,
			counts{"drop_two_nonces": 1}, nil},
		{"nonce of 0 bytes", dest(ip6.TCP, nonceOption()), shot, counts{"drop_nonce_length": 1}, nil},
		{"nonce of 3 bytes", dest(ip6.TCP, nonceOption(1, 2, 3)), shot, counts{"drop_nonce_length": 1}, nil},
		{"nonce of 5 bytes", dest(ip6.TCP, nonceOption(1, 2, 3, 4, 5)), shot, counts{"drop_nonce_length": 1}, nil},
		{"nonce of 16 bytes", dest(ip6.TCP, nonceOption(make([]byte, 16)...)), shot, counts{"drop_nonce_length": 1}, nil},
		{"two headers with a nonce each", packet(at(there, theirs), at(here, ours), ip6.DestOpts,
			with(theirNonce, ip6.DestOpts, with(theirNonce, ip6.TCP, tcp(flagACK, 9)))), shot, counts{"drop_two_nonces": 1}, nil},
		{"unknown option, no nonce", dest(ip6.TCP, ip6.Option{Type: 0x3e, Data: []byte{1, 2}}), passOn, delivered, nil},
		{"nonce behind sixteen other options", dest(ip6.TCP, slices.Concat(slices.Repeat([]ip6.Option{{Type: 0x3e, Data: []byte{1}}}, 16),
			[]ip6.Option{nonceOption(theirNonce.Value()...)})...), shot, counts{"drop_malformed": 1}, nil},
		{"option longer than its header", packet(at(there, theirs), at(here, ours), ip6.DestOpts,
			append([]byte{6, 0, 0x3e, 200, 0, 0, 0, 0}, tcp(flagACK, 300)...)), shot, counts{"drop_malformed": 1}, nil},
		{"hop-by-hop header that is not first", packet(at(there, theirs), at(here, ours), ip6.DestOpts,
			with(theirNonce, ip6.HopByHop, append([]byte{6, 0, 1, 4, 0, 0, 0, 0}, tcp(flagACK, 0)...))), shot, counts{"drop_malformed": 1}, nil},
		{"routing header with segments left", packet(at(there, theirs), at(here, ours), ip6.Routing,
			append([]byte{6, 0, 3, 1, 0, 0, 0, 0}, tcp(flagACK, 0)...)), shot, counts{"drop_malformed": 1}, nil},
		{"routing header at its end", packet(at(there, theirs), at(here, ours), ip6.Routing,
			append([]byte{6, 0, 3, 0, 0, 0, 0, 0}, tcp(flagACK, 0)...)), passOn, delivered, nil},
		{"seven headers", packet(at(there, theirs), at(here, ours), ip6.DestOpts, bytes.Repeat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, 7)),
			shot, counts{"drop_malformed": 1}, nil},
		{"icmp without nonce", echo(t, there, none, true, 1), shot, counts{"drop_icmp_no_nonce": 1}, nil},
		{"update without nonce", fromPeer(there, none, ip6.ICMPv6, []byte{156, 0, 0, 0, 0, 0, 0, 0}), shot, counts{"drop_update_no_nonce": 1}, nil},
		{"update without nonce from elsewhere", fromPeer(else2+1, none, ip6.ICMPv6, []byte{156, 0, 0, 0, 0, 0, 0, 0}), shot,
			counts{"drop_unknown_locator": 1}, nil},
		{"update with wrong nonce", update(t, there, unlistedNonce(7)), shot, counts{"drop_update_no_session": 1}, nil},
		{"update with a wrong nonce that came before", update(t, there, wrongNonce), shot, counts{"control_handed_over": 1}, []EventKind{Control}},
		{"update", update(t, there, theirNonce), shot, counts{"control_handed_over": 1}, []EventKind{Control}},
		{"later fragment with nonce", packet(at(there, theirs), at(here, ours), ip6.DestOpts,
			with(theirNonce, ip6.Fragment, fragment(ip6.UDP, 9, false, make([]byte, 5)))), passOn, deliveredNonce, nil},
		{"reply that the daemon did not ask for", echo(t, there, theirNonce, false, 1), passOn, deliveredNonce, nil},
		{"reply that it asked for", echo(t, there, theirNonce, false, r.host.ProbeID), shot, counts{"control_handed_over": 1}, []EventKind{Control}},
		{"the same with a wrong nonce", echo(t, there, wrongNonce, false, r.host.ProbeID), shot,
			counts{"control_handed_over": 1}, []EventKind{Control}},
	})
}

// An update may list 255 locators; the daemon gets it whole.
func TestInboundLargestUpdate(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	r.upsert(p)
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement}
	for i := range ilnpwire.MaxLocators {
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{L64: else1 + roam.L64(i)<<16, Preference: 10, Lifetime: 600})
	}
	whole := mustPacket(t)(ilnpwire.BuildUpdate(at(there, theirs), at(here, ours), theirNonce, lu))
	v, _ := r.ingress(whole)
	r.wantHandedOver(v, shot, Control, p.Key, whole)
}

// What is not about sessions passes untouched, and what must never come from
// outside does not pass.
func TestInboundOfOthers(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	unlisted := roam.NID(0x0200_0000_0000_0077)
	linkLocal := roam.L64(0xfe80_0000_0000_0000)
	plain := func(src, dst roam.ILV) []byte { return packet(src, dst, ip6.TCP, tcp(flagSYN, 0)) }
	nd := func(kind byte) []byte {
		return packet(at(there, theirs), at(here, ours), ip6.ICMPv6, append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 16)...))
	}
	ipv4 := append(append(slices.Concat(ourMAC, theirMAC), 0x08, 0x00), make([]byte, 40)...)
	if v, out := r.run(r.objs.IlnpUplinkIngress, ipv4); v != passOn || !bytes.Equal(out, ipv4) {
		t.Errorf("IPv4: verdict %d, %s", v, difference(out, ipv4))
	}
	// A macvlan or a bridge on the link has another hardware address, and translates itself.
	macvlan := frame(fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 9)))
	copy(macvlan, theirMAC)
	if v, out := r.run(r.objs.IlnpUplinkIngress, macvlan); v != passOn || !bytes.Equal(out, macvlan) {
		t.Errorf("to another device: verdict %d, %s", v, difference(out, macvlan))
	}
	r.check([]verdictCase{
		{"to another address", plain(at(there, theirs), at(here, 0x77)), passOn, nil, nil},
		{"to another address, malformed", packet(at(there, theirs), at(here, 0x77), ip6.DestOpts, []byte{6}), passOn, nil, nil},
		{"from a pending peer without nonce", plain(at(there, unlisted), at(here, ours)), passOn, nil, nil},
		{"to our link-local address", plain(at(linkLocal, unlisted), at(linkLocal, ours)), passOn, nil, nil},
		{"update of a pending peer without nonce", packet(at(there, unlisted), at(here, ours), ip6.ICMPv6, []byte{156, 0, 0, 0, 0, 0, 0, 0}),
			shot, counts{"drop_update_no_nonce": 1}, nil},
		{"session address as source", plain(session(theirs), at(here, ours)), shot, counts{"drop_session_outside": 1}, nil},
		{"session address as destination", plain(at(there, theirs), session(ours)), shot, counts{"drop_session_outside": 1}, nil},
		{"session address as destination of another", plain(at(there, unlisted), session(0x77)), shot, counts{"drop_session_outside": 1}, nil},
		{"neighbour solicitation", nd(135), passOn, nil, nil},
		{"neighbour advertisement", nd(136), passOn, nil, nil},
		{"router advertisement", nd(134), passOn, nil, nil},
		{"multicast listener report", nd(143), passOn, nil, nil},
		{"error about a packet of others", packet(at(else1, 1), at(here, ours), ip6.ICMPv6,
			append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, plain(at(here, ours), at(there, unlisted))...)), passOn, nil, nil},
		{"error that quotes too little", packet(at(else1, 1), at(here, ours), ip6.ICMPv6,
			append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, plain(at(here, ours), at(there, theirs))[:39]...)), passOn, nil, nil},
	})
}

// A session that fell back takes plain IPv6 from its locators, ICMPv6 as well,
// and hears of ILNP again when it sees a nonce.
func TestInboundOfPlainSession(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	p.State, p.Rule = ilnp.Plain, ilnp.RuleRFC6741
	r.upsert(p)
	plain := counts{"rx_packets": 1, "rx_plain": 1}
	r.check([]verdictCase{
		{"tcp", fromPeer(there, none, ip6.TCP, tcp(flagACK, 9)), passOn, plain, nil},
		{"icmp", echo(t, there, none, true, 1), passOn, plain, nil},
		{"from elsewhere", fromPeer(else1, none, ip6.TCP, tcp(flagACK, 9)), shot, counts{"drop_unknown_locator": 1}, nil},
		{"with a nonce", fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 9)), passOn, deliveredNonce, []EventKind{OtherNonce}},
		{"with a nonce from elsewhere", fromPeer(else1, theirNonce, ip6.TCP, tcp(flagACK, 9)), shot, counts{"rx_held": 1}, []EventKind{OtherNonce}},
		{"first segment", fromPeer(there, none, ip6.TCP, tcp(flagSYN, 0)), passOn, counts{"rx_real_socket": 1}, nil},
	})
	want := packet(session(theirs), session(ours), ip6.TCP, tcp(flagACK, 9))
	if _, out := r.ingress(fromPeer(there, none, ip6.TCP, tcp(flagACK, 9))); !bytes.Equal(out, want) {
		t.Errorf("the ordinary checksum holds for plain IPv6: %s", difference(out, want))
	}
}

// A session that we opened learns the correspondent's nonce from the first
// packet that has one; until then nothing without nonce counts, and afterwards
// no other nonce does.
func TestInboundOfInitiatedSession(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	p := entryFor(there)
	p.State, p.RemoteNonce = ilnp.Initiated, none
	r.upsert(p)
	r.check([]verdictCase{
		{"no nonce", fromPeer(there, none, ip6.TCP, tcp(flagSYN|flagACK, 0)), shot, counts{"drop_no_nonce_yet": 1}, nil},
		{"nonce from elsewhere", fromPeer(else1, theirNonce, ip6.TCP, tcp(flagSYN|flagACK, 0)), shot,
			counts{"rx_held": 1}, []EventKind{OtherNonce}},
		{"first nonce", fromPeer(there, theirNonce, ip6.TCP, tcp(flagSYN|flagACK, 0)), passOn, deliveredNonce, []EventKind{NonceSeen}},
		{"the same", fromPeer(there, theirNonce, ip6.TCP, tcp(flagSYN|flagACK, 0)), passOn, deliveredNonce, nil},
		{"no nonce, as a GSO packet", fromPeer(there, none, ip6.TCP, tcp(flagACK, 9)), passOn, delivered, nil},
		{"another", fromPeer(there, wrongNonce, ip6.TCP, tcp(flagSYN|flagACK, 0)), shot, counts{"drop_wrong_nonce": 1}, []EventKind{OtherNonce}},
	})
	acts, err := r.Activity(r.keys())
	r.must(err)
	if len(acts) != 1 || acts[0].LastRx.IsZero() {
		t.Errorf("activity %+v", acts)
	}
}

// Two correspondents with one NID are told apart by where they are.
func TestInboundOfCollisions(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	const alias = roam.NID(0x0200_0000_0000_0001)
	other := entryFor(else1)
	other.Key.Remote, other.RemoteNonce, other.Validated = alias, longNonce, []roam.L64{else1}
	r.upsert(other)
	for _, c := range []struct {
		from roam.L64
		n    ilnp.Nonce
		as   roam.NID
	}{
		{there, none, theirs}, {there, theirNonce, theirs}, {else1, none, alias}, {else1, longNonce, alias},
	} {
		want := packet(session(c.as), session(ours), ip6.UDP, udp(50))
		if v, out := r.ingress(fromPeer(c.from, c.n, ip6.UDP, udp(50))); v != passOn || !bytes.Equal(out, want) {
			t.Errorf("from %v, nonce of %d: verdict %d, %s", c.from, c.n.Len, v, difference(out, want))
		}
	}
	// The nonce says who it is, wherever it comes from (RFC 6741 §5.4).
	for _, c := range []struct {
		from roam.L64
		n    ilnp.Nonce
		as   ilnp.SessionKey
	}{
		{else2, longNonce, other.Key}, {there, longNonce, other.Key}, {else1, theirNonce, entryFor(there).Key}, {else2, theirNonce, entryFor(there).Key},
	} {
		want := packet(session(c.as.Remote), session(ours), ip6.UDP, udp(9))
		if v, out := r.ingress(fromPeer(c.from, c.n, ip6.UDP, udp(9))); v != passOn || !bytes.Equal(out, want) {
			t.Errorf("moved to %v, nonce of %d: verdict %d, %s", c.from, c.n.Len, v, difference(out, want))
		}
		if evs := r.events(); len(evs) != 2 || evs[1].Kind != More || evs[0].Kind != LocatorSeen || evs[0].Key != c.as {
			t.Errorf("moved to %v, nonce of %d: events %+v", c.from, c.n.Len, evs)
		}
	}
	quoted := packet(at(here, ours), at(else1, theirs), ip6.UDP, udp(9))
	v, _ := r.ingress(packet(at(else2, 1), at(here, ours), ip6.ICMPv6, append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, quoted...)))
	if evs := r.events(); v != shot || len(evs) != 1 || evs[0].Kind != ErrorIn || evs[0].Key != other.Key {
		t.Errorf("error about a packet to the other one: verdict %d, events %+v", v, evs)
	}
	r.must(r.Delete(other.Key))
	r.check([]verdictCase{
		{"after its session", fromPeer(else1, none, ip6.UDP, udp(9)), shot, counts{"drop_unknown_locator": 1}, nil},
		{"its nonce then", fromPeer(there, longNonce, ip6.UDP, udp(9)), shot, counts{"drop_wrong_nonce": 1}, []EventKind{OtherNonce}},
	})
}

// Cut off anywhere, a packet of a session never passes translated; each is
// counted.
func TestInboundTruncated(t *testing.T) {
	r := newRig(t)
	r.uplink(here)
	r.upsert(entryFor(there))
	shared := options(t, ip6.TCP, tcp(flagACK, 0), ip6.Option{Type: 0x3e, Data: []byte{1, 2, 3}}, nonceOption(theirNonce.Value()...))
	for name, whole := range map[string][]byte{
		"tcp":             fromPeer(there, none, ip6.TCP, tcp(flagACK, 0)),
		"tcp with nonce":  fromPeer(there, theirNonce, ip6.TCP, tcp(flagACK, 0)),
		"udp":             fromPeer(there, theirNonce, ip6.UDP, udp(3)),
		"shared header":   packet(at(there, theirs), at(here, ours), ip6.DestOpts, shared),
		"echo":            echo(t, there, theirNonce, true, 1),
		"update":          update(t, there, theirNonce),
		"fragment":        packet(at(there, theirs), at(here, ours), ip6.DestOpts, with(theirNonce, ip6.Fragment, fragment(ip6.UDP, 9, false, udp(3)))),
		"twelve and hop":  packet(at(there, theirs), at(here, ours), ip6.HopByHop, append([]byte{60, 0, 1, 4, 0, 0, 0, 0}, with(theirNonce, ip6.TCP, tcp(2, 0))...)),
		"unknown payload": fromPeer(there, theirNonce, 253, make([]byte, 7)),
	} {
		// The kernel's test run refuses what has no whole IPv6 header.
		for n := ip6.HeaderLen; n < len(whole); n++ {
			var v int
			got := r.counted(func() { v, _ = r.ingress(whole[:n]) })
			r.events()
			if v != shot || got["drop_malformed"] != 1 {
				t.Errorf("%s of %d bytes out of %d: verdict %d, counted %v", name, n, len(whole), v, got)
			}
		}
	}
}
