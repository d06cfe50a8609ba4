package ilnphost

import (
	"fmt"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/sim"
)

// newUnequal is a mobile host with two access links and a server whose nonces differ in length. So the
// stack of each answers the probes of the other one, where its data go.
func newUnequal(t *testing.T, mode ilnp.Mode, acquainted bool, lengths [2]uint8) *world {
	t.Helper()
	n := New(1)
	n.Acquainted = acquainted
	w := &world{
		Network: n,
		mobile:  n.AddNode("mobile", ilnp.Config{NIDs: []roam.NID{mobileNID}, Mode: mode, NonceLength: lengths[0]}),
		server:  n.AddNode("server", ilnp.Config{NIDs: []roam.NID{serverNID}, Mode: ilnp.Soft, NonceLength: lengths[1]}),
	}
	showTrace(t, n)
	w.mobile.Up(1, netA, near, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	w.mobile.Know(w.server, netS)
	w.server.Know(w.mobile, netA)
	return w
}

// eachUnequal runs f for both orders of lengths, whether the ends learn that the other one runs Roam or not.
func eachUnequal(t *testing.T, mode ilnp.Mode, f func(t *testing.T, w *world)) {
	for _, acquainted := range []bool{true, false} {
		for _, lengths := range [][2]uint8{{4, 12}, {12, 4}} {
			t.Run(fmt.Sprintf("%v %v acquainted %t", mode, lengths, acquainted), func(t *testing.T) {
				f(t, newUnequal(t, mode, acquainted, lengths))
			})
		}
	}
}

// TestDeadLinkBesideUnequalNonces: the link in use dies in one direction or both. The answers to probes along
// the other link go where nothing arrives, so a Locator Update has to ask there.
func TestDeadLinkBesideUnequalNonces(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Hard, ilnp.Soft, ilnp.Duality} {
		for name, way := range map[string]sim.Direction{"both": sim.Both, "in": sim.Backward} {
			eachUnequal(t, mode, func(t *testing.T, w *world) {
				f := w.startEvery(t, 50*time.Millisecond, true)
				w.mobile.Up(2, netB, near, roam.Infinite)
				w.Run(10 * time.Second)
				w.mobile.at(2).wire.Cut(way)
				cut := w.Now()
				if !w.RunUntil(6*time.Second, func() bool { return f.Back.After(cut.Add(time.Second)) }) {
					t.Errorf("%s: no answer in 6 s after one of two links died", name)
				}
				w.Run(10 * time.Second)
				if silent := w.Now().Sub(f.Back); silent > 2*time.Second {
					t.Errorf("%s: then no answer for %v", name, silent)
				}
			})
		}
	}
}

// TestServerFindsAHostAtItsOtherLink: both links of a host in the hard mode are dead for a while, and then one that
// it has not announced works again. The host sends answers alone, so only the updates of the server, which has
// looked it up, can show it that nothing arrives where it is.
func TestServerFindsAHostAtItsOtherLink(t *testing.T) {
	eachUnequal(t, ilnp.Hard, func(t *testing.T, w *world) {
		w.startEvery(t, 50*time.Millisecond, true).Stop()
		w.mobile.Up(2, netB, near, roam.Infinite)
		f := w.server.Flow(w.mobile, time.Second, true)
		w.Run(10 * time.Second)
		for link := range roam.LinkID(2) {
			w.mobile.at(link + 1).wire.Cut(sim.Both)
		}
		w.Run(30 * time.Second)
		w.server.Know(w.mobile, netA, netB)
		w.Run(10 * time.Second)
		w.mobile.at(1).wire.Mend(sim.Both)
		mended := w.Now()
		if !w.RunUntil(time.Minute, func() bool { return f.Back.After(mended) }) {
			t.Error("no answer in a minute")
		}
		w.Run(20 * time.Second)
		if silent := w.Now().Sub(f.Back); silent > 3*time.Second {
			t.Errorf("then no answer for %v", silent)
		}
	})
}

// TestBothLinksStayBesideUnequalNonces: many probes are answered by the other path, which is no reason to avoid
// one.
func TestBothLinksStayBesideUnequalNonces(t *testing.T) {
	eachUnequal(t, ilnp.Duality, func(t *testing.T, w *world) {
		w.startEvery(t, time.Second, true)
		w.mobile.Up(2, netB, near, roam.Infinite)
		w.Run(5 * time.Second)
		for range 60 {
			w.Run(time.Second)
			wantPaths(t, w.server, w.mobile, netA, netB)
		}
		for _, h := range []*Node{w.mobile, w.server} {
			if n := h.Count(ilnp.PathAvoided); n > 0 {
				t.Errorf("%s avoids a path %d times", h.name, n)
			}
		}
	})
}

// TestServerFindsAHostWhereItNeverWas: the link of a host dies that only answers. The server has looked up another
// one, where it has never been and which can only be validated once the host answers from there.
func TestServerFindsAHostWhereItNeverWas(t *testing.T) {
	eachUnequal(t, ilnp.Hard, func(t *testing.T, w *world) {
		w.mobile.Up(2, netB, near, roam.Infinite)
		w.mobile.Up(1, netC, near, roam.Infinite)
		w.server.Know(w.mobile, netC)
		f := w.server.Flow(w.mobile, 2*time.Second, true)
		w.Run(30 * time.Second)
		w.mobile.at(1).wire.Cut(sim.Both)
		w.Run(11 * time.Second) // no packet has left the host for a while
		w.server.Know(w.mobile, netB)
		named := w.Now()
		if !w.RunUntil(20*time.Second, func() bool { return f.Back.After(named) }) {
			t.Error("no answer in 20 s")
		}
		w.Run(20 * time.Second)
		if silent := w.Now().Sub(f.Back); silent > 4*time.Second {
			t.Errorf("then no answer for %v", silent)
		}
	})
}

// TestUpdateIsHeardByADeadDirection: while its peer is away, a host in the hard mode moves to a link by which
// nothing arrives. The peer returns and is told of that link alone, so all answers, and the acknowledgements of that
// set, go there. In a session with keys the peer follows no nonce to another link.
func TestUpdateIsHeardByADeadDirection(t *testing.T) {
	for _, lengths := range [][2]uint8{{4, 12}, {12, 4}} {
		w := newUnequal(t, ilnp.Hard, true, lengths)
		w.pair(t)
		f := w.startEvery(t, time.Second, true)
		w.Run(10 * time.Second)
		w.server.Cut(1)
		w.Run(5 * time.Second)
		w.mobile.Up(2, netB, near, roam.Infinite)
		w.mobile.at(2).wire.Cut(sim.Backward)
		w.Run(5 * time.Second)
		w.server.Mend(1)
		mended := w.Now()
		if !w.RunUntil(40*time.Second, func() bool { return f.Back.After(mended) }) {
			t.Errorf("%v: no answer in 40 s", lengths)
		}
		w.Run(20 * time.Second)
		if silent := w.Now().Sub(f.Back); silent > 3*time.Second {
			t.Errorf("%v: then no answer for %v", lengths, silent)
		}
	}
}

// TestAnswersLeaveByADeadDirection: a host in the hard mode that has sent nothing lately moves to a link by which
// nothing leaves. Its peer looks it up and sends to the other link, but the answers to probes leave by the dead
// one, so a Locator Update has to ask the path in use as well.
func TestAnswersLeaveByADeadDirection(t *testing.T) {
	eachUnequal(t, ilnp.Hard, func(t *testing.T, w *world) {
		found := w.mobile.record(netA)
		found.Secret = w.pair(t)
		w.server.know(found)
		w.server.Flow(w.mobile, time.Second, true).Stop()
		w.Run(10 * time.Second)
		w.mobile.Up(2, netB, near, roam.Infinite)
		w.mobile.at(2).wire.Cut(sim.Forward)
		w.Run(20 * time.Second)
		f := w.server.run(&Flow{From: w.server, To: w.mobile, Echo: true, Size: 1400}, 10*time.Second)
		if !w.RunUntil(time.Minute, func() bool { return w.server.Count(ilnp.PeerDead) > 0 }) {
			t.Fatal("the server does not miss the host")
		}
		w.server.know(found)
		named := w.Now()
		if !w.RunUntil(15*time.Second, func() bool { return f.Back.After(named) }) {
			t.Error("no answer in 15 s")
		}
		w.Run(40 * time.Second)
		if silent := w.Now().Sub(f.Back); silent > 11*time.Second {
			t.Errorf("then no answer for %v", silent)
		}
	})
}

// TestNewLinkThatNothingComesBy: a host in duality gets a link by which its packets leave and none arrive, and sends
// datagrams that nobody answers. Its peer knows it by no record, and so takes none without a nonce from a locator that
// it cannot validate. The answers to probes along the new link arrive by the other one. Where something comes by both
// links, packets soon have no nonce any more. A restart of the host's daemon changes neither.
func TestNewLinkThatNothingComesBy(t *testing.T) {
	for _, lengths := range [][2]uint8{{4, 12}, {12, 4}, {4, 4}} {
		for i := range 8 {
			isDead, acquainted, restarts := i%2 == 0, i%4 < 2, i >= 4
			w, f := newUnrecorded(t, lengths, acquainted)
			w.Run(20 * time.Second)
			w.mobile.Up(2, netB, near, roam.Infinite)
			if isDead {
				w.mobile.CutOneWay(2, sim.Backward)
			}
			w.Run(time.Minute)
			if restarts {
				if err := w.mobile.Restart(); err != nil {
					t.Fatal(err)
				}
				w.Run(10 * time.Second)
			}
			from, nonces := w.Elapsed(), 0
			w.Seen = func(_ *Node, _ roam.LinkID, leaves bool, p Packet) {
				if leaves && p.Control == nil && p.Nonce.Present() {
					nonces++
				}
			}
			w.Run(5 * time.Minute)
			if lost := f.Lost(from, w.Elapsed()-10*time.Second); lost > 2 {
				t.Errorf("%v, dead %v, acquainted %v, restarts %v: %d of 58 datagrams lost",
					lengths, isDead, acquainted, restarts, lost)
			}
			if !isDead && nonces > 2 {
				t.Errorf("%v, acquainted %v, restarts %v: %d of 60 datagrams had a nonce after a minute",
					lengths, acquainted, restarts, nonces)
			}
		}
	}
}

// TestLinkComesBackOneWay: a link of a host in duality goes, and is back a minute later without anything that comes by
// it. The peer has forgotten the locator meanwhile, cannot validate it, and knows the host by no record. What the host
// knew of the link before does not count: no datagram is lost.
func TestLinkComesBackOneWay(t *testing.T) {
	ways := map[string][2]func(h *Node, link roam.LinkID, at roam.L64){
		"disabled": {
			func(h *Node, link roam.LinkID, _ roam.L64) { h.Disable(link, true) },
			func(h *Node, link roam.LinkID, _ roam.L64) { h.Disable(link, false) },
		},
		"down": {
			func(h *Node, link roam.LinkID, _ roam.L64) { h.Down(link) },
			func(h *Node, link roam.LinkID, at roam.L64) { h.Up(link, at, near, roam.Infinite) },
		},
		"unused": {
			func(h *Node, _ roam.LinkID, _ roam.L64) { h.SetMode(ilnp.Hard) },
			func(h *Node, _ roam.LinkID, _ roam.L64) { h.SetMode(ilnp.Duality) },
		},
	}
	for name, way := range ways {
		for i, lengths := range [][2]uint8{{4, 12}, {12, 4}, {4, 4}, {4, 12}, {12, 4}, {4, 4}} {
			for _, acquainted := range []bool{true, false} {
				w, f := newUnrecorded(t, lengths, acquainted)
				w.mobile.Flow(w.server, 5*time.Second, true)
				w.Run(20 * time.Second)
				w.mobile.Up(2, netB, near, roam.Infinite)
				w.Run(time.Minute)
				link, at := roam.LinkID(1), netA // by which the first packets came, which had a nonce
				if i < 3 {
					link, at = 2, netB
				}
				way[0](w.mobile, link, at)
				w.Run(time.Minute)
				way[1](w.mobile, link, at)
				w.mobile.CutOneWay(link, sim.Backward)
				w.Run(30 * time.Second)
				from := w.Elapsed()
				w.Run(2 * time.Minute)
				if lost := f.Lost(from, w.Elapsed()-10*time.Second); lost > 2 {
					t.Errorf("%s link %d, %v, acquainted %v: %d lost", name, link, lengths, acquainted, lost)
				}
			}
		}
	}
}

// TestLinksThatLiveOneWayEach: one link of a host loses all that leaves by it, the other one all that comes by it. Its
// data take the latter, where its peer cannot validate it, and knows it by no record. In duality with a peer that has not
// shown that it runs Roam the host finds no way: docs/design/liveness.md.
func TestLinksThatLiveOneWayEach(t *testing.T) {
	for _, mode := range []ilnp.Mode{ilnp.Soft, ilnp.Duality} {
		for _, acquainted := range []bool{true, mode == ilnp.Duality} {
			w, f := newUnrecorded(t, [2]uint8{4, 12}, acquainted)
			w.mobile.SetMode(mode)
			w.Run(20 * time.Second)
			w.mobile.Up(2, netB, near, roam.Infinite)
			w.mobile.CutOneWay(2, sim.Backward)
			w.mobile.CutOneWay(1, sim.Forward)
			w.Run(2 * time.Minute)
			from := w.Elapsed()
			w.Run(5 * time.Minute)
			if lost := f.Lost(from, w.Elapsed()-10*time.Second); lost > 2 {
				t.Errorf("%v, acquainted %v: %d of 58 datagrams lost", mode, acquainted, lost)
			}
		}
	}
}

// TestNonceEndsOnLinksInReserve: the link that a host in soft uses dies, and data take two in reserve. Once something
// has come by each, packets have no nonce any more.
func TestNonceEndsOnLinksInReserve(t *testing.T) {
	w, _ := newUnrecorded(t, [2]uint8{4, 12}, true)
	w.mobile.SetMode(ilnp.Soft)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.mobile.Up(3, netC, near, roam.Infinite)
	w.mobile.Flow(w.server, 50*time.Millisecond, false)
	w.Run(20 * time.Second)
	w.mobile.CutOneWay(3, sim.Both)
	w.Run(time.Minute)
	all, nonces := 0, 0
	w.Seen = func(_ *Node, _ roam.LinkID, leaves bool, p Packet) {
		if leaves && p.Control == nil {
			if all++; p.Nonce.Present() {
				nonces++
			}
		}
	}
	w.Run(time.Minute)
	if len(w.mobile.peer(w.server).Paths) < 2 || all < 1000 || nonces > 2 {
		t.Errorf("%d of %d datagrams had a nonce a minute after; paths %v", nonces, all, w.mobile.peer(w.server).Paths)
	}
}

// newUnrecorded is a mobile host in duality that sends a datagram every 5 s to a server that has no record of it.
func newUnrecorded(t *testing.T, lengths [2]uint8, acquainted bool) (*world, *Flow) {
	t.Helper()
	n := New(1)
	n.Acquainted = acquainted
	cfg := func(nid roam.NID, mode ilnp.Mode, length uint8) ilnp.Config {
		return ilnp.Config{NIDs: []roam.NID{nid}, Mode: mode, NonceLength: length, Accept: ilnp.Any}
	}
	w := &world{
		Network: n,
		mobile:  n.AddNode("mobile", cfg(mobileNID, ilnp.Duality, lengths[0])),
		server:  n.AddNode("server", cfg(serverNID, ilnp.Soft, lengths[1])),
	}
	showTrace(t, n)
	w.mobile.Up(1, netA, near, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	w.mobile.Know(w.server, netS)
	return w, w.mobile.Flow(w.server, 5*time.Second, false)
}
