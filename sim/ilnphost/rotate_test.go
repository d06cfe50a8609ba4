package ilnphost

import (
	"math/rand/v2"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/nidkey"
)

// heirOf adds the host that the mobile one is after a rotation, in a network, with its old key.
func (w *proving) heirOf(t *testing.T, before *Node, seed uint64, name string) *Node {
	t.Helper()
	before.core.RemovePeer(w.Now(), w.server.nid) // its sessions end with it
	before.Settle()
	k, err := nidkey.New(bytesOf{rand.New(rand.NewPCG(seed, 99))})
	if err != nil {
		t.Fatal(err)
	}
	h := w.AddNode(name, ilnp.Config{NIDs: []roam.NID{k.NID}, Mode: ilnp.Soft, Key: &k})
	w.keys[h] = &k
	w.know(t, h, w.server, netS)
	until := w.Now().Add(7 * 24 * time.Hour)
	h.core.SetOldKey(w.Now(), &ilnp.OldKey{Key: *w.keys[before], NID: before.nid, Until: until})
	h.Settle()
	return h
}

// follow has the server take over what it is told of, as its daemon does, some time later.
func (w *proving) follow(t *testing.T, taken *[]ilnp.Succession) {
	w.server.Succeeded = func(s ilnp.Succession) {
		*taken = append(*taken, s)
		w.After(200*time.Millisecond, func() {
			if err := s.Claim.Check(s.NID); err != nil {
				t.Error(err)
			}
			secret, err := w.keys[w.server].Shared(s.Claim.Public)
			if err != nil {
				t.Error(err)
			}
			w.server.core.RemovePeer(w.Now(), s.Old)
			w.server.core.AddPeer(w.Now(), ilnp.Peer{NID: s.NID, Names: []string{"mobile"}, Secret: secret,
				Public: s.Claim.Public, Guarded: true,
				Locators: []ilnp.RemoteLocator{{L64: netA, Preference: 10, Lifetime: roam.Infinite}}})
			w.server.Settle()
		})
	}
}

// TestRotation: a host has a new key and identifier, and comes back in another network than the one
// that its peer lists. The peer takes it over within a second, once, without a packet of an
// application or a user; then data flow both ways. So does the next rotation. What was recorded
// of the first one changes nothing when it is replayed.
func TestRotation(t *testing.T) {
	w := newProving(t, 3, netA)
	f := w.startEvery(t, 10*time.Millisecond, true)
	w.wantProved(t)
	w.finish(t, f)
	wantLost(t, f, 0)
	var taken []ilnp.Succession
	w.follow(t, &taken)
	before, at := w.mobile, []roam.L64{netB, netC}
	for i, name := range []string{"heir", "heir of heir"} {
		before.Down(1)
		next := w.heirOf(t, before, uint64(i), name)
		next.Up(1, at[i], near, roam.Infinite)
		start := w.Now()
		if !w.RunUntil(time.Second, func() bool { return w.server.peer(next).Proved && next.peer(w.server).Proved }) {
			t.Fatalf("%s: no session within 1 s; taken %v, refused %v", name, taken, w.server.core.RejectedInput())
		}
		t.Logf("%s: a session after %v", name, w.Now().Sub(start))
		if len(taken) != i+1 || taken[i].Old != before.nid || taken[i].NID != next.nid {
			t.Fatalf("taken over: %v", taken)
		}
		f := w.server.Flow(next, 10*time.Millisecond, true)
		w.Run(2 * time.Second)
		w.finish(t, f)
		wantLost(t, f, 0)
		before = next
	}
	w.Run(20 * time.Minute)
	if len(taken) != 2 {
		t.Errorf("taken over again: %v", taken)
	}
	if n := w.server.core.RejectedInput()["vouch that is forged"]; n > 0 {
		t.Errorf("%d vouches were refused as forged", n)
	}
}

// TestRotationOfAPeerThatIsAway: the peer is away while the host comes back, and hears of the new
// key when it is there again.
func TestRotationOfAPeerThatIsAway(t *testing.T) {
	w := newProving(t, 4, netA)
	var taken []ilnp.Succession
	w.follow(t, &taken)
	w.server.Down(1)
	w.mobile.Down(1)
	next := w.heirOf(t, w.mobile, 7, "heir")
	next.Up(1, netA, near, roam.Infinite)
	w.Run(time.Hour)
	w.server.Up(1, netS, near, roam.Infinite)
	start := w.Now()
	if !w.RunUntil(11*time.Minute, func() bool { return w.server.peer(next).Proved }) {
		t.Fatalf("the peer has not heard within 11 min: taken %v", taken)
	}
	t.Logf("a session %v after its return", w.Now().Sub(start))
	if len(taken) != 1 {
		t.Errorf("taken over %v", taken)
	}
}
