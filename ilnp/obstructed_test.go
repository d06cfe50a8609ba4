package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// along returns the paths of what was sent.
func (b *bench) along() (paths []Path) {
	b.t.Helper()
	for _, s := range b.sent {
		p, err := ilnpwire.ParsePacket(s.Packet)
		if err != nil {
			b.t.Fatal(err)
		}
		paths = append(paths, Path{roam.LinkLocator{Link: s.Link, L64: p.Src.L64}, p.Dst.L64})
	}
	return paths
}

// obstruct tells the paths that are obstructed from now on.
func (b *bench) obstruct(paths ...Path) {
	b.HandleObstructed(b.now, peerNID, paths)
	b.drain()
}

// TestObstructedPaths: nothing uses an obstructed path, in no mode and however the
// session fares, and its entry never lists one; when the policy is gone, it does.
func TestObstructedPaths(t *testing.T) {
	fromA, fromB := Path{roam.LinkLocator{Link: 1, L64: netA}, netP}, Path{roam.LinkLocator{Link: 2, L64: netB}, netP}
	for name, c := range map[string]struct {
		mode             Mode
		obstructed, want []Path
	}{
		"one of two, in use":     {Soft, []Path{fromB}, []Path{fromA}},
		"one of two, in reserve": {Soft, []Path{fromA}, []Path{fromB}},
		"one of two, hard":       {Hard, []Path{fromB}, []Path{fromA}},
		"one of two, duality":    {Duality, []Path{fromB}, []Path{fromA}},
		"both":                   {Soft, []Path{fromA, fromB}, nil},
		"both, duality":          {Duality, []Path{fromA, fromB}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, inMode(c.mode))
			b.prefix(1, netA, roam.Infinite)
			b.prefix(2, netB, roam.Infinite)
			b.open(netP)
			before := b.entries[theKey].Paths
			b.forget()
			b.obstruct(c.obstructed...)
			if got := b.entries[theKey].Paths; !slices.Equal(got, c.want) {
				t.Errorf("paths %v, want %v", got, c.want)
			}
			for range 20 { // it suspects, finds the peer dead, is told of moves
				b.see(Observation{Trigger: SeenSilence, Key: theKey})
				b.receive(1, b.update(netP, peerNonce, updateOf(entry(netP, 10, 600))))
				b.pass(5 * time.Second)
				b.HandleActivity(b.now, []Activity{{Key: theKey, LastTx: b.now, LastRx: b.now}})
				b.drain()
			}
			for _, p := range b.along() {
				if slices.Contains(c.obstructed, p) {
					t.Fatalf("sent along %v", p)
				}
			}
			b.obstruct()
			b.answerProbes()
			if got := b.entries[theKey].Paths; !slices.Equal(got, before) {
				t.Errorf("without the policy paths %v, want %v", got, before)
			}
		})
	}
}

// TestObstructedLocatorIsNotListed: a correspondent is not told of a locator from
// which it would get no answer.
func TestObstructedLocatorIsNotListed(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP, netQ)
	b.forget()
	fromB := roam.LinkLocator{Link: 2, L64: netB}
	b.obstruct(Path{fromB, netP}, Path{fromB, netQ})
	lists := func() (ls []roam.L64) {
		list := b.updates()
		if len(list) == 0 {
			t.Fatal("nothing was told")
		}
		for _, e := range list[len(list)-1].Locators {
			ls = append(ls, e.L64)
		}
		return ls
	}
	if got := lists(); !slices.Equal(got, []roam.L64{netA}) {
		t.Errorf("told of %v, want %v only", got, netA)
	}
	b.acknowledgeLast()
	b.acknowledgeLast() // that of the set before may have come after it: it is told once more
	b.answerProbes()
	b.see(Observation{Trigger: SeenSilence, Key: theKey})
	b.pass(time.Second) // the second round asks from all locators, if it may
	b.answerProbes()
	b.pass(4 * time.Second)
	if n := len(b.updates()); n != 0 {
		t.Errorf("told %d times more, though no probe has left from elsewhere", n)
	}
	b.obstruct(Path{fromB, netP})
	if got := lists(); len(got) != 2 {
		t.Errorf("told of %v, want both, as a path is left", got)
	}
}

// TestObstructedFromTheStart: a session that cannot send is set up when it can, and
// is not held for plain IPv6 meanwhile, nor is a preinstalled entry used.
func TestObstructedFromTheStart(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Preinstall = 1 })
	b.prefix(1, netA, roam.Infinite)
	only := Path{roam.LinkLocator{Link: 1, L64: netA}, netP}
	b.obstruct(only)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.drain()
	for i, paths := range [][]Path{{only}, nil, {only}} {
		b.obstruct(paths...)
		if p := b.entries[theKey]; !p.Preinstalled || len(p.Paths) != 1-len(paths) {
			t.Errorf("preinstalled entry %+v, %d paths obstructed, the %d. time", p, len(paths), i)
		}
	}
	b.see(Observation{Trigger: SeenMiss, Key: theKey, LocalNID: ownNID})
	b.pass(time.Minute)
	if p := b.entries[theKey]; p.State != Initiated || len(p.Paths) != 0 || len(b.sent) != 0 {
		t.Errorf("entry %+v after a minute, %d packets sent", p, len(b.sent))
	}
	b.obstruct()
	if p := b.entries[theKey]; !slices.Equal(p.Paths, []Path{only}) || len(b.probesSent()) == 0 {
		t.Errorf("entry %+v without the policy, %d probes", p, len(b.probesSent()))
	}
}

// TestObstructedRetransmissions: an update whose first path has become obstructed is
// retransmitted along others only, in no form along that one.
func TestObstructedRetransmissions(t *testing.T) {
	b := newBench(t, func(c *Config) { c.UDPPort = 6740 })
	b.prefix(1, netA, roam.Infinite)
	b.open(netP, netQ)
	b.forget()
	b.prefix(2, netB, roam.Infinite)
	first := b.along()[0]
	b.forget()
	b.obstruct(first)
	b.pass(10 * time.Second)
	if len(b.sent) == 0 || slices.Contains(b.along(), first) {
		t.Errorf("%d packets sent, some of them along %v", len(b.sent), first)
	}
}

// TestObstructedQuestions: neither a command's probes nor those that validate a pending
// peer take an obstructed path.
func TestObstructedQuestions(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	b.forget()
	fromA := Path{roam.LinkLocator{Link: 1, L64: netA}, netP}
	b.obstruct(fromA)
	b.Check(b.now, peerNID, nil)
	b.drain()
	if len(b.sent) == 0 || slices.Contains(b.along(), fromA) {
		t.Errorf("a command sends %d probes, some along %v", len(b.sent), fromA)
	}
	const nid roam.NID = 0x0200_0000_0000_0009
	pending := Path{roam.LinkLocator{Link: 1, L64: netA}, netQ}
	knock := Observation{
		Trigger: SeenPending, Key: SessionKey{ownNID, nid}, LocalNID: ownNID, Local: pending.Local,
		Remote: roam.ILV{NID: nid, L64: netQ}, Nonce: peerNonce, OwnNonce: peerNonce,
	}
	b.forget()
	b.HandleObstructed(b.now, nid, []Path{pending})
	b.see(knock)
	b.pass(10 * time.Second)
	if slices.Contains(b.along(), pending) {
		t.Errorf("a pending peer is asked along %v", pending)
	}
	b.forget()
	b.HandleObstructed(b.now, nid, nil)
	b.see(knock)
	if !slices.Contains(b.along(), pending) {
		t.Error("a pending peer is not asked without a policy")
	}
}

// TestObstructions: the set alone says which paths are left, which transmission takes
// which of them, and which locators of ours are worth listing.
func TestObstructions(t *testing.T) {
	a, b := roam.LinkLocator{Link: 1, L64: netA}, roam.LinkLocator{Link: 2, L64: netB}
	o := make(obstructions)
	if o.set(peerNID, nil) || !o.set(peerNID, []Path{{a, netP}, {b, netP}, {b, netQ}}) || o.set(peerNID, []Path{{b, netQ}, {b, netP}, {a, netP}}) {
		t.Error("a change is not one, or the same set is")
	}
	if got := o.without(peerNID, []Path{{a, netP}, {a, netQ}, {b, netP}}); !slices.Equal(got, []Path{{a, netQ}}) {
		t.Errorf("paths left: %v", got)
	}
	for try := range 4 {
		p, ok := o.nextEnds(peerNID, try, []roam.LinkLocator{a, b}, []roam.L64{netP, netQ})
		if !ok || p != (Path{a, netQ}) {
			t.Errorf("transmission %d goes along %v, %v", try, p, ok)
		}
	}
	s := &session{remoteNID: peerNID, remotes: remotes{{l64: netP}, {l64: netQ}}}
	list := o.reachable(s, []listed{{l64: netA}, {l64: netB}}, []*local{{LinkLocator: a}, {LinkLocator: b}})
	if !slices.Equal(list, []listed{{l64: netA}}) {
		t.Errorf("listed are %v", list)
	}
	const other roam.NID = 0x0200_0000_0000_0009
	if o.has(other, Path{a, netP}) || !o.set(peerNID, nil) || len(o) != 0 {
		t.Errorf("another node's path is obstructed, or an empty set is kept: %v", o)
	}
}
