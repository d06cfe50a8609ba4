//go:build guest

package guest

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"roam/internal/testutil"
)

// Names and addresses that the name servers of the machine's links know.
const (
	firstServer, nextServer = "192.0.2.53", "192.0.2.54"
	known, knownAt          = "known.example.org", "192.0.2.7"
	peerName                = "cn.example.org"
)

// resolved has systemd-resolved answer names on the machine, as Ubuntu and Fedora
// do, before Roam comes.
func resolved(w *world) {
	w.installed()
	w.must("roam add --force 'nid=%s l64=2001:db8:c0:0 %s'", cnNID, peerName)
	w.must("systemctl stop roamd")
	first, next := w.nameServer(firstServer), w.nameServer(nextServer)
	w.must("systemctl start systemd-resolved")
	w.must("resolvectl dns eth0 %s; resolvectl default-route eth0 yes", firstServer)
	w.must("cp -P /etc/resolv.conf /root/resolv.before; ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf")
	w.t.Cleanup(func() { w.sh("systemctl stop systemd-resolved; mv -f /root/resolv.before /etc/resolv.conf") })
	w.asksAll("without Roam", first, false)
	w.must("systemctl start roamd")
	w.until("names are asked of Roam, and others of the link's server", w.asks(firstServer))
	w.asksAll("with Roam", first, true)
	w.must("systemctl restart systemd-resolved")
	w.asksAll("systemd-resolved restarted", first, true)
	w.must("resolvectl dns eth0 %s", nextServer)
	w.until("the next network's server is asked", w.asks(nextServer))
	w.asksAll("another network", next, true)

	pid := w.status().PID
	w.must("systemctl kill -s KILL roamd")
	w.until("another daemon", func() bool { s := w.status(); return s.PID != 0 && s.PID != pid && w.asks(nextServer)() })
	w.asksAll("after kill -9", next, true)
	next.Ignore("example.com") // which Roam asks for when it ends, and waits
	if out := w.must("systemctl stop roamd & while kill -0 $! 2>/dev/null; do getent ahosts %s >/dev/null || echo "+
		"LOST; done", known); strings.Contains(out, "LOST") {
		w.t.Errorf("names were not found while Roam was stopped: %s", out)
	}
	if link := w.sh("readlink /etc/resolv.conf"); link != "../run/systemd/resolve/stub-resolv.conf\n" {
		w.t.Errorf("resolv.conf leads to %q", link)
	}
	w.asksAll("Roam stopped", next, false)
	if list := w.sh("resolvectl dns"); strings.Contains(list, "127.0.0.156") {
		w.t.Errorf("systemd-resolved still asks Roam: %s", list)
	}
	w.must("systemctl start roamd")
}

// nameServer starts a name server on an address of the machine.
func (w *world) nameServer(at string) *testutil.Names {
	w.t.Helper()
	w.must("ip addr add %s/32 dev eth0", at)
	pc, err := net.ListenPacket("udp4", at+":53")
	if err != nil {
		w.t.Fatal(err)
	}
	return testutil.ServeNames(w.t, pc, known, netip.MustParseAddr(knownAt))
}

// asks is a condition: applications ask Roam, and Roam asks this server alone.
func (w *world) asks(server string) func() bool {
	return func() bool {
		text, list := w.sh("cat /etc/resolv.conf"), w.sh("roam --json")
		return strings.Contains(text, "nameserver 127.0.0.156\n") && strings.Contains(list, server+":53") &&
			!strings.Contains(list, "127.0.0.53:53")
	}
}

// asksAll resolves a name that exists, one that does not, and the correspondent's, by the C
// library and by systemd-resolved's own interface.
func (w *world) asksAll(when string, server *testutil.Names, roam bool) {
	w.t.Helper()
	for _, way := range []string{"getent ahosts", "resolvectl --cache=no query"} {
		before, began := server.Asked(), time.Now()
		if out := w.sh(way + " " + known); !strings.Contains(out, knownAt) {
			w.t.Errorf("%s: %s %s: %s", when, way, known, out)
		}
		middle := time.Now()
		if out := w.sh(way + " nothere.example.org && echo FOUND"); strings.Contains(out, "FOUND") {
			w.t.Errorf("%s: %s of a name that does not exist: %s", when, way, out)
		}
		end, asked := time.Now(), server.Asked()-before
		if out := w.sh(way + " " + peerName); strings.Contains(out, w.there()) != roam {
			w.t.Errorf("%s: %s %s: %s", when, way, peerName, out)
		}
		took := fmt.Sprintf("a name took %d ms, one that does not exist %d ms; %d questions",
			middle.Sub(began).Milliseconds(), end.Sub(middle).Milliseconds(), asked)
		w.t.Logf("%s: %s: %s", when, way, took)
		// A circle takes until the first server is given up, 2 s at least, and hundreds of questions.
		if end.Sub(began) > 3*time.Second || asked > 20 {
			w.t.Errorf("%s: %s: %s", when, way, took)
		}
	}
}
