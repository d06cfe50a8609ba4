package ilnp

import (
	"bytes"
	"slices"
	"testing"
	"time"

	ilnpwire "roam/wire/ilnp"

	"roam"
	"roam/multipath"
)

// stallBench is a session in duality with two paths that work.
func stallBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.open(netP)
	b.pass(time.Minute)
	b.forget()
	if n := len(b.entries[theKey].Paths); n != 2 || b.entries[theKey].PerFlow {
		t.Fatalf("%d paths, entry %+v", n, b.entries[theKey])
	}
	return b
}

// timeout tells of a time-out of TCP; answered says how many of the probes that
// follow are.
func (b *bench) timeout(answered int) (asked []ilnpwire.Packet) {
	b.t.Helper()
	return b.timeoutOf(multipath.Standing{}, answered)
}

// timeoutOf is timeout of one connection.
func (b *bench) timeoutOf(c multipath.Standing, answered int) (asked []ilnpwire.Packet) {
	b.t.Helper()
	b.forget()
	b.see(Observation{
		Trigger: SeenStall, Key: theKey, LocalNID: ownNID, Bytes: int(c.Connection), Packets: int(c.Delivered),
	})
	asked = b.probesSent()
	b.now = b.now.Add(20 * time.Millisecond)
	for _, p := range asked[:min(answered, len(asked))] {
		b.reply(p, peerNonce)
	}
	return asked
}

// answerAll has the correspondent answer the probes at once.
func (b *bench) answerAll() {
	b.t.Helper()
	for _, p := range b.probesSent() {
		b.reply(p, peerNonce)
	}
	b.sent = nil
}

// stall tells of two time-outs between which all paths work, and how many of them
// do after the second.
func (b *bench) stall(answered int) (asked []ilnpwire.Packet) {
	b.t.Helper()
	b.pass(time.Minute)
	if b.timeout(MaxPaths); b.count(SpreadChanged) != 0 {
		b.t.Error("concludes from one time-out")
	}
	b.pass(400 * time.Millisecond)
	return b.timeout(answered)
}

// Two time-outs of a connection that has moved in between show no firewall, nor do those of two.
func TestStallOfAConnectionThatMoves(t *testing.T) {
	const one, other = 443<<16 | 50000, 443<<16 | 50001
	for name, c := range map[string]struct {
		second multipath.Standing
		want   bool
	}{
		"it stands":   {multipath.Standing{Connection: one, Delivered: 1002}, true},
		"it moves":    {multipath.Standing{Connection: one, Delivered: 9000}, false},
		"another one": {multipath.Standing{Connection: other, Delivered: 10}, false},
	} {
		b := stallBench(t)
		b.pass(time.Minute)
		b.timeoutOf(multipath.Standing{Connection: one, Delivered: 1000}, MaxPaths)
		b.pass(400 * time.Millisecond)
		b.timeoutOf(c.second, MaxPaths)
		if got := b.entries[theKey].PerFlow; got != c.want {
			t.Errorf("%s: connections keep to one path each: %t", name, got)
		}
	}
}

// What stops all paths for a moment, or one for good, is no firewall, though TCP has
// time-outs before and after.
func TestStallOfThePathsThemselves(t *testing.T) {
	for name, c := range map[string]struct {
		at       []time.Duration // time-outs
		answered []int           // how many paths work then
	}{
		"outage of a second":       {[]time.Duration{0, 400 * time.Millisecond, 1200 * time.Millisecond}, []int{0, 0, 2}},
		"ends behind the time-out": {[]time.Duration{0, 400 * time.Millisecond}, []int{0, 2}},
		"one and then both":        {[]time.Duration{0, 400 * time.Millisecond}, []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := stallBench(t)
			b.pass(time.Minute)
			begun := b.now
			for i, at := range c.at {
				b.pass(begun.Add(at).Sub(b.now))
				b.timeout(c.answered[i])
			}
			b.pass(2 * time.Second)
			if b.count(SpreadChanged) != 0 || b.entries[theKey].PerFlow {
				t.Errorf("taken for a firewall: %+v", b.events)
			}
		})
	}
}

// A path is lost, and TCP tries again on those that are left.
func TestStallOfALostPath(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, roam.Infinite)
	b.prefix(3, netC, roam.Infinite)
	b.open(netP)
	b.pass(time.Minute)
	if n := len(b.stall(2)); n != 3 {
		t.Fatalf("%d paths asked", n)
	}
	for range 12 { // the third is asked again, and left
		b.pass(50 * time.Millisecond)
	}
	if n := len(b.entries[theKey].Paths); n != 2 {
		t.Fatalf("%d paths are left", n)
	}
	b.pass(150 * time.Millisecond)
	if b.timeout(2); b.entries[theKey].PerFlow {
		t.Errorf("taken for a firewall: %+v", b.events)
	}
}

// TCP keeps to one path for each connection when it stands still though each path
// works, and the correspondent is told so over each.
func TestStallBehindPathsThatWork(t *testing.T) {
	b := stallBench(t)
	asked := b.stall(2)
	if len(asked) != 2 || !b.entries[theKey].PerFlow || b.count(SpreadChanged) != 1 || b.events[len(b.events)-1].Reason != "flow" {
		t.Fatalf("%d paths asked, entry %+v, events %+v", len(asked), b.entries[theKey], b.events)
	}
	if p := b.Peers(b.now)[0]; p.Spread != ByFlow {
		t.Errorf("shown as %+v", p)
	}
	told := b.probesSent()[2:]
	if len(told) != 2 || slices.ContainsFunc(told, func(p ilnpwire.Packet) bool { return len(p.Payload) != len(asked[0].Payload)+4 }) || bytes.Equal(told[0].Payload, told[1].Payload) {
		t.Errorf("told by %+v", told)
	}
	for _, p := range told {
		b.reply(p, peerNonce)
	}
	if b.count(Refused) != 0 {
		t.Errorf("refused: %+v", b.events)
	}
	if b.stall(2); len(b.sent) != 0 {
		t.Error("asks again though it is known")
	}
}

// A path that does not answer is what is wrong: it is left, and what remains is one.
func TestStallBehindAPathThatDoesNot(t *testing.T) {
	b := stallBench(t)
	b.stall(1)
	for range 20 { // the other one is asked again, and left
		b.pass(50 * time.Millisecond)
	}
	if p := b.entries[theKey]; p.PerFlow || len(p.Paths) != 1 || b.count(SpreadChanged) != 0 {
		t.Errorf("entry %+v, events %+v", p, b.events)
	}
	if b.stall(1); len(b.probesSent()) != 0 {
		t.Error("a session with one path is asked")
	}
}

// Packets are spread again after a while, ever more rarely if that fails, and the
// correspondent learns of it.
func TestPacketsAreSpreadAgain(t *testing.T) {
	b := stallBench(t)
	spell := func() (d time.Duration) {
		b.stall(2)
		for b.entries[theKey].PerFlow && d < 10*time.Hour {
			b.pass(5 * time.Second)
			d += 5 * time.Second
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now}})
			b.drain()
			for _, p := range b.probesSent() {
				b.reply(p, peerNonce)
			}
			b.forget()
		}
		return d
	}
	const first, most = multipath.PerFlowFirst, multipath.PerFlowMax
	for i, want := range []time.Duration{first, 2 * first, 4 * first, 8 * first, 16 * first, most, most} {
		if d := spell(); d < want || d > want+10*time.Second {
			t.Errorf("spell %d lasts %v, want %v", i, d, want)
		}
	}
	b.pass(multipath.PerFlowMax + time.Minute)
	if d := spell(); d > multipath.PerFlowFirst+10*time.Second {
		t.Errorf("a stall after a long good time is taken for an old one: %v", d)
	}
}

// A correspondent may ask for it as well; its word counts for itself.
func TestCorrespondentAsksForFlows(t *testing.T) {
	b := stallBench(t)
	ask := func(byFlow bool) {
		if byFlow {
			b.see(Observation{Trigger: SeenPerFlow, Key: theKey, LocalNID: ownNID})
		}
		for range multipath.WishLasts / time.Second {
			b.pass(time.Second)
			b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, Asks: true, AsksPerFlow: byFlow}})
			b.drain()
			b.answerAll()
		}
	}
	ask(true)
	if ask(true); !b.entries[theKey].PerFlow || b.count(SpreadChanged) != 1 {
		t.Fatalf("entry %+v, events %+v", b.entries[theKey], b.events)
	}
	for range 2 * multipath.PerFlowFirst / time.Minute {
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, Asks: true, AsksPerFlow: true}})
		b.drain()
		for _, p := range b.probesSent() {
			if len(p.Payload) != 8+len(token{}) {
				t.Fatalf("its wish goes back to it: %d bytes", len(p.Payload))
			}
		}
		b.answerProbes()
		b.pass(time.Minute)
	}
	if !b.entries[theKey].PerFlow {
		t.Error("ended without the correspondent's word")
	}
	b.forget()
	if ask(false); b.entries[theKey].PerFlow || b.count(SpreadChanged) != 1 {
		t.Errorf("afterwards: %+v", b.entries[theKey])
	}
	b.stall(2)
	ask(true)
	if ask(false); !b.entries[theKey].PerFlow {
		t.Error("what we have found out ends with the correspondent's wish")
	}
	b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, AsksPerFlow: true}}) // the ring was full
	if s := b.sessions[theKey]; !s.multipath.Wished() {
		t.Error("a lost word is not made good")
	}
}

// What was found out of a correspondent outlives the daemon and the session.
func TestPerFlowIsRemembered(t *testing.T) {
	b := stallBench(t)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.stall(2)
	b.AddPeer(b.now, Peer{NID: peerNID, Locators: []RemoteLocator{{L64: netP, Lifetime: roam.Infinite}}})
	b.drain()
	if !b.entries[theKey].PerFlow {
		t.Error("forgotten when somebody told of the correspondent")
	}
	next := b.successor(t, inMode(Duality))
	if p := next.Peers(next.now)[0]; p.Spread != ByFlow {
		t.Errorf("after a restart: %+v", p)
	}
}

// So does what the correspondent has found out: the data plane tells of it later
// than the successor writes its entries.
func TestWishIsRemembered(t *testing.T) {
	b := stallBench(t)
	b.see(Observation{Trigger: SeenPerFlow, Key: theKey, LocalNID: ownNID})
	next := b.successor(t, inMode(Duality))
	if p := next.Peers(next.now)[0]; p.Spread != ByFlow {
		t.Errorf("after a restart: %+v", p)
	}
	next.forget()
	next.HandleActivity(next.now, []Activity{{Key: theKey, LastRx: next.now, LastTx: next.now, Asks: true, AsksPerFlow: true}})
	if next.drain(); next.count(SpreadChanged) != 0 {
		t.Errorf("told: %+v", next.events)
	}
}

// A correspondent that changes its mind with every probe does not keep us busy.
func TestWishThatAlternates(t *testing.T) {
	b := stallBench(t)
	for i := range 100 {
		if i%2 == 0 {
			b.see(Observation{Trigger: SeenPerFlow, Key: theKey, LocalNID: ownNID})
		}
		b.HandleActivity(b.now, []Activity{{Key: theKey, LastRx: b.now, LastTx: b.now, Asks: true, AsksPerFlow: i%2 == 0}})
		b.drain()
		b.answerAll()
		b.pass(time.Second)
	}
	if n := b.count(SpreadChanged); n != 1 || !b.entries[theKey].PerFlow {
		t.Errorf("%d changes", n)
	}
}

// A spell does not last for as long as the clock was wrong.
func TestSpellEndsWhenTheClockIsSetBack(t *testing.T) {
	b := stallBench(t)
	b.stall(2)
	next := b.successor(t, inMode(Duality))
	next.now = next.now.Add(-1000 * time.Hour)
	next.HandleActivity(next.now, []Activity{{Key: theKey, LastRx: next.now, LastTx: next.now}})
	if next.drain(); next.Peers(next.now)[0].Spread != ByPacket {
		t.Error("keeps to one path")
	}
}
