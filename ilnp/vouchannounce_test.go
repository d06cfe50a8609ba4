package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// TestAnnounceWaits: a host without a locator contacts nobody about its new key, and begins with the first peer when it
// has one.
func TestAnnounceWaits(t *testing.T) {
	p, _ := heir(t)
	p.a.withdraw(1, netA)
	p.a.pass(time.Second)
	if len(p.a.sessions) > 0 || len(p.a.inheritance.queue) != 1 {
		t.Errorf("%d sessions, left to be contacted: %v", len(p.a.sessions), p.a.inheritance.queue)
	}
	p.a.prefix(1, netA, roam.Infinite)
	p.a.forget()
	if p.both(vouchFirst); len(p.successions()) != 1 {
		t.Error("b is not contacted")
	}
}

// TestAnnounceToWhom: nobody is contacted who has a session, or refused a connection just now.
func TestAnnounceToWhom(t *testing.T) {
	for name, change := range map[string]func(p *proofBench){
		"it has a session": func(p *proofBench) {
			p.a.see(Observation{Trigger: SeenMiss, Key: SessionKey{heirNID, peerNID}, LocalNID: heirNID})
		},
		"it refused": func(p *proofBench) { p.a.known[peerNID].guard.until = p.a.now.Add(guardFor) },
	} {
		p, _ := heir(t)
		change(p)
		p.a.forget()
		p.a.pass(vouchApart)
		for _, o := range p.a.other {
			if slices.Contains([]Output{Release{SessionKey{heirNID, peerNID}}, Reject{SessionKey{heirNID, peerNID}}}, o) {
				t.Errorf("%s: it is contacted", name)
			}
		}
	}
}

// TestAnnounceInTurn: each peer is contacted once in a round, a while apart, and the next round comes much later.
func TestAnnounceInTurn(t *testing.T) {
	p, next := heir(t)
	other := ephemeralOf(t, 45)
	secret, err := next.Shared(other.Public)
	if err != nil {
		t.Fatal(err)
	}
	p.a.AddPeer(p.a.now, Peer{NID: heirNID + 5, Names: []string{"other"}, Secret: secret, Public: other.Public,
		Locators: []RemoteLocator{{L64: netS, Preference: 10, Lifetime: roam.Infinite}}})
	for i, want := range [][2]bool{{true, false}, {true, true}} {
		p.a.pass(vouchApart)
		for j, nid := range []roam.NID{peerNID, heirNID + 5} {
			if s := p.a.holder(heirNID, nid); (s != nil) != want[j] {
				t.Errorf("in turn %d: %v is contacted %t", i, nid, s != nil)
			}
		}
	}
	if n := p.a.inheritance.rounds; n != 1 {
		t.Errorf("%d rounds are over", n)
	}
}

// TestUnaware are the correspondents that may not know of the new key, and can be contacted.
func TestUnaware(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *correspondent)
		want   int
	}{
		"as it should be":         {func(*correspondent) {}, 1},
		"it knows":                {func(k *correspondent) { k.follows = true }, 0},
		"nobody says where it is": {func(k *correspondent) { k.locators = nil }, 0},
	} {
		p, _ := heir(t)
		c.change(p.a.known[peerNID])
		if list := (handshakes{p.a.Core}).unaware(p.a.now); len(list) != c.want {
			t.Errorf("%s: %v", name, list)
		}
	}
}
