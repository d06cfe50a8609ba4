package ilnphost

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	ilnpwire "roam/wire/ilnp"
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
	showTrace(t, n)
	w.mobile.Up(1, netA, near, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	w.mobile.Know(w.server, netS)
	w.server.Know(w.mobile)
	return w
}

// showTrace prints the course of a test that failed.
func showTrace(t *testing.T, n *Network) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		lines := n.Trace()
		for _, l := range lines {
			t.Log(l)
		}
	})
}

// withoutUDP makes the form of the RFCs the only one for control messages.
func (w *world) withoutUDP() { w.server.attachments[0].access.Filter = DropUDP }

// start runs a flow until the session stands on both ends.
func (w *world) start(t *testing.T, echo bool) *Flow {
	t.Helper()
	return w.startEvery(t, time.Millisecond, echo)
}

func (w *world) startEvery(t *testing.T, interval time.Duration, echo bool) *Flow {
	t.Helper()
	f := w.mobile.Flow(w.server, interval, echo)
	if !w.RunUntil(time.Second, func() bool {
		return w.mobile.peer(w.server).State == ilnp.Established && w.server.peer(w.mobile).State == ilnp.Established
	}) {
		t.Fatal("session not established within 1 s")
	}
	w.Run(500 * time.Millisecond)
	return f
}

// finish lets what is in flight arrive and asks the reference model.
func (w *world) finish(t *testing.T, f *Flow) {
	t.Helper()
	f.Stop()
	w.Run(time.Second)
	for _, fault := range w.Check() {
		t.Error(fault)
	}
}

// peer returns what a node's core says of its session with another node.
func (h *Node) peer(o *Node) ilnp.PeerState {
	for _, p := range h.core.Peers(h.net.Now()) {
		if p.NID == o.nid && !p.Since.IsZero() {
			return p
		}
	}
	return ilnp.PeerState{}
}

func wantLost(t *testing.T, f *Flow, limit int) {
	t.Helper()
	if lost := f.Sent - f.Received(); lost > limit {
		t.Errorf("%d of %d datagrams lost, want at most %d", lost, f.Sent, limit)
	}
	if lost := f.Received() - f.Answered; f.Echo && lost > limit {
		t.Errorf("%d of %d answers lost, want at most %d", lost, f.Received(), limit)
	}
}

// wantPaths asks for the locators that a node sends to.
func wantPaths(t *testing.T, from, to *Node, want ...roam.L64) {
	t.Helper()
	var got []roam.L64
	for _, p := range from.peer(to).Paths {
		if !slices.Contains(got, p.Remote) {
			got = append(got, p.Remote)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("at %v %s sends to %v, want %v", from.net.Elapsed(), from.name, got, want)
	}
}

// kindOf names a packet for taps.
func kindOf(p Packet) string {
	switch {
	case p.Control == nil && p.Nonce.Present():
		return "data with nonce"
	case p.Control == nil:
		return "data"
	}
	carrier := ""
	if p.Encapsulated {
		carrier = "UDP "
	}
	q, err := ilnpwire.ParseControl(p.Control, udpPort)
	if err != nil {
		return "malformed"
	}
	switch q.Type {
	case ilnpwire.TypeEchoRequest:
		return "probe"
	case ilnpwire.TypeEchoReply:
		return "reply"
	case ilnpwire.TypeLocatorUpdate:
		if lu, err := ilnpwire.ParseLocatorUpdate(q.Payload); err == nil && lu.Operation == ilnpwire.Acknowledgement {
			return carrier + "LU-Ack"
		}
		return carrier + "LU"
	}
	return "error"
}
