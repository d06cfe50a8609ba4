package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// TestPlaceOfARuleIsValidatedLate: the path to the less preferred locator of a peer without a record was dead while
// the peer announced it, and for as long as that was probed. When it works again, a flow leaves by it, by a rule of
// the peer. Its packets are taken for that session's soon, whether its first ones, which bear the nonce, arrive or not.
func TestPlaceOfARuleIsValidatedLate(t *testing.T) {
	for name, dead := range map[string]time.Duration{
		"its first packets arrive": 0,
		"they are lost":            300 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			n := New(1)
			n.Acquainted = true
			cfg := func(nid roam.NID) ilnp.Config {
				return ilnp.Config{
					NIDs: []roam.NID{nid}, Mode: ilnp.Soft, Accept: ilnp.Any, Silence: multipath.Normal.Timing().Silence,
					Liveness: func(string) multipath.Level { return multipath.Normal },
				}
			}
			showTrace(t, n)
			w := &world{Network: n, mobile: n.AddNode("mobile", cfg(mobileNID)), server: n.AddNode("server", cfg(serverNID))}
			a := &answered{forked: &forked{world: w}, last: make(map[*Flow]roam.L64)}
			w.mobile.Up(1, netA, near, roam.Infinite)
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.server.Up(1, netS, near, roam.Infinite)
			w.mobile.Know(w.server, netS)
			a.cut(1, sim.Both)
			w.Delivered = func(h *Node, _ ilnp.SessionKey, d Datagram) {
				if h == w.mobile && d.answer {
					a.last[d.flow] = d.sentTo
				}
			}
			other := w.mobile.run(&Flow{From: w.mobile, To: w.server, Echo: true, Port: ruledPort + 1}, time.Millisecond)
			w.Run(10 * time.Second)
			other.Stop()
			w.Run(20 * time.Second)
			w.mobile.at(1).wire.Mend(sim.Both)
			w.Run(10 * time.Second)
			w.mobile.setRule(1, ruledPort, netA)
			w.Run(time.Second)
			w.Tap = func(p Packet) *Packet {
				if w.Elapsed() < 41*time.Second+dead && p.Control == nil && p.Src.L64 == netA {
					return nil
				}
				return &p
			}
			a.flow = w.mobile.run(&Flow{From: w.mobile, To: w.server, Echo: true, Port: ruledPort}, time.Millisecond)
			w.Run(dead)
			a.comes(t, 3*time.Second, netA, "flow of the rule") // the peer's daemon looks once a second for who has rules
			w.Run(time.Second)
			t.Logf("%d of %d without an answer", a.flow.Sent-a.flow.Answered, a.flow.Sent)
			if n := a.flow.Sent - a.flow.Answered; n > int((dead+100*time.Millisecond)/time.Millisecond) {
				t.Errorf("%d of %d datagrams without an answer", n, a.flow.Sent)
			}
		})
	}
}
