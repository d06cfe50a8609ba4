package sim

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// The two hosts of most tests and the networks that they visit.
const (
	mobileNID roam.NID = 0x0200_0000_0000_0001
	serverNID roam.NID = 0x0200_0000_0000_0002

	netA roam.L64 = 0x2001_0db8_000a_0000
	netB roam.L64 = 0x2001_0db8_000b_0000
	netC roam.L64 = 0x2001_0db8_000c_0000
	netS roam.L64 = 0x2001_0db8_0005_0000
	netT roam.L64 = 0x2001_0db8_0006_0000
)

// near is an access link of 5 ms: two of them make a path of 20 ms RTT.
var near = Access{Delay: 5 * time.Millisecond}

const pathRTT = 20 * time.Millisecond

// world is a mobile host in network A and a server, who know each other.
type world struct {
	*Network
	mobile, server *Node
}

func newWorld(t *testing.T, mode ilnp.Mode, seed uint64) *world {
	t.Helper()
	n := New(seed)
	w := &world{
		Network: n,
		mobile:  n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}, Mode: mode}),
		server:  n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Mode: mode}),
	}
	w.mobile.Up(1, netA, near, ilnp.Infinite)
	w.server.Up(1, netS, near, ilnp.Infinite)
	w.mobile.Know(w.server, netS)
	w.server.Know(w.mobile)
	t.Cleanup(func() {
		if t.Failed() {
			for _, l := range w.Trace() {
				t.Log(l)
			}
		}
	})
	return w
}

// start runs a flow until the session stands on both ends.
func (w *world) start(t *testing.T, echo bool) *Flow {
	t.Helper()
	f := w.mobile.Flow(w.server, time.Millisecond, echo)
	if !w.RunUntil(time.Second, func() bool { return w.mobile.state(w.server) == ilnp.Established && w.server.state(w.mobile) == ilnp.Established }) {
		t.Fatal("session not established within 1 s")
	}
	w.Run(500 * time.Millisecond)
	return f
}

// peer returns what a node's core says of another node's first session.
func (h *Node) peer(o *Node) ilnp.PeerState {
	for _, p := range h.core.Peers(h.net.now) {
		if p.NID == o.nid && !p.Since.IsZero() {
			return p
		}
	}
	return ilnp.PeerState{}
}

func (h *Node) state(o *Node) ilnp.PairState { return h.peer(o).State }

func TestSoftHandoffLosesNothing(t *testing.T) {
	w := newWorld(t, ilnp.Soft, 1)
	f := w.start(t, true)
	at := w.Elapsed()
	w.mobile.Up(2, netB, near, ilnp.Infinite)
	w.Run(time.Second)
	w.mobile.Down(1)
	w.Run(time.Second)
	f.Stop()
	w.Run(time.Second)
	if lost := f.Sent - f.Received(); lost != 0 {
		t.Errorf("%d of %d datagrams lost", lost, f.Sent)
	}
	if got := f.Sent - f.Answered; got != 0 {
		t.Errorf("%d answers lost", got)
	}
	if got := w.mobile.peer(w.server).LastMoveRTT; got != pathRTT {
		t.Errorf("last update took %v, want one RTT", got)
	}
	_ = at
}
