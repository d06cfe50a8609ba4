package ilnp

import (
	"testing"
	"time"

	"roam"
)

// The node behind a session may lose its state and come back where the session was, or
// where a record has it: then its connections go on only in the first case. In the second
// one it may be another node, and what is connected must not reach it.
func TestSocketsOfAReplacedSession(t *testing.T) {
	for _, c := range []struct {
		name   string
		moves  bool          // to netQ, before it falls silent
		after  time.Duration // so long
		told   bool          // once more of the record, meanwhile
		at     roam.L64      // where a node comes
		aborts bool
	}{
		{name: "where the session is", after: time.Minute, at: netP},
		{name: "where it has moved to", moves: true, after: time.Minute, at: netQ},
		{name: "where the record has it, long after it has left", moves: true, after: time.Minute, at: netP, aborts: true},
		{name: "where the record has it, just after it has left", moves: true, after: 4 * time.Second, at: netP, aborts: true},
		{name: "where the record has it, told again after it has left", moves: true, after: time.Minute, told: true, at: netP, aborts: true},
		{name: "where the record has it, told again just after it has left", moves: true, after: 4 * time.Second, told: true, at: netP, aborts: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.prefix(1, netA, roam.Infinite)
			b.open(netP)
			b.pass(time.Second)
			if c.moves {
				b.receive(1, b.update(netQ, peerNonce, updateOf(entry(netQ, 10, 600))))
				b.answerProbesTo(netQ, peerNonce)
				b.wantTargets(netQ)
			}
			b.pass(c.after)
			if c.told {
				b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Preference: 10, Lifetime: roam.Infinite}}})
				b.drain()
			}
			b.other = nil
			b.see(pending(c.at, namesake))
			b.answerProbesTo(c.at, namesake)
			b.pass(10 * time.Second)
			if p := b.entries[theKey]; p.RemoteNonce != namesake {
				t.Fatalf("the session is not replaced: %+v", p)
			}
			aborted := false
			for _, o := range b.other {
				a, is := o.(Abandon)
				aborted = aborted || is && a.Key == theKey
			}
			if aborted != c.aborts {
				t.Errorf("sockets destroyed: %v, want %v", aborted, c.aborts)
			}
		})
	}
}
