package acceptance

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/node"
)

// beforeEnv names a directory with roam and roamd of an older build.
const beforeEnv = "ROAM_BINARIES_BEFORE"

// upgradeRate is how many datagrams a second go each way meanwhile.
const upgradeRate = 10_000

// TestUpgradeFromBefore replaces the daemon of an older build under load, as an upgrade
// of the package does, on one end and then on the other: its sessions go on, whether or
// not the maps are those of another ABI.
func TestUpgradeFromBefore(t *testing.T) {
	dir := testutil.NeedEnv(t, beforeEnv, "a directory with roam and roamd of an older build")
	w := newWorld(t, "upgrade", 0, place{"b", 1, false}, place{"a", 1, false})
	now := binaries
	binaries = node.In(dir)
	t.Cleanup(func() { binaries = now })
	a, b := w.newHost("a", settings{accept: "known"}).start(), w.newHost("b", settings{accept: "known"}).start()
	w.echo(t, "b", claimPort)
	idle := w.talk(t, "a", "tcp6", "b", claimPort)
	idle.echoed(t, "before")
	tcp := w.stream(t, "a", "tcp6", "b", claimPort)
	began := time.Now()
	u := w.udp(t, "a", "b", "b", 7100, upgradeRate)
	a.reaches("b", "established")
	b.reaches("a", "established")
	was := map[*host]string{}
	for _, n := range []*host{a, b} {
		text, _ := json.Marshal(identityOf(n))
		was[n] = string(text)
	}
	version := a.status().Version
	binaries = now
	for _, n := range []*host{a, b} {
		n.signal(syscall.SIGTERM)
		newer := w.newHost(n.name, settings{accept: "known"}).start()
		if v := newer.status().Version; v == version {
			t.Errorf("%s runs %q as before", n.name, v)
		}
		flows(t, u, 4*upgradeRate)
		tcp.goesOn(t, 25, patience)
		if text, _ := json.Marshal(identityOf(newer)); string(text) != was[n] {
			t.Errorf("sessions of %s before: %s\nafter: %s", n.name, was[n], text)
		}
		t.Logf("%s: maps taken over: %v", n.name, newer.status().Plane.Adopted)
	}
	idle.echoed(t, "after")
	for _, from := range []string{"a", "b"} {
		if from == "b" {
			w.echo(t, "a", claimPort)
		}
		w.talk(t, from, "tcp6", map[string]string{"a": "b", "b": "a"}[from], claimPort).echoed(t, "anew")
	}
	tcp.whole(t)
	w.lossless(t, u, began)
}
