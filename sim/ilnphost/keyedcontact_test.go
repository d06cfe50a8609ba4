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
