package ilnp

import (
	"bytes"
	"testing"
	"time"

	"roam"
)

// FuzzRestore gives a core the state file of a predecessor that somebody has
// damaged. It is refused whole, or makes a core that works and that a further
// successor can follow.
func FuzzRestore(f *testing.F) {
	b := newBench(&testing.T{})
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, time.Minute)
	b.open(netP)
	f.Add(b.Export())
	f.Fuzz(func(t *testing.T, state []byte) {
		b := newBench(t)
		if err := b.Restore(b.now, state); err != nil {
			if b.Stats() != (Stats{}) {
				t.Errorf("refused, and yet it left %+v", b.Stats())
			}
			return
		}
		b.drain()
		b.prefix(1, netA, roam.Infinite)
		b.passAtMost(time.Minute, 10_000)
		again := newBench(t)
		if err := again.Restore(b.now, b.Export()); err != nil {
			t.Errorf("what was restored cannot be restored again: %v", err)
		}
	})
}

// passAtMost lets time pass; a core that asks to be called more often than that
// would keep its machine busy.
func (b *bench) passAtMost(d time.Duration, calls int) {
	b.t.Helper()
	end := b.now.Add(d)
	for at, ok := b.PollTimeout(); ok && !at.After(end); at, ok = b.PollTimeout() {
		if calls--; calls < 0 {
			b.t.Fatalf("timers without end at %v", at)
		}
		if at.After(b.now) {
			b.now = at
		}
		b.HandleTimeout(b.now)
		b.drain()
	}
	b.now = end
}

// FuzzObservation lets the data plane report anything at all: no order of
// observations stops the core, and what it holds stays bounded.
func FuzzObservation(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 1, 5, 0, 6, 0})
	f.Add(bytes.Repeat([]byte{7, 3, 1, 200}, 8))
	f.Fuzz(func(t *testing.T, course []byte) {
		b := newBench(t)
		b.prefix(1, netA, roam.Infinite)
		b.open(netP)
		for ; len(course) >= 2; course = course[2:] {
			b.observeAnything(course[0], course[1])
		}
		b.passAtMost(time.Minute, 10_000)
		b.pass(time.Hour)
		if l := b.Stats(); l.PendingPeers+l.Probes > 0 {
			t.Errorf("after an hour of silence it still holds %+v", l)
		}
	})
}

// observeAnything makes an observation, or lets time pass, out of two bytes.
func (b *bench) observeAnything(what, detail byte) {
	o := Observation{Trigger: Trigger(what % 16), Key: theKey, LocalNID: ownNID, Local: roam.LinkLocator{Link: 1, L64: netA}, Found: FoundRule(detail % 4)}
	o.Remote.NID, o.Remote.L64 = peerNID, netP
	if detail&1 != 0 {
		o.Remote.L64 = netQ
	}
	if detail&2 != 0 {
		o.Key.Remote, o.Remote.NID = peerNID+1, peerNID+1
	}
	o.Nonce, o.OwnNonce = peerNonce, Nonce{Len: 4, Bytes: [12]byte{9, 9, 9, 9}}
	if detail&4 != 0 {
		o.Nonce = Nonce{Len: 4, Bytes: [12]byte{detail}}
	}
	if detail&8 != 0 {
		o.Nonce = Nonce{}
	}
	if what >= 0xf0 {
		b.passAtMost(time.Duration(detail)*time.Second, 10_000)
		return
	}
	b.HandleObservation(b.now, o)
	b.drain()
}
