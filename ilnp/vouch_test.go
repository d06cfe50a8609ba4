package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

const heirNID roam.NID = 0x0200_0000_0000_0033

// heir makes a of a proofBench anew, with another key and NID: its old key, which b knows, vouches
// for them for a week.
func heir(t *testing.T) (p *proofBench, next *nidkey.Key) {
	t.Helper()
	p = newProofBench(t)
	k := ephemeralOf(t, 40)
	k.NID = heirNID
	p.a = p.named(heirNID, &k)
	p.inherit(ownNID, p.keys[0])
	return p, &k
}

// named makes a host at netA that knows b.
func (p *proofBench) named(nid roam.NID, k *nidkey.Key) *bench {
	p.t.Helper()
	h := newBench(p.t, func(c *Config) { c.NIDs, c.Accept, c.Key = []roam.NID{nid}, Known, k })
	h.now = p.b.now
	h.prefix(1, netA, roam.Infinite)
	secret, err := k.Shared(p.keys[1].Public)
	if err != nil {
		p.t.Fatal(err)
	}
	h.AddPeer(h.now, Peer{NID: peerNID, Names: []string{"b"}, Secret: secret, Public: p.keys[1].Public, Guarded: true,
		Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
	h.drain()
	return h
}

func (p *proofBench) inherit(nid roam.NID, k nidkey.Key) {
	p.a.SetOldKey(p.a.now, &OldKey{Key: k, NID: nid, Until: p.a.now.Add(7 * 24 * time.Hour)})
}

// successions returns what b was told to take over, and forgets it.
func (p *proofBench) successions() (list []Succession) {
	for _, o := range p.b.other {
		if s, is := o.(Succession); is {
			list = append(list, s)
		}
	}
	p.b.other = nil
	return list
}

// takeOver does what a host does of a succession.
func (p *proofBench) takeOver(s Succession) {
	p.t.Helper()
	secret, err := p.keys[1].Shared(s.Claim.Public)
	if err != nil {
		p.t.Fatal(err)
	}
	p.b.RemovePeer(p.b.now, s.Old)
	p.b.AddPeer(p.b.now, Peer{NID: s.NID, Names: []string{"peer"}, Secret: secret, Public: s.Claim.Public})
	p.b.drain()
}

// both lets time pass at both hosts.
func (p *proofBench) both(d time.Duration) {
	p.a.pass(d)
	p.b.pass(d)
	p.exchange()
}

// vouches returns the vouches that were sent.
func (p *proofBench) vouches() (list [][]byte) {
	for _, b := range p.wire {
		if q, err := ilnpwire.ParseControl(b, 6740); err == nil && q.Vouch != nil {
			list = append(list, b)
		}
	}
	return list
}

// TestVouch: without any packet of an application the peer learns of the new key and takes it
// over; then the host is silent about the old one. The next rotation goes the same way.
func TestVouch(t *testing.T) {
	p, next := heir(t)
	p.both(vouchApart)
	told := p.successions()
	if len(told) != 1 || told[0] != (Succession{ownNID, heirNID, nidkey.Claim{Public: next.Public, Hashed: true}}) {
		t.Fatalf("b is told %+v; refused %v", told, p.b.RejectedInput())
	}
	if len(p.b.sessions) != 0 {
		t.Error("a vouch makes a session")
	}
	if p.deliver(p.b, p.vouches()[0]); len(p.successions()) != 0 {
		t.Error("a copy within a minute is told of")
	}
	bare := slices.Clone(p.vouches()[0])
	copy(bare[42:], []byte{1, 4, 0, 0, 0, 0}) // padding in place of the nonce
	p.b.known[ownNID].vouched = time.Time{}
	if p.b.receive(1, bare); len(p.successions()) != 0 || p.b.RejectedInput()[reasonNoNonce] != 1 {
		t.Errorf("without a nonce: refused %v", p.b.RejectedInput())
	}
	p.takeOver(told[0])
	p.both(proofFirst)
	p.both(proofFirst)
	if s := p.session(p.b); s == nil || s.remoteNID != heirNID || s.agreed == nil || !s.agreed.confirmed {
		t.Fatalf("b has %+v; refused %v", s, p.b.RejectedInput())
	}
	n := len(p.vouches())
	p.a.pass(time.Hour)
	p.exchange()
	if now := len(p.vouches()); now != n {
		t.Errorf("%d more vouches to a peer that knows the new key", now-n)
	}
	again := ephemeralOf(t, 41)
	again.NID = heirNID + 1
	p.a = p.named(again.NID, &again)
	p.inherit(heirNID, *next)
	p.both(vouchApart)
	if told = p.successions(); len(told) != 1 || told[0].Old != heirNID || told[0].NID != again.NID {
		t.Errorf("of the second rotation b is told %+v; refused %v", told, p.b.RejectedInput())
	}
	for _, b := range p.vouches()[:n] { // of the first one
		p.deliver(p.b, b)
	}
	if told = p.successions(); len(told) != 0 || p.b.RejectedInput()[reasonVouchNoKey] == 0 {
		t.Errorf("a replayed vouch: told %+v, refused %v", told, p.b.RejectedInput())
	}
}

// TestVouchInTime: an old key vouches until its time is over or it is revoked, and only for the
// key of the NID that the host has.
func TestVouchInTime(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *proofBench)
		want   bool
	}{
		"now":         {func(*proofBench) {}, true},
		"revoked":     {func(p *proofBench) { p.a.SetOldKey(p.a.now, nil) }, false},
		"over":        {func(p *proofBench) { p.a.now = p.a.now.Add(7 * 24 * time.Hour) }, false},
		"of this NID": {func(p *proofBench) { p.inherit(heirNID, p.keys[0]) }, false},
		"of another key": {func(p *proofBench) {
			p.a.cfg.Key.NID++
			p.inherit(ownNID, p.keys[0])
		}, false},
	} {
		p, _ := heir(t)
		c.change(p)
		p.a.see(Observation{Trigger: SeenMiss, Key: SessionKey{heirNID, peerNID}, LocalNID: heirNID})
		p.exchange()
		if got := len(p.vouches()) > 0; got != c.want {
			t.Errorf("%s: vouches %t", name, got)
		}
	}
}

// TestVouchInUDP: behind a filter of options the vouch goes in UDP, as the offer does.
func TestVouchInUDP(t *testing.T) {
	p, _ := heir(t)
	p.a.cfg.UDPPort, p.b.cfg.UDPPort = 6740, 6740
	p.both(vouchApart)
	p.successions()
	p.a.pass(vouchFirst)
	p.b.known[ownNID].vouched = time.Time{}
	for _, s := range p.a.sent {
		if q, err := ilnpwire.ParseControl(s.Packet, 6740); err == nil && q.Vouch != nil && q.Encapsulated {
			p.b.receive(1, s.Packet)
		}
	}
	if told := p.successions(); len(told) != 1 {
		t.Errorf("told %+v", told)
	}
}

// TestVouchForged: each attack changes one thing of a right vouch, and is refused for its reason.
func TestVouchForged(t *testing.T) {
	thief := ephemeralOf(t, 60)
	for name, c := range map[string]struct {
		reason string
		forge  func(p *proofBench, v *ilnpwire.Vouch, from *roam.NID)
	}{
		"right": {"", func(*proofBench, *ilnpwire.Vouch, *roam.NID) {}},
		"by a key that is not the old one": {reasonVouchForged, func(p *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			secret, _ := thief.Shared(p.keys[1].Public)
			v.ByOld = secret.Vouches(ownNID, peerNID, vouchBody(*v, ownNID))
		}},
		"for the key of somebody else": {reasonVouchForged, func(p *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			v.Public = ephemeralOf(t, 61).Public // whose private half he lacks
			p.resign(v, thief)
		}},
		"for an NID that is known": {reasonVouchTaken, func(p *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			p.b.known[v.NID] = &correspondent{nid: v.NID, keyed: true}
		}},
		"for an NID that is known without a key": {"", func(p *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			p.b.known[v.NID] = &correspondent{nid: v.NID}
		}},
		"to a host whose key was taken away": {reasonVouchNoKey, func(p *proofBench, _ *ilnpwire.Vouch, _ *roam.NID) {
			p.b.SetKey(nil)
		}},
		"for the reader": {reasonVouchTaken, func(p *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			v.NID = peerNID
			p.resign(v, thief)
		}},
		"for the old NID": {reasonVouchTaken, func(p *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			v.NID = ownNID
			p.resign(v, thief)
		}},
		"from another node": {reasonVouchForged, func(p *proofBench, v *ilnpwire.Vouch, from *roam.NID) {
			*from = heirNID + 9
			secret, _ := p.keys[1].Shared(thief.Public)
			p.b.AddPeer(p.b.now, Peer{NID: *from, Names: []string{"thief"}, Secret: secret, Public: thief.Public})
		}},
		"from a node without a key": {reasonVouchNoKey, func(p *proofBench, _ *ilnpwire.Vouch, from *roam.NID) {
			*from = heirNID + 9
			p.b.AddPeer(p.b.now, Peer{NID: *from, Names: []string{"unkeyed"}})
		}},
		"after its time": {reasonVouchOld, func(p *proofBench, v *ilnpwire.Vouch, _ *roam.NID) { p.b.now = v.Until }},
		"with a later time": {reasonVouchForged, func(_ *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			v.Until = v.Until.Add(time.Hour)
		}},
		"with another modifier": {reasonVouchForged, func(_ *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			v.Modifier[0]++
		}},
		"for another NID": {reasonVouchForged, func(_ *proofBench, v *ilnpwire.Vouch, _ *roam.NID) { v.NID++ }},
		"with half a proof": {reasonVouchForged, func(_ *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			v.ByNew[0]++
		}},
		"of low order": {reasonVouchForged, func(p *proofBench, v *ilnpwire.Vouch, _ *roam.NID) {
			v.Public = nidkey.Public{1}
			p.resign(v, thief)
			v.ByNew = nidkey.Secret{}.Vouches(v.NID, peerNID, vouchBody(*v, ownNID))
		}},
	} {
		p, _ := heir(t)
		p.lossy = func(q ilnpwire.Packet) bool { return true }
		p.both(vouchApart)
		q, err := ilnpwire.ParsePacket(p.vouches()[0])
		if err != nil {
			t.Fatal(err)
		}
		v, from := *q.Vouch, q.Src.NID
		c.forge(p, &v, &from)
		list := []ilnpwire.LocatorEntry{entry(netA, 0, 1)}
		lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Locators: list}
		b, err := ilnpwire.BuildVouch(roam.ILV{NID: from, L64: netA}, q.Dst, q.Nonce, lu, v)
		if err != nil {
			t.Fatal(err)
		}
		p.b.receive(1, b)
		told := p.successions()
		refused := c.reason != "" && p.b.RejectedInput()[c.reason] == 1
		if c.reason == "" && len(told) != 1 || c.reason != "" && (len(told) != 0 || !refused) {
			t.Errorf("%s: told %+v, refused %v", name, told, p.b.RejectedInput())
		}
	}
}

// resign makes both MACs anew as who has a's old key and another key can.
func (p *proofBench) resign(v *ilnpwire.Vouch, other nidkey.Key) {
	p.t.Helper()
	old, err := p.keys[0].Shared(p.keys[1].Public)
	if err != nil {
		p.t.Fatal(err)
	}
	secret, err := other.Shared(p.keys[1].Public)
	if err != nil {
		p.t.Fatal(err)
	}
	body := vouchBody(*v, ownNID)
	v.ByOld, v.ByNew = old.Vouches(ownNID, peerNID, body), secret.Vouches(v.NID, peerNID, body)
}
