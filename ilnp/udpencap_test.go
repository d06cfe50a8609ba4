package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

const testPort = 6740

func withUDP(c *Config) { c.UDPPort = testPort }

// encapSent returns the control messages that were sent in UDP, and forgets all.
func (b *bench) encapSent() (list []ilnpwire.Packet) {
	b.t.Helper()
	for _, s := range b.sent {
		p, err := ilnpwire.ParseControl(s.Packet, testPort)
		if err != nil {
			b.t.Fatal(err)
		}
		if p.Encapsulated {
			list = append(list, p)
		}
	}
	b.forget()
	return list
}

// replyEncapsulated answers a probe in UDP, in UDP.
func (b *bench) replyEncapsulated(p ilnpwire.Packet) {
	b.t.Helper()
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil {
		b.t.Fatal(err)
	}
	e.Request = false
	packet, err := ilnpwire.BuildEncapsulatedEcho(p.Dst, p.Src, peerNonce, e, ilnpwire.EncapsulatedEcho{Port: testPort, FlowLabel: p.FlowLabel})
	if err != nil {
		b.t.Fatal(err)
	}
	b.receive(1, packet)
}

// A first contact whose option is dropped: the second round asks in UDP too, and
// its answer makes the session and lets the held packets go once more.
func TestFirstContactInUDP(t *testing.T) {
	b := newBench(t, withUDP)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if got := b.encapSent(); len(got) != 0 {
		t.Fatalf("%d messages in UDP before the form of the RFCs had its chance", len(got))
	}
	b.pass(probeMin + 10*time.Millisecond)
	probes := b.encapSent()
	if len(probes) != 1 {
		t.Fatalf("%d probes in UDP in the second round, want 1", len(probes))
	}
	b.replyEncapsulated(probes[0])
	p := b.entries[theKey]
	if p.State != Established || !p.Encap || b.count(EncapsulationChanged) != 1 {
		t.Errorf("entry %+v after an answer in UDP", p)
	}
	if i := slices.Index(b.other, Output(Release{Key: theKey})); i < 0 {
		t.Errorf("the first packets are not retransmitted: %v", b.other)
	}
	if s := b.Peers(b.now)[0]; len(s.Encapsulated) != 1 || s.Encapsulated[0].Remote != netP {
		t.Errorf("shown as %+v", s.Encapsulated)
	}
}

// The first nonce that comes in UDP says as much.
func TestFirstNonceInUDP(t *testing.T) {
	b := newBench(t, withUDP)
	b.prefix(1, netA, roam.Infinite)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.forget()
	b.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netP}, Local: roam.LinkLocator{Link: 1, L64: netA}, Nonce: peerNonce, Encapsulated: true})
	if p := b.entries[theKey]; !p.Encap || !slices.Contains(b.other, Output(Release{Key: theKey})) {
		t.Errorf("entry %+v, outputs %v", p, b.other)
	}
}

// encapBench is a session over a path that drops options, told by an
// acknowledgement in UDP.
func encapBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, withUDP)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.pass(10 * encapDoubt) // the first exchange has no answer
	var lu ilnpwire.Packet
	for _, p := range b.encapSent() {
		if p.Type == ilnpwire.TypeLocatorUpdate && p.Src.L64 == netB {
			lu = p
		}
	}
	u, err := ilnpwire.ParseLocatorUpdate(lu.Payload)
	if err != nil {
		t.Fatalf("no update in UDP from the new locator: %v", err)
	}
	ack, err := ilnpwire.BuildUpdate(lu.Dst, lu.Src, peerNonce, u.Ack())
	if err == nil {
		ack, err = ilnpwire.Encapsulate(ack, testPort)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.receive(2, ack)
	if !b.entries[theKey].Encap || b.count(UpdateAcked) != 1 {
		t.Fatalf("entry %+v after an acknowledgement in UDP", b.entries[theKey])
	}
	return b
}

// The form of the RFCs is tried again, ever more rarely, and used again when it
// is answered.
func TestOptionIsTriedAgain(t *testing.T) {
	b := encapBench(t)
	b.forget()
	tries := 0
	for range 30 {
		b.pass(time.Second)
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
		b.drain()
		for _, s := range b.sent {
			if p, err := ilnpwire.ParseControl(s.Packet, testPort); err == nil && p.Type == ilnpwire.TypeEchoRequest && !p.Encapsulated && p.Src.L64 == netB && b.entries[theKey].Encap {
				tries++
				if tries == 4 {
					b.reply(p, peerNonce)
				}
			}
		}
		b.forget()
	}
	if tries != 4 || b.entries[theKey].Encap {
		t.Errorf("%d tries in 30 s, entry %+v", tries, b.entries[theKey])
	}
}

// A correspondent whose updates come in UDP is asked in UDP where it is next, though
// it answers to the form of the RFCs where it was: a firewall in front of us lets in
// what answers, and its updates else not. Once something has come from there, the
// other form follows.
func TestNewPlaceOfAnEncapsulatedPeerIsAskedInBothForms(t *testing.T) {
	b := newBench(t, withUDP)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	if b.entries[theKey].Encap {
		t.Fatal("control in UDP although the form of the RFCs is answered")
	}
	lu, err := ilnpwire.Encapsulate(b.update(netP, peerNonce, updateOf(entry(netQ, 1, 100), entry(netP, 10, 100))), testPort)
	if err != nil {
		t.Fatal(err)
	}
	b.receive(1, lu)
	forms := func() (option, udp int) {
		for _, s := range b.sent {
			p, err := ilnpwire.ParseControl(s.Packet, testPort)
			switch {
			case err != nil || p.Type != ilnpwire.TypeEchoRequest || p.Dst.L64 != netQ:
			case p.Encapsulated:
				udp++
			default:
				option++
			}
		}
		return option, udp
	}
	if option, udp := forms(); option != 0 || udp != 1 {
		t.Errorf("%d probes with the option, %d in UDP, want one in UDP", option, udp)
	}
	b.see(Observation{Trigger: SeenMore, Key: theKey, Remote: roam.ILV{NID: peerNID, L64: netQ}, Bytes: 400, Packets: 4})
	b.pass(time.Second)
	if option, udp := forms(); option == 0 || udp < 2 {
		t.Errorf("%d probes with the option, %d in UDP, want both", option, udp)
	}
}

// A successor knows what its predecessor found out.
func TestEncapPathsAreRestored(t *testing.T) {
	b := encapBench(t)
	next := newBench(t, withUDP)
	if err := next.Restore(b.now, b.Export()); err != nil {
		t.Fatal(err)
	}
	next.drain()
	if !next.entries[theKey].Encap {
		t.Errorf("entry %+v", next.entries[theKey])
	}
}

// Only small packets come back: our own stack is told once, and reminded. Long ones may come back
// from another locator than the one that was asked.
func TestBlackHole(t *testing.T) {
	for name, c := range map[string]struct {
		full, said bool
		from       roam.L64 // of the answers to long packets; zero: whom they asked
		want       int
	}{"black hole": {want: 1}, "all passes": {full: true}, "a router says so": {said: true},
		"all passes, spread over other paths": {full: true, from: netQ}} {
		b := newBench(t, withUDP)
		b.SetLinkMTU(1, 1500)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		told := 0
		tick := func() {
			b.pass(time.Second)
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, Asks: true}})
			b.drain()
			for _, o := range b.other {
				if x, ok := o.(TooBig); ok && x.MTU == 1280 && x.Key == theKey {
					told++
				}
			}
			sent := b.sent
			b.other, b.sent = nil, nil
			for _, s := range sent {
				p, err := ilnpwire.ParseControl(s.Packet, testPort)
				if err != nil || !p.Encapsulated || p.Type != ilnpwire.TypeEchoRequest || s.Whole && !c.full {
					continue
				}
				if s.Whole && c.from != 0 {
					p.Dst.L64 = c.from
				}
				b.replyEncapsulated(p)
			}
			if c.said {
				b.HandleTooBig(b.now, theKey, 1400)
			}
		}
		for range 10 {
			tick()
		}
		if told != c.want || b.count(PathNarrowed) != c.want {
			t.Errorf("%s: told %d times, %d events, want %d", name, told, b.count(PathNarrowed), c.want)
		}
		for range 310 {
			tick()
		}
		if told != 2*c.want || b.count(PathNarrowed) != c.want {
			t.Errorf("%s: told %d times after 5 min, want %d", name, told, 2*c.want)
		}
	}
}
