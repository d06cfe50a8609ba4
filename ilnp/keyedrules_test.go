package ilnp

import (
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// crossedAnswer has both hosts accept the other one's offer, and returns the answer of b to that of a.
func crossedAnswer(t *testing.T) (p *proofBench, answer ilnpwire.Packet) {
	t.Helper()
	p = newProofBench(t)
	p.bothAccept()
	for _, q := range p.proofsOf(p.b) {
		if q.Proof.Step == ilnpwire.ProofAnswer {
			answer = q
		}
	}
	if s := p.session(p.a); answer.Proof == nil || s == nil || s.crossed == nil {
		t.Fatalf("no answer to an offer that was given up: %+v", s)
	}
	return p, answer
}

// TestProofCrossedForged: the answer to an offer that was given up needs MAC, root and place as any
// other one, and a wrong one changes nothing.
func TestProofCrossedForged(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		forge  func(f *ilnpwire.Proof, at *roam.L64) (remake bool)
	}{
		"right": {"", func(*ilnpwire.Proof, *roam.L64) bool { return true }},
		"without the key": {reasonProofForged, func(f *ilnpwire.Proof, _ *roam.L64) bool {
			f.MAC[0]++
			return false
		}},
		"without the root": {reasonProofForged, func(f *ilnpwire.Proof, _ *roam.L64) bool {
			f.Token[0]++
			return true
		}},
		"to another offer":   {reasonProofOld, func(f *ilnpwire.Proof, _ *roam.L64) bool { f.Counter++; return true }},
		"from another place": {reasonProofOld, func(_ *ilnpwire.Proof, at *roam.L64) bool { *at = netQ; return true }},
	} {
		p, q := crossedAnswer(t)
		s, f, at := p.session(p.a), *q.Proof, q.Src.L64
		root, own, offer := s.agreed.root, Nonce{Len: 4, Bytes: [12]byte{5}}, s.crossed
		s.localNonce = own // which may differ from that of the offer
		remake := c.forge(&f, &at)
		if remake {
			f = sealProof(p.a.known[peerNID].proofKey(peerNID, ownNID), f, q.Nonce, offer.nonce)
		}
		list := []ilnpwire.LocatorEntry{entry(at, 0, 1)}
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Locators: list}
		b, err := ilnpwire.BuildProof(roam.ILV{NID: peerNID, L64: at}, q.Dst, q.Nonce, lu, f)
		if err != nil {
			t.Fatal(err)
		}
		refused := p.a.RejectedInput()[c.reason]
		p.deliver(p.a, b)
		if c.reason == "" {
			if s.crossed != nil || !s.agreed.initiator || s.localNonce != offer.nonce {
				t.Errorf("%s: the offer is still given up; refused %v", name, p.a.RejectedInput())
			}
			continue
		}
		if p.a.RejectedInput()[c.reason] != refused+1 || s.crossed != offer || s.hs != nil || s.localNonce != own ||
			string(s.agreed.root) != string(root) {
			t.Errorf("%s: refused %v; given up %t, under way %t", name, p.a.RejectedInput(), s.crossed == offer,
				s.hs != nil)
		}
	}
}

// TestProofCrossedStands: the answer to an offer that was given up counts also where the session of its sender stands:
// this end has another root than that.
func TestProofCrossedStands(t *testing.T) {
	p, q := crossedAnswer(t)
	s, f := p.session(p.a), *q.Proof
	f.Token = tokenStands(p.session(p.b).agreed.root, f)
	p.deliver(p.a, p.sealed(1, netP, f, q.Nonce, s.crossed.nonce))
	if s.crossed != nil || s.hs != nil || !s.agreed.initiator {
		t.Errorf("the offer is still given up; refused %v", p.a.RejectedInput())
	}
}

// TestProofCrossedIsOver: while a newer offer is under way, the answer to one that was given up counts no more.
func TestProofCrossedIsOver(t *testing.T) {
	p, q := crossedAnswer(t)
	s := p.session(p.a)
	s.hs = &handshake{}
	list := []ilnpwire.LocatorEntry{entry(netP, 0, 1)}
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Locators: list}
	b, err := ilnpwire.BuildProof(q.Src, q.Dst, q.Nonce, lu, *q.Proof)
	if err != nil {
		t.Fatal(err)
	}
	if p.deliver(p.a, b); s.agreed.initiator || p.a.RejectedInput()[reasonProofOld] == 0 {
		t.Errorf("it counts: refused %v", p.a.RejectedInput())
	}
}

// TestProofAnewByTheResponder: the end that has answered offers anew, also with the ephemeral key of its
// answer: it gets an answer, not the confirmation that the first proof ended with.
func TestProofAnewByTheResponder(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	a, b := p.session(p.a), p.session(p.b)
	p.a.known[peerNID].offers = freshness{seen: true, at: p.a.now}
	f := ilnpwire.Proof{Step: ilnpwire.ProofOffer, Counter: 7, Ephemeral: a.agreed.theirs,
		Locators: [ilnpwire.ProofLocators]roam.L64{netP}}
	f.Counter = maskCounter(p.a.known[peerNID].proofKey(peerNID, ownNID), f)
	p.proofsOf(p.a)
	p.deliver(p.a, p.sealed(1, netP, f, b.localNonce, Nonce{}))
	if sent := p.proofsOf(p.a); len(sent) != 1 || sent[0].Proof.Step != ilnpwire.ProofAnswer || a.renewal == nil {
		t.Errorf("answered by %+v; refused %v", sent, p.a.RejectedInput())
	}
}

// TestKeyCopiedWithinAMinute: the limit of replacements counts on the whole way of a proof. The newcomer
// has to wait for the old nonce once, not as one without a proof.
func TestKeyCopiedWithinAMinute(t *testing.T) {
	for _, within := range []bool{false, true} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		s := p.session(p.b)
		if within {
			p.b.known[ownNID].copy.replaced = p.b.now.Add(-replaceEvery / 2)
		}
		p.second()
		p.b.pass(silenceMin + 50*time.Millisecond)
		holder := p.b.holder(peerNID, ownNID)
		if kept := holder == s; kept != within || p.b.count(KeyCopied) == 1 != within {
			t.Errorf("within a minute %t: the session is kept %t; %d events", within, kept, p.b.count(KeyCopied))
		}
		if n := len(p.b.sessions); n != map[bool]int{false: 1, true: 2}[within] {
			t.Errorf("within a minute %t: %d sessions", within, n)
		}
	}
}

// TestKeyedNonceAtAnAlias: the nonce of a keyed session, in a reply from where another session's peer
// is, moves nothing.
func TestKeyedNonceAtAnAlias(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	s := p.session(p.b)
	p.b.known[ownNID].copy.replaced = p.b.now
	p.second()
	p.b.pass(time.Second)
	var alias *session
	for _, o := range p.b.sessions {
		if o != s {
			alias = o
		}
	}
	alias.agreed.confirmed = true
	alias.remotes.find(netQ).validate()
	p.b.now = p.b.now.Add(time.Minute)
	q := ilnpwire.Packet{Nonce: s.remoteNonce, Type: ilnpwire.TypeEchoReply}
	q.Src, q.Dst = roam.ILV{NID: ownNID, L64: netQ}, roam.ILV{NID: peerNID, L64: netP}
	p.b.unite(p.b.now, alias, s, probe{}, q)
	if s.remotes.find(netQ) != nil || p.b.RejectedInput()[reasonMoveNoMAC] != 1 {
		t.Errorf("the session is at %v; refused %v", s.remotes.all(), p.b.RejectedInput())
	}
}

// TestReplacedBySomebodyElse: connections go on with a node at another place only if it has proven the
// key that the old session began with.
func TestReplacedBySomebodyElse(t *testing.T) {
	for _, c := range []struct{ proven, proof, stays bool }{
		{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false},
	} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		old := p.session(p.b)
		if !c.proven {
			old.agreed = nil
		}
		k := &pendingPeer{key: Pending{Local: peerNID, Remote: roam.ILV{NID: ownNID, L64: netQ}}}
		if c.proof {
			k.offer = &offered{}
		}
		p.b.forget()
		p.b.endReplaced(p.b.now, k, old)
		p.b.drain()
		abandoned := false
		for _, o := range p.b.other {
			abandoned = abandoned || o == Output(Abandon{Key: old.key})
		}
		if abandoned == c.stays {
			t.Errorf("began by a proof %t, replaced by one %t: connections end %t", c.proven, c.proof, abandoned)
		}
	}
}

// TestUnagreedIsNoSession: a proof that cannot be answered, for want of randomness, makes no session.
func TestUnagreedIsNoSession(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	_, offer := p.offer()
	p.b.cfg.Rand = &dry{}
	p.deliver(p.b, offer)
	if len(p.b.sessions) > 0 || len(p.proofsOf(p.b)) > 0 {
		t.Errorf("%d sessions", len(p.b.sessions))
	}
}

// TestNoEntryAhead: a peer that has to prove itself gets no preinstalled entry, and one that it has goes when its key
// becomes known; it is listed nowhere.
func TestNoEntryAhead(t *testing.T) {
	p := newProofBench(t)
	b := newBench(t, func(c *Config) { c.Preinstall, c.Key = 4, &p.keys[0] })
	b.prefix(1, netA, roam.Infinite)
	r, at := p.recordOfB(), roam.ILV{NID: peerNID, L64: netP}
	open := r
	open.Secret, open.Public = Peer{}.Secret, Peer{}.Public
	b.AddPeer(b.now, open)
	b.drain()
	_, there := b.entries[theKey]
	if _, listed := b.Listed(at); !there || !listed {
		t.Fatal("no entry ahead of a peer without a key: this shows nothing")
	}
	b.AddPeer(b.now, r)
	b.drain()
	if _, there := b.entries[theKey]; there {
		t.Error("the entry of before is still there")
	}
	b.Preinstall(b.now, peerNID)
	b.drain()
	if _, there := b.entries[theKey]; there {
		t.Error("an entry is preinstalled")
	}
	if known, listed := b.Listed(at); !known || listed {
		t.Errorf("known %t, listed %t", known, listed)
	}
}

// TestRecordIsCompared: a record that differs in a key, or in what may be done without, is another one.
func TestRecordIsCompared(t *testing.T) {
	p := newProofBench(t)
	r := p.recordOfB()
	p.a.AddPeer(p.a.now, r)
	if !p.a.Knows(r) {
		t.Fatal("the same record is not known")
	}
	for name, change := range map[string]func(r *Peer){
		"optional": func(r *Peer) { r.Optional = true },
		"guarded":  func(r *Peer) { r.Guarded = true },
		"no key":   func(r *Peer) { r.Secret = Peer{}.Secret },
	} {
		o := r
		if change(&o); p.a.Knows(o) {
			t.Errorf("%s: it is known", name)
		}
	}
	p.a.known[peerNID].retired = true
	if p.a.Knows(r) {
		t.Error("a retired one is known")
	}
}

// TestRetiredIsNotCalled: no session begins with a peer whose key has vouched for another one.
func TestRetiredIsNotCalled(t *testing.T) {
	p := newProofBench(t)
	p.a.known[peerNID].retired = true
	p.a.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	if len(p.a.sessions) > 0 || len(p.a.sent) > 0 {
		t.Errorf("%d sessions, %d packets", len(p.a.sessions), len(p.a.sent))
	}
}

// TestUnconfirmedIsNotProved: a session is shown as proven when the peer has shown that it has the root.
func TestUnconfirmedIsNotProved(t *testing.T) {
	p := newProofBench(t)
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm }
	p.open()
	if s := p.session(p.b); s == nil || s.agreed == nil || p.b.Peers(p.b.now)[0].Proved {
		t.Errorf("shown as %+v", p.b.Peers(p.b.now))
	}
}

// TestProofGoesOnBesidePlain: a session that is plain meanwhile goes on offering: the peer may be down.
func TestProofGoesOnBesidePlain(t *testing.T) {
	p := newProofBench(t)
	p.lossy = func(ilnpwire.Packet) bool { return true }
	p.open()
	p.a.pass(30 * time.Second)
	s := p.session(p.a)
	if s == nil || s.state != Plain || s.hs == nil || s.hs.tries <= proofTries {
		t.Fatalf("the session is %+v", s)
	}
}

// TestCounterIsWithThePrograms: the programs have the counter that the core refuses older updates by.
func TestCounterIsWithThePrograms(t *testing.T) {
	k := openKeyed(t)
	k.receive(1, k.sealed(netQ, toQ))
	k.answerProbesTo(netQ, peerNonce)
	if e, s := k.entries[theKey], k.sessions[theKey]; s.keys.updated == 0 || e.MACCounter != s.keys.updated {
		t.Errorf("the programs have %d, the core %d", e.MACCounter, s.keys.updated)
	}
}

// TestMACOfAnUnkeyedPeer: this host lacks the key of a peer that has ours. Its MACs are skipped, as
// unknown options are.
func TestMACOfAnUnkeyedPeer(t *testing.T) {
	k := openKeyed(t)
	k.sessions[theKey].keys = nil
	k.peer.updated = 0
	_, lu := k.moveOut()
	k.receive(1, k.sealed(netP, lu.Ack()))
	if k.count(UpdateAcked) != 1 {
		t.Errorf("refused %v", k.RejectedInput())
	}
}

// TestLackOfAKeyIsRemembered: what says that a peer lacks our key stays until a right MAC comes.
func TestLackOfAKeyIsRemembered(t *testing.T) {
	k := openKeyed(t)
	k.receive(1, k.update(netQ, peerNonce, toQ))
	right := k.peer
	k.peer.out = right.in
	k.receive(1, k.sealed(netQ, toQ))
	if !k.Peers(k.now)[0].Unkeyed || k.RejectedInput()[reasonWrongMAC] != 1 {
		t.Errorf("refused %v", k.RejectedInput())
	}
}

// TestFormerTakesNoStranger: nobody without a key is validated under the identifier that this host had before.
func TestFormerTakesNoStranger(t *testing.T) {
	p := formerBench(t)
	o := Observation{Key: SessionKey{ownNID, heirNID + 9}, LocalNID: ownNID, Nonce: ofB, OwnNonce: ofB,
		Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: roam.ILV{NID: heirNID + 9, L64: netQ}}
	p.a.cfg.Accept = Any
	for local, want := range map[roam.NID]string{ownNID: reasonFormer, heirNID: ""} {
		key := Pending{Local: local, Remote: o.Remote, Nonce: ofB}
		if got := p.a.pending.refusal(key, o); got != want {
			t.Errorf("under %v: %q, want %q", local, got, want)
		}
	}
	key := Pending{Local: ownNID, Remote: roam.ILV{NID: peerNID, L64: netQ}, Nonce: ofB}
	if got := p.a.pending.refusal(key, o); got != "" {
		t.Errorf("who may prove is refused: %q", got)
	}
}
