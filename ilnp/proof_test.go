package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
	"roam/wire/ip6"
)

// errorAbout answers a packet of ours with an ICMPv6 error.
func (b *bench) errorAbout(sent []byte, from roam.ILV, n Nonce, typ, code uint8) []byte {
	b.t.Helper()
	h, err := ip6.Parse(sent)
	if err != nil {
		b.t.Fatal(err)
	}
	packet, err := ilnpwire.BuildError(from, roam.ILVFromAddr(h.Src), n, ilnpwire.ErrorMessage{Type: typ, Code: code, Quoted: sent})
	if err != nil {
		b.t.Fatal(err)
	}
	return packet
}

// An error of the node that was asked, with the token and the nonce, is a proof as a
// reply is; one of anybody else, or without either, is none.
func TestErrorThatQuotesAProbe(t *testing.T) {
	peer := roam.ILV{NID: peerNID, L64: netP}
	wrong := Nonce{Len: 4, Bytes: [12]byte{9}}
	ordinary := func(_ testing.TB, p []byte) []byte { return p }
	cut := func(n int) func(testing.TB, []byte) []byte {
		return func(_ testing.TB, p []byte) []byte { return p[:len(p)-n] }
	}
	for name, c := range map[string]struct {
		from      roam.ILV
		nonce     Nonce
		typ, code uint8
		quoted    func(testing.TB, []byte) []byte
		finish    func(testing.TB, []byte) []byte
		want      bool
	}{
		"ordinary rule":    {peer, peerNonce, 1, 4, ordinary, ordinary, true},
		"over NIDs":        {peer, peerNonce, 1, 4, ordinary, overNIDs, true},
		"time exceeded":    {peer, peerNonce, 3, 1, ordinary, ordinary, true},
		"too big":          {peer, peerNonce, 2, 0, ordinary, ordinary, false},
		"no nonce":         {peer, Nonce{}, 1, 4, ordinary, ordinary, false},
		"wrong nonce":      {peer, wrong, 1, 4, ordinary, ordinary, false},
		"of a router":      {roam.ILV{NID: 77, L64: netQ}, peerNonce, 1, 4, ordinary, ordinary, false},
		"of its neighbour": {roam.ILV{NID: 77, L64: netP}, peerNonce, 1, 4, ordinary, ordinary, false},
		"of another place": {roam.ILV{NID: peerNID, L64: netQ}, peerNonce, 1, 4, ordinary, ordinary, false},
		"half a token":     {peer, peerNonce, 1, 4, cut(8), ordinary, false},
		"wrong token": {peer, peerNonce, 1, 4, func(_ testing.TB, p []byte) []byte {
			p = slices.Clone(p)
			p[len(p)-1] ^= 1
			return p
		}, ordinary, false},
	} {
		for _, encap := range []bool{false, true} {
			b := newBench(t, withUDP)
			b.openMute()
			b.remember(t)
			b.pass(3 * time.Second)
			i := slices.IndexFunc(b.sent, func(s Transmit) bool {
				p, err := ilnpwire.ParseControl(s.Packet, testPort)
				return err == nil && p.Type == ilnpwire.TypeEchoRequest && p.Encapsulated == encap
			})
			if i < 0 {
				t.Fatalf("%s: no probe, in UDP %v", name, encap)
			}
			packet := c.finish(t, b.errorAbout(c.quoted(t, b.sent[i].Packet), c.from, c.nonce, c.typ, c.code))
			b.receive(1, packet)
			s := b.sessions[theKey]
			if got := s.remotes.find(netP).validated; got != c.want {
				t.Errorf("%s, in UDP %v: validated %v, want %v", name, encap, got, c.want)
			}
			if s.noUDP != (c.want && encap && c.code == 4) || s.asks {
				t.Errorf("%s, in UDP %v: no UDP %v, Roam %v", name, encap, s.noUDP, s.asks)
			}
			if b.entries[theKey].Encap {
				t.Errorf("%s, in UDP %v: an error has data go without the option", name, encap)
			}
		}
	}
}

// A peer that said that nobody listens at its port gets nothing more in UDP.
func TestClosedPortEndsUDP(t *testing.T) {
	b := newBench(t, withUDP)
	b.openMute()
	b.remember(t)
	b.pass(3 * time.Second)
	for _, s := range b.sent {
		if p, err := ilnpwire.ParseControl(s.Packet, testPort); err == nil && p.Encapsulated {
			b.receive(1, b.errorAbout(s.Packet, p.Dst, peerNonce, 1, 4))
			break
		}
	}
	if k := b.known[peerNID]; !k.noUDP {
		t.Fatal("the record does not know of it")
	}
	b.forget()
	b.remember(t)
	b.prefix(2, netB, roam.Infinite)
	b.withdraw(1, netA)
	b.see(Observation{Trigger: SeenSilence, Key: theKey})
	b.Check(b.now, peerNID, nil)
	for range 60 {
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now}})
		b.drain()
		b.pass(time.Second)
	}
	if n := len(b.sums(ilnpwire.TypeEchoRequest)); n < 10 {
		t.Errorf("%d probes in a minute of silence", n)
	}
	if got := b.encapSent(); len(got) != 0 {
		t.Errorf("%d messages in UDP to a closed port", len(got))
	}
}

// The error proves a pending peer, too.
func TestErrorProvesAPendingPeer(t *testing.T) {
	b := newBench(t, withUDP)
	b.prefix(1, netA, roam.Infinite)
	at := roam.ILV{NID: peerNID, L64: netP}
	for range 10 {
		b.see(Observation{Trigger: SeenPending, Key: theKey, Remote: at, LocalNID: ownNID, Local: roam.LinkLocator{Link: 1, L64: netA}, Nonce: peerNonce,
			OwnNonce: Nonce{Len: 4, Bytes: [12]byte{7}}, Bytes: 80})
		b.pass(time.Second)
	}
	if got := b.sums(ilnpwire.TypeEchoRequest); len(got) < 2 || got[0] || !got[1] {
		t.Fatalf("over NIDs: %v, want the second one", got)
	}
	b.receive(1, overNIDs(t, b.errorAbout(b.sent[0].Packet, at, peerNonce, 1, 4)))
	s := b.sessions[theKey]
	if s == nil || s.state != Established || s.icmp != icmpOverNIDs {
		t.Fatalf("session %+v", s)
	}
}

// A reply counts for the node that was asked only: one with another NID, from the same
// place and with the token, is none of that node, and of no other.
func TestReplyOfAnotherNode(t *testing.T) {
	b := newBench(t)
	b.openMute()
	b.remember(t)
	b.pass(time.Second)
	p := b.probesSent()[0]
	e, err := ilnpwire.ParseEcho(p.Payload)
	if err != nil {
		t.Fatal(err)
	}
	packet, err := ilnpwire.BuildEcho(roam.ILV{NID: 77, L64: netP}, p.Src, Nonce{Len: 4, Bytes: [12]byte{9}}, false, e.ID, e.Seq, e.Data)
	if err != nil {
		t.Fatal(err)
	}
	b.receive(1, packet)
	if len(b.sessions) != 1 || len(b.pending.byKey) != 0 || b.RejectedInput()[reasonToken] != 1 {
		t.Errorf("%d sessions, %d pending, refusals %v", len(b.sessions), len(b.pending.byKey), b.RejectedInput())
	}
	b.reply(p, peerNonce)
	if !b.sessions[theKey].remotes.find(netP).validated {
		t.Error("the probe was answered for its own node, and does not count")
	}
}
