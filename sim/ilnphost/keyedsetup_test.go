package ilnphost

import (
	"testing"
	"time"

	"roam/ilnp"
)

// TestKeyedSetUpTime: on a path of 20 ms the first answer to an application of a pair with keys comes in
// the time of a pair without, but for the first contact of all, which a challenge makes one round
// trip longer. Computation takes no time here.
func TestKeyedSetUpTime(t *testing.T) {
	const contacts = 20
	first := func(w *world) (took []time.Duration) {
		for range contacts {
			f := w.mobile.Flow(w.server, time.Millisecond, true)
			from := w.Now()
			if !w.RunUntil(5*time.Second, func() bool { return f.Answered > 0 }) {
				t.Fatal("no answer")
			}
			took = append(took, w.Now().Sub(from))
			f.Stop()
			w.Run(20 * time.Minute) // the session ends
		}
		return took
	}
	keyed, plain := newProving(t, 1, netA), newWorld(t, ilnp.Soft, 1)
	plain.mobile.Know(plain.server, netS)
	plain.server.Know(plain.mobile, netA)
	with, without := first(keyed.world), first(plain)
	t.Logf("with keys %v, without %v", with, without)
	for i, d := range with[1:] {
		if d > without[i+1] {
			t.Errorf("contact %d: %v with keys, %v without", i+1, d, without[i+1])
		}
	}
	if with[0] > without[0]+pathRTT {
		t.Errorf("the first contact: %v with keys, %v without", with[0], without[0])
	}
}
