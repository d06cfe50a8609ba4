package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// TestManyCorrespondents moves a host that talks to 300 others: each gets one
// update, and all of them answer within one RTT of it; not all are sent at once.
func TestManyCorrespondents(t *testing.T) {
	const peers = 300
	n := New(1)
	server := n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Accept: ilnp.Any})
	server.Up(1, netS, near, roam.Infinite)
	var flows []*Flow
	for i := range peers {
		m := n.AddNode(fmt.Sprintf("m%d", i), ilnp.Config{NIDs: []roam.NID{mobileNID + roam.NID(i)<<16}})
		m.Up(1, netA+roam.L64(i)<<24, near, roam.Infinite)
		m.Know(server, netS)
		flows = append(flows, m.Flow(server, 100*time.Millisecond, true))
	}
	n.Run(2 * time.Second)
	sent := server.Count(ilnp.UpdateSent)
	server.Up(2, netT, near, roam.Infinite)
	const pace = 5 * time.Millisecond
	n.Run(pathRTT + pace + time.Millisecond)
	if got := server.Count(ilnp.UpdateSent) - sent; got != peers {
		t.Errorf("%d updates for %d correspondents", got, peers)
	}
	if got := server.Count(ilnp.UpdateAcked); got != peers {
		t.Errorf("%d acknowledgements within one RTT, want %d", got, peers)
	}
	n.Run(time.Second)
	for _, f := range flows {
		f.Stop()
	}
	n.Run(time.Second)
	lost := 0
	for _, f := range flows {
		lost += f.Sent - f.Answered
	}
	if lost != 0 {
		t.Errorf("%d datagrams or answers lost", lost)
	}
	for _, fault := range n.Check() {
		t.Error(fault)
	}
}

// TestMobilesAmongThemselves has two hosts wander that both have no fixed
// place: make before break, now one, now the other, now both at a time.
func TestMobilesAmongThemselves(t *testing.T) {
	for seed := range uint64(10) {
		for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality} {
			w := newWorld(t, mode, seed)
			f := w.startEvery(t, 20*time.Millisecond, true)
			moving := []*Node{w.mobile, w.server}
			next := []roam.LinkID{2, 2}
			for move := range 12 {
				for i, h := range moving {
					if r := w.Rand().IntN(3); r < 2 && r != i {
						continue // the other one only
					}
					h.Up(next[i], netB+roam.L64(i)<<24+roam.L64(move)<<16, Access{Delay: 5 * time.Millisecond, Loss: 0.05}, roam.Infinite)
				}
				w.Run(time.Duration(200+w.Rand().IntN(800)) * time.Millisecond)
				for i, h := range moving {
					if h.at(next[i]) != nil && h.at(3-next[i]) != nil {
						h.Down(3 - next[i])
						next[i] = 3 - next[i]
					}
				}
				w.Run(time.Duration(200+w.Rand().IntN(800)) * time.Millisecond)
			}
			for _, h := range moving {
				for _, at := range h.attachments {
					at.set(near)
				}
			}
			w.Run(30 * time.Second)
			w.finish(t, f)
			if n := w.mobile.Count(ilnp.SessionEnded) + w.mobile.Count(ilnp.SessionReplaced); n != 0 {
				t.Errorf("session ended or replaced %d times", n)
			}
			if t.Failed() {
				t.Fatalf("%v, seed %d", mode, seed)
			}
		}
	}
}
