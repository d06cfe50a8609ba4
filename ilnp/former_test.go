package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// formerBench is a proofBench whose a has come back under another key and NID, with a proven session
// under the former one.
func formerBench(t *testing.T) *proofBench {
	t.Helper()
	p := newProofBench(t)
	p.open()
	p.wantProved()
	state := p.a.Export()
	k := ephemeralOf(t, 40)
	k.NID = heirNID
	h := newBench(t, func(c *Config) { c.NIDs, c.Former, c.Accept, c.Key = []roam.NID{heirNID}, ownNID, Known, &k })
	h.now = p.b.now
	if err := h.Restore(h.now, state); err != nil {
		t.Fatal(err)
	}
	h.prefix(1, netA, roam.Infinite)
	secret, err := k.Shared(p.keys[1].Public)
	if err != nil {
		t.Fatal(err)
	}
	h.AddPeer(h.now, Peer{NID: peerNID, Names: []string{"b"}, Secret: secret, Public: p.keys[1].Public, Guarded: true,
		Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	h.drain()
	p.a = h
	p.inherit(ownNID, p.keys[0])
	return p
}

// moves has a come to another network, and checks that b follows.
func (p *proofBench) moves(to roam.L64, link roam.LinkID) {
	p.t.Helper()
	p.a.prefix(link, to, roam.Infinite)
	p.exchange()
	s := p.b.holder(peerNID, ownNID)
	if s == nil || s.remotes.find(to) == nil || s.keys == nil || p.b.RejectedInput()[reasonWrongMAC] > 0 {
		p.t.Errorf("b does not follow to %v: %+v, refused %v", to, s, p.b.RejectedInput())
	}
}

// TestFormer: a session of the former NID moves, before and after the peer has retired the old key, also
// after a restart of the peer; none begins at either end, and both forget it at the end.
func TestFormer(t *testing.T) {
	p := formerBench(t)
	if s := p.a.holder(ownNID, peerNID); s == nil || s.keys == nil || s.keys.out == nil {
		t.Fatalf("a has lost the session or its keys: %+v", s)
	}
	p.moves(netB, 2)
	p.b.RetirePeer(p.b.now, ownNID)
	p.b.drain()
	if slices.Contains(p.b.KnownNIDs(), ownNID) {
		t.Error("a retired correspondent is listed")
	}
	p.moves(netC, 3)
	state := p.b.Export()
	b := newBench(t, func(c *Config) { c.NIDs, c.Accept, c.Key = []roam.NID{peerNID}, Known, &p.keys[1] })
	b.now = p.a.now
	if err := b.Restore(b.now, state); err != nil {
		t.Fatal(err)
	}
	b.prefix(1, netP, roam.Infinite)
	b.drain()
	p.b = b
	p.moves(netA+1, 4)

	p.a.see(Observation{Trigger: SeenMiss, Key: SessionKey{ownNID, peerNID + 1}, LocalNID: ownNID})
	p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID})
	if len(p.a.between(ownNID, peerNID+1)) > 0 || len(p.b.between(peerNID, ownNID)) != 1 {
		t.Error("a session began under the former identifier")
	}
	p.b.endSession(p.b.now, p.b.holder(peerNID, ownNID), "test")
	if p.b.known[ownNID] != nil {
		t.Error("a retired correspondent outlives its last session")
	}
	p.a.ForgetFormer(p.a.now)
	p.a.drain()
	if sessions, vouches := p.a.FormerInUse(p.a.now); sessions || vouches || len(p.a.between(ownNID, peerNID)) > 0 {
		t.Errorf("the former identifier is in use: sessions %t, vouches %t", sessions, vouches)
	}
}

// TestFormerRestored: a host that rotated restarts, and its peers cannot be read. Its sessions keep what they know of
// their keys, and believe no update without a MAC.
func TestFormerRestored(t *testing.T) {
	p := formerBench(t)
	state := p.a.Export()
	a := newBench(t, func(c *Config) { c.NIDs, c.Former = p.a.cfg.NIDs, ownNID })
	a.now = p.a.now
	a.SetKey(p.a.cfg.Key)
	if err := a.Restore(a.now, state); err != nil {
		t.Fatal(err)
	}
	a.SetOldKey(a.now, p.a.inheritance.old)
	s := a.holder(ownNID, peerNID)
	root := p.a.holder(ownNID, peerNID).agreed.root
	if s == nil || s.keys == nil || s.agreed == nil || !slices.Equal(s.agreed.root, root) {
		t.Errorf("restored %+v", s)
	}
}

// TestFormerMiss: what an application sends from the former session address begins no session.
func TestFormerMiss(t *testing.T) {
	p := formerBench(t)
	p.a.endSession(p.a.now, p.a.holder(ownNID, peerNID), "test")
	p.a.drain()
	p.open()
	if s := p.a.holder(ownNID, peerNID); s != nil {
		t.Errorf("a has %+v", s)
	}
}

// TestFormerProof: an offer to the former NID is answered by a vouch, if it is of the old key, from
// where it says, and as long as that key may vouch.
func TestFormerProof(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *proofBench)
		offer  func(q *ilnpwire.Proof)
		want   string   // why it is refused; "": it is answered
		from   roam.L64 // 0: where b is
	}{
		"authentic":          {},
		"from another place": {from: netS, want: reasonProofPlace},
		"to a key of before": {change: func(p *proofBench) { p.inherit(heirNID+5, p.keys[0]) }, want: reasonFormer},
		"beside many others": {
			change: func(p *proofBench) { p.a.prover.busy = p.a.now.Add(time.Second) }, want: reasonFormer,
		},
		"behind no packet": {
			change: func(p *proofBench) {
				p.lossy = func(q ilnpwire.Packet) bool { return q.Type == ilnpwire.TypeEchoRequest }
			},
			want: reasonNoSession,
		},
		"forged":               {offer: func(q *ilnpwire.Proof) { q.MAC[0]++ }, want: reasonProofForged},
		"changed":              {offer: func(q *ilnpwire.Proof) { q.Ephemeral[3]++ }, want: reasonProofForged},
		"of another step":      {offer: func(q *ilnpwire.Proof) { q.Step = ilnpwire.ProofConfirm }, want: reasonFormer},
		"too late":             {change: func(p *proofBench) { p.a.now = p.a.now.Add(200 * time.Hour) }, want: reasonFormer},
		"after it was revoked": {change: func(p *proofBench) { p.a.SetOldKey(p.a.now, nil) }, want: reasonFormer},
	} {
		t.Run(name, func(t *testing.T) {
			p := formerBench(t)
			p.a.endSession(p.a.now, p.a.holder(ownNID, peerNID), "test")
			p.b.endSession(p.b.now, p.b.holder(peerNID, ownNID), "test")
			p.a.drain()
			p.b.drain()
			p.a.sent, p.b.sent = nil, nil
			if c.change != nil {
				c.change(p)
				p.a.drain()
				p.a.sent = nil
			}
			p.b.now = p.a.now
			p.b.AddPeer(p.b.now, Peer{NID: ownNID, Names: []string{"peer"}, Secret: p.b.known[ownNID].secret,
				Public:   p.keys[0].Public,
				Locators: []RemoteLocator{{L64: netA, Preference: 10, Lifetime: roam.Infinite}}})
			p.b.see(Observation{Trigger: SeenMiss, Key: SessionKey{peerNID, ownNID}, LocalNID: peerNID})
			sent := p.b.sent
			p.b.sent = nil
			for _, s := range sent {
				b := s.Packet
				q, err := ilnpwire.ParsePacket(b)
				if err == nil && c.from != 0 {
					q.Src.L64 = c.from
				}
				if err == nil && q.Proof != nil && (c.offer != nil || c.from != 0) {
					if c.offer != nil {
						c.offer(q.Proof)
					}
					lu, err := ilnpwire.ParseLocatorUpdate(q.Payload)
					if err != nil {
						t.Fatal(err)
					}
					if b, err = ilnpwire.BuildProof(q.Src, q.Dst, q.Nonce, lu, *q.Proof); err != nil {
						t.Fatal(err)
					}
				}
				p.deliver(p.a, b)
			}
			answered := false
			for _, s := range p.a.sent {
				q, err := ilnpwire.ParsePacket(s.Packet)
				answered = answered || err == nil && q.Vouch != nil &&
					q.Src == roam.ILV{NID: ownNID, L64: netA} && q.Dst.NID == peerNID
			}
			if answered != (c.want == "") || c.want != "" && p.a.RejectedInput()[c.want] == 0 {
				t.Errorf("answered %t, refused %v, want %q", answered, p.a.RejectedInput(), c.want)
			}
			p.exchange()
			if told := p.successions(); (len(told) == 1) != (c.want == "") {
				t.Errorf("b is told %v", told)
			}
			if len(p.a.between(ownNID, peerNID)) > 0 {
				t.Error("a session began under the former identifier")
			}
		})
	}
}
