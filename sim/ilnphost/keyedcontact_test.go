package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
)

// keyedContact is a contact of two hosts that prove to each other who they are. The newer one of the two links of the
// first host, which its mode prefers, passes nothing in one direction.
type keyedContact struct {
	mode   ilnp.Mode // of the first host
	way    sim.Direction
	listed []roam.L64 // locators of the first host in the other one's record
	again  bool       // the other one has accepted an offer before, and challenges none
}

func (k keyedContact) String() string {
	return fmt.Sprintf("%v way %d listed %d again %v", k.mode, k.way, len(k.listed), k.again)
}

// keyedContacts returns every combination.
func keyedContacts() (all []keyedContact) {
	for i := range 3 * 2 * 2 * 2 {
		pick := func(n int) int { k := i % n; i /= n; return k }
		all = append(all, keyedContact{
			mode:   []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality}[pick(3)],
			way:    []sim.Direction{sim.Forward, sim.Backward}[pick(2)],
			listed: [][]roam.L64{nil, {netA, netB}}[pick(2)],
			again:  pick(2) == 1,
		})
	}
	return all
}

// make runs the contact over such links. It returns the time to the first answer, and the longest time without one in
// the 20 s after it.
func (k keyedContact) make(t *testing.T, seed uint64, access Access, interval time.Duration) (took, gap time.Duration) {
	w := newProving(t, seed, k.listed...)
	w.Brief, w.Acquainted = true, true
	w.mobile.SetMode(k.mode)
	w.mobile.Up(1, netA, access, roam.Infinite)
	w.server.Up(1, netS, access, roam.Infinite)
	if k.again {
		f := w.mobile.Flow(w.server, 100*time.Millisecond, true)
		w.Run(5 * time.Second)
		f.Stop()
		w.Run(ilnpIdle + time.Minute) // the session ends
	}
	w.mobile.Up(2, netB, access, roam.Infinite)
	w.mobile.at(2).wire.Cut(k.way)
	w.Run(time.Second)
	from := w.Now()
	f := w.mobile.run(&Flow{From: w.mobile, To: w.server, Echo: true, Brief: true}, interval)
	w.RunUntil(2*time.Minute, func() bool { return f.Answered > 0 })
	took = w.Now().Sub(from)
	for last, end := f.Back, w.Now().Add(20*time.Second); w.Now().Before(end); last = f.Back {
		was := f.Answered
		w.RunUntil(end.Sub(w.Now()), func() bool { return f.Answered > was })
		gap = max(gap, w.Now().Sub(last))
	}
	return took, gap
}

// TestKeyedContactBesideADeadPath: a challenge and an answer reach the first host along the other link, also where its
// mode announces the dead one alone.
func TestKeyedContactBesideADeadPath(t *testing.T) {
	var slowest, longest time.Duration
	for _, k := range keyedContacts() {
		took, gap := k.make(t, 1, near, 500*time.Millisecond)
		slowest, longest = max(slowest, took), max(longest, gap)
		if took > 1500*time.Millisecond || gap > 3*time.Second {
			t.Errorf("%v: the first answer after %v, then %v without one", k, took, gap)
		}
	}
	t.Logf("the first answer after %v at worst, then %v without one", slowest, longest)
}

// TestKeyedContactOverUnevenLinks: the same where packets overtake each other. A challenge that comes ahead of the
// probe before it is lost; the offer is repeated where the probe came from.
func TestKeyedContactOverUnevenLinks(t *testing.T) {
	uneven := Access{Delay: 15 * time.Millisecond, Jitter: 10 * time.Millisecond}
	var slowest time.Duration
	for seed := range uint64(8) {
		k := keyedContact{mode: ilnp.Soft, way: sim.Backward, listed: []roam.L64{netA, netB}}
		took, _ := k.make(t, seed, uneven, time.Second)
		slowest = max(slowest, took)
		if took > 1500*time.Millisecond {
			t.Errorf("seed %d: the first answer after %v", seed, took)
		}
	}
	t.Logf("the first answer after %v at worst", slowest)
}

// TestKeyedHardOntoADeadDirection: a host in the hard mode comes to a network from which its packets leave, and where
// none arrives. Its peer has the set that lists that one alone, sends there, and answers no probe from another one.
// An update from the old locator, which lists that too, brings the peer's packets back.
func TestKeyedHardOntoADeadDirection(t *testing.T) {
	w := newProving(t, 1, netA)
	w.Brief, w.Acquainted = true, true
	w.mobile.SetMode(ilnp.Hard)
	f := w.mobile.run(&Flow{From: w.mobile, To: w.server, Echo: true, Brief: true}, 500*time.Millisecond)
	w.Run(5 * time.Second)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.mobile.at(2).wire.Cut(sim.Backward)
	w.Run(20 * time.Second)
	was := f.Answered
	w.Run(20 * time.Second)
	if n := f.Answered - was; n < 38 {
		t.Errorf("%d of 40 answered from 20 s after the move on", n)
	}
	w.mobile.at(2).wire.Mend(sim.Backward)
	w.Run(time.Minute)
	if p := w.server.peer(w.mobile); len(p.Paths) != 1 || p.Paths[0].Remote != netB {
		t.Errorf("the server sends to %v once both directions work", p.Paths)
	}
}

// TestKeyedContactThatLosesPackets: as beside a dead path, and each access link loses one packet in ten. What
// may go to the peer before a session is bounded, and probes must not use up what the offers need.
func TestKeyedContactThatLosesPackets(t *testing.T) {
	lossy := Access{Delay: 15 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.1}
	var sum, slowest time.Duration
	const seeds = 12
	for seed := range uint64(seeds) {
		k := keyedContact{mode: ilnp.Soft, way: sim.Backward, listed: []roam.L64{netA, netB}, again: seed%2 > 0}
		took, _ := k.make(t, seed, lossy, time.Second)
		sum, slowest = sum+took, max(slowest, took)
	}
	t.Logf("the first answer after %v on average, %v at worst", sum/seeds, slowest)
	if sum > 10*seeds*time.Second || slowest > 40*time.Second {
		t.Errorf("the first answer after %v on average, %v at worst; want 10 s, 40 s", sum/seeds, slowest)
	}
}

// TestKeyedHardWhileThePeerMoves: a host in the hard mode comes to a network from which its packets leave, and
// where none arrives; its peer loses its only network at about the same time and finds another one. The host's
// old network works, where the peer's update comes in. It lists a place that is in no record, so few packets may
// go there. Moves later than these are found by a look-up only.
func TestKeyedHardWhileThePeerMoves(t *testing.T) {
	var longest time.Duration
	for step := -2; step <= 5; step++ {
		w := newProving(t, 1, netA)
		w.Brief, w.Acquainted = true, true
		w.mobile.SetMode(ilnp.Hard)
		f := w.mobile.run(&Flow{From: w.mobile, To: w.server, Echo: true, Brief: true}, 500*time.Millisecond)
		w.Run(5 * time.Second)
		w.After(time.Second, func() {
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.mobile.at(2).wire.Cut(sim.Backward)
		})
		after := time.Duration(step) * 150 * time.Millisecond
		w.After(time.Second+after, func() {
			w.server.Down(1)
			w.After(200*time.Millisecond, func() { w.server.Up(2, netT, near, roam.Infinite) })
		})
		var gap time.Duration
		for last, end := f.Back, w.Now().Add(40*time.Second); w.Now().Before(end); last = f.Back {
			was := f.Answered
			w.RunUntil(end.Sub(w.Now()), func() bool { return f.Answered > was })
			gap = max(gap, w.Now().Sub(last))
		}
		if longest = max(longest, gap); gap > 20*time.Second {
			t.Errorf("the peer moves %v later: %v without an answer", after, gap)
		}
	}
	t.Logf("%v without an answer at worst", longest)
}
