package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// answering is a proof at set-up of which one end has something left to do: the other end waits for what leaves first.
type answering struct {
	*proofBench
	h         *bench   // that end
	own, peer roam.NID // of it and of the other one
}

// answerLeft is one in which b has accepted a's offer.
func answerLeft(t *testing.T) answering {
	p := newProofBench(t)
	p.remember()
	p.begun()
	syn := pendingBy(p.a.parse(p.a.sent[0]), p.own, 80)
	syn.Held = true
	p.b.see(syn)
	p.b.HandlePacket(p.b.now, 1, p.a.sent[1].Packet)
	return answering{p, p.b, peerNID, ownNID}
}

// confirmationLeft is one in which a has verified b's answer.
func confirmationLeft(t *testing.T) answering {
	p := newProofBench(t)
	p.remember()
	p.begun()
	p.passed(p.a, p.b)
	for _, s := range p.b.sent {
		if q := p.b.parse(s); q.Type == ilnpwire.TypeEchoRequest {
			p.a.see(pendingBy(q, p.own, len(s.Packet)))
		} else if q.Proof != nil {
			p.a.HandlePacket(p.a.now, 1, s.Packet)
			break
		}
	}
	return answering{p, p.a, ownNID, peerNID}
}

// TestNoInputMeetsAHalfMadeSession: the session that a proof makes is there before any other input is handled.
func TestNoInputMeetsAHalfMadeSession(t *testing.T) {
	ends := map[string]func(t *testing.T) answering{"responder": answerLeft, "initiator": confirmationLeft}
	inputs := map[string]struct {
		handle func(p answering)
		kept   bool // the session is
	}{
		"a peer that is removed": {func(p answering) { p.h.RemovePeer(p.h.now, p.peer) }, false},
		"a peer with another key": {func(p answering) {
			other := ephemeralOf(t, 99)
			own := p.keys[map[roam.NID]int{ownNID: 0, peerNID: 1}[p.own]]
			secret, err := own.Shared(other.Public)
			if err != nil {
				t.Fatal(err)
			}
			p.h.AddPeer(p.h.now, Peer{NID: p.peer, Secret: secret, Public: other.Public})
		}, true},
		"a link that is lost": {func(p answering) { p.h.Detach(p.h.now, 1) }, true},
		"the state": {func(p answering) {
			if p.h.Export(); p.h.sessions[SessionKey{p.own, p.peer}] == nil {
				t.Error("the state is without the session")
			}
		}, true},
		"the mode": {func(p answering) { p.h.SetMode(p.h.now, Duality) }, true},
		"activity": {func(p answering) {
			k := SessionKey{p.own, p.peer}
			p.h.HandleActivity(p.h.now, []Activity{{Key: k, LastTx: p.h.now, LastRx: p.h.now}})
		}, true},
	}
	for end, begin := range ends {
		for name, in := range inputs {
			p := begin(t)
			in.handle(p)
			if len(p.h.rest) > 0 {
				t.Errorf("%s, %s: something is left to do of the proof", end, name)
			}
			p.polled(p.h)
			s := p.session(p.h)
			if (s != nil) != in.kept {
				t.Errorf("%s, %s: a session %t", end, name, s != nil)
			}
			for range 40 {
				p.h.pass(time.Second)
			}
		}
	}
}

// TestReplyToTheProbeAheadOfAnAnswer: it counts for the session, which is made behind that probe.
func TestReplyToTheProbeAheadOfAnAnswer(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.begun()
	p.passed(p.a, p.b)
	probe := p.b.parse(p.b.sent[0])
	if probe.Type != ilnpwire.TypeEchoRequest || p.session(p.b).echoes {
		t.Fatalf("a packet of type %d comes first, the peer echoes %t", probe.Type, p.session(p.b).echoes)
	}
	id, seq := uint16(probe.Payload[4])<<8|uint16(probe.Payload[5]), uint16(probe.Payload[6])<<8|uint16(probe.Payload[7])
	reply, err := ilnpwire.BuildEcho(probe.Dst, probe.Src, p.session(p.a).localNonce, false, id, seq, probe.Payload[8:])
	if err != nil {
		t.Fatal(err)
	}
	p.b.receive(1, reply)
	if !p.session(p.b).echoes {
		t.Errorf("the session has no reply; refused: %v", p.b.RejectedInput())
	}
}

// TestProbeOfAPeerThatProvesIsNotHurried: by further packets of it.
func TestProbeOfAPeerThatProvesIsNotHurried(t *testing.T) {
	p := newProofBench(t)
	p.begun()
	o := pendingBy(p.a.parse(p.a.sent[0]), ofB, len(p.a.sent[0].Packet))
	p.b.see(o)
	for _, d := range []time.Duration{0, pendingProof - 1} {
		p.b.now = p.b.now.Add(d)
		if p.b.see(o); len(p.b.probesSent()) > 0 {
			t.Errorf("a probe leaves after %v", d)
		}
	}
	p.b.now = p.b.now.Add(1)
	if p.b.see(o); len(p.b.probesSent()) != 1 {
		t.Errorf("%d probes leave after %v", len(p.b.probesSent()), pendingProof)
	}
}
