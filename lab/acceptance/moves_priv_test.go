package acceptance

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// movePort is the first port of the flows here; each has its own, so that no
// straggler of one is counted in the next.
const movePort = 7000

// TestMoves moves a host with three links under the load of applications that
// never learn of it.
func TestMoves(t *testing.T) {
	needs(t, "curl", "ssh", "sshd")
	w := newWorld(t, "moves", 5*time.Millisecond, place{"mn", 3, true}, place{"cn", 1, false})
	w.cable("mn", "net2", false)
	w.cable("mn", "net3", false)
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net1")
	// These run through everything that follows.
	curl := w.download(t, "mn", "cn", "cn", 8080, 5_000_000, 200_000)
	ssh := w.shell(t, "mn", "cn", "cn", 2222)
	down := w.tcp(t, "mn", "cn", "cn", 7001, true)
	up := w.tcp(t, "mn", "cn", "cn", 7002, false)
	mn.reaches("cn", "established")
	w.sub("a soft handoff loses nothing", func(t *testing.T) { softHandoff(t, w) })
	w.sub("a hard handoff leaves the old link at once", func(t *testing.T) { hardHandoff(t, w, mn, cn) })
	w.sub("duality joins and leaves without loss and spreads evenly", func(t *testing.T) { duality(t, w, mn) })
	w.sub("withdrawal of a link and its return lose nothing", func(t *testing.T) { withdrawal(t, w, mn) })
	w.sub("a move to a link whose neighbours are forgotten loses nothing", func(t *testing.T) {
		flushedNeighbour(t, w, mn)
	})
	for _, s := range []workload.Session{ssh, down, up} {
		flows(t, s, 1)
	}
	ctx := w.within(90 * time.Second)
	for _, c := range []*workload.TCP{down, up} {
		if _, err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := ssh.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := curl.Wait(ctx); err != nil {
		t.Error(err)
	}
	noLeak(t, mn, cn)
}

// overlap is how long the old link stays after the new network has advertised itself.
const overlap = 1500 * time.Millisecond

// softHandoff brings a second link up and pulls the first cable when the schedule says, whatever
// Roam has done by then: only packets of the router and the applications' records decide.
func softHandoff(t *testing.T, w *world) {
	began := time.Now()
	u := w.udp(t, "mn", "cn", "cn", movePort, 1000)
	was := "net1"
	for _, next := range []string{"net2", "net3", "net1"} {
		adverts := w.tap(t, w.hosts["mn"], next, "icmp6[0] = 134")
		w.cable("mn", next, true)
		testutil.Eventually(t, patience, func() bool {
			seen := adverts.records()
			return len(seen) > 0 && time.Since(seen[0].at) >= overlap
		}, "the time to leave "+was)
		w.cable("mn", was, false)
		flows(t, u, 300)
		was = next
	}
	w.lossless(t, u, began)
}

// quiet waits until a link of a mobile host receives nothing that looks like
// traffic any more: the correspondent has followed, and what was under way is
// in.
func quiet(t *testing.T, w *world, name, link string) {
	t.Helper()
	count := func() uint64 { return received(t, w.hosts[name], link) }
	last, since := count(), time.Now()
	testutil.Eventually(t, patience, func() bool {
		if now := count(); now > last+2 { // advertisements go on
			last, since = now, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond
	}, "nothing more arrives on "+link)
}

func received(t *testing.T, h *topo.Host, link string) uint64 {
	t.Helper()
	s, err := h.Stats(link)
	if err != nil {
		t.Fatal(err)
	}
	return s.RxPackets
}

// hardHandoff pulls the old cable as soon as the new locator is active.
func hardHandoff(t *testing.T, w *world, mn, cn *host) {
	mn.roam("mode", "hard")
	defer mn.roam("mode", "soft")
	u := w.udp(t, "mn", "cn", "cn", movePort+10, 1000)
	w.cable("mn", "net2", true)
	mn.becomes("net2")
	w.cable("mn", "net1", false)
	moved := time.Now()
	flows(t, u, 300)
	mn.sendsFrom("cn", "net2")
	testutil.Eventually(t, patience, func() bool {
		return slices.ContainsFunc(cn.with("mn").Paths, func(p node.SessionPath) bool {
			return p.Remote == l64(w, "mn", 2)
		}) &&
			len(cn.with("mn").Paths) == 1
	}, "cn sends to the new locator only")
	up, down, err := u.Stop(w.within(patience), drain)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*udpflow.Flow{"up": up, "down": down} {
		at, ok := f.FirstAfter(moved, moved)
		if !ok {
			t.Errorf("%s: nothing arrived after the handoff", name)
		}
		t.Logf("%s: first datagram sent after the old link died arrived %v later", name,
			at.Sub(moved).Round(time.Millisecond))
	}
	t.Logf("up %+v", up.Count(moved.Add(-time.Second), time.Now()))
	t.Logf("down %+v", down.Count(moved.Add(-time.Second), time.Now()))
}

// l64 is the locator of a host's n-th link.
func l64(w *world, name string, n int) roam.L64 {
	return roam.ILVFromAddr(w.prefix(name, n).Addr()).L64
}

// bytes are the counts of the mobile host's links, each way.
func nbytes(t *testing.T, w *world) (m map[string][2]uint64) {
	t.Helper()
	m = map[string][2]uint64{}
	for _, link := range []string{"net1", "net2", "net3"} {
		s, err := w.hosts["mn"].Stats(link)
		if err != nil {
			t.Fatal(err)
		}
		m[link] = [2]uint64{s.TxBytes, s.RxBytes}
	}
	return m
}

// duality turns one link into three and back.
func duality(t *testing.T, w *world, mn *host) {
	began := time.Now()
	u := w.udp(t, "mn", "cn", "cn", movePort+20, 1000)
	mn.roam("mode", "duality")
	w.cable("mn", "net1", true)
	w.cable("mn", "net3", true)
	mn.becomes("net1", "net2", "net3")
	mn.sendsFrom("cn", "net1", "net2", "net3")
	spread(t, w, u)
	w.lossless(t, u, began)
}

// spread lets both directions flow and compares the links, each with a third.
func spread(t *testing.T, w *world, u workload.Session) {
	t.Helper()
	for _, way := range []string{"sent", "received"} {
		i := map[string]int{"sent": 0, "received": 1}[way]
		var last string
		if !testutil.Wait(patience, func() bool {
			before := nbytes(t, w)
			flows(t, u, 2000)
			after := nbytes(t, w)
			total, worst := 0.0, 0.0
			share := map[string]float64{}
			for link := range after {
				share[link] = float64(after[link][i] - before[link][i])
				total += share[link]
			}
			for link := range share {
				share[link] *= 100 / total
				worst = max(worst, math.Abs(share[link]-100.0/float64(len(share))))
			}
			last = fmt.Sprintf("%.1f, %.1f, %.1f", share["net1"], share["net2"], share["net3"])
			return worst <= 2
		}) {
			t.Errorf("%s per link, in per cent: %s", way, last)
		}
		t.Logf("%s per link, in per cent: %s", way, last)
	}
}

// withdrawal takes links out of use by command, and back.
func withdrawal(t *testing.T, w *world, mn *host) {
	began := time.Now()
	u := w.udp(t, "mn", "cn", "cn", movePort+30, 1000)
	for _, step := range []struct {
		verb, link string
		left       []string
	}{
		{"disable", "net3", []string{"net1", "net2"}},
		{"disable", "net1", []string{"net2"}},
		{"enable", "net1", []string{"net1", "net2"}},
		{"enable", "net3", []string{"net1", "net2", "net3"}},
		{"disable", "net2", []string{"net1", "net3"}},
		{"enable", "net2", []string{"net1", "net2", "net3"}},
	} {
		mn.roam("locator", step.verb, step.link)
		mn.becomes(step.left...)
		mn.sendsFrom("cn", step.left...)
		if step.verb == "disable" {
			quiet(t, w, "mn", step.link)
		}
		flows(t, u, 200)
	}
	w.lossless(t, u, began)
	mn.roam("mode", "soft")
}

// flushedNeighbour moves to links on which neither end knows the other's
// hardware address any more: the packets that wait for it are not lost.
func flushedNeighbour(t *testing.T, w *world, mn *host) {
	for _, link := range []string{"net2", "net3"} {
		mn.roam("locator", "disable", link)
	}
	mn.becomes("net1")
	mn.sendsFrom("cn", "net1")
	began, was := time.Now(), "net1"
	u := w.udp(t, "mn", "cn", "cn", movePort+40, 1000)
	for i, next := range []string{"net2", "net3", "net1"} {
		w.must("mn", "ip", "-6", "neigh", "flush", "dev", next)
		w.must("r0", "ip", "-6", "neigh", "flush", "dev", []string{"mn2", "mn3", "mn1"}[i])
		mn.roam("locator", "enable", next)
		mn.becomes(next)
		mn.sendsFrom("cn", next)
		quiet(t, w, "mn", was)
		mn.roam("locator", "disable", was)
		flows(t, u, 200)
		was = next
	}
	w.lossless(t, u, began)
}
