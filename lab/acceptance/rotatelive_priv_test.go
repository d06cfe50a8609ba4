package acceptance

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
)

// under returns a host's session with an identifier, or an empty one.
func (h *host) under(nid roam.NID) node.Session {
	for _, s := range h.sessions() {
		if s.NID == nid {
			return s
		}
	}
	return node.Session{}
}

// TestRotateLive replaces the key of a host while connections live, and restarts its daemon. They go on
// under the old identifier, also after the peer has taken the new key over, a move, a stop of the
// peer's daemon, and one more of its own; new ones are of the new key. With the last session its
// session address goes.
func TestRotateLive(t *testing.T) {
	w := newWorld(t, "rotatelive", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.cable("mn", "net2", false)
	const short = "[ilnp]\nidle_timeout = \"10s\"\n"
	mn, cn := w.drawn("mn", short), w.drawn("cn", short)
	for _, pair := range [][2]*host{{mn, cn}, {cn, mn}} {
		pair[1].roam("add", strings.TrimSpace(pair[0].roam("export")), "--as", pair[0].name)
	}
	w.echo(t, "cn", 7007)
	w.echo(t, "mn", 7007)
	up, down := w.talk(t, "mn", "tcp6", "cn", 7007), w.talk(t, "cn", "tcp6", "mn", 7007)
	up.echoed(t, "before")
	down.echoed(t, "before")
	mn.reaches("cn", "established")
	former := cn.with("mn").NID
	address := roam.ILV{NID: former, L64: roam.DefaultSessionPrefix}.Addr().String() + "/128"
	live := func(word string) {
		t.Helper()
		up.echoed(t, word+" up")
		down.echoed(t, word+" down")
		if s := cn.under(former); s.State != "established" || s.Proof != "keyed" {
			t.Errorf("%s: cn's session with the old identifier is %+v", word, s)
		}
	}
	again := func(h *host) {
		h.signal(syscall.SIGTERM)
		h.start()
	}

	mn.roam("key", "rotate")
	live("rotated")
	again(mn)
	live("restarted")
	testutil.Eventually(t, 20*time.Second, func() bool {
		up.echoed(t, "still")
		down.echoed(t, "still")
		s := cn.with("mn")
		return s.NID != former && s.State == "established" && s.Proof == "keyed"
	}, "cn has the new identifier and a keyed session")
	live("taken over")
	w.talk(t, "cn", "tcp6", "mn", 7007).echoed(t, "new, to it")
	w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "new, from it")
	w.cable("mn", "net2", true)
	mn.becomes("net2")
	w.cable("mn", "net1", false)
	live("moved")
	again(cn)
	live("peer restarted")
	again(mn)
	live("restarted again")
	w.cable("mn", "net1", true)
	mn.becomes("net1")
	w.cable("mn", "net2", false)
	live("moved back")
	if addrs := w.must("mn", "ip", "-6", "-o", "addr", "show", "dev", "roam0"); !strings.Contains(addrs, address) {
		t.Errorf("mn lacks %s: %s", address, addrs)
	}
	if n := cn.counters()["core_refused_locator_update_with_a_wrong_mac"]; n > 0 {
		t.Errorf("cn refused %d updates", n)
	}
	_ = up.in.Close()
	_ = down.in.Close()
	testutil.Eventually(t, 40*time.Second, func() bool {
		return !strings.Contains(w.must("mn", "ip", "-6", "-o", "addr", "show", "dev", "roam0"), address)
	}, "the old session address goes with its last session")
	w.talk(t, "cn", "tcp6", "mn", 7007).echoed(t, "after all that")
	for _, h := range []*host{mn, cn} {
		secretFree(t, h)
	}
}
