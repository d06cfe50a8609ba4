package ilnphost

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/nidkey"
)

// rotate gives the mobile host a new key, as a restart after `roam key rotate` does.
func (w *proving) rotate(t *testing.T, seed uint64) ilnp.OldKey {
	t.Helper()
	k, err := nidkey.New(bytesOf{rand.New(rand.NewPCG(seed, 99))})
	if err != nil {
		t.Fatal(err)
	}
	old := ilnp.OldKey{Key: *w.keys[w.mobile], NID: w.mobile.nid, Until: w.Now().Add(7 * 24 * time.Hour)}
	if err := w.mobile.Rotate(k, old); err != nil {
		t.Fatal(err)
	}
	w.keys[w.mobile] = &k
	w.know(t, w.mobile, w.server, netS)
	return old
}

// retire has the server take over what it is told of, as its daemon does: the sessions of the old
// identifier go on.
func (w *proving) retire(t *testing.T, taken *[]ilnp.Succession) {
	w.server.Succeeded = func(s ilnp.Succession) {
		*taken = append(*taken, s)
		w.After(200*time.Millisecond, func() {
			w.server.core.RetirePeer(w.Now(), s.Old)
			w.know(t, w.server, w.mobile, netA)
		})
	}
}

// sessionUnder returns what a node says of its session with an identifier.
func (h *Node) sessionUnder(remote roam.NID) ilnp.PeerState {
	for _, p := range h.core.Peers(h.net.Now()) {
		if p.NID == remote && !p.Since.IsZero() {
			return p
		}
	}
	return ilnp.PeerState{}
}

// TestRotationKeepsSessions: a session that lives while its host gets a new key and identifier goes on
// under the old ones, through moves of both ends, restarts of both, and the time after its peer has
// taken the new key over. New sessions are of the new key. With the last session of the
// old identifier both ends forget it.
func TestRotationKeepsSessions(t *testing.T) {
	w := newProving(t, 11, netA)
	var taken []ilnp.Succession
	w.retire(t, &taken)
	f := w.startEvery(t, 10*time.Millisecond, true)
	w.wantProved(t)
	old := w.rotate(t, 12)
	former := old.NID
	if !w.RunUntil(time.Second, func() bool {
		return w.server.peer(w.mobile).Proved && w.mobile.peer(w.server).Proved
	}) {
		t.Fatalf("no session of the new key: taken %v, refused %v", taken, w.server.core.RejectedInput())
	}
	g := w.mobile.Flow(w.server, 10*time.Millisecond, true)
	for _, step := range []func(){
		func() { w.mobile.Up(2, netB, near, roam.Infinite) },
		func() { w.mobile.Down(1) },
		func() { w.server.Up(2, netT, near, roam.Infinite); w.server.Down(1) },
		func() {
			if err := w.server.Restart(); err != nil {
				t.Error(err)
			}
			w.know(t, w.server, w.mobile, netA)
		},
		func() { w.mobile.Up(1, netC, near, roam.Infinite); w.mobile.Down(2) },
		func() {
			if err := w.mobile.Restart(); err != nil {
				t.Error(err)
			}
			w.know(t, w.mobile, w.server, netS)
			w.mobile.core.SetOldKey(w.Now(), &old)
		},
		func() { w.server.Up(1, netS, near, roam.Infinite); w.server.Down(2) },
	} {
		step()
		w.Run(5 * time.Second)
		for _, s := range []ilnp.PeerState{w.server.sessionUnder(former), w.server.sessionUnder(w.mobile.nid)} {
			if s.State != ilnp.Established || !s.Keyed || !s.Proved || s.Dead {
				t.Errorf("at %v the server's session with %v: %v, keyed %t, proved %t, dead %t",
					w.Elapsed(), s.NID, s.State, s.Keyed, s.Proved, s.Dead)
			}
		}
	}
	f.Stop()
	g.Stop()
	w.Run(time.Second)
	wantLost(t, f, 8) // what five links had taken as they went down
	wantLost(t, g, 8)
	if len(taken) != 1 {
		t.Errorf("taken over %v", taken)
	}
	for _, h := range []*Node{w.mobile, w.server} {
		if r := h.core.RejectedInput(); r["locator update with a wrong mac"]+r["locator update without mac"] > 0 {
			t.Errorf("%s refused %v", h.name, r)
		}
	}
	if sessions, vouches := w.mobile.core.FormerInUse(w.Now()); !sessions || !vouches {
		t.Errorf("the former identifier: sessions %t, vouches %t", sessions, vouches)
	}
	w.Run(11 * time.Minute)
	if sessions, _ := w.mobile.core.FormerInUse(w.Now()); sessions {
		t.Error("a session of the former identifier outlives its time")
	}
	w.mobile.ForgetFormer()
	w.server.core.AddPeer(w.Now(), ilnp.Peer{NID: 0x77}) // it looks through what it knows
	for _, nid := range w.server.core.KnownNIDs() {
		if nid == former {
			t.Error("the server still knows the old identifier")
		}
	}
	f = w.mobile.Flow(w.server, 10*time.Millisecond, true)
	w.Run(2 * time.Second)
	w.finish(t, f)
	wantLost(t, f, 0)
}

// TestRotationIsAskedFor: a peer that knows the old key only, and cannot be contacted as it has moved,
// begins a session under the old identifier: it is told of the new key, and its next one is under
// the new one. A copy of its offer draws no session.
func TestRotationIsAskedFor(t *testing.T) {
	w := newProving(t, 13, netA)
	var taken []ilnp.Succession
	w.retire(t, &taken)
	w.server.Down(1)
	former := w.rotate(t, 14).NID
	w.Run(time.Minute)
	w.server.Up(1, netT, near, roam.Infinite) // where nobody looks for it
	old := &Flow{From: w.server, To: w.mobile, Echo: true}
	w.server.run(old, 100*time.Millisecond)
	old.key.Remote = former
	if !w.RunUntil(2*time.Second, func() bool { return len(taken) == 1 }) {
		t.Fatalf("the server is not told; the mobile host refused %v, the server %v",
			w.mobile.core.RejectedInput(), w.server.core.RejectedInput())
	}
	old.Stop()
	w.Run(time.Second)
	if s := w.mobile.sessionUnder(w.server.nid); s.Key.Local == former {
		t.Error("a session began under the former identifier")
	}
	f := w.server.Flow(w.mobile, 10*time.Millisecond, true)
	w.Run(2 * time.Second)
	w.finish(t, f)
	wantLost(t, f, 0)
	for _, p := range slices.Clone(w.log) {
		w.Inject(p)
	}
	w.Run(time.Second)
	if len(taken) != 1 || w.server.sessionUnder(former).NID != 0 {
		t.Errorf("taken over %v", taken)
	}
}
