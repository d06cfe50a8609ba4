package ilnp

import (
	"slices"
	"strings"
	"testing"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// polled takes what a host wants done, and names it in its order; people are left out.
func (p *proofBench) polled(h *bench) string {
	p.t.Helper()
	steps := map[ilnpwire.ProofStep]string{
		ilnpwire.ProofOffer: "offer", ilnpwire.ProofAnswer: "answer", ilnpwire.ProofConfirm: "confirmation",
		ilnpwire.ProofChallenge: "challenge",
	}
	var names []string
	for o, ok := h.Poll(); ok; o, ok = h.Poll() {
		switch o := o.(type) {
		case Transmit:
			h.sent = append(h.sent, o)
			switch q := h.parse(o); {
			case q.Proof != nil:
				names = append(names, steps[q.Proof.Step])
			case q.Type == ilnpwire.TypeEchoRequest:
				names = append(names, "probe")
			}
		case Upsert:
			h.entries[o.Entry.Key] = o.Entry
			names = append(names, "entry")
		case Admit:
			names = append(names, "admit")
		case Release:
			names = append(names, "release")
		}
	}
	return strings.Join(names, " ")
}

// passed delivers what one host has sent, and names what the other one does.
func (p *proofBench) passed(from, to *bench) (names []string) {
	p.t.Helper()
	sent := from.sent
	from.sent = nil
	for _, s := range sent {
		p.wire = append(p.wire, s.Packet)
		q := from.parse(s)
		if q.Type == ilnpwire.TypeEchoRequest {
			to.HandleObservation(to.now, pendingBy(q, p.own, len(s.Packet)))
		} else {
			to.HandlePacket(to.now, 1, s.Packet)
		}
		names = append(names, p.polled(to))
	}
	return names
}

func pendingBy(q ilnpwire.Packet, own Nonce, bytes int) Observation {
	return Observation{
		Trigger: SeenPending, Key: SessionKey{q.Dst.NID, q.Src.NID}, LocalNID: q.Dst.NID,
		Local: roam.LinkLocator{Link: 1, L64: q.Dst.L64}, Remote: q.Src, Nonce: q.Nonce, OwnNonce: own,
		Bytes: bytes, Packets: 1, Found: FoundProbe,
	}
}

// begun is p whose first packet at a has left.
func (p *proofBench) begun() string {
	p.t.Helper()
	p.a.HandleObservation(p.a.now, Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	return p.polled(p.a)
}

// TestProofOrder: at each end what the other one waits for comes first; packets are delivered only behind that, and
// before an entry by which later ones could overtake them. A confirmation follows the entry, as its receiver sends what
// only that takes.
func TestProofOrder(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	if got := p.begun(); got != "probe offer entry release" {
		t.Errorf("a begins by %q", got)
	}
	if got := p.passed(p.a, p.b); !slices.Equal(got, []string{"", "probe answer entry probe admit release"}) {
		t.Errorf("b does at a's probe and at its offer: %q", got)
	}
	got := p.passed(p.b, p.a)
	first, behind, _ := strings.Cut(got[1], "confirmation")
	if got[0] != "" || !strings.HasPrefix(first, "admit entry") || strings.Contains(first, "probe") ||
		strings.Contains(behind, "entry") {
		t.Errorf("a does at b's probe and at its answer: %q", got)
	}
	p.passed(p.a, p.b)
	p.wantProved()
}

// TestNothingAdmittedUnproven: neither an offer that is forged, one that is challenged, or one that this host cannot
// answer has anything delivered, or makes a session; nor has an answer that is forged.
func TestNothingAdmittedUnproven(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *proofBench)
		want   []string
	}{
		"forged": {func(p *proofBench) {
			p.a.sent[1].Packet = p.forged(p.a.sent[1].Packet)
			p.remember()
		}, []string{"", ""}},
		"challenged": {func(p *proofBench) {}, []string{"", "probe challenge"}},
		"not answered": {func(p *proofBench) {
			p.remember()
			p.b.prover.spare, p.b.known[ownNID].spare = ephemeral{}, ephemeral{}
			p.b.cfg.Rand = &dry{}
		}, []string{"", ""}},
	} {
		p := newProofBench(t)
		p.begun()
		c.change(p)
		if got := p.passed(p.a, p.b); !slices.Equal(got, c.want) {
			t.Errorf("%s: b does %q, want %q", name, got, c.want)
		}
		p.wantNone(name, "")
		if len(p.b.entries) > 0 {
			t.Errorf("%s: it has an entry", name)
		}
	}
	for name, change := range map[string]func(p *proofBench, q ilnpwire.Packet, b []byte) []byte{
		"forged": func(p *proofBench, _ ilnpwire.Packet, b []byte) []byte { return p.forged(b) },
		"by the key alone": func(p *proofBench, q ilnpwire.Packet, _ []byte) []byte {
			f := *q.Proof
			f.Token[0] ^= 1
			return p.sealed(1, netP, f, q.Nonce, p.session(p.a).localNonce)
		},
	} {
		p := newProofBench(t)
		p.remember()
		p.begun()
		p.passed(p.a, p.b)
		for i, s := range p.b.sent {
			if q := p.b.parse(s); q.Proof != nil {
				p.b.sent[i].Packet = change(p, q, s.Packet)
			}
		}
		got := strings.Join(p.passed(p.b, p.a), " ")
		refused := p.a.RejectedInput()
		if strings.Contains(got, "admit") || p.session(p.a).state != Initiated || refused[reasonProofForged] != 1 {
			t.Errorf("an answer %s: a does %q, refused %v", name, got, refused)
		}
	}
}

// TestProofBeforeTheRest: an answer, and what was held for one, can be on its way before the session is there. The
// session is there for what comes next.
func TestProofBeforeTheRest(t *testing.T) {
	offered := func() (p *proofBench, syn Observation) {
		p = newProofBench(t)
		p.remember()
		p.begun()
		probe, offer := p.a.sent[0], p.a.sent[1]
		syn = pendingBy(p.a.parse(probe), p.own, 80)
		syn.Held = true
		p.b.see(syn)
		p.b.HandlePacket(p.b.now, 1, offer.Packet)
		return p, syn
	}
	p, _ := offered()
	for _, want := range []string{"probe", "answer"} {
		o, _ := p.b.Poll()
		if _, is := o.(Transmit); !is || p.session(p.b) != nil {
			t.Errorf("%T in place of the %s, a session %t", o, want, p.session(p.b) != nil)
		}
	}
	if got := p.polled(p.b); got != "admit entry probe admit release" || p.session(p.b) == nil {
		t.Errorf("then it does %q, a session %t", got, p.session(p.b) != nil)
	}
	const whole = "probe answer admit entry probe admit release"
	for name, c := range map[string]struct {
		input func(b *bench, syn Observation, offer []byte)
		more  string
	}{
		"packet of the peer": {func(b *bench, syn Observation, _ []byte) { b.HandleObservation(b.now, syn) }, " admit"},
		"control message": {func(b *bench, _ Observation, offer []byte) {
			b.HandlePacket(b.now, 1, offer)
		}, " probe answer"},
		"timers": {func(b *bench, _ Observation, _ []byte) {
			b.HandleTimeout(b.now.Add(pendingFirst))
		}, " probe probe answer"},
	} {
		p, syn := offered()
		c.input(p.b, syn, p.a.sent[1].Packet)
		if p.session(p.b) == nil || len(p.b.pending.byKey) > 0 {
			t.Errorf("%s: there is no session, or still a pending peer", name)
		}
		if got := p.polled(p.b); got != whole+c.more {
			t.Errorf("%s: b does %q, want %q", name, got, whole+c.more)
		}
	}
	p, _ = offered()
	p.polled(p.b)
	probe := p.b.sent[0]
	p.a.see(pendingBy(p.b.parse(probe), p.own, len(probe.Packet)))
	p.a.HandlePacket(p.a.now, 1, p.b.sent[1].Packet)
	if o, _ := p.a.Poll(); p.session(p.a).state == Established {
		t.Errorf("%T comes first, when the session is there", o)
	} else if _, is := o.(Admit); !is {
		t.Errorf("%T comes first", o)
	}
	p.polled(p.a)
	p.passed(p.a, p.b)
	p.wantProved()
}

// forged is a message of a proof whose MAC is another one.
func (p *proofBench) forged(b []byte) []byte {
	p.t.Helper()
	q, err := ilnpwire.ParsePacket(b)
	if err != nil {
		p.t.Fatal(err)
	}
	lu, err := ilnpwire.ParseLocatorUpdate(q.Payload)
	if err != nil {
		p.t.Fatal(err)
	}
	f := *q.Proof
	f.MAC[0] ^= 1
	if b, err = ilnpwire.BuildProof(q.Src, q.Dst, q.Nonce, lu, f); err != nil {
		p.t.Fatal(err)
	}
	return b
}

// TestProbeOfAPeerThatProves: it gets its probe ahead of the answer or the challenge to its offer, and if that is
// lost, soon after its own probe. A forged offer draws none.
func TestProbeOfAPeerThatProves(t *testing.T) {
	p := newProofBench(t)
	p.begun()
	q := p.a.parse(p.a.sent[0])
	p.b.see(pendingBy(q, ofB, len(p.a.sent[0].Packet)))
	p.b.receive(1, p.forged(p.a.sent[1].Packet))
	if len(p.b.sent) > 0 {
		t.Errorf("%d packets leave before an offer has come", len(p.b.sent))
	}
	p.b.pass(pendingProof - 1)
	early := len(p.b.probesSent())
	p.b.pass(2 * pendingProof)
	if n := len(p.b.probesSent()); early > 0 || n != 1 {
		t.Errorf("%d probes within %v, then %d", early, pendingProof, n)
	}
	p.b.sent = nil
	p.b.receive(1, p.a.sent[1].Packet)
	if n := len(p.b.probesSent()); n != 0 || len(p.b.sent) != 1 {
		t.Errorf("%d packets at the offer, %d of them probes", len(p.b.sent), n)
	}
}
