package ilnp

import (
	"testing"
	"time"

	"roam"
)

// set of many gives the bench so many sessions, the last ones in use, and returns
// their keys.
func (b *bench) many(n, inUse int) []SessionKey {
	b.t.Helper()
	var keys []SessionKey
	var acts []Activity
	for i := range n {
		k := SessionKey{ownNID, peerNID + roam.NID(i)<<16}
		b.AddPeer(b.now, Peer{NID: k.Remote, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
		b.see(Observation{Trigger: SeenMiss, Key: k, LocalNID: ownNID})
		b.see(Observation{Trigger: SeenNonce, Key: k, Remote: roam.ILV{NID: k.Remote, L64: netP}, Nonce: peerNonce})
		b.sessions[k].asks, b.sessions[k].confirmed = true, true
		keys = append(keys, k)
		if i >= n-inUse {
			acts = append(acts, Activity{Key: k, LastTx: b.now.Add(time.Second)})
		}
	}
	b.now = b.now.Add(time.Second)
	b.HandleActivity(b.now, acts)
	b.drain()
	b.forget()
	return keys
}

// A move is told at a pace, to those in use first, and is over when the last
// one has acknowledged.
func TestMoveOfMany(t *testing.T) {
	const all, inUse = 1000, 100
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	keys := b.many(all, inUse)
	b.prefix(2, netB, roam.Infinite)
	if n := len(b.updates()); n != moveFirst {
		t.Fatalf("%d updates at once, want %d", n, moveFirst)
	}
	for _, k := range keys[all-inUse:] {
		if b.entries[k].Paths[0].Local.L64 != netB {
			t.Fatalf("session %v is in use and waits for idle ones", k)
		}
	}
	if b.entries[keys[all-inUse-1]].Paths[0].Local.L64 != netA {
		t.Error("data of an idle session moves before it is told")
	}
	b.pass(moveEvery)
	if n := len(b.updates()); n != moveFirst+moveBatch {
		t.Errorf("%d updates after a step, want %d", n, moveFirst+moveBatch)
	}
	b.now = b.now.Add(time.Second) // a timer that is very late
	b.HandleTimeout(b.now)
	b.drain()
	if n := b.Stats().Awaited; n < moveFirst+2*moveBatch || n > moveFirst+(1+maxCatchUp)*moveBatch {
		t.Errorf("%d are awaited after a late timer", n)
	}
	b.pass(moveEvery * all / moveBatch)
	for _, k := range keys {
		if b.entries[k].Paths[0].Local.L64 != netB {
			t.Fatalf("session %v has not moved", k)
		}
	}
	if b.Stats().Awaited != all || b.count(HandoffDone) != 0 {
		t.Errorf("%d acknowledgements are awaited, want %d", b.Stats().Awaited, all)
	}
}

// A host that moves again before all are told tells each of the newest place,
// and a session that ends meanwhile holds nothing up.
func TestMoveAgain(t *testing.T) {
	const all = 600
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	keys := b.many(all, 0)
	b.prefix(2, netB, roam.Infinite)
	b.prefix(3, netC, roam.Infinite)
	b.RemovePeer(b.now, keys[all-1].Remote)
	b.drain()
	b.pass(time.Second)
	for _, k := range keys[:all-1] {
		if b.entries[k].Paths[0].Local.L64 != netC {
			t.Fatalf("session %v is at %v", k, b.entries[k].Paths[0].Local)
		}
	}
	if n := b.Stats().Awaited; n != all-1 {
		t.Errorf("%d acknowledgements are awaited, want %d", n, all-1)
	}
}
