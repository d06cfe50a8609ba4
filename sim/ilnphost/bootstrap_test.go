package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
)

// contact is a first contact of two hosts with two links each, one of which passes nothing.
type contact struct {
	mode     ilnp.Mode
	ofServer bool // the dead link is the contacted host's
	link     roam.LinkID
	way      sim.Direction
	roams    bool          // each host learns that the other one runs Roam
	interval time.Duration // between datagrams; a second: a connection
}

func (k contact) String() string {
	return fmt.Sprintf("%v link %d of server %v way %d roams %v every %v",
		k.mode, k.link, k.ofServer, k.way, k.roams, k.interval)
}

// contacts returns every combination.
func contacts() (all []contact) {
	for i := range 3 * 2 * 2 * 3 * 2 * 2 {
		pick := func(n int) int { k := i % n; i /= n; return k }
		all = append(all, contact{
			mode:     []ilnp.Mode{ilnp.Soft, ilnp.Hard, ilnp.Duality}[pick(3)],
			ofServer: pick(2) == 1,
			link:     roam.LinkID(1 + pick(2)),
			way:      []sim.Direction{sim.Both, sim.Forward, sim.Backward}[pick(3)],
			roams:    pick(2) == 1,
			interval: []time.Duration{time.Second, 10 * time.Millisecond}[pick(2)],
		})
	}
	return all
}

// make runs the contact. It returns the time to the first answer, and of the datagrams of the
// five seconds after it how many were answered.
func (k contact) make(t *testing.T, seed uint64) (took time.Duration, sent, answered int) {
	n := New(seed)
	showTrace(t, n)
	n.Acquainted = k.roams
	mobile := n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}, Mode: k.mode})
	server := n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Mode: k.mode, Accept: ilnp.Any})
	mobile.Up(1, netA, near, roam.Infinite)
	mobile.Up(2, netB, near, roam.Infinite)
	server.Up(1, netS, near, roam.Infinite)
	server.Up(2, netT, near, roam.Infinite)
	mobile.Know(server, netS, netT)
	end := mobile
	if k.ofServer {
		end = server
	}
	end.at(k.link).wire.Cut(k.way)
	n.Run(time.Second)
	from := n.Elapsed()
	f := mobile.run(&Flow{From: mobile, To: server, Echo: true, Opening: k.interval == time.Second}, k.interval)
	n.RunUntil(20*time.Second, func() bool { return f.Answered > 0 })
	took = n.Elapsed() - from
	sent, answered = f.Sent, f.Answered
	n.Run(5 * time.Second)
	return took, f.Sent - sent, f.Answered - answered
}

// TestFirstContactBesideADeadPath: one of two links of one host has passed nothing since before
// the hosts talk, in one direction or both. A connection stands within 1 s and a round trip: TCP
// retransmits its SYN after a second. Datagrams are answered by then too, and a dead link that either
// host prefers is left within a second afterwards, unless the mode is hard: then no other locator is listed.
func TestFirstContactBesideADeadPath(t *testing.T) {
	var worst, cost time.Duration
	for _, k := range contacts() {
		t.Run(k.String(), func(t *testing.T) {
			took, sent, answered := k.make(t, 1)
			worst = max(worst, took)
			if took > time.Second+pathRTT {
				t.Errorf("answered after %v, want 1 s and a round trip", took)
			}
			if !k.roams || k.mode == ilnp.Hard || k.interval == time.Second {
				return
			}
			lost := time.Duration(sent-answered) * k.interval
			cost = max(cost, lost)
			if lost > time.Second {
				t.Errorf("%d of %d datagrams answered afterwards", answered, sent)
			}
		})
	}
	t.Logf("answered after %v at worst; then %v lost", worst, cost)
}
