package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam/ilnp"
	"roam/sim"
	ilnpwire "roam/wire/ilnp"

	"roam"
)

// newOther is a world whose server runs another stack, with a stream each way.
func newOther(t *testing.T, mode ilnp.Mode, seed uint64, s Stack) (*world, *Flow) {
	t.Helper()
	w := newWorld(t, mode, seed)
	w.withoutUDP()
	w.Acquainted = true
	w.server.SetStack(s)
	return w, w.startEvery(t, 20*time.Millisecond, true)
}

// wantGap bounds the longest time in which no datagram arrived, and wants answers now.
func wantGap(t *testing.T, what string, f *Flow, bound time.Duration) {
	t.Helper()
	if gap := f.Gap(); gap > bound {
		t.Errorf("%s: nothing arrived for %v, want at most %v", what, gap, bound)
	}
	if f.Back.Before(f.From.net.Now().Add(-100 * time.Millisecond)) {
		t.Errorf("%s: the session is dead since %v", what, f.Back.Sub(sim.Start))
	}
}

// A stack that acknowledges nothing and takes data from the locator of the session's
// start only: no soft move ends a session whose old link still works.
func TestNeverAcknowledged(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality} {
		for seed := range uint64(5) {
			what := fmt.Sprintf("%v, seed %d", mode, seed)
			w, f := newOther(t, mode, seed, Stack{NeverAcks: true, Strict: true})
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.Run(time.Minute)
			wantGap(t, what, f, time.Second)
			w.mobile.Up(3, netC, Access{Delay: 90 * time.Millisecond}, roam.Infinite)
			w.Run(time.Minute)
			wantGap(t, what+", moved again", f, time.Second)
			w.mobile.Down(2)
			w.mobile.Down(3)
			w.Run(10 * time.Second)
			wantGap(t, what+", as before", f, time.Second)
			f.Stop()
			w.Run(time.Second)
			if mode == ilnp.Soft {
				wantLost(t, f, 0)
			}
			if w.mobile.Count(ilnp.UpdateFailed) == 0 {
				t.Errorf("%s: nobody is told", what)
			}
			if lost := f.Sent - f.Received(); lost > 150 {
				t.Errorf("%s: %d of %d lost", what, lost, f.Sent)
			}
		}
	}
}

// Datagrams in one direction show nobody to be there: they try the new locator, and
// return.
func TestNeverAcknowledgedOneWay(t *testing.T) {
	w, f := newOther(t, ilnp.Soft, 1, Stack{NeverAcks: true, Strict: true})
	f.Stop()
	w.Run(time.Second)
	f = w.mobile.Flow(w.server, 20*time.Millisecond, false)
	w.Run(3 * time.Second)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(time.Minute)
	if gap := f.Gap(); gap > time.Second {
		t.Errorf("nothing arrived for %v", gap)
	}
	if lost := f.Sent - f.Received(); lost > 60 {
		t.Errorf("%d of %d lost", lost, f.Sent)
	}
}

// Towards Roam data leave from the new locator right behind the update, in every mode;
// towards others after a round trip.
func TestRoamDoesNotWait(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality} {
		for _, other := range []bool{false, true} {
			w := newWorld(t, mode, 1)
			w.Acquainted = true
			if other {
				w.withoutUDP() // it shows Roam
				w.server.SetStack(Stack{})
			}
			w.start(t, true)
			w.Run(2 * time.Second)
			var update, data time.Duration
			w.Tap = func(p Packet) *Packet {
				switch {
				case p.Src.L64 != netB:
				case kindOf(p) == "LU" && update == 0:
					update = w.Elapsed()
				case p.Control == nil && data == 0:
					data = w.Elapsed()
				}
				return &p
			}
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.Run(time.Second)
			want := 2 * time.Millisecond
			if other && mode != ilnp.Hard {
				want = pathRTT + 2*time.Millisecond
			}
			if wait := data - update; data == 0 || wait > want || wait < want-2*time.Millisecond {
				t.Errorf("%v, another stack %v: data leave %v behind the update, want at most %v", mode, other, wait, want)
			}
		}
	}
}

// A stack that acknowledges: no datagram is lost, wherever the update came from.
func TestOthersFollow(t *testing.T) {
	for name, s := range map[string]Stack{
		"any source": {}, "strict": {Strict: true}, "known sources": {KnownSource: true}, "both": {KnownSource: true, Strict: true},
	} {
		for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
			what := fmt.Sprintf("%s, %v", name, mode)
			w, f := newOther(t, mode, 1, s)
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.Run(3 * time.Second)
			if got := w.mobile.peer(w.server).Paths; got[0].Local.L64 != netB {
				t.Errorf("%s: sends from %v after the acknowledgement", what, got[0].Local)
			}
			w.mobile.Down(1)
			w.Run(3 * time.Second)
			f.Stop()
			w.Run(time.Second)
			wantLost(t, f, 2)
		}
	}
}

// After a hard move a stack that takes updates from known sources only gets one with
// such a source over the new link, unless a filter there drops it.
func TestKnownSourceAfterAHardMove(t *testing.T) {
	for _, filtered := range []bool{false, true} {
		w, f := newOther(t, ilnp.Soft, 1, Stack{KnownSource: true, Strict: true})
		foreign := 0
		w.Tap = func(p Packet) *Packet {
			if q, err := ilnpwire.ParseControl(p.Control, udpPort); p.Control != nil && err == nil && q.Src.NID == mobileNID && q.Src.L64 == netA {
				foreign++
				if filtered {
					return nil
				}
			}
			return &p
		}
		w.mobile.Down(1)
		w.mobile.Up(2, netB, near, roam.Infinite)
		w.Run(20 * time.Second)
		if moved := w.mobile.Count(ilnp.UpdateAcked) > 0; moved == filtered {
			t.Errorf("filtered %v: acknowledged %v", filtered, moved)
		}
		if !filtered {
			wantGap(t, "not filtered", f, time.Second)
		}
		if foreign > 2 || foreign == 0 {
			t.Errorf("filtered %v: %d packets with a source of another link", filtered, foreign)
		}
	}
}

// A network that dies unseen behind a stack which never acknowledges, and takes data
// from anywhere: data go by the new one.
func TestOldNetworkDiesUnseen(t *testing.T) {
	for _, when := range []string{"before the move", "after it"} {
		w, f := newOther(t, ilnp.Soft, 1, Stack{NeverAcks: true})
		if when == "before the move" {
			w.mobile.Cut(1)
			w.Run(500 * time.Millisecond)
		}
		w.mobile.Up(2, netB, near, roam.Infinite)
		w.Run(5 * time.Second)
		w.mobile.Cut(1)
		w.Run(30 * time.Second)
		wantGap(t, when, f, 4*time.Second)
	}
}
