package acceptance

import (
	"crypto/rand"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"roam/nidkey"
)

// allows finds the command that allows plain IPv6 to a peer.
var allows = regexp.MustCompile("if plain IPv6 will do: `roam add '([^']*)'`")

// TestGuard meets hosts whose key is known and which have no Roam, or are behind a filter that
// drops its options. Plain IPv6 works to both, and is not used until the user allows it: neither by
// name nor by address, for TCP or for UDP.
func TestGuard(t *testing.T) {
	needs(t, "nft")
	w := newWorld(t, "guard", 2*time.Millisecond,
		place{"mn", 1, true}, place{"bare", 1, false}, place{"mute", 1, false}, place{"other", 1, false})
	for _, name := range []string{"bare", "mute", "other"} {
		if err := w.hosts[name].AddAddr("net1", netip.PrefixFrom(w.wire(name, 1), 128)); err != nil {
			t.Fatal(err)
		}
		w.echo(t, name, 7007)
	}
	for _, rule := range []string{
		"add table ip6 filter", "add chain ip6 filter forward { type filter hook forward priority 0 ; }",
		"add rule ip6 filter forward oifname mute* exthdr dst exists drop",
		"add rule ip6 filter forward oifname mute* udp dport 6740 drop",
	} {
		w.must("r1", append([]string{"nft"}, strings.Fields(rule)...)...)
	}
	k, err := nidkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hosts := w.hostsFile("mn", "other")
	for _, name := range []string{"bare", "mute"} {
		hosts += strings.Replace(w.hostsFile(name), " "+name, " key="+k.Public.String()+" "+name, 1)
	}
	mn := w.newHost("mn", settings{hosts: hosts}).start()
	mn.roam("key", "new")
	w.sub("without Roam", func(t *testing.T) { barred(t, w, mn, "bare", "no ILNP there", time.Second) })
	w.sub("behind a filter", func(t *testing.T) { barred(t, w, mn, "mute", "no answer", 3*time.Second) })
	w.sub("a peer without key is plain", func(t *testing.T) {
		w.talk(t, "mn", "tcp6", "other", 7007).echoed(t, "hello")
		mn.reaches("other", "plain")
	})
	w.sub("allowed", func(t *testing.T) { allowed(t, w, mn) })
}

// barred has applications try to reach a peer, and looks for a packet of plain IPv6.
func barred(t *testing.T, w *world, mn *host, name, why string, most time.Duration) {
	plain := mn.counter("tx_plain")
	for _, to := range []string{name, w.wire(name, 1).String(), name} {
		began := time.Now()
		c := w.talk(t, "mn", "tcp6", to, 7007)
		took := time.Since(began)
		out := c.out.text()
		if c.connected() || !strings.Contains(out, "no route to host") && !strings.Contains(out, "unreachable") {
			t.Errorf("a connection to %s: %s", to, out)
		}
		if took > most {
			t.Errorf("the connection to %s failed after %v, want at most %v", to, took, most)
		}
		t.Logf("%s: refused within %v", to, took.Round(time.Millisecond))
	}
	u := w.talk(t, "mn", "udp6", name, 7007)
	u.say(t, "datagram")
	out, _, err := mn.command("doctor", name)
	line := allows.FindStringSubmatch(out)
	if exitStatus(err) != 1 || line == nil || !strings.Contains(line[1], "plain=yes") || !strings.Contains(out, why) {
		t.Errorf("doctor %s names no line: %s", name, out)
	}
	if out, _, _ := mn.command("doctor"); !strings.Contains(out, "connections to "+name+" fail") {
		t.Errorf("doctor does not name %s: %s", name, out)
	}
	if log, err := os.ReadFile(mn.Log); err != nil || !strings.Contains(string(log), "msg=plain-refused") ||
		!strings.Contains(string(log), "plain=yes") || !strings.Contains(string(log), "peer="+name) {
		t.Errorf("the log does not have the line (%v)", err)
	}
	if u.heard("datagram") || mn.counter("tx_plain") != plain || mn.counter("tx_retried") != 0 {
		t.Errorf("%d packets left as plain IPv6", mn.counter("tx_plain")-plain)
	}
	if s := mn.with(name); s.State == "plain" {
		t.Errorf("the session is %+v", s)
	}
}

// allowed runs the command that doctor names.
func allowed(t *testing.T, w *world, mn *host) {
	out, _, _ := mn.command("doctor", "bare")
	line := allows.FindStringSubmatch(out)
	if line == nil {
		t.Fatalf("doctor names no line: %s", out)
	}
	mn.roam("add", line[1])
	w.talk(t, "mn", "tcp6", "bare", 7007).echoed(t, "now we may")
	mn.reaches("bare", "plain")
	if out := mn.roam("peer", "show", "bare"); !strings.Contains(out, "plain=yes") || !strings.Contains(out, "key=") {
		t.Errorf("its record is now: %s", out)
	}
}
