package ilnphost

import (
	"math/rand/v2"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/nidkey"
)

// bytesOf is a source of randomness that repeats itself.
type bytesOf struct{ *rand.Rand }

func (s bytesOf) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return len(b), nil
}

// pair gives both hosts of a world each other's key, and returns what these share.
func (w *world) pair(t *testing.T) nidkey.Secret {
	t.Helper()
	return w.pairAfter(t, 0)
}

// pairAfter is pair; the server gets the key later than the mobile host.
func (w *world) pairAfter(t *testing.T, later time.Duration) nidkey.Secret {
	t.Helper()
	var keys [2]nidkey.Key
	for i := range keys {
		k, err := nidkey.New(bytesOf{rand.New(rand.NewPCG(5, uint64(i)))})
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = k
	}
	secret, err := keys[0].Shared(keys[1].Public)
	if err != nil {
		t.Fatal(err)
	}
	at := []ilnp.RemoteLocator{{L64: netS, Preference: 10, Lifetime: roam.Infinite}}
	w.mobile.Core().AddPeer(w.Now(), ilnp.Peer{NID: serverNID, Names: []string{"server"}, Locators: at, Secret: secret})
	w.mobile.Settle()
	if later > 0 {
		w.Run(later)
	}
	w.server.Core().AddPeer(w.Now(), ilnp.Peer{NID: mobileNID, Names: []string{"mobile"}, Anywhere: true, Secret: secret})
	w.server.Settle()
	return secret
}

// wantKeyed checks that a session is keyed at both ends and that neither refused the other.
func (w *world) wantKeyed(t *testing.T) {
	t.Helper()
	for _, p := range []ilnp.PeerState{w.mobile.peer(w.server), w.server.peer(w.mobile)} {
		if !p.Keyed || p.Unkeyed {
			t.Errorf("keyed %t, an update without a MAC came: %t", p.Keyed, p.Unkeyed)
		}
	}
	for _, h := range []*Node{w.mobile, w.server} {
		for reason, n := range h.Core().RejectedInput() {
			if reason == "locator update without mac" || reason == "locator update with a wrong mac" {
				t.Errorf("refused %d times: %s", n, reason)
			}
		}
	}
}

// TestKeyedHandoff: soft handoffs of a keyed session lose nothing, and the first one of updates
// that are lost does not stop them.
func TestKeyedHandoff(t *testing.T) {
	for _, kind := range []string{"", "LU", "LU-Ack"} {
		w := newWorld(t, ilnp.Soft, 1)
		w.pair(t)
		w.withoutUDP()
		f := w.start(t, true)
		dropFirst(w, kind, 1)
		w.mobile.Up(2, netB, near, roam.Infinite)
		w.Run(2 * time.Second)
		w.mobile.Down(1)
		w.Run(time.Second)
		w.mobile.Up(3, netC, near, roam.Infinite)
		w.Run(2 * time.Second)
		w.wantKeyed(t)
		if p := w.server.peer(w.mobile); len(p.Paths) != 1 || p.Paths[0].Remote != netC {
			t.Errorf("%q lost: the server sends to %v", kind, p.Paths)
		}
		w.finish(t, f)
		wantLost(t, f, 0)
	}
}

// TestKeyedThroughFilters: where a path drops options, the MAC goes in UDP.
func TestKeyedThroughFilters(t *testing.T) {
	for name, filter := range filters {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ilnp.Soft, 2)
			w.pair(t)
			f := w.startEvery(t, 10*time.Millisecond, true)
			access := near
			access.Filter = filter
			w.mobile.Up(2, netB, access, roam.Infinite)
			w.Run(2 * time.Second)
			w.mobile.Down(1)
			w.Run(10 * time.Second)
			w.wantKeyed(t)
			if p := w.server.peer(w.mobile); p.Dead || len(p.Paths) != 1 || p.Paths[0].Remote != netB {
				t.Errorf("the server sends to %v", p.Paths)
			}
			w.finish(t, f)
		})
	}
}

// TestKeyedHardHandoff: a session goes on when its only network is replaced, in every mode.
func TestKeyedHardHandoff(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality} {
		w := newWorld(t, mode, 3)
		w.pair(t)
		f := w.startEvery(t, 10*time.Millisecond, true)
		w.mobile.Down(1)
		w.mobile.Up(2, netB, near, roam.Infinite)
		w.Run(5 * time.Second)
		w.wantKeyed(t)
		if gap := f.Gap(); gap > 500*time.Millisecond {
			t.Errorf("%v: longest gap %v", mode, gap)
		}
		if p := w.server.peer(w.mobile); p.Dead || len(p.Paths) != 1 || p.Paths[0].Remote != netB {
			t.Errorf("%v: the server sends to %v", mode, p.Paths)
		}
		w.finish(t, f)
	}
}
