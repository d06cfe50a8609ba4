package sim

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"roam"
	"roam/wire/ip6"
)

// TestLongestPrefix asks a table in which every route but one would hold each address.
func TestLongestPrefix(t *testing.T) {
	var table Routes
	for link, p := range map[roam.LinkID]string{
		1: "::/0", 2: "2001:db8::/32", 3: "2001:db8:0:8000::/49", 4: "2001:db8:0:8000::/64", 5: "2001:db8:0:8000::7/128",
	} {
		table.Add(Route{Prefix: netip.MustParsePrefix(p), Link: link})
	}
	ask := func(addr string, want roam.LinkID) {
		t.Helper()
		if r, ok := table.Lookup(netip.MustParseAddr(addr)); !ok || r.Link != want {
			t.Errorf("%s goes by link %d (%t), want %d", addr, r.Link, ok, want)
		}
	}
	ask("2001:db9::1", 1)
	ask("2001:db8::1", 2)
	ask("2001:db8:0:7fff:ffff:ffff:ffff:ffff", 2)
	ask("2001:db8:0:8001::1", 3)
	ask("2001:db8:0:8000::1", 4)
	ask("2001:db8:0:8000::7", 5)
	table.Add(Route{Prefix: netip.MustParsePrefix("2001:db8:0:8000::7/128"), Link: 6, Metric: 1})
	ask("2001:db8:0:8000::7", 5) // the lower metric
	table.Remove(netip.MustParsePrefix("2001:db8:0:8000::7/128"), 5)
	ask("2001:db8:0:8000::7", 6)
	table.Remove(netip.MustParsePrefix("2001:db8:0:8000::7/128"), 6)
	ask("2001:db8:0:8000::7", 4)
	table.Remove(netip.MustParsePrefix("2001:db8:0:8000::7/64"), 4) // the prefix, not the address, counts
	ask("2001:db8:0:8000::7", 3)
	table.Remove(all, 1)
	if len(table.lengths) != 2 {
		t.Errorf("prefixes of %v bits are looked up, of which there are two", table.lengths)
	}
	if r, ok := table.Lookup(netip.MustParseAddr("2001:db9::1")); ok {
		t.Errorf("no prefix holds it, and it goes by link %d", r.Link)
	}
}

// wantError asks for an error about a packet: from whom, what, and the packet in it.
func wantError(t *testing.T, p Packet, from netip.Addr, typ uint8, word uint32, about Packet) {
	t.Helper()
	c, err := ip6.Walk(p.Bytes)
	if err != nil || c.Upper != ip6.ICMPv6 {
		t.Fatalf("no ICMPv6 message: %v", err)
	}
	m := p.Bytes[c.UpperOffset:]
	if got := binary.BigEndian.Uint32(m[4:]); p.Source() != from || m[0] != typ || m[1] != 0 || got != word {
		t.Errorf("type %d code %d of %v with %d, want type %d of %v with %d", m[0], m[1], p.Source(), got, typ, from, word)
	}
	if ip6.Checksum(p.Source(), p.Destination(), ip6.ICMPv6, m) != 0 {
		t.Error("wrong checksum")
	}
	quoted := Packet{Bytes: m[icmpHead:]}
	if quoted.Source() != about.Source() || quoted.Destination() != about.Destination() || len(p.Bytes) > minMTU {
		t.Errorf("quotes a packet of %v to %v in %d bytes", quoted.Source(), quoted.Destination(), len(p.Bytes))
	}
}

// TestHopLimit counts hops down over two routers.
func TestHopLimit(t *testing.T) {
	w := newWorld(1, path)
	errors, got := listen(w.bystander), listen(w.server)
	for hops, from := range map[uint8]netip.Addr{0: first, 1: first, 2: other} {
		p := udp(standing, serving, 100)
		p.Bytes[7] = hops
		w.bystander.Send(p)
		w.Run(time.Second)
		wantError(t, errors.only(t), from, TimeExceeded, 0, p)
	}
	p := udp(standing, serving, 100)
	p.Bytes[7] = 3
	w.bystander.Send(p)
	w.Run(time.Second)
	if q := got.only(t); q.Bytes[7] != 1 || p.Bytes[7] != 3 {
		t.Errorf("arrives with %d hops left, was sent with %d", q.Bytes[7], p.Bytes[7])
	}
	if c := w.r1.Counts(); c.TimeExceeded != 2 || c.Forwarded != 3 {
		t.Errorf("r1: %+v", c)
	}
}

// TestPacketTooBig has the link between the routers be narrower than those of the hosts.
func TestPacketTooBig(t *testing.T) {
	w := newWorld(1, Params{MTU: 1500})
	w.core.Set(Forward, Params{MTU: 1400})
	errors, got := listen(w.bystander), listen(w.server)
	big := udp(standing, serving, 1401)
	w.bystander.Send(big)
	w.Run(time.Second)
	wantError(t, errors.only(t), first, PacketTooBig, 1400, big)
	if mtu, ok := w.bystander.PathMTU(serving); !ok || mtu != 1400 || len(got.packets) != 0 {
		t.Errorf("path MTU %d (%t), %d packets came", mtu, ok, len(got.packets))
	}
	w.bystander.Send(udp(standing, serving, 1400))
	w.Run(time.Second)
	if p := got.only(t); p.Size() != 1400 {
		t.Errorf("%d bytes came, want 1400", p.Size())
	}
	w.server.Send(udp(serving, standing, 1500)) // the other direction is as wide as ever
	w.Run(time.Second)
	errors.only(t)
	if w.bystander.Send(udp(standing, serving, 1501)); w.lan.Counts(Forward).TooBig != 1 {
		t.Error("a link took a packet beyond its MTU")
	}
	whole := udp(standing, serving, 1401)
	whole.Bytes = append(whole.Bytes, make([]byte, 1401-len(whole.Bytes))...)
	w.bystander.Send(whole) // its error has but a part of it
	w.Run(time.Second)
	wantError(t, errors.only(t), first, PacketTooBig, 1400, whole)
	report := func(about Packet, mtu uint32, want int) {
		t.Helper()
		w.server.Send(ICMP(serving, standing, PacketTooBig, 0, mtu, about.Bytes))
		w.Run(time.Second)
		errors.only(t)
		if got, _ := w.bystander.PathMTU(serving); got != want {
			t.Errorf("path MTU %d after a report of %d, want %d", got, mtu, want)
		}
	}
	report(big, 1450, 1400)                      // an older one
	report(udp(onA, serving, 1500), 1300, 1400)  // of somebody else's packet
	report(udp(standing, onB, 1500), 1300, 1400) // of a packet to somebody else
	report(big, 1000, minMTU)                    // no IPv6 link has less
	// A pair has a path that swallows large packets.
	w.core.SetPair(Forward, Pair{Src: prefix(standing, 128)}, Params{MTU: 1300})
	w.bystander.Send(udp(standing, serving, 1301))
	w.Run(time.Second)
	if len(errors.packets)+len(got.packets) != 0 || w.core.Counts(Forward).TooBig != 1 {
		t.Errorf("%d errors, %d packets", len(errors.packets), len(got.packets))
	}
}

// TestNoRoute asks for what routers say of packets that they cannot forward.
func TestNoRoute(t *testing.T) {
	w := newWorld(1, path)
	errors := listen(w.bystander)
	nowhere := udp(standing, netip.MustParseAddr("2001:db8:9::1"), 100)
	send := func(p Packet) {
		w.bystander.Send(p)
		w.Run(time.Second)
	}
	send(nowhere)
	wantError(t, errors.only(t), other, Unreachable, 0, nowhere)
	w.Disconnect(End{w.server, 1})
	send(udp(standing, serving, 100))
	wantError(t, errors.only(t), other, Unreachable, 0, udp(standing, serving, 100))
	send(ICMP(standing, nowhere.Destination(), TimeExceeded, 0, 0, nowhere.Bytes)) // none about an error
	send(udp(standing, netip.MustParseAddr("fe80::1"), 100))
	send(udp(standing, netip.MustParseAddr("ff0e::1"), 100))
	w.r2.Add(Route{Prefix: prefix(nowhere.Destination(), 48), Blackhole: true})
	send(nowhere)
	w.r1.Remove(all, 3)
	w.r1.Silent = true
	send(nowhere)
	if len(errors.packets) != 0 {
		t.Errorf("%d errors, want none", len(errors.packets))
	}
	if c := w.r2.Counts(); c.NoRoute != 3 || c.Blackholed != 1 {
		t.Errorf("r2: %+v", c)
	}
	if c := w.r1.Counts(); c.NoRoute != 1 || c.Malformed != 2 {
		t.Errorf("r1: %+v", c)
	}
}

// TestHostAnswers asks a host and a router for an echo, and shows a host options that it
// does not know.
func TestHostAnswers(t *testing.T) {
	w := newWorld(1, path)
	in, got := listen(w.bystander), listen(w.server)
	for _, to := range []netip.Addr{serving, other} {
		w.bystander.Send(ICMP(standing, to, EchoRequest, 0, 7<<16|9, []byte("data")))
		w.Run(time.Second)
		p := in.only(t)
		m := p.Bytes[ip6.HeaderLen:]
		same := binary.BigEndian.Uint32(m[4:]) == 7<<16|9 && string(m[icmpHead:]) == "data"
		if p.Source() != to || m[0] != EchoReply || !same {
			t.Errorf("%v answers type %d, %x", p.Source(), m[0], m)
		}
	}
	for option, answered := range map[uint8]bool{0x3e: false, 0x7e: false, 0xbe: true, 0xfe: true} {
		p := udp(standing, serving, 100)
		p.Bytes[6] = ip6.DestOpts
		p.Bytes = append(append(p.Bytes[:ip6.HeaderLen:ip6.HeaderLen], ip6.UDP, 0, 1, 0, option, 2, 0, 0), make([]byte, 8)...)
		w.bystander.Send(p)
		w.Run(time.Second)
		switch {
		case option == 0x3e: // skipped
			got.only(t)
		case answered:
			m := in.only(t).Bytes[ip6.HeaderLen:]
			if m[0] != ParameterProblem || m[1] != unknownOption || binary.BigEndian.Uint32(m[4:]) != ip6.HeaderLen+4 {
				t.Errorf("option %#x: type %d code %d at %d", option, m[0], m[1], binary.BigEndian.Uint32(m[4:]))
			}
		}
		if len(in.packets)+len(got.packets) != 0 {
			t.Errorf("option %#x: %d answers, %d packets taken", option, len(in.packets), len(got.packets))
		}
	}
	w.server.SetAddrs(netip.MustParseAddr("2001:db8:5:1::2"))
	w.bystander.Send(udp(standing, serving, 100))
	w.Run(time.Second)
	if len(got.packets) != 0 {
		t.Error("a host takes what is for an address that it has no more")
	}
}
