package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// TestProofLost: each message may be lost.
func TestProofLost(t *testing.T) {
	for _, step := range []ilnpwire.ProofStep{
		ilnpwire.ProofOffer, ilnpwire.ProofAnswer, ilnpwire.ProofConfirm, ilnpwire.ProofChallenge,
	} {
		p := newProofBench(t)
		lost := false
		p.lossy = func(q ilnpwire.Packet) bool {
			was := lost
			lost = lost || q.Proof != nil && q.Proof.Step == step
			return lost && !was
		}
		p.open()
		for range 20 {
			p.a.pass(50 * time.Millisecond)
			p.b.pass(50 * time.Millisecond)
			p.exchange()
		}
		p.wantProved()
	}
}

// TestProofClock: a's clock is set back to 1970, and its state is gone: the challenge tells it the
// counter, and later set-ups need none.
func TestProofClock(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.b.endSession(p.b.now, p.session(p.b), "test")
	p.b.drain()
	a := p.host(0)
	a.now = time.Unix(5, 0)
	p.a = a
	p.open()
	p.wantProved()
	if n := p.count(ilnpwire.ProofChallenge); n != 2 {
		t.Errorf("%d challenges, want 2", n)
	}
	a.endSession(a.now, p.session(a), "test")
	p.b.endSession(p.b.now, p.session(p.b), "test")
	a.drain()
	p.b.drain()
	p.open()
	p.wantProved()
	if n := p.count(ilnpwire.ProofChallenge); n != 2 {
		t.Errorf("%d challenges, want 2: the counter was told", n)
	}
}

// TestProofReserve: a state reserves counters, so that a clock that was set back costs nothing.
func TestProofReserve(t *testing.T) {
	p := newProofBench(t)
	p.open()
	state, used := p.a.Export(), p.a.prover.counter
	for what, take := range map[string]func(*Core, time.Time, []byte) error{
		"a restart": (*Core).Restore, "a reboot": (*Core).Recall,
	} {
		n := newBench(t, func(c *Config) { c.Key = &p.keys[0] })
		if err := take(n.Core, n.now, state); err != nil {
			t.Fatal(err)
		}
		if got := n.prover.nextCounter(time.Unix(5, 0)); got <= used+uint64(time.Minute) {
			t.Errorf("after %s the next counter is %d, %d was used", what, got, used)
		}
	}
}

// TestKnownKeyRestart: a successor knows which peers have shown that they know the host's key, and counts it for that
// key alone. The old key does not vouch towards them, which would show the new one to everybody on the path.
func TestKnownKeyRestart(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	for what, c := range map[string]struct {
		take func(*Core, time.Time, []byte) error
		key  *nidkey.Key
		want bool
	}{
		"a restart":         {(*Core).Restore, &p.keys[0], true},
		"a reboot":          {(*Core).Recall, &p.keys[0], true},
		"with another key":  {(*Core).Restore, &p.keys[1], false},
		"without its key":   {(*Core).Restore, nil, false},
		"reboot, other key": {(*Core).Recall, &p.keys[1], false},
	} {
		n := newBench(t, func(cfg *Config) { cfg.Key = c.key })
		if err := c.take(n.Core, n.now, p.a.Export()); err != nil {
			t.Fatal(err)
		}
		if got := n.known[peerNID].follows; got != c.want {
			t.Errorf("%s: it knows our key: %t", what, got)
		}
	}
}

// TestProofRestart: a successor goes on with the keys of the session.
func TestProofRestart(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	n := newBench(t, func(c *Config) { c.Key = &p.keys[0] })
	n.now = p.a.now
	if err := n.Restore(n.now, p.a.Export()); err != nil {
		t.Fatal(err)
	}
	p.know(n, 0)
	p.a = n
	p.wantProved()
	if !n.Peers(n.now)[0].Proved {
		t.Error("it is not shown as proved")
	}
}

// TestProofCrossed: both begin at once, and agree on one session.
func TestProofCrossed(t *testing.T) {
	p := newProofBench(t)
	peer := p.b.known[ownNID]
	peer.locators.put(netA, 10, time.Time{})
	p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID})
	p.open()
	for range 20 {
		p.a.pass(50 * time.Millisecond)
		p.b.pass(50 * time.Millisecond)
		p.exchange()
	}
	p.wantProved()
}

// TestProofLostState: b has lost its half of a session. An answer with another nonce makes a prove
// itself anew, and its session takes the new keys.
func TestProofLostState(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.b, p.own = p.host(1), Nonce{Len: 4, Bytes: [12]byte{8, 8, 8, 8}}
	s := p.session(p.a)
	root := s.agreed.root
	p.a.probePaths(p.a.now, s, s.entry.Paths)
	p.a.drain()
	for _, q := range p.a.probesSent() {
		p.a.reply(q, p.own)
	}
	if s.state != Established || !p.a.entries[theKey].Holds {
		t.Error("the session does not stay as it is, and hold, until the proof")
	}
	p.exchange()
	p.wantProved()
	if slices.Equal(root, p.session(p.a).agreed.root) {
		t.Error("the keys are the old ones")
	}
}

// TestProofOfNobody: a host without the peer's key takes no proof, and counts it.
func TestProofOfNobody(t *testing.T) {
	p := newProofBench(t)
	_, b := p.offer()
	p.b.RemovePeer(p.b.now, ownNID)
	p.b.AddPeer(p.b.now, Peer{NID: ownNID, Names: []string{"a"}})
	p.b.drain()
	p.deliver(p.b, b)
	p.wantNone("no key", reasonProofNoKey)
}

// TestProofKeyReplaced: with another key of the peer, what was proven with the old one counts no
// more, also if the line was changed while no daemon ran.
func TestProofKeyReplaced(t *testing.T) {
	for _, restart := range []bool{false, true} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		old := p.session(p.a).keys.in
		if restart {
			n := newBench(t, func(c *Config) { c.Key = &p.keys[0] })
			n.now = p.a.now
			if err := n.Restore(n.now, p.a.Export()); err != nil {
				t.Fatal(err)
			}
			p.a = n
		}
		p.keys[1] = ephemeralOf(t, 12)
		p.know(p.a, 0)
		if s := p.session(p.a); s.agreed != nil || slices.Equal(s.keys.in, old) {
			t.Errorf("restart %t: the keys of the old proof count", restart)
		}
	}
}

// TestReplacedKeyIsDemanded: a session whose peer had another key than it has by now goes on if the peer has the
// new one, and else ends, though somebody answers its probes. A newcomer with the new key has the session at once.
func TestReplacedKeyIsDemanded(t *testing.T) {
	for what, c := range map[string]struct{ has, comes, away, kept bool }{
		"its peer has the new key":                {has: true, kept: true},
		"its peer has the old key":                {},
		"its peer comes back with the new key":    {has: true, away: true, kept: true},
		"its peer comes back with the old key":    {away: true},
		"and another node comes with the new key": {comes: true, kept: true},
	} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		was, old := p.session(p.a), p.keys[1]
		p.lossy = func(ilnpwire.Packet) bool { return c.away }
		p.keys[1] = ephemeralOf(t, 12)
		p.know(p.a, 0)
		if p.b.SetKey(&old); c.has {
			p.b.SetKey(&p.keys[1])
			p.know(p.b, 1)
		}
		if c.comes {
			p.b = p.host(1)
			p.b.now = p.a.now
			p.b.Detach(p.b.now, 1)
			p.b.prefix(1, netQ, roam.Infinite)
			p.own = Nonce{Len: 4, Bytes: [12]byte{8, 8, 8, 8}}
			p.b.known[ownNID].locators.put(netA, 10, time.Time{})
			p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID})
		}
		after := time.Duration(-1)
		for i := range 2000 {
			p.exchange()
			s := p.a.sessions[theKey]
			if after < 0 && s != nil && s != was && s.agreed != nil && s.agreed.confirmed {
				after = time.Duration(i) * 50 * time.Millisecond
			}
			if c.away && i == 200 {
				if c.away = false; p.session(p.a) != was {
					t.Errorf("%s: the session has ended before", what)
				}
			}
			if !c.away {
				was.lastNonceRx = p.a.now.Add(time.Nanosecond) // somebody answers
			}
			p.a.pass(50 * time.Millisecond)
			p.b.pass(50 * time.Millisecond)
		}
		s := p.session(p.a)
		if (s != nil) != c.kept || c.has && s != was {
			t.Errorf("%s: the session is %+v; refused %v", what, s, p.a.RejectedInput())
		}
		if c.comes && (after < 0 || after > time.Second) {
			t.Errorf("%s: it has the session after %v", what, after)
		}
		if c.kept && (s.hs.demands() || s.agreed.isOpen() || s.agreed == nil) {
			t.Errorf("%s: it is not proven by the new key: %+v", what, s.agreed)
		}
		if !c.kept && p.a.RejectedInput()[reasonUnproven] != 1 {
			t.Errorf("%s: refused %v", what, p.a.RejectedInput())
		}
	}
}

// TestDemandWaitsForALink: a host without a link has asked nobody, so nobody has ignored it.
func TestDemandWaitsForALink(t *testing.T) {
	for _, asked := range []bool{false, true} {
		p := newProofBench(t)
		p.open()
		p.wantProved()
		p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil }
		p.keys[1] = ephemeralOf(t, 12)
		if asked { // before the link goes; the peer is there, and answers the probe
			p.know(p.a, 0)
			p.exchange()
			p.session(p.a).lastNonceRx = p.a.now.Add(time.Millisecond)
		}
		p.a.Detach(p.a.now, 1)
		if !asked {
			p.know(p.a, 0)
		}
		for range 600 {
			p.a.pass(50 * time.Millisecond)
		}
		if s := p.session(p.a); s == nil || !s.hs.demands() {
			t.Errorf("asked before %t: the session is %+v", asked, s)
		}
	}
}

// TestDemandOutlastsARestart: a session that is to prove a new key is to after a restart, too.
func TestDemandOutlastsARestart(t *testing.T) {
	p := newProofBench(t)
	p.open()
	p.wantProved()
	p.keys[1] = ephemeralOf(t, 12)
	p.know(p.a, 0)
	for _, restarts := range []int{1, 2} {
		n := newBench(t, func(c *Config) { c.Key = &p.keys[0] })
		n.now = p.a.now
		if err := n.Restore(n.now, p.a.Export()); err != nil {
			t.Fatal(err)
		}
		p.a = n
		if p.know(n, 0); !p.session(n).hs.demands() {
			t.Errorf("after %d restarts the session need not prove the new key", restarts)
		}
	}
}

// TestChallengeIsForOnePlace: who answers a challenge has received it there.
func TestChallengeIsForOnePlace(t *testing.T) {
	var c challenges
	made := ilnpwire.Packet{Src: roam.ILV{L64: 1, NID: 2}, Dst: roam.ILV{NID: 3}, Proof: &ilnpwire.Proof{}}
	made.Proof.Token = c.next(askerOf(made))
	if got := c.numberOf(made); got != 1 {
		t.Errorf("the challenge has number %d, want 1", got)
	}
	var none challenges
	if none.numberOf(made) != 0 {
		t.Error("a host that has made no challenge takes one")
	}
	other := *made.Proof
	other.Ephemeral[0]++
	for what, change := range map[string]func(*ilnpwire.Packet){
		"place": func(p *ilnpwire.Packet) { p.Src.L64++ }, "node": func(p *ilnpwire.Packet) { p.Src.NID++ },
		"own node": func(p *ilnpwire.Packet) { p.Dst.NID++ }, "nonce": func(p *ilnpwire.Packet) { p.Nonce.Len = 4 },
		"ephemeral key": func(p *ilnpwire.Packet) { p.Proof = &other },
	} {
		p := made
		change(&p)
		if c.numberOf(p) != 0 {
			t.Errorf("another %s has the same challenge", what)
		}
	}
}

// TestNoOfferBesideAnAnswer: a host whose answer waits for its confirmation makes no offer for that session, whatever
// answers its probes: the session would not end for that.
func TestNoOfferBesideAnAnswer(t *testing.T) {
	p := newProofBench(t)
	p.lossy = func(q ilnpwire.Packet) bool { return q.Proof != nil && q.Proof.Step == ilnpwire.ProofConfirm }
	p.open()
	b := p.session(p.b)
	if !b.agreed.isOpen() {
		t.Fatal("the answer is confirmed already: this shows nothing")
	}
	handshakes{p.b.Core}.renew(p.b.now, b)
	handshakes{p.b.Core}.insist(p.b.now, b)
	if b.hs != nil {
		t.Error("an offer is under way")
	}
	p.b.pass(20 * time.Second)
	p.wantNone("no confirmation", reasonProofOpen)
}
