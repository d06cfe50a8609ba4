package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/multipath"
	ilnpwire "roam/wire/ilnp"
)

// answerAfter has the correspondent answer the probes that were sent, those from a
// locator after the time that its path takes; what is sent meanwhile is answered
// as well, so often.
func (b *bench) answerAfter(times int, rtts map[roam.L64]time.Duration) {
	b.t.Helper()
	type due struct {
		at time.Time
		p  ilnpwire.Packet
	}
	var all []due
	collect := func() {
		for _, p := range b.probesSent() {
			if rtt, ok := rtts[p.Src.L64]; ok {
				all = append(all, due{b.now.Add(rtt), p})
			}
		}
		b.sent = nil
	}
	for times > 0 {
		if collect(); len(all) == 0 {
			return
		}
		i := 0
		for j := range all {
			if all[j].at.Before(all[i].at) {
				i = j
			}
		}
		next := all[i]
		all = slices.Delete(all, i, i+1)
		b.pass(max(next.at.Sub(b.now), 0))
		b.reply(next.p, peerNonce)
		times--
	}
}

// long returns the local locators of those paths that TCP does not take.
func (b *bench) long() (ls []roam.L64) {
	for _, p := range b.entries[theKey].Long {
		ls = append(ls, p.Local.L64)
	}
	return ls
}

func (b *bench) active() {
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
	b.drain()
}

// lengthBench is a session in duality whose second path has not been asked yet.
func lengthBench(t *testing.T) *bench {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	if got := b.long(); !slices.Equal(got, []roam.L64{netB}) {
		t.Fatalf("before the new path has answered TCP does not take %v", got)
	}
	return b
}

const ms = time.Millisecond

// TCP takes a path when its length is known, unless it is a long one.
func TestLongPaths(t *testing.T) {
	for _, c := range []struct {
		a, b time.Duration
		long []roam.L64
	}{
		{10 * ms, 10 * ms, nil},
		{20 * ms, 41 * ms, nil}, // what TCP gets more from both
		{10 * ms, 24 * ms, []roam.L64{netB}},
		{10 * ms, 100 * ms, []roam.L64{netB}},
		{100 * ms, 10 * ms, []roam.L64{netA}},
		{300 * time.Microsecond, 2 * ms, nil}, // which a busy host may add
	} {
		b := lengthBench(t)
		b.events = nil
		for range 3 { // what the first path was found to take when it was set up counts as well
			b.active()
			b.answerAfter(8, map[roam.L64]time.Duration{netA: c.a, netB: c.b})
			b.pass(multipath.LengthLasts)
		}
		if got := b.long(); !slices.Equal(got, c.long) {
			t.Errorf("%v and %v: TCP does not take %v", c.a, c.b, got)
		}
		want, p := ByPacket, b.Peers(b.now)[0]
		if c.long != nil {
			want = ByLength
		}
		if p.Spread != want || b.count(SpreadChanged) != map[Spread]int{ByPacket: 0, ByLength: 1}[want] {
			t.Errorf("%v and %v: shown as by %v, events %+v", c.a, c.b, p.Spread, b.events)
		}
		for _, path := range p.Paths {
			if want := map[roam.L64]time.Duration{netA: c.a, netB: c.b}[path.Local.L64]; p.RTTs[path] != want {
				t.Errorf("%v is shown with a round trip of %v", path, p.RTTs[path])
			}
		}
	}
}

// One late answer is no long path: it is asked again at once, and nobody told.
func TestLateAnswer(t *testing.T) {
	b := lengthBench(t)
	b.events = nil
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 120 * ms})
	if len(b.long()) != 1 {
		t.Fatalf("TCP does not take %v", b.long())
	}
	began := b.now
	b.active()
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 20 * ms})
	if len(b.long()) != 0 || b.count(SpreadChanged) != 0 || b.now.Sub(began) > 200*ms {
		t.Errorf("%v later TCP does not take %v: %+v", b.now.Sub(began), b.long(), b.events)
	}
	b.pass(5 * time.Second)
	b.sent = nil
	b.active()
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 120 * ms})
	if len(b.long()) != 0 {
		t.Errorf("the least does not count: %v", b.sessions[theKey].multipath)
	}
}

// Two late answers of a busy host are probed behind, after a pause and without a round of its own:
// TCP takes the path as soon as an answer is quick, not only with the next regular probe.
func TestLateAnswersOfABusyHost(t *testing.T) {
	b := lengthBench(t)
	b.active()
	b.answerAfter(4, map[roam.L64]time.Duration{netA: ms, netB: 9 * ms})
	if len(b.long()) != 1 {
		t.Fatalf("TCP does not take %v", b.long())
	}
	began := b.now
	for b.now.Sub(began) < time.Second && len(b.long()) > 0 {
		b.pass(10 * ms)
		b.answerAfter(2, map[roam.L64]time.Duration{netA: ms, netB: ms})
	}
	if took := b.now.Sub(began); len(b.long()) != 0 || took > 300*ms {
		t.Errorf("%v later TCP does not take %v", took, b.long())
	}
}

// A path that became longer is one after a while, and TCP does not go to and fro
// where it is near the limit.
func TestLengthChanges(t *testing.T) {
	b := lengthBench(t)
	at := func(rtt time.Duration, for_ time.Duration) {
		for end := b.now.Add(for_); b.now.Before(end); b.pass(5 * time.Second) {
			b.active()
			b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: rtt})
		}
	}
	at(20*ms, 2*multipath.LengthLasts)
	b.events = nil
	if at(100*ms, 2*multipath.LengthLasts+10*time.Second); len(b.long()) != 1 {
		t.Error("not taken for long")
	}
	if at(35*ms, 10*time.Second); len(b.long()) != 1 {
		t.Error("taken again though it is near the limit")
	}
	if at(30*ms, 10*time.Second); len(b.long()) != 0 || b.count(SpreadChanged) != 2 {
		t.Errorf("not taken again: %+v", b.events)
	}
}

// Where nobody answers probes, lengths are never known, and all paths are taken.
func TestLengthsUnknown(t *testing.T) {
	b := lengthBench(t)
	for range 20 {
		b.active()
		b.pass(100 * ms)
	}
	if got := b.long(); len(got) != 0 || len(b.entries[theKey].Paths) != 2 {
		t.Errorf("TCP does not take %v of %v", got, b.entries[theKey].Paths)
	}
}

// What tracks connections matters more: both ends then go by the same rule.
func TestTrackedLongPaths(t *testing.T) {
	b := lengthBench(t)
	b.answerAfter(8, map[roam.L64]time.Duration{netA: 20 * ms, netB: 120 * ms})
	if len(b.long()) != 1 {
		t.Fatal("the second path is not long")
	}
	b.see(Observation{Trigger: SeenPerFlow, Key: theKey, LocalNID: ownNID})
	if p := b.entries[theKey]; !p.PerFlow || len(p.Long) != 0 {
		t.Errorf("entry %+v", p)
	}
}

// TCP stays on the path that it has while nobody has asked how long that is: a session
// with one path has no use for it.
func TestNewPathBesideOneThatWasNotAsked(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.sessions[theKey].multipath = multipath.Machine[Path]{}
	b.prefix(2, netB, roam.Infinite)
	b.acknowledgeLast()
	if got := b.long(); !slices.Equal(got, []roam.L64{netB}) {
		t.Errorf("TCP does not take %v", got)
	}
	for _, p := range b.probesSent() {
		if p.Src.L64 == netB {
			b.now = b.now.Add(10 * ms)
			b.reply(p, peerNonce)
		}
	}
	if got := b.long(); len(got) != 0 {
		t.Errorf("once the new one has answered TCP does not take %v", got)
	}
}

// What was measured long ago does not make a late answer the second one of two.
func TestLateAnswerAfterAPause(t *testing.T) {
	b := lengthBench(t)
	b.answerAfter(8, map[roam.L64]time.Duration{netA: 20 * ms, netB: 20 * ms})
	b.pass(3 * multipath.LengthLasts)
	b.sent, b.events = nil, nil
	b.active()
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 90 * ms})
	if b.count(SpreadChanged) != 0 || len(b.probesSent()) == 0 {
		t.Errorf("told %+v, %d probes", b.events, len(b.probesSent()))
	}
}

// What was found to be long stays so when the daemon is restarted, until it is asked.
func TestLongPathsAreRemembered(t *testing.T) {
	b := lengthBench(t)
	b.answerAfter(8, map[roam.L64]time.Duration{netA: 20 * ms, netB: 120 * ms})
	next := b.successor(t, inMode(Duality))
	if got := next.long(); !slices.Equal(got, []roam.L64{netB}) {
		t.Errorf("after a restart TCP does not take %v", got)
	}
}

// A correspondent that answers one probe late and no other is not asked without end.
func TestLateAnswerAndNoOther(t *testing.T) {
	b := lengthBench(t)
	b.answerAfter(2, map[roam.L64]time.Duration{netA: 20 * ms, netB: 90 * ms})
	asked := 0
	for range 60 {
		b.active()
		b.pass(time.Second)
		asked += len(b.probesSent())
		b.sent = nil
	}
	if asked > 200 {
		t.Errorf("%d probes in a minute", asked)
	}
}
