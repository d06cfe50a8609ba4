package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// plainEntry is two hosts without ILNP, which show the network alone.
func plainEntry(seed uint64, a Access) (*Network, *Node, *Node) {
	n := New(seed)
	x, y := n.AddPlainNode("x", mobileNID, Problem), n.AddPlainNode("y", serverNID, Problem)
	x.Up(1, netA, a, roam.Infinite)
	y.Up(1, netS, Access{Delay: 5 * time.Millisecond}, roam.Infinite)
	return n, x, y
}

// numbered is a datagram from the one to the other.
func numbered(f *Flow, i int) Packet {
	return Packet{
		Src: roam.ILV{NID: mobileNID, L64: netA}, Dst: roam.ILV{NID: serverNID, L64: netS}, Data: Datagram{Number: i, flow: f},
	}
}

func TestDelayAndJitter(t *testing.T) {
	n, x, y := plainEntry(1, Access{Delay: 7 * time.Millisecond, Jitter: 3 * time.Millisecond})
	f := &Flow{From: x, To: y}
	overtaken := 0
	for i := range 1000 {
		f.arrivals = append(f.arrivals, arrival{number: i, sent: n.Now()})
		x.put(1, numbered(f, i))
		n.Run(time.Millisecond)
	}
	n.Run(time.Second)
	for i, a := range f.arrivals {
		if d := a.at.Sub(a.sent); d < 12*time.Millisecond || d >= 15*time.Millisecond {
			t.Fatalf("datagram %d took %v, want 12 to 15 ms", i, d)
		}
		if i > 0 && a.at.Before(f.arrivals[i-1].at) {
			overtaken++
		}
	}
	if overtaken == 0 {
		t.Error("jitter of three intervals reordered nothing")
	}
}

func TestLossAndDuplicates(t *testing.T) {
	n, x, y := plainEntry(1, Access{Loss: 0.2, Duplicate: 0.1})
	f := &Flow{From: x, To: y, Echo: true}
	const sent = 10_000
	for i := range sent {
		f.arrivals = append(f.arrivals, arrival{number: i, sent: n.Now()})
		x.put(1, numbered(f, i))
	}
	n.Run(time.Second)
	if got := f.Received(); got < sent*78/100 || got > sent*82/100 {
		t.Errorf("%d of %d arrived, want about 80 %%", got, sent)
	}
}

func TestCutLinkCarriesNothing(t *testing.T) {
	n := New(1)
	w := &world{Network: n, mobile: n.AddPlainNode("x", mobileNID, Problem), server: n.AddPlainNode("y", serverNID, Problem)}
	w.mobile.Up(1, netA, near, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	f := &Flow{From: w.mobile, To: w.server}
	send := func() {
		i := len(f.arrivals)
		f.Sent++
		f.arrivals = append(f.arrivals, arrival{number: i, sent: n.Now()})
		w.mobile.put(1, numbered(f, i))
		n.Run(20 * time.Millisecond)
	}
	send()
	w.mobile.Cut(1)
	send()
	w.mobile.Mend(1)
	w.server.Cut(1)
	send()
	w.server.Mend(1)
	send()
	if f.Received() != 2 || f.Lost(0, time.Hour) != 2 || f.Lost(0, 20*time.Millisecond) != 0 {
		t.Errorf("%d of 4 arrived, want the first and the last", f.Received())
	}
	if gap := f.Gap(); gap != 60*time.Millisecond {
		t.Errorf("gap of %v, want 60ms", gap)
	}
	if first, ok := f.FirstAfter(10 * time.Millisecond); !ok || first != 70*time.Millisecond {
		t.Errorf("first one sent after 10ms came at %v, want 70ms", first)
	}
}

// TestHeldDatagrams: what waits for its session is bounded.
func TestHeldDatagrams(t *testing.T) {
	n := New(1)
	h := n.AddNode("x", ilnp.Config{NIDs: []roam.NID{mobileNID}})
	key := ilnp.SessionKey{Local: mobileNID, Remote: serverNID}
	for range maxHeld + 10 {
		h.plane.held[key] = append(h.plane.held[key], Datagram{})
		if len(h.plane.held[key]) >= maxHeld {
			break
		}
	}
	h.plane.send(key, Datagram{})
	if h.plane.drops["queue full"] != 1 {
		t.Errorf("drops %v, want one for the full queue", h.plane.drops)
	}
}

// TestCheckFindsDisagreement: the reference model is not content with
// anything.
func TestCheckFindsDisagreement(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	f.Stop()
	w.Run(time.Second)
	if faults := w.Check(); len(faults) != 0 {
		t.Fatalf("faults in a quiet world: %v", faults)
	}
	key := ilnp.SessionKey{Local: serverNID, Remote: mobileNID}
	e := w.server.plane.entries[key]
	good := e.Entry
	for name, spoil := range map[string]func(){
		"dead":        func() { e.Dead = true },
		"plain":       func() { e.State = ilnp.Plain },
		"no path":     func() { e.Paths = nil },
		"elsewhere":   func() { e.Paths = []ilnp.Path{{Local: good.Paths[0].Local, Remote: netB}} },
		"other nonce": func() { e.LocalNonce = Nonce{Len: 4} },
	} {
		e.Entry = good
		spoil()
		if len(w.Check()) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}
