package ilnphost

import (
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/multipath"
	"roam/sim"
)

// guarded is a world whose mobile host has been in network A, behind a firewall that admits only answers, then in
// network B, and has just come back softly, to a firewall with one more filter. Datagrams and two connections run
// both ways.
type guarded struct {
	*forked
	conns   [2]*TCP
	entered time.Duration
}

func newGuarded(t *testing.T, filter Filter, seed uint64) *guarded {
	t.Helper()
	access := near
	access.Filter = OnlyAnswers
	n := New(1 + seed)
	n.Acquainted = true
	cfg := func(nid roam.NID) ilnp.Config {
		return ilnp.Config{
			NIDs: []roam.NID{nid}, Mode: ilnp.Soft, Silence: multipath.Normal.Timing().Silence,
			Liveness: func(string) multipath.Level { return multipath.Normal },
		}
	}
	w := &world{Network: n, mobile: n.AddNode("mobile", cfg(mobileNID)), server: n.AddNode("server", cfg(serverNID))}
	showTrace(t, n)
	w.mobile.Up(1, netA, access, roam.Infinite)
	w.server.Up(1, netS, near, roam.Infinite)
	w.mobile.Know(w.server, netS)
	w.server.Know(w.mobile)
	g := &guarded{forked: &forked{world: w, up: w.start(t, false)}}
	g.down = w.server.Flow(w.mobile, time.Millisecond, false)
	g.conns = [2]*TCP{w.mobile.Dial(w.server, 1000), w.mobile.Dial(w.server, 1000)}
	var write func()
	write = func() {
		g.conns[0].Write(w.mobile, 2000)
		g.conns[1].Write(w.server, 2000)
		n.After(5*time.Millisecond, write)
	}
	write()
	w.Run(time.Second + time.Duration(w.Rand().IntN(1000))*time.Millisecond)
	w.mobile.Up(2, netB, near, roam.Infinite)
	w.Run(1500 * time.Millisecond)
	w.mobile.Down(1)
	w.Run(1500 * time.Millisecond)
	access.Filter |= filter
	w.mobile.Up(1, netA, access, roam.Infinite)
	g.entered = w.Elapsed()
	w.Run(1500 * time.Millisecond)
	return g
}

// loseOther takes network B away, which the mobile host notices later.
func (g *guarded) loseOther(noticed time.Duration) {
	g.cut(2, sim.Both)
	g.Run(noticed)
	g.mobile.Down(2)
}

// goOn checks that both connections have delivered data in the half second after some time.
func (g *guarded) goOn(t *testing.T, after time.Duration) {
	t.Helper()
	g.Run(after)
	up, down := g.conns[0].Delivered(g.server), g.conns[1].Delivered(g.mobile)
	g.Run(500 * time.Millisecond)
	up, down = g.conns[0].Delivered(g.server)-up, g.conns[1].Delivered(g.mobile)-down
	if up == 0 || down == 0 {
		t.Errorf("connections delivered %d bytes up and %d down in half a second", up, down)
	}
}

// TestSoftHandoffBehindOnlyAnswers: the firewall drops the requests of the correspondent in the form of the RFCs, and
// its acknowledgements; data pass, and so do requests in UDP, once the host has sent some. So no datagram is lost, and
// the correspondent does not leave the path, also when the other network goes without notice. The connections,
// which the firewall has lost, go on.
func TestSoftHandoffBehindOnlyAnswers(t *testing.T) {
	for seed := range uint64(10) {
		g := newGuarded(t, 0, seed)
		g.loseOther(time.Duration(g.Rand().IntN(1000)) * time.Millisecond)
		g.goOn(t, time.Second)
		for name, f := range map[string]*Flow{"up": g.up, "down": g.down} {
			if gap, lost := f.gapAfter(g.entered, g.Elapsed()); lost > 0 {
				t.Errorf("seed %d: %v of datagrams %s lost, gap %v", seed, lost, name, gap)
			}
		}
		if avoided := g.server.Count(ilnp.PathAvoided); avoided > 0 {
			t.Errorf("seed %d: the correspondent left paths %d times", seed, avoided)
		}
	}
}

// TestAvoidedPathIsTheLastOne: UDP does not pass the firewall either, so nothing shows the correspondent that its
// data would arrive, and these keep to network B. When the mobile host notices the end of that network, its
// Locator Update has them come by the firewall at once, and it has the firewall track the connections again. After
// 1.5 s the correspondent only avoids the path, after 10 s it has given it up.
func TestAvoidedPathIsTheLastOne(t *testing.T) {
	for seed := range uint64(10) {
		g := newGuarded(t, DropUDP, seed)
		if seed%2 > 0 {
			g.Run(8500 * time.Millisecond)
		}
		if g.server.Count(ilnp.PathAvoided) == 0 {
			t.Errorf("seed %d: the correspondent has not left the path: the test tries nothing", seed)
		}
		g.loseOther(time.Duration(g.Rand().IntN(300)) * time.Millisecond)
		at := g.Elapsed()
		g.Run(4 * time.Second)
		if gap, lost := g.down.gapAfter(at+pathRTT, g.Elapsed()); lost > 0 {
			t.Errorf("seed %d: %v of datagrams lost, gap %v, after the other network was lost", seed, lost, gap)
		}
		g.goOn(t, 0)
	}
}
