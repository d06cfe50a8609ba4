package ilnp

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// TestProofShowsNoClock: neither a proof nor the MAC of an update shows when it was made, nor the
// counter of the proof before.
func TestProofShowsNoClock(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.a.prefix(2, netB, roam.Infinite)
	p.exchange()
	clock := binary.BigEndian.AppendUint64(nil, uint64(p.a.now.UnixNano()))[:3] // for weeks
	seals := 0
	for _, b := range p.wire {
		q, err := ilnpwire.ParsePacket(b)
		if err != nil {
			t.Fatal(err)
		}
		if q.Seal != nil {
			seals++
		}
		if bytes.Contains(b[40:], clock) {
			t.Errorf("a clock is in %x", b)
		}
	}
	if seals == 0 || p.count(ilnpwire.ProofChallenge) == 0 {
		t.Error("no update, or no challenge: this shows little")
	}
}

// TestProofMany: beyond a rate an offer costs no operation with public keys before its sender has
// shown that it receives at its place. It costs one round trip, and nothing else.
func TestProofMany(t *testing.T) {
	p := newProofBench(t)
	p.remember()
	p.b.prover.busy = p.b.now.Add(time.Second)
	p.open()
	p.wantProved()
	if n := p.count(ilnpwire.ProofChallenge); n != 1 || p.b.RejectedInput()[reasonProofMany] != 1 {
		t.Errorf("%d challenges, and refused: %v", n, p.b.RejectedInput())
	}
	var q prover
	n, now := 0, time.Unix(1000, 0)
	for !q.exceeds(now) {
		n++
	}
	if n != offersEach {
		t.Errorf("%d at once, want %d", n, offersEach)
	}
	later := now.Add(time.Second / offersEach)
	if q.exceeds(later) || !q.exceeds(later) {
		t.Error("there is not one more after its time")
	}
}

// second has another host with a's key and NID, at netQ, open a session with b.
func (p *proofBench) second() {
	first := p.a
	p.a = newBench(p.t, func(c *Config) { c.Key = &p.keys[0] })
	p.a.now = first.now.Add(time.Millisecond)
	p.a.prefix(1, netQ, roam.Infinite)
	p.know(p.a, 0)
	p.own = Nonce{Len: 4, Bytes: [12]byte{7, 7}}
	p.open()
	p.a = first
}

// TestKeyCopied: two hosts with one key. The one whose nonce is in use keeps session and name, the
// other one gets an alias, and it is told where both are.
func TestKeyCopied(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	s := p.session(p.b)
	root := s.agreed.root
	p.second()
	p.b.now = p.b.now.Add(time.Millisecond)
	s.lastNonceRx = p.b.now
	p.b.pass(time.Second)
	p.exchange()
	var alias *session
	for _, o := range p.b.sessions {
		if o.remotes.find(netQ) != nil {
			alias = o
		}
	}
	switch {
	case p.b.holder(peerNID, ownNID) != s || !bytes.Equal(s.agreed.root, root):
		t.Error("the session, or its name, has moved")
	case alias == nil || alias == s || alias.key.Remote == ownNID:
		t.Fatalf("the second host has no session under an alias: %+v", alias)
	case p.b.count(KeyCopied) != 1 || p.b.count(SessionReplaced) != 0:
		t.Errorf("%d events of a copied key, %d of a replaced one", p.b.count(KeyCopied), p.b.count(SessionReplaced))
	}
	for _, v := range p.b.Peers(p.b.now) {
		if len(v.Names) > 0 && !slices.Equal(v.KeyCopy, []roam.L64{netQ, netA}) {
			t.Errorf("shown at %v", v.KeyCopy)
		}
	}
	p.b.now = p.b.now.Add(2 * copyShown)
	if v := p.b.Peers(p.b.now)[0]; v.KeyCopy != nil {
		t.Errorf("still shown at %v", v.KeyCopy)
	}
}

// TestKeyCopyIsTold: both hosts with the key hear of the other one, each in its own session: the
// one that has the name at once, the newer one when its session is confirmed.
func TestKeyCopyIsTold(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	first, s := p.a, p.session(p.b)
	newer := newBench(t, func(c *Config) { c.Key, c.Rand = &p.keys[0], seeded{rand.New(rand.NewPCG(8, 8))} })
	newer.now = first.now
	newer.prefix(1, netQ, roam.Infinite)
	p.know(newer, 0)
	p.own = Nonce{Len: 4, Bytes: [12]byte{7, 7}}
	newer.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	for range 40 {
		for _, h := range []*bench{first, newer} {
			for _, m := range h.sent {
				p.wire = append(p.wire, m.Packet)
				p.deliver(p.b, m.Packet)
			}
			h.sent = nil
		}
		s.lastNonceRx = p.b.now.Add(time.Hour) // it is in use
		sent := p.b.sent
		p.b.sent = nil
		for _, m := range sent {
			p.wire = append(p.wire, m.Packet)
			to := first
			if p.b.parse(m).Dst.L64 == netQ {
				to = newer
			}
			p.deliver(to, m.Packet)
		}
		for _, h := range []*bench{first, newer, p.b} {
			h.pass(50 * time.Millisecond)
		}
	}
	for name, h := range map[string]*bench{"first": first, "newer": newer} {
		var at []roam.L64
		for _, e := range h.events {
			if e.Kind == KeyCopied {
				at = e.Locators
			}
		}
		if h.count(KeyCopied) != 1 || !slices.Equal(at, []roam.L64{netQ, netA}) {
			t.Errorf("the %s one is told %d times, of %v; refused %v", name, h.count(KeyCopied), at, h.RejectedInput())
		}
		shown := func(now time.Time) []roam.L64 { return h.Peers(now)[0].OwnKeyCopy }
		if !slices.Equal(shown(h.now), at) || shown(h.now.Add(copyShown+time.Minute)) != nil {
			t.Errorf("the %s one shows %v, and long after %v", name, shown(h.now), shown(h.now.Add(2*copyShown)))
		}
	}
	_, confirm := p.last(ilnpwire.ProofConfirm)
	if p.deliver(p.b, confirm); len(p.proofsOf(p.b)) > 0 {
		t.Error("the copy of a confirmation has it told again")
	}
	q, notice := p.last(ilnpwire.ProofNotice)
	list := []ilnpwire.LocatorEntry{entry(netP, 0, 1)}
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Acknowledgement, Locators: list}
	to := map[roam.L64]*bench{netA: first, netQ: newer}[q.Dst.L64]
	key, own := proofKey(to.known[peerNID].secret, peerNID, ownNID), p.session(to).localNonce
	for name, forge := range map[string]func(f *ilnpwire.Proof){
		"by nobody's key":   func(f *ilnpwire.Proof) { f.MAC[0]++ },
		"without the root":  func(f *ilnpwire.Proof) { f.Token[0]++; *f = sealProof(key, *f, q.Nonce, own) },
		"with other places": func(f *ilnpwire.Proof) { f.Locators[0]++; *f = sealProof(key, *f, q.Nonce, own) },
		"for another nonce": func(f *ilnpwire.Proof) { *f = sealProof(key, *f, q.Nonce, Nonce{}) },
	} {
		f := *q.Proof
		forge(&f)
		b, err := ilnpwire.BuildProof(q.Src, q.Dst, q.Nonce, lu, f)
		if err != nil {
			t.Fatal(err)
		}
		to.known[peerNID].copy.noticed = time.Time{}
		refused := to.RejectedInput()[reasonProofForged]
		if to.receive(1, b); to.count(KeyCopied) != 1 || to.RejectedInput()[reasonProofForged] != refused+1 {
			t.Errorf("%s: told %d times, refused %v", name, to.count(KeyCopied), to.RejectedInput())
		}
	}
	if to.receive(1, notice); to.count(KeyCopied) != 2 {
		t.Error("the right one is not told of again, a minute later")
	}
	if to.receive(1, notice); to.count(KeyCopied) != 2 {
		t.Error("it is told of twice within a minute")
	}
}

// TestKeyCopiedTakesOnceAMinute: where the old nonce is silent, a host that has proven the key replaces
// the session; another one within the same minute does not.
func TestKeyCopiedTakesOnceAMinute(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	now, at := p.b.now, roam.ILV{NID: ownNID, L64: netQ}
	k := &pendingPeer{offer: &offered{}, key: Pending{Local: peerNID, Remote: at}}
	s := p.session(p.b)
	for after, want := range map[time.Duration]bool{0: true, 59 * time.Second: false, 61 * time.Second: true} {
		p.b.known[ownNID].copy.replaced = time.Time{}
		if after > 0 {
			p.b.known[ownNID].copy.replaced = now
		}
		if got := p.b.pending.mayReplace(now.Add(after), k, s); got != want {
			t.Errorf("%v after the last one: may replace %t, want %t", after, got, want)
		}
	}
	if p.b.known[ownNID].copy.replaced = now; p.b.pending.mayReplace(now, k, s) {
		t.Error("twice at once")
	}
	for what, old := range map[string]*session{
		"a dead session": {agreed: s.agreed, dead: true}, "a session without a proof": {},
	} {
		if !p.b.pending.mayReplace(now, k, old) {
			t.Errorf("%s is kept", what)
		}
	}
	for what, k := range map[string]*pendingPeer{
		"one without a proof": {key: k.key},
		"one whose record was removed meanwhile": {
			offer: k.offer, key: Pending{Local: peerNID, Remote: roam.ILV{NID: heirNID, L64: netQ}},
		},
	} {
		p.b.pending.noteCopy(now, k, s)
		p.b.drain()
		if !p.b.pending.mayReplace(now, k, s) || p.b.count(KeyCopied) > 0 {
			t.Errorf("%s counts as one of two with the key", what)
		}
	}
}

// TestCopiedIsToldInASession: nobody is told of a copied key but in a session that began by a proof, where there is
// something to tell.
func TestCopiedIsToldInASession(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *proofBench, s *session)
		want   int
	}{
		"as it should be":    {func(*proofBench, *session) {}, 1},
		"without a proof":    {func(_ *proofBench, s *session) { s.agreed = nil }, 0},
		"of an unknown peer": {func(p *proofBench, _ *session) { delete(p.b.known, ownNID) }, 0},
		"without a path":     {func(_ *proofBench, s *session) { s.entry.Paths = nil }, 0},
		"with nothing to tell": {func(p *proofBench, s *session) {
			p.b.tellCopied(p.b.now, s, nil)
			s.agreed = nil
		}, 0},
	} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		s := p.session(p.b)
		c.change(p, s)
		p.b.tellCopied(p.b.now, s, []roam.L64{netQ, netA})
		p.b.drain()
		if got := len(p.proofsOf(p.b)); got != c.want {
			t.Errorf("%s: told %d times", name, got)
		}
	}
}

// BenchmarkProof measures what proofs cost the responder's core: a forged one under a known NID,
// and one that begins a session, with the answer.
func BenchmarkProof(b *testing.B) {
	b.Run("forged", func(b *testing.B) {
		p := newProofBench(b)
		p.remember()
		_, packet := p.offer()
		packet[len(packet)-30] ^= 1 // in the MAC
		for b.Loop() {
			p.b.HandlePacket(p.b.now, 1, packet)
		}
		if p.b.RejectedInput()[reasonProofForged] == 0 || len(p.b.sessions) > 0 {
			b.Fatalf("%d sessions, refused %v", len(p.b.sessions), p.b.RejectedInput())
		}
	})
	b.Run("responder", func(b *testing.B) {
		var p *proofBench
		for b.Loop() {
			b.StopTimer()
			p = newProofBench(b)
			p.remember()
			_, offer := p.offer()
			b.StartTimer()
			p.b.HandlePacket(p.b.now, 1, offer)
			p.b.drain()
		}
		p.exchange()
		p.wantProved()
	})
}
