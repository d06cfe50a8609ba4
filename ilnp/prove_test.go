package ilnp

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// proofBench is two cores that have each other's key: a is at netA and opens, b is at netP.
type proofBench struct {
	t     testing.TB
	a, b  *bench
	keys  [2]nidkey.Key
	wire  [][]byte // every control packet that was sent
	lossy func(p ilnpwire.Packet) bool
	own   Nonce // of their programs towards pending peers
}

var ofB = Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}

func newProofBench(t testing.TB) *proofBench {
	t.Helper()
	p := &proofBench{t: t, own: ofB}
	for i := range p.keys {
		p.keys[i] = ephemeralOf(t, uint64(i))
	}
	p.a, p.b = p.host(0), p.host(1)
	return p
}

func ephemeralOf(t testing.TB, seed uint64) nidkey.Key {
	t.Helper()
	var random [nidkey.KeyLen]byte
	_, _ = seeded{rand.New(rand.NewPCG(seed, 77))}.Read(random[:])
	k, err := nidkey.Ephemeral(random)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// host makes one of the two, without any state.
func (p *proofBench) host(i int) *bench {
	nids, nets := [2]roam.NID{ownNID, peerNID}, [2]roam.L64{netA, netP}
	h := newBench(p.t, func(c *Config) {
		c.NIDs, c.Accept, c.Key = []roam.NID{nids[i]}, Known, &p.keys[i]
		c.Rand = seeded{rand.New(rand.NewPCG(uint64(i), uint64(len(p.wire))))}
	})
	if p.b != nil {
		h.now = p.b.now
	}
	h.prefix(1, nets[i], roam.Infinite)
	p.know(h, i)
	return h
}

// know gives one host the other one's key. Nothing lists a, and b is listed at netP.
func (p *proofBench) know(h *bench, i int) {
	p.t.Helper()
	secret, err := p.keys[i].Shared(p.keys[1-i].Public)
	if err != nil {
		p.t.Fatal(err)
	}
	peer := Peer{NID: [2]roam.NID{peerNID, ownNID}[i], Names: []string{"peer"}, Secret: secret, Public: p.keys[1-i].Public}
	if i == 0 {
		peer.Locators = []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}
	}
	h.AddPeer(h.now, peer)
	h.drain()
}

// open has a send its first packet, and delivers what follows.
func (p *proofBench) open() {
	p.t.Helper()
	p.a.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	p.exchange()
}

// exchange delivers what both have sent until nothing more comes.
func (p *proofBench) exchange() {
	for range 50 {
		from, to := p.a, p.b
		if len(from.sent) == 0 {
			from, to = p.b, p.a
		}
		if len(from.sent) == 0 {
			return
		}
		sent := from.sent
		from.sent = nil
		for _, s := range sent {
			p.wire = append(p.wire, s.Packet)
			p.deliver(to, s.Packet)
		}
	}
	p.t.Fatal("they go on for ever")
}

// deliver gives a host a packet as its programs do: a probe of a node without a session is
// reported, and answered there.
func (p *proofBench) deliver(to *bench, b []byte) {
	q, err := ilnpwire.ParsePacket(b)
	if err != nil || p.lossy != nil && p.lossy(q) {
		return
	}
	if q.Type != ilnpwire.TypeEchoRequest {
		to.receive(1, b)
		return
	}
	if to.byNonce(q.Dst.NID, q.Src.NID, q.Nonce) == nil {
		own := p.own
		if e, there := to.entries[SessionKey{q.Dst.NID, q.Src.NID}]; there {
			own = e.LocalNonce
		}
		to.see(Observation{Trigger: SeenPending, Key: SessionKey{q.Dst.NID, q.Src.NID}, LocalNID: q.Dst.NID,
			Local: roam.LinkLocator{Link: 1, L64: q.Dst.L64}, Remote: q.Src, Nonce: q.Nonce, OwnNonce: own,
			Bytes: len(b), Packets: 1, Found: FoundProbe})
	}
}

func (p *proofBench) session(h *bench) *session {
	for _, s := range h.sessions {
		return s
	}
	return nil
}

// last returns the last message of a step that was sent.
func (p *proofBench) last(step ilnpwire.ProofStep) (ilnpwire.Packet, []byte) {
	p.t.Helper()
	for _, b := range slices.Backward(p.wire) {
		if q, err := ilnpwire.ParsePacket(b); err == nil && q.Proof != nil && q.Proof.Step == step {
			return q, b
		}
	}
	p.t.Fatalf("no message of step %d", step)
	return ilnpwire.Packet{}, nil
}

func (p *proofBench) wantProved() {
	p.t.Helper()
	a, b := p.session(p.a), p.session(p.b)
	switch {
	case a == nil || b == nil || a.state != Established || b.state != Established:
		p.t.Fatalf("no session: %+v, %+v; refused %v, %v", a, b, p.a.RejectedInput(), p.b.RejectedInput())
	case a.agreed == nil || b.agreed == nil || !b.agreed.confirmed:
		p.t.Fatalf("not proved: %+v, %+v", a.agreed, b.agreed)
	case !slices.Equal(a.keys.out, b.keys.in) || !slices.Equal(a.keys.in, b.keys.out):
		p.t.Error("their keys differ")
	case b.key != (SessionKey{peerNID, ownNID}) || !b.owned:
		p.t.Errorf("b's session is %v, owned %t", b.key, b.owned)
	case p.a.entries[theKey].Holds:
		p.t.Error("a still holds other nonces")
	case p.a.RejectedInput()[""] > 0 || p.b.RejectedInput()[""] > 0:
		p.t.Error("something is refused for no reason")
	}
}

// wantNone checks that b has no session, and why.
func (p *proofBench) wantNone(what, reason string) {
	p.t.Helper()
	if s := p.session(p.b); s != nil {
		p.t.Errorf("%s: b has a session: %+v", what, s)
	}
	if reason != "" && p.b.RejectedInput()[reason] == 0 {
		p.t.Errorf("%s: not refused for %q, but %v", what, reason, p.b.RejectedInput())
	}
}

// count returns how many messages of a step were sent.
func (p *proofBench) count(step ilnpwire.ProofStep) int {
	n := 0
	for _, b := range p.wire {
		if q, err := ilnpwire.ParsePacket(b); err == nil && q.Proof != nil && q.Proof.Step == step {
			n++
		}
	}
	return n
}

// TestProof: b cannot judge the first offer and challenges it; it knows the next one to be new.
func TestProof(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	if n := p.count(ilnpwire.ProofChallenge); n != 1 {
		t.Errorf("%d challenges, want 1", n)
	}
	first := p.session(p.a).agreed.root
	p.a.endSession(p.a.now, p.session(p.a), "test")
	p.b.endSession(p.b.now, p.session(p.b), "test")
	p.a.drain()
	p.b.drain()
	p.a.now, p.b.now = p.a.now.Add(time.Second), p.b.now.Add(time.Second)
	p.open()
	p.wantProved()
	if n := p.count(ilnpwire.ProofChallenge); n != 1 {
		t.Errorf("%d challenges after the second set-up, want 1", n)
	}
	if slices.Equal(first, p.session(p.a).agreed.root) {
		t.Error("two sessions have one root")
	}
}

// offer makes a's first offer without delivering it, and has its probe delivered to b.
func (p *proofBench) offer() (ilnpwire.Packet, []byte) {
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil }
	p.open()
	p.lossy = nil
	return p.last(ilnpwire.ProofOffer)
}

// remember has b know a's counters, so that it need not challenge.
func (p *proofBench) remember() { p.b.known[ownNID].offers.seen = true }

// TestProofForged: what somebody on the path makes of an offer opens nothing; a's own does.
func TestProofForged(t *testing.T) {
	from := roam.ILV{NID: ownNID, L64: netA}
	send := func(p *proofBench, src roam.ILV, n Nonce, proof ilnpwire.Proof) {
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{entry(netA, 0, 1)}}
		b, err := ilnpwire.BuildProof(src, roam.ILV{NID: peerNID, L64: netP}, n, lu, proof)
		if err != nil {
			t.Fatal(err)
		}
		p.deliver(p.b, b)
	}
	for name, c := range map[string]struct {
		reason string
		forge  func(p *proofBench, q ilnpwire.Packet)
	}{
		"made up": {reasonProofForged, func(p *proofBench, q ilnpwire.Packet) {
			f := *q.Proof
			f.MAC = [ilnpwire.MACLen]byte{}
			send(p, from, q.Nonce, f)
		}},
		"with another ephemeral key": {reasonProofForged, func(p *proofBench, q ilnpwire.Packet) {
			f := *q.Proof
			f.Ephemeral = ephemeralOf(t, 5).Public
			send(p, from, q.Nonce, f)
		}},
		"of another direction": {reasonProofForged, func(p *proofBench, q ilnpwire.Packet) {
			send(p, from, q.Nonce, sealProof(proofKey(p.b.known[ownNID].secret, peerNID, ownNID), *q.Proof, q.Nonce, Nonce{}))
		}},
		"from a place that it does not list": {reasonProofPlace, func(p *proofBench, q ilnpwire.Packet) {
			send(p, roam.ILV{NID: ownNID, L64: netS}, q.Nonce, *q.Proof)
		}},
		"of another key": {reasonProofForged, func(p *proofBench, q ilnpwire.Packet) {
			secret, err := p.keys[1].Shared(ephemeralOf(t, 6).Public)
			if err != nil {
				t.Fatal(err)
			}
			send(p, from, q.Nonce, sealProof(proofKey(secret, ownNID, peerNID), *q.Proof, q.Nonce, Nonce{}))
		}},
		"of low order, by who has a's key": {reasonProofForged, func(p *proofBench, q ilnpwire.Packet) {
			f := *q.Proof
			f.Ephemeral = [nidkey.KeyLen]byte{1}
			send(p, from, q.Nonce, sealProof(proofKey(p.b.known[ownNID].secret, ownNID, peerNID), f, q.Nonce, Nonce{}))
		}},
		"of no pending peer": {reasonNoSession, func(p *proofBench, q ilnpwire.Packet) {
			f := sealProof(proofKey(p.b.known[ownNID].secret, ownNID, peerNID), *q.Proof, forged, Nonce{})
			send(p, from, forged, f)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProofBench(t)
			p.remember()
			q, _ := p.offer()
			c.forge(p, q)
			p.wantNone(name, c.reason)
			p.a.pass(time.Second)
			p.exchange()
			p.wantProved()
		})
	}
}

// TestProofNonce: an offer under another nonce than its own opens nothing.
func TestProofNonce(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	q, _ := p.offer()
	p.b.see(Observation{Trigger: SeenPending, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID,
		Local: roam.LinkLocator{Link: 1, L64: netP}, Remote: q.Src, Nonce: forged, OwnNonce: ofB, Bytes: 100, Packets: 1})
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{entry(netA, 0, 1)}}
	b, err := ilnpwire.BuildProof(q.Src, q.Dst, forged, lu, *q.Proof)
	if err != nil {
		t.Fatal(err)
	}
	p.deliver(p.b, b)
	p.wantNone("another nonce", reasonProofForged)
}

// TestProofChanged changes each byte of an offer's option, and cuts the packet at each byte.
func TestProofChanged(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	_, b := p.offer()
	for i := range 142 {
		at := len(b) - 12 - 8 - 142 - 2 + i // the option stands before the message: 8 and 12 bytes, and 2 of padding
		m := slices.Clone(b)
		m[at] ^= 0x10
		p.deliver(p.b, m)
	}
	for n := range b {
		cut := slices.Clone(b[:n])
		if n >= 40 {
			binary.BigEndian.PutUint16(cut[4:], uint16(n-40))
		}
		p.b.receive(1, cut)
	}
	p.wantNone("changed and cut", reasonProofForged)
	p.deliver(p.b, b)
	if p.session(p.b) == nil {
		t.Error("the right one opens nothing")
	}
}

// TestProofReplayed: somebody on the path sends every packet of a session again, after its end,
// and after b was restarted without its state: nothing opens, and a is not troubled.
func TestProofReplayed(t *testing.T) {
	for name, restart := range map[string]bool{"after the session": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			p := newProofBench(t)
			p.open()
			p.wantProved()
			p.b.endSession(p.b.now, p.session(p.b), "test")
			p.b.drain()
			if restart {
				p.b = p.host(1)
			}
			replayed := slices.Clone(p.wire)
			for range 3 {
				for _, b := range replayed {
					if q, err := ilnpwire.ParsePacket(b); err == nil && q.Dst.NID == peerNID {
						p.deliver(p.b, b)
					}
				}
			}
			p.wantNone(name, reasonProofOld)
			for _, b := range replayed { // and reflected
				p.deliver(p.a, b)
				p.deliver(p.b, b)
			}
			p.wantNone(name, reasonProofOld)
			p.b.sent = nil
			p.a.endSession(p.a.now, p.session(p.a), "test")
			p.a.drain()
			p.a.now = p.a.now.Add(time.Second)
			p.open()
			p.wantProved()
		})
	}
}

// TestProofReflected: a's own offer, sent back to it in b's name, opens nothing.
func TestProofReflected(t *testing.T) {
	p := newProofBench(t)
	q, _ := p.offer()
	for _, op := range []ilnpwire.Operation{ilnpwire.Advertisement, ilnpwire.Acknowledgement} {
		lu := ilnpwire.LocatorUpdate{Operation: op, Locators: []ilnpwire.LocatorEntry{entry(netP, 0, 1)}}
		for step := ilnpwire.ProofOffer; step <= ilnpwire.ProofChallenge; step++ {
			f := *q.Proof
			f.Step = step
			b, err := ilnpwire.BuildProof(q.Dst, q.Src, q.Nonce, lu, f)
			if err != nil {
				t.Fatal(err)
			}
			p.deliver(p.a, b)
		}
	}
	if s := p.session(p.a); s.state == Established {
		t.Error("it stands")
	}
}

// TestProofNeeded: neither the token of a probe with a nonce nor packets with one make a session
// under the name of a peer that has to prove itself, at either end.
func TestProofNeeded(t *testing.T) {
	p := newProofBench(t)
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil }
	p.open()
	at := roam.ILV{NID: peerNID, L64: netP}
	e := p.a.entries[theKey]
	if !e.Holds || !e.RemoteNonce.Present() || e.RemoteNonce == peerNonce {
		t.Errorf("a's entry lets nonces in: holds %t", e.Holds)
	}
	here := roam.LinkLocator{Link: 1, L64: netA}
	p.a.see(Observation{Trigger: SeenNonce, Key: theKey, Remote: at, Nonce: peerNonce, Local: here})
	p.a.see(Observation{Trigger: SeenOtherNonce, Key: theKey, LocalNID: ownNID, Remote: at, Nonce: peerNonce,
		OwnNonce: e.LocalNonce, Local: here, Held: true, Bytes: 100, Packets: 1})
	for _, h := range []*bench{p.a, p.b} {
		for _, b := range slices.Clone(p.wire) {
			q, err := ilnpwire.ParsePacket(b)
			if err == nil && q.Type == ilnpwire.TypeEchoRequest && q.Src.NID == h.cfg.NIDs[0] {
				h.reply(q, peerNonce)
			}
		}
	}
	for _, o := range p.a.other {
		if _, is := o.(Admit); is {
			t.Error("a delivers what nobody has proven")
		}
	}
	if s := p.session(p.a); s.state == Established {
		t.Error("a's session stands")
	}
	p.wantNone("no proof", "")
	p.b.pass(2 * time.Minute)
	p.wantNone("no proof", reasonUnproven)
}

// TestProofStolenKey: who has a's key cannot answer a in b's name: the answer needs b's key too.
func TestProofStolenKey(t *testing.T) {
	p := newProofBench(t)
	q, _ := p.offer()
	thief := ephemeralOf(t, 9)
	secret := p.a.known[peerNID].secret // follows from a's key
	f := ilnpwire.Proof{Step: ilnpwire.ProofAnswer, Counter: q.Proof.Counter, Ephemeral: thief.Public,
		Locators: [ilnpwire.ProofLocators]roam.L64{netP}}
	ee, err := thief.Shared(q.Proof.Ephemeral)
	if err != nil {
		t.Fatal(err)
	}
	se, err := p.keys[0].Shared(thief.Public)
	if err != nil {
		t.Fatal(err)
	}
	for name, es := range map[string]nidkey.Secret{"none": {}, "the static one": secret, "ee": ee} {
		root := rootOf(transcript{
			initiator: ownNID, responder: peerNID, initiatorNonce: q.Nonce, responderNonce: peerNonce,
			offer: *q.Proof, answer: thief.Public,
		}, secret, es, ee, se)
		g := f
		g.Token = tokenOf(root, g)
		g = sealProof(proofKey(secret, peerNID, ownNID), g, peerNonce, q.Nonce)
		list := []ilnpwire.LocatorEntry{entry(netP, 0, 1)}
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Locators: list}
		b, err := ilnpwire.BuildProof(q.Dst, q.Src, peerNonce, lu, g)
		if err != nil {
			t.Fatal(err)
		}
		p.deliver(p.a, b)
		if s := p.session(p.a); s.state == Established {
			t.Fatalf("with %s for es it stands", name)
		}
	}
	if p.a.RejectedInput()[reasonProofForged] != 3 {
		t.Errorf("refused %v", p.a.RejectedInput())
	}
}

// TestProofUnconfirmed: a node with b's key can open a session with b in a's name, which ends as it
// cannot confirm: that needs a's key.
func TestProofUnconfirmed(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofAnswer }
	p.open()
	s := p.session(p.b)
	if s == nil || s.agreed.confirmed || s.remotes.find(netA).validated {
		t.Fatalf("b's session: %+v", s)
	}
	q, _ := p.last(ilnpwire.ProofAnswer)
	f := sealProof(proofKey(p.b.known[ownNID].secret, ownNID, peerNID),
		ilnpwire.Proof{Step: ilnpwire.ProofConfirm, Counter: q.Proof.Counter}, s.remoteNonce, s.localNonce)
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{entry(netA, 0, 1)}}
	b, err := ilnpwire.BuildProof(q.Dst, q.Src, s.remoteNonce, lu, f)
	if err != nil {
		t.Fatal(err)
	}
	p.deliver(p.b, b)
	if s.agreed.confirmed || p.b.RejectedInput()[reasonProofForged] != 1 {
		t.Error("a confirmation without the root counts")
	}
	p.b.pass(20 * time.Second)
	p.wantNone("no confirmation", reasonProofOpen)
}
