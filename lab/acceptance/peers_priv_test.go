package acceptance

import (
	"slices"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
)

// TestBothMove lets two mobile hosts talk and move at the same time.
func TestBothMove(t *testing.T) {
	w := newWorld(t, "both", 5*time.Millisecond, place{"m1", 2, true}, place{"m2", 2, true})
	nodes := []*host{w.newHost("m1", settings{}), w.newHost("m2", settings{})}
	for _, n := range nodes {
		w.cable(n.name, "net2", false)
		n.start()
		n.becomes("net1")
	}
	down := w.tcp(t, "m1", "m2", "m2", 7001, true)
	up := w.tcp(t, "m1", "m2", "m2", 7002, false)
	nodes[0].reaches("m2", "established")
	w.sub("softly and at once loses nothing", func(t *testing.T) { bothSoft(t, w, nodes) })
	w.sub("hard and at once", func(t *testing.T) { bothHard(t, w, nodes) })
	w.sub("after both were cut off", func(t *testing.T) { bothAway(t, w, nodes) })
	ctx := w.within(patience)
	if _, err := down.Stop(ctx); err != nil {
		t.Error(err)
	}
	if _, err := up.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// cables plugs or pulls the same cable of all hosts.
func cables(w *world, nodes []*host, ifname string, in bool) {
	w.t.Helper()
	for _, n := range nodes {
		w.cable(n.name, ifname, in)
	}
}

// bothOn waits until both hosts send to each other by that link only, to that
// network only.
func bothOn(t *testing.T, w *world, nodes []*host, ifname string, number int) {
	t.Helper()
	for i, n := range nodes {
		peer := nodes[1-i].name
		n.becomes(ifname)
		n.sendsFrom(peer, ifname)
		testutil.Eventually(t, patience, func() bool {
			paths := n.with(peer).Paths
			return len(paths) > 0 && !slices.ContainsFunc(paths, func(p node.SessionPath) bool {
				return p.Remote != l64(w, peer, number)
			})
		}, n.name+" sends to the new network of "+peer)
	}
}

func bothSoft(t *testing.T, w *world, nodes []*host) {
	began := time.Now()
	u := w.udp(t, "m1", "m2", "m2", 7010, 1000)
	cables(w, nodes, "net2", true)
	bothOn(t, w, nodes, "net2", 2)
	for _, n := range nodes {
		quiet(t, w, n.name, "net1")
	}
	cables(w, nodes, "net1", false)
	flows(t, u, 500)
	w.lossless(t, u, began)
}

// bothHard takes the old links away when the new ones are active, whether or
// not either host has been told of it: each knows only where the other was.
func bothHard(t *testing.T, w *world, nodes []*host) {
	u := w.udp(t, "m1", "m2", "m2", 7020, 1000)
	for _, n := range nodes {
		n.roam("mode", "hard")
	}
	cables(w, nodes, "net1", true)
	for _, n := range nodes {
		n.becomes("net1")
	}
	cables(w, nodes, "net2", false)
	moved := time.Now()
	flows(t, u, 500)
	bothOn(t, w, nodes, "net1", 1)
	t.Logf("both go on within %v", time.Since(moved).Round(time.Millisecond))
}

// bothAway pulls every cable, and lets the hosts come back elsewhere: all that
// either knows is the list of networks from the hosts file.
func bothAway(t *testing.T, w *world, nodes []*host) {
	u := w.udp(t, "m1", "m2", "m2", 7030, 500)
	cables(w, nodes, "net1", false)
	for _, n := range nodes {
		n.becomes()
	}
	cables(w, nodes, "net2", true)
	back := time.Now()
	flows(t, u, 500)
	bothOn(t, w, nodes, "net2", 2)
	t.Logf("both go on within %v", time.Since(back).Round(time.Millisecond))
}

// TestCollisions has two hosts that claim one Node Identifier call a third: both
// have sessions, which are never mixed up.
func TestCollisions(t *testing.T) {
	const calls = 30
	w := newWorld(t, "collisions", 2*time.Millisecond, place{"mn", 1, true},
		place{"one", 1, false}, place{"two", 1, false})
	mn := w.newHost("mn", settings{hosts: "# nobody\n"}).start()
	one := w.newHost("one", settings{hosts: w.hostsFile("mn")}).start()
	two := w.newHost("two", settings{hosts: w.hostsFile("mn"), nid: w.nid("one")}).start()
	for _, name := range w.names() {
		w.echo(t, name, 7007)
	}
	a := w.talk(t, "one", "tcp6", "mn", 7007)
	a.echoed(t, "one calls")
	one.reaches("mn", "established")
	b := w.talk(t, "two", "tcp6", "mn", 7007)
	b.echoed(t, "two calls")
	two.reaches("mn", "established")
	var list []node.Session
	testutil.Eventually(t, patience, func() bool {
		list = mn.sessions()
		return len(list) == 2 && !slices.ContainsFunc(list, func(s node.Session) bool { return s.State != "established" })
	}, "two sessions of mn")
	if list[0].NID != list[1].NID || list[0].Address == list[1].Address {
		t.Errorf("sessions %+v", list)
	}
	for range 3 {
		a.echoed(t, "still-one")
		b.echoed(t, "still-two")
		a.out.clear()
		b.out.clear()
	}
	// The other way round each answers at its own address.
	for _, s := range list {
		n, other := one, two
		if s.Paths[0].Remote == l64(w, "two", 1) {
			n, other = two, one
		}
		mine, others := n.with("mn").RxPackets, other.with("mn").RxPackets
		call := w.talk(t, "mn", "tcp6", s.Address.String(), 7007)
		for range calls {
			call.echoed(t, "mn calls")
			call.out.clear()
		}
		// Either may receive some probes meanwhile, those of the size that the path takes among them.
		if got, its := n.with("mn").RxPackets-mine, other.with("mn").RxPackets-others; got < calls || its >= calls/2 {
			t.Errorf("a call of %s did not go to %s: it has received %d packets, %s %d", s.Address, n.name, got, other.name, its)
		}
	}
}
