package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// recordOfB is the record that a has of b.
func (p *proofBench) recordOfB() Peer {
	secret, err := p.keys[0].Shared(p.keys[1].Public)
	if err != nil {
		p.t.Fatal(err)
	}
	return Peer{NID: peerNID, Names: []string{"peer"}, Secret: secret, Public: p.keys[1].Public,
		Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}}
}

// keyless has an application call a peer with a key, which answers probes with a nonce and proves
// nothing: its software has no keys, or it has lost this host's.
func keyless(t *testing.T, change ...func(*Peer)) (p *proofBench, r Peer) {
	t.Helper()
	p = newProofBench(t)
	r = p.recordOfB()
	r.Guarded = true
	for _, f := range change {
		f(&r)
	}
	p.a.AddPeer(p.a.now, r)
	p.a.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	return p, r
}

// TestKeylessPeer: connections to such a peer fail with that reason, or are plain IPv6 if that is allowed.
// Once its key is optional the next packet begins a session without a proof, also if it comes while
// offers are under way.
func TestKeylessPeer(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, waits := range []time.Duration{0, setupPatience} {
			p, r := keyless(t, func(r *Peer) { r.Guarded = !plain })
			b := p.a
			b.pass(time.Millisecond)
			b.answerProbesTo(netP, ofB)
			if waits > 0 {
				b.forget()
				b.pass(waits)
				if plain {
					if e := b.entries[theKey]; e.State != Plain || b.Peers(b.now)[0].WhyPlain != WhyNoProof {
						t.Errorf("with plain=yes: %+v, %q", e, b.Peers(b.now)[0].WhyPlain)
					}
				} else {
					b.wantBarred(WhyNoProof)
				}
			}
			r.Optional = true
			b.AddPeer(b.now, r)
			b.drain()
			b.forget()
			b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
			b.see(Observation{Trigger: SeenNonce, Key: theKey, LocalNID: ownNID, Nonce: ofB,
				Remote: roam.ILV{NID: peerNID, L64: netP}})
			rejected := slices.Contains(b.other, Output(Reject{theKey}))
			if e := b.entries[theKey]; e.State != Established || e.Holds || rejected {
				t.Errorf("plain %t, after %v, with an optional key: %+v, outputs %v", plain, waits, e, b.other)
			}
		}
	}
}

// TestSilentPeerStaysAskedForPlain: a peer that does not answer at all is one for plain IPv6, if anything.
func TestSilentPeerStaysAskedForPlain(t *testing.T) {
	p, _ := keyless(t)
	p.a.forget()
	p.a.pass(setupPatience)
	p.a.wantBarred(WhyNoAnswer)
}

// TestKeylessPeerOfASession: the peer of a keyed session comes back without its key. People are told so
// once the session is dead, not while it lives; an optional key lets the peer have a session.
func TestKeylessPeerOfASession(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	b, other := p.a, Nonce{Len: 4, Bytes: [12]byte{7, 7}}
	shown := func() string { return b.Peers(b.now)[0].PlainRefused }
	s := p.session(b)
	s.hs, s.noProof = nil, true
	if shown() != "" {
		t.Errorf("a session that lives is shown as refused: %q", shown())
	}
	if s.noteReply(Path{}); s.noProof {
		t.Error("a reply with the nonce of the session shows nothing")
	}
	silence(b)
	for range 30 {
		b.forget()
		b.pass(time.Second)
		b.answerProbesTo(netP, other)
	}
	if !s.dead || shown() != WhyNoProof {
		t.Fatalf("dead %t, shown as refused: %q", s.dead, shown())
	}
	r := p.recordOfB()
	r.Optional = true
	b.AddPeer(b.now, r)
	for range 10 {
		b.forget()
		silence(b)
		b.pass(time.Second)
		b.answerProbesTo(netP, other)
	}
	if s := p.session(b); s == nil || s.remoteNonce != other || s.state != Established || shown() != "" {
		t.Errorf("with an optional key the session is %+v, refused %q", b.Peers(b.now), shown())
	}
}
