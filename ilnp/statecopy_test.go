package ilnp

import (
	"bytes"
	"testing"

	"roam"
)

// TestCopyWhileSessionsChange: a state that is copied a few sessions at a time is that of its end.
func TestCopyWhileSessionsChange(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	keys := b.many(40, 0)
	for _, copied := range []int{0, 20, 39} {
		c := b.CopyState()
		if c.Some(copied) {
			t.Fatalf("complete after %d sessions", copied)
		}
		for _, k := range []SessionKey{keys[0], keys[1]} {
			b.RemovePeer(b.now, k.Remote)
			c.Changed(k)
		}
		elsewhere := []RemoteLocator{{L64: netQ, Preference: 10, Lifetime: roam.Infinite}}
		b.AddPeer(b.now, Peer{NID: keys[2].Remote, Locators: elsewhere})
		c.Changed(keys[2])
		begun := b.many(2, 0) // the two of before, with other nonces
		for _, k := range begun {
			c.Changed(k)
		}
		if got, want := c.State().Bytes(), b.Export(); !bytes.Equal(got, want) {
			t.Errorf("with %d sessions copied before:\n%s\nwant\n%s", copied, got, want)
		}
	}
}

// TestCopyInParts: each call copies as many sessions as it is told.
func TestCopyInParts(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.many(10, 0)
	c := b.CopyState()
	for n := range 3 {
		if done := c.Some(4); done != (n == 2) || len(c.done) != min(4*(n+1), 10) {
			t.Errorf("call %d: %d copied, complete: %v", n, len(c.done), done)
		}
	}
}

// TestCopyChangedInParts: what changes while a state is copied is copied a few sessions at a time, too, and
// a state of sessions that all change all the time comes to an end.
func TestCopyChangedInParts(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	keys := b.many(40, 0)
	c := b.CopyState()
	if c.Some(30) {
		t.Fatal("complete after 30 of 40 sessions")
	}
	for _, k := range keys[:20] {
		c.Changed(k)
	}
	if c.Some(10) {
		t.Error("20 sessions that have changed are left to be copied at once")
	}
	if !c.Some(20) || len(c.again) > 0 {
		t.Errorf("%d sessions are left when those that have changed are copied", len(c.again))
	}
	c = b.CopyState()
	for range 10 {
		for _, k := range keys {
			c.Changed(k)
		}
		if c.Some(40) {
			return
		}
	}
	t.Error("no end while all sessions change")
}
