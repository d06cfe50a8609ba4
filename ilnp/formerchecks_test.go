package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// TestFormerOfferInASession: an offer to the former identifier, in a session of it that lives, is answered by a vouch.
func TestFormerOfferInASession(t *testing.T) {
	p := formerBench(t)
	handshakes{p.b.Core}.renew(p.b.now, p.b.holder(peerNID, ownNID))
	p.b.drain()
	p.exchange()
	if told := p.successions(); len(told) != 1 || told[0].NID != heirNID {
		t.Errorf("b is told %v; a refused %v", told, p.a.RejectedInput())
	}
}

// TestFormerInUse: sessions of the former identifier need it while they live, and its key as long as that may vouch.
// What is given up takes only its own sessions along.
func TestFormerInUse(t *testing.T) {
	p := formerBench(t)
	p.a.see(Observation{Trigger: SeenMiss, Key: SessionKey{heirNID, peerNID}, LocalNID: heirNID})
	want := func(what string, sessions, vouches bool) {
		t.Helper()
		if s, v := p.a.FormerInUse(p.a.now); s != sessions || v != vouches {
			t.Errorf("%s: sessions %t, vouches %t", what, s, v)
		}
	}
	old := p.a.inheritance.old
	want("at first", true, true)
	p.a.SetOldKey(p.a.now, nil)
	want("revoked", true, false)
	p.inherit(heirNID+7, p.keys[0])
	want("of another one", true, false)
	p.a.SetOldKey(p.a.now, old)
	p.a.now = old.Until
	want("its time is over", true, false)
	p.a.ForgetFormer(p.a.now)
	p.a.drain()
	want("given up", false, false)
	gone, stays := p.a.holder(ownNID, peerNID) == nil, p.a.holder(heirNID, peerNID) != nil
	if !gone || !stays || !slices.Equal(p.a.cfg.NIDs, []roam.NID{heirNID}) {
		t.Errorf("%d sessions of %v", len(p.a.sessions), p.a.cfg.NIDs)
	}
	p = formerBench(t)
	p.a.endSession(p.a.now, p.a.holder(ownNID, peerNID), "test")
	want("without a session", false, true)
	if p.a.cfg.isFormer(heirNID) || (&Config{}).isFormer(0) {
		t.Error("other identifiers count as the former one")
	}
	var none *nidkey.Key
	p.a.SetKey(none)
	if p.a.SetOldKey(p.a.now, old); p.a.inheritance.old != nil {
		t.Error("a host without a key has one vouched for")
	}
}

// TestFormerUnproven: a session of the former identifier that began without a proof has its keys by the
// old key, once that is known, and goes on with those that it has until then.
func TestFormerUnproven(t *testing.T) {
	p := formerBench(t)
	s := p.a.holder(ownNID, peerNID)
	old := p.a.inheritance.old
	s.agreed = nil
	p.a.SetOldKey(p.a.now, nil)
	kept := s.keys
	p.a.rekeySession(p.a.now, s)
	if s.keys != kept {
		t.Error("it has other keys although the old one is not known")
	}
	p.a.SetOldKey(p.a.now, old)
	secret, err := p.keys[0].Shared(p.keys[1].Public)
	if err != nil {
		t.Fatal(err)
	}
	if want := directionKey(secret, ownNID, peerNID, s.localNonce, s.remoteNonce); !slices.Equal(s.keys.out, want) {
		t.Errorf("its key is %x, want %x", s.keys.out, want)
	}
	p.a.drain()
	if e := p.a.entries[s.key]; e.MACKey != s.keyIn() {
		t.Errorf("the programs have the key %x, want %x", e.MACKey, s.keys.in)
	}
	p.a.SetOldKey(p.a.now, &OldKey{Key: p.keys[0], NID: heirNID + 7, Until: old.Until})
	if p.a.formerKey != nil {
		t.Error("the key of another identifier counts as the former one")
	}
	proved := formerBench(t)
	s = proved.a.holder(ownNID, peerNID)
	in := slices.Clone(s.keys.in)
	if proved.a.SetOldKey(proved.a.now, old); !slices.Equal(s.keys.in, in) {
		t.Error("a session that began by a proof has other keys")
	}
}

// TestFormerProvenWithoutTheKey: a session of the former identifier that began by a proof has its keys also where the
// old one is not known.
func TestFormerProvenWithoutTheKey(t *testing.T) {
	p := formerBench(t)
	s := p.a.holder(ownNID, peerNID)
	p.a.SetOldKey(p.a.now, nil)
	in := s.keys.in
	s.keys = &keying{}
	if p.a.rekeySession(p.a.now, s); !slices.Equal(s.keys.in, in) {
		t.Errorf("its key is %x, want %x", s.keys.in, in)
	}
}

// TestFormerWithoutThePeersKey: the user takes the key of a peer away. A session of the former identifier that began
// without a proof does not go on without a MAC.
func TestFormerWithoutThePeersKey(t *testing.T) {
	p := formerBench(t)
	p.a.holder(ownNID, peerNID).agreed = nil
	p.a.AddPeer(p.a.now, Peer{NID: peerNID, Names: []string{"b"}})
	if s := p.a.holder(ownNID, peerNID); s != nil && s.keys == nil {
		t.Error("it has no keys any more")
	}
}

// TestRetired: sessions go on if they have keys that both ends have shown. The others end, as nothing new is
// believed. Those of other peers stay, and a retired peer is forgotten with its own last session.
func TestRetired(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *proofBench, s *session)
		stays  bool
	}{
		"keyed":                      {func(*proofBench, *session) {}, true},
		"that began without a proof": {func(_ *proofBench, s *session) { s.agreed = nil }, true},
		"not confirmed":              {func(_ *proofBench, s *session) { s.agreed.confirmed = false }, false},
		"without keys":               {func(_ *proofBench, s *session) { s.keys = nil }, false},
		"whose keys are not known":   {func(_ *proofBench, s *session) { s.keys = &keying{} }, false},
		"that does not stand":        {func(_ *proofBench, s *session) { s.state = Initiated }, false},
		"that is about to be proven anew": {func(p *proofBench, s *session) {
			handshakes{p.b.Core}.renew(p.b.now, s)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProofBench(t)
			p.open()
			p.wantProved()
			p.b.AddPeer(p.b.now, Peer{NID: heirNID, Names: []string{"other"},
				Locators: []RemoteLocator{{L64: netS, Preference: 10, Lifetime: roam.Infinite}}})
			p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, heirNID}, LocalNID: peerNID})
			other := p.b.holder(peerNID, heirNID)
			s := p.b.holder(peerNID, ownNID)
			c.change(p, s)
			p.b.RetirePeer(p.b.now, ownNID)
			p.b.drain()
			if got := p.b.holder(peerNID, ownNID) == s; got != c.stays {
				t.Errorf("it stays: %t", got)
			}
			if p.b.holder(peerNID, heirNID) != other || other == nil {
				t.Error("the session of another peer ends")
			}
			if c.stays && (s.hs != nil || p.b.entries[s.key].Holds || p.b.known[ownNID] == nil) {
				t.Errorf("it waits for a proof: %+v", s.hs)
			}
			if c.stays {
				p.b.endSession(p.b.now, s, "test")
			}
			if p.b.known[ownNID] != nil {
				t.Error("it is known without a session")
			}
			p.b.RetirePeer(p.b.now, ownNID) // who is not known
			if p.b.RetirePeer(p.b.now, heirNID); p.b.known[heirNID] != nil {
				t.Error("a peer without a key is retired")
			}
		})
	}
}

// TestMayVouch: the old key vouches, as long as it may, towards those that need a proof and do not follow yet.
func TestMayVouch(t *testing.T) {
	p, _ := heir(t)
	h, k := handshakes{p.a.Core}, p.a.known[peerNID]
	if !h.mayVouch(p.a.now, k) || h.mayVouch(p.a.now, nil) {
		t.Error("does not vouch to a peer, or to nobody")
	}
	for what, change := range map[string]func(k *correspondent){
		"that follows":            func(k *correspondent) { k.follows = true },
		"that is retired":         func(k *correspondent) { k.retired = true },
		"without a key":           func(k *correspondent) { k.keyed = false },
		"whose secret is unknown": func(k *correspondent) { k.secret = nidkey.Secret{} },
	} {
		was := *k
		if change(k); h.mayVouch(p.a.now, k) {
			t.Errorf("vouches to one %s", what)
		}
		*k = was
	}
}

// TestAnnounceToThoseInNeed: the host contacts the peers that may not know of the new key, but none that was
// removed, that has a session, or that is asked no more for a time.
func TestAnnounceToThoseInNeed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *proofBench)
		want   int
	}{
		"one that may not know": {func(*proofBench) {}, 1},
		"one that was removed":  {func(p *proofBench) { p.a.RemovePeer(p.a.now, peerNID) }, 0},
		"one that is asked no more": {func(p *proofBench) {
			p.a.known[peerNID].guard.until = p.a.now.Add(time.Minute)
		}, 0},
		"one whose place is unknown": {func(p *proofBench) { p.a.known[peerNID].locators = nil }, 0},
		"one that has a session": {func(p *proofBench) {
			p.a.see(Observation{Trigger: SeenMiss, Key: SessionKey{heirNID, peerNID}, LocalNID: heirNID})
			p.a.sent = nil
		}, 0},
		"without a network": {func(p *proofBench) { p.a.withdraw(1, netA) }, 0},
	} {
		p, _ := heir(t)
		h := handshakes{p.a.Core}
		p.a.inheritance.queue = h.unaware(p.a.now)
		if c.change(p); name == "one whose place is unknown" {
			p.a.inheritance.queue = h.unaware(p.a.now)
		}
		h.announce(p.a.now)
		p.a.drain()
		vouches := 0
		for _, s := range p.a.sent {
			if q, err := ilnpwire.ParsePacket(s.Packet); err == nil && q.Vouch != nil {
				vouches++
			}
		}
		if vouches != c.want {
			t.Errorf("%s: %d vouches, want %d", name, vouches, c.want)
		}
	}
}

// TestFormerPeerReplaced: a session of the former identifier whose peer has another key now has its
// keys by the old key, and ends where that is not known: its keys are of what was proven.
func TestFormerPeerReplaced(t *testing.T) {
	for _, known := range []bool{true, false} {
		p := formerBench(t)
		if !known {
			p.a.SetOldKey(p.a.now, nil)
		}
		next := ephemeralOf(t, 51)
		secret, err := p.a.cfg.Key.Shared(next.Public)
		if err != nil {
			t.Fatal(err)
		}
		p.a.AddPeer(p.a.now, Peer{NID: peerNID, Names: []string{"b"}, Secret: secret, Public: next.Public, Guarded: true})
		p.a.drain()
		s := p.a.holder(ownNID, peerNID)
		if (s != nil) != known {
			t.Fatalf("the old key is known %t: %+v", known, s)
		}
		if !known {
			continue
		}
		if secret, err = p.keys[0].Shared(next.Public); err != nil {
			t.Fatal(err)
		}
		if want := directionKey(secret, ownNID, peerNID, s.localNonce, s.remoteNonce); !slices.Equal(s.keys.out, want) {
			t.Errorf("its key is %x, want %x", s.keys.out, want)
		}
	}
}
