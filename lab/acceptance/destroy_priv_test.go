package acceptance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
)

// aborted waits until a stream has ended with the error of a destroyed socket, and
// returns how long that took.
func (s *stream) aborted(t *testing.T, what string) {
	t.Helper()
	if !testutil.Wait(patience, func() bool { return strings.Contains(s.tail(), "software caused connection abort") }) {
		t.Errorf("the %s socket of the node before has not ended: %q", what, s.tail())
	}
}

// TestDestroyedByRecord starts a newcomer under an unknown identifier, and then adds a
// record that gives the identifier to another node, elsewhere. Connections of the newcomer
// end at both ends, and the node of the record gets none of their data.
func TestDestroyedByRecord(t *testing.T) {
	w := newWorld(t, "destroyed", 5*time.Millisecond, place{"b", 1, true}, place{"a", 1, false}, place{"x", 1, false})
	a := w.newHost("a", settings{accept: "any", hosts: "# nobody\n"}).start()
	w.newHost("x", settings{accept: "known", hosts: w.hostsFile("a"), nid: w.nid("b")}).start()
	b := w.newHost("b", settings{accept: "known", hosts: w.hostsFile("a")}).start()
	atB, atA := w.ledger(t, "b", claimPort), w.ledger(t, "a", claimPort)
	w.ledger(t, "x", claimPort)
	w.must("x", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "2", "a")
	a.reaches("b", "established") // so the newcomer is, for now
	toB := leaks{heard: atB, taps: []*wiretap{w.tap(t, w.r0, "b1")}}
	tcp, udp := w.stream(t, "a", "tcp6", w.session("b").String(), claimPort),
		w.stream(t, "a", "udp6", w.session("b").String(), claimPort)
	from := w.talk(t, "x", "tcp6", "a", claimPort)
	from.echoed(t, "from the newcomer")

	a.roam("add", strings.TrimSpace(w.hostsFile("b")))
	tcp.aborted(t, "TCP")
	udp.aborted(t, "UDP")
	testutil.Eventually(t, patience, func() bool { return b.status().State == "running" }, "b runs")
	talk := w.talk(t, "a", "tcp6", "b", claimPort)
	if !talk.connected() {
		t.Fatalf("the node of the record: %q", talk.out.text())
	}
	talk.echoed(t, "hello")
	if n := toB.count(); n > 0 {
		t.Errorf("%d packets and words for the newcomer went to the node of the record", n)
	}
	heard := atA.text()
	_, _ = fmt.Fprintln(from.in, "once more") // the connection has ended, or leads nowhere
	if testutil.Wait(time.Second, func() bool { return from.heard("once more") }) ||
		strings.Contains(strings.TrimPrefix(atA.text(), heard), "once more") {
		t.Errorf("a connection that the newcomer made goes on: %q", from.out.text())
	}
}

// TestDestroyedByTakeover lets another node appear where the record has the identifier,
// while the session is elsewhere and its node away. The node gets the name, since the
// record lists its link, but no data of the existing connections.
func TestDestroyedByTakeover(t *testing.T) {
	w := newWorld(t, "listed", 5*time.Millisecond, place{"b", 2, true}, place{"a", 1, false}, place{"x", 2, false})
	w.cable("b", "net2", false)
	record := fmt.Sprintf("nid=%s l64=%s b\n", w.nid("b"), w.prefix("b", 1))
	a := w.newHost("a", settings{accept: "known", hosts: record}).start()
	b := w.newHost("b", settings{accept: "known", hosts: w.hostsFile("a")}).start()
	w.ledger(t, "b", claimPort)
	atX := leaks{heard: w.ledger(t, "x", claimPort)}
	tcp, udp := w.stream(t, "a", "tcp6", "b", claimPort), w.stream(t, "a", "udp6", "b", claimPort)
	w.cable("b", "net2", true)
	b.becomes("net2")
	b.sendsFrom("a", "net2")
	w.cable("b", "net1", false)
	testutil.Eventually(t, patience, func() bool {
		list := a.with("b").Locators
		return len(list) == 1 && list[0].L64 == l64(w, "b", 2)
	}, "a has b at its second network only")
	tcp.goesOn(t, 25, patience)
	w.cable("b", "net2", false)

	x := w.settle(t, "x", w.prefix("b", 1), w.nid("b"))
	atX.taps = []*wiretap{w.tap(t, w.r1, "x2")}
	testutil.Eventually(t, patience, func() bool {
		_, _ = w.run("x", "ping", "-6", "-c", "2", "-i", "0.3", "-W", "1", "a")
		return strings.Contains(tcp.tail(), "abort") || slices.ContainsFunc(a.sessions(), func(s node.Session) bool {
			return slices.ContainsFunc(s.Locators, func(l node.PeerLocator) bool { return l.L64 == l64(w, "b", 1) })
		})
	}, "a session of the other node")
	tcp.aborted(t, "TCP")
	udp.aborted(t, "UDP")
	talk := w.talk(t, "x", "tcp6", "a", claimPort)
	t.Logf("the other node: %d sessions; it connects: %v", len(x.sessions()), talk.connected())
	if n := atX.count(); n > 0 {
		t.Errorf("%d packets and words for b went to the other node", n)
	}
}

// settle moves a network of a mobile host to the second link of another one, and starts
// a daemon with an identifier there.
func (w *world) settle(t *testing.T, name string, network netip.Prefix, nid roam.NID) *host {
	t.Helper()
	router := netip.PrefixFrom(network.Addr().Next(), 64)
	var owner string
	for _, p := range w.places {
		if p.mobile && w.prefix(p.name, 1) == network {
			owner = p.name + "1"
		}
	}
	w.must("r0", "ip", "-6", "addr", "del", router.String(), "dev", owner)
	w.must("r0", "ip", "-6", "route", "add", network.String(), "via", "2001:db8:f::2", "dev", "core")
	w.must("r1", "ip", "-6", "addr", "add", router.String(), "dev", name+"2", "nodad")
	w.must(name, "ip", "link", "set", "net1", "down")
	w.must(name, "sysctl", "-qw", "net.ipv6.conf.net2.accept_ra=0")
	w.must(name, "ip", "-6", "addr", "flush", "dev", "net2", "scope", "global")
	w.must(name, "ip", "-6", "addr", "add", network.Addr().Next().Next().String()+"/64", "dev", "net2", "nodad")
	w.must(name, "ip", "-6", "route", "replace", "default", "via", router.Addr().String(), "dev", "net2")
	x := w.newHost(name, settings{accept: "known", hosts: w.hostsFile("a"), nid: nid}).start()
	testutil.Eventually(t, patience, func() bool {
		list := x.locators()
		return len(list) == 1 && list[0].L64 == roam.ILVFromAddr(network.Addr()).L64
	}, name+" is in that network only")
	return x
}
