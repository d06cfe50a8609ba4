package tcpassist

import (
	"testing"
	"time"

	"roam"
)

// TestSilentConnectionsAreResynced: after a move a connection on which nothing arrives
// is shown to firewalls, some times; one that lives is not, nor one that is being set
// up, nor those of other sessions.
func TestSilentConnectionsAreResynced(t *testing.T) {
	beginning := tcp("a", 4002)
	beginning.Open = false
	b := newBench(t, tcp("a", 4000), tcp("a", 4001), beginning, tcp("b", 4000))
	b.change("a", roam.PathsAdded)
	lives := func() { b.list[1].Arrived++ }
	b.pass(compareFirst, lives)
	if len(b.resyncs) != 1 {
		t.Fatalf("%d resyncs after the second list, want one", len(b.resyncs))
	}
	want := Resync[string]{Key: "a", Local: b.list[0].Local, Remote: b.list[0].Remote, Seq: 999}
	if b.resyncs[0] != want {
		t.Errorf("%+v, want %+v", b.resyncs[0], want)
	}
	b.pass(time.Minute, lives)
	if len(b.resyncs) != resyncsTried || len(b.Machine.resyncs.watched) != 0 {
		t.Errorf("%d resyncs, want %d; still watched: %d", len(b.resyncs), resyncsTried, len(b.Machine.resyncs.watched))
	}
	for _, r := range b.resyncs {
		if r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
}

// TestResyncHelps: no more are sent of a connection that has come to life.
func TestResyncHelps(t *testing.T) {
	b := newBench(t, tcp("a", 4000))
	b.change("a", roam.PathsAdded)
	b.pass(compareFirst, func() {})
	b.list[0].Arrived++
	b.pass(time.Minute, func() {})
	if len(b.resyncs) != 1 {
		t.Errorf("%d resyncs, want one", len(b.resyncs))
	}
}

// TestWhenConnectionsAreCompared: at once and half a second after a move, or two round
// trips; soon after they were gathered; and not when no path is new, or nobody wants it.
func TestWhenConnectionsAreCompared(t *testing.T) {
	for name, c := range map[string]struct {
		why  roam.PathChange
		rtt  time.Duration
		off  bool
		want time.Duration // 0: never
	}{
		"moved":                 {roam.PathsAdded | roam.PathsLost, 0, false, compareFirst},
		"moved, far":            {roam.PathsAdded, 400 * time.Millisecond, false, 800 * time.Millisecond},
		"gathered":              {roam.FlowsGathered, 0, false, compareSoon},
		"gathered, far":         {roam.FlowsGathered, 40 * time.Millisecond, false, 80 * time.Millisecond},
		"connections elsewhere": {roam.PathsLost | roam.FlowsRehashed, 0, false, compareFirst},
		"another network":       {roam.PathsAdded | roam.PathsReturned, 0, false, compareFirst},
		"the same again":        {roam.PathsReturned, 0, false, 0},
		"one less":              {roam.PathsLost, 0, false, 0},
		"a locator less":        {roam.LocatorsWithdrawn, 0, false, compareFirst},
		"dead":                  {roam.PathsAdded | roam.PathsDown, 0, false, 0},
		"turned off":            {roam.PathsAdded, 0, true, 0},
	} {
		b := newBench(t, tcp("a", 1))
		b.HandlePaths(b.now, Change[string]{Key: "a", Why: c.why, RTT: c.rtt, Resync: !c.off})
		b.drain()
		if at, ok := b.PollTimeout(); ok != (c.want > 0) || ok && at.Sub(b.now) != c.want {
			t.Errorf("%s: next at %v, %t, want %v", name, at.Sub(b.now), ok, c.want)
		}
	}
}

// TestOthersGetNoResync: the stack of a peer that does not know it would treat it as a
// segment of the connection.
func TestOthersGetNoResync(t *testing.T) {
	c := tcp("a", 4000)
	c.Resyncs = false
	b := newBench(t, c)
	b.change("a", roam.PathsAdded)
	if b.pass(time.Minute, func() {}); len(b.resyncs) != 0 {
		t.Errorf("%d resyncs", len(b.resyncs))
	}
}

// TestNothingToCompare: sessions without connections are not watched.
func TestNothingToCompare(t *testing.T) {
	b := newBench(t, tcp("b", 4000))
	b.change("a", roam.PathsAdded)
	if at, ok := b.PollTimeout(); ok || b.lists != 1 {
		t.Errorf("next list at %v, after %d", at, b.lists)
	}
}

// TestResyncsAreAnswered: a peer's resync at our own sequence number; an answer ends
// the handshake. Both make our stack send an ACK, and try again.
func TestResyncsAreAnswered(t *testing.T) {
	c := tcp("a", 4000)
	c.Backoff = 2
	beginning := tcp("a", 4001)
	beginning.Open = false
	for name, x := range map[string]struct {
		heard   Heard[string]
		answers int
		ours    int
	}{
		"a resync":             {Heard[string]{"a", 4000, 22, 500, false}, 1, 3},
		"an answer":            {Heard[string]{"a", 4000, 22, 500, true}, 0, 3},
		"another port":         {Heard[string]{"a", 4000, 23, 500, false}, 0, 0},
		"another port of it":   {Heard[string]{"a", 4002, 22, 500, false}, 0, 0},
		"another session":      {Heard[string]{"b", 4000, 22, 500, false}, 0, 0},
		"one that is set up":   {Heard[string]{"a", 4001, 22, 500, false}, 0, 0},
		"one of a session end": {Heard[string]{"z", 4000, 22, 500, false}, 0, 0},
	} {
		b := newBench(t, c, beginning)
		if !b.HandleResync(b.now, x.heard) {
			t.Errorf("%s: not taken", name)
		}
		b.drain()
		if len(b.resyncs) != x.answers || len(b.ours) != x.ours || (len(b.resynced) == 1) != (x.ours > 0) {
			t.Errorf("%s: %d answers, %d to our stack, told %v", name, len(b.resyncs), len(b.ours), b.resynced)
		}
		want := Resync[string]{Key: "a", Local: c.Local, Remote: c.Remote, Seq: 999, Ack: 501, Answer: true}
		if x.answers > 0 && b.resyncs[0] != want {
			t.Errorf("%s: answer %+v, want %+v", name, b.resyncs[0], want)
		}
		if b.Resynced("a") != 0 {
			t.Errorf("%s: a connection that nobody watched is counted", name)
		}
	}
}

// TestResynced counts a connection that stood still with data under way and was
// answered, once for each move; an idle one is not counted.
func TestResynced(t *testing.T) {
	for unacked, want := range map[uint32]int{900: 1, 1000: 0} {
		c := tcp("a", 4000)
		c.Unacked = unacked
		b := newBench(t, c)
		b.change("a", roam.PathsAdded)
		b.pass(compareFirst, func() {})
		b.HandleResync(b.now, Heard[string]{"a", 4000, 22, 500, false}) // the peer has seen it, too
		if b.drain(); b.Resynced("a") != 0 {
			t.Error("a resync of the peer is counted")
		}
		for range 2 {
			b.HandleResync(b.now, Heard[string]{"a", 4000, 22, 500, true})
			b.drain()
		}
		if got := b.Resynced("a"); got != want {
			t.Errorf("unacknowledged from %d: %d counted, want %d", unacked, got, want)
		}
		b.pass(time.Minute, func() {})
		if len(b.resyncs) != 2 && want > 0 {
			t.Errorf("%d resyncs, though it was answered", len(b.resyncs))
		}
		if b.HandleEnd("a"); b.Resynced("a") != 0 {
			t.Error("remembered behind the end of the session")
		}
	}
}

// TestResyncedAcrossAChange: the answer counts also if the paths have changed while it was under way.
func TestResyncedAcrossAChange(t *testing.T) {
	c := tcp("a", 4000)
	c.Unacked = 900
	b := newBench(t, c)
	b.change("a", roam.PathsAdded)
	b.pass(compareFirst, func() {})
	b.change("a", roam.LocatorsWithdrawn)
	for range 2 {
		b.HandleResync(b.now, Heard[string]{"a", 4000, 22, 500, true})
		b.drain()
	}
	if got := b.Resynced("a"); got != 1 {
		t.Errorf("%d counted, want 1", got)
	}
}

// TestResyncsAreBounded: those of peers that wait for a list; and those of a session
// that ends wait no more.
func TestResyncsAreBounded(t *testing.T) {
	b := newBench(t, tcp("a", 4000))
	for i := range 2 * resyncsWaiting {
		if took := b.HandleResync(b.now, Heard[string]{"a", 4000, 22, 500, false}); took != (i < resyncsWaiting) {
			t.Fatalf("number %d taken: %t", i, took)
		}
	}
	b.HandleEnd("a")
	if b.drain(); len(b.resyncs) != 0 || len(b.ours) != 0 {
		t.Errorf("%d answers for a session that has ended", len(b.resyncs))
	}
}

// TestResyncsOfFarPeers: however long the round trip, a connection on which nothing arrives gets its resyncs.
func TestResyncsOfFarPeers(t *testing.T) {
	for _, rtt := range []time.Duration{0, 300, 700, 1300, 3000} {
		b := newBench(t, tcp("a", 4000))
		b.HandlePaths(b.now, Change[string]{Key: "a", Why: roam.PathsAdded, RTT: rtt * time.Millisecond, Resync: true})
		b.drain()
		if b.pass(time.Minute, func() {}); len(b.resyncs) != resyncsTried {
			t.Errorf("round trip of %d ms: %d resyncs, want %d", rtt, len(b.resyncs), resyncsTried)
		}
		if at, ok := b.PollTimeout(); ok {
			t.Errorf("round trip of %d ms: the lists go on at %v", rtt, at)
		}
	}
}
