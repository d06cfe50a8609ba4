package acceptance

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
)

// TestFallback meets hosts that have no Roam, hosts behind a filter that drops
// its options, and hosts that do not want to know us: all are reached by plain
// IPv6, in time.
func TestFallback(t *testing.T) {
	needs(t, "nft")
	w := newWorld(t, "fallback", 2*time.Millisecond,
		place{"mn", 1, true}, place{"plain", 1, false}, place{"mute", 1, false}, place{"strict", 1, false},
		place{"open", 1, false},
		place{"plainudp", 1, false}, place{"muteudp", 1, false})
	mn := w.newHost("mn", settings{}).start()
	for _, name := range []string{"plain", "mute", "plainudp", "muteudp"} {
		if err := w.hosts[name].AddAddr("net1", netip.PrefixFrom(w.wire(name, 1), 128)); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range []string{
		"add table ip6 filter", "add chain ip6 filter forward { type filter hook forward priority 0 ; }",
		"add rule ip6 filter forward oifname mute* exthdr dst exists drop",
	} {
		w.must("r1", append([]string{"nft"}, strings.Fields(rule)...)...)
	}
	for _, name := range []string{"plain", "mute", "plainudp", "muteudp", "strict", "open"} {
		w.echo(t, name, 7007)
	}
	w.echo(t, "mn", 7007)
	w.sub("a host without Roam is reached at once", func(t *testing.T) { withoutRoam(t, w, mn) })
	w.sub("a host behind a filter is reached after a second", func(t *testing.T) { filtered(t, w, mn) })
	w.sub("UDP falls back, too", func(t *testing.T) { datagrams(t, w, mn) })
	w.sub("a host that gets Roam later is taken up", func(t *testing.T) { convert(t, w, mn) })
	w.sub("accept known leaves a pending peer to plain IPv6", func(t *testing.T) { strict(t, w, mn) })
	w.sub("accept any takes a pending peer", func(t *testing.T) {
		open := w.newHost("open", settings{accept: "any", hosts: "# nobody\n"}).start()
		w.talk(t, "mn", "tcp6", "open", 7007).echoed(t, "hello")
		mn.reaches("open", "established")
		open.reaches("mn", "established")
	})
	w.sub("an unknown host is refused at once", func(t *testing.T) { unknown(t, w) })
}

// withoutRoam relies on the Parameter Problem that any IPv6 host sends, and on
// its being remembered.
func withoutRoam(t *testing.T, w *world, mn *host) {
	c := w.talk(t, "mn", "tcp6", "plain", 7007)
	c.echoed(t, "hello")
	t.Logf("connected within %d ms", c.ms)
	mn.reaches("plain", "plain")
	out := strings.Join(strings.Fields(mn.roam("explain", "plain", "7007")), " ")
	if !strings.Contains(out, "the session is plain IPv6, so no rule applies; leaves by net1 ") {
		t.Errorf("a flow of plain IPv6 is explained as\n%s", out)
	}
	if c.ms > 900 {
		t.Errorf("a connection took %d ms", c.ms)
	}
	if n := mn.counter("tx_retried"); n != 1 {
		t.Errorf("the data plane has sent %d first segments again", n)
	}
	nonces := mn.counter("tx_nonce")
	c = w.talk(t, "mn", "tcp6", "plain", 7007)
	c.echoed(t, "again")
	if now := mn.counter("tx_nonce"); now != nonces || c.ms > 500 {
		t.Errorf("the fallback was not remembered: %d packets with nonce, %d ms", now-nonces, c.ms)
	}
	if n := mn.counter("miss_handed_over"); n != 0 {
		t.Errorf("%d first packets waited for the daemon, although their sessions were expected", n)
	}
}

func filtered(t *testing.T, w *world, mn *host) {
	c := w.talk(t, "mn", "tcp6", "mute", 7007)
	c.echoed(t, "hello")
	t.Logf("connected within %d ms", c.ms)
	mn.reaches("mute", "plain")
	// One second is the rule; the next try of TCP is due after one, too.
	if c.ms > 3500 {
		t.Errorf("a connection took %d ms", c.ms)
	}
}

// datagrams sends one datagram after the other until one comes back.
func datagrams(t *testing.T, w *world, mn *host) {
	for _, name := range []string{"plainudp", "muteudp"} {
		c := w.talk(t, "mn", "udp6", name, 7007)
		began := time.Now()
		testutil.Eventually(t, patience, func() bool {
			c.say(t, "datagram")
			return c.heard("datagram")
		}, "echo of a datagram from "+name)
		t.Logf("%s: echo within %v", name, time.Since(began).Round(time.Millisecond))
		if s := mn.with(name); s.State != "plain" {
			t.Errorf("session with %s is %s", name, s.State)
		}
	}
}

// convert installs Roam on the host that had none, which then shows a nonce.
func convert(t *testing.T, w *world, mn *host) {
	if err := w.hosts["plain"].DelAddr("net1", netip.PrefixFrom(w.wire("plain", 1), 128)); err != nil {
		t.Fatal(err)
	}
	plain := w.newHost("plain", settings{}).start()
	w.talk(t, "plain", "tcp6", "mn", 7007).echoed(t, "hello")
	plain.reaches("mn", "established")
	mn.reaches("plain", "established")
	w.talk(t, "mn", "tcp6", "plain", 7007).echoed(t, "and back")
	if s := mn.with("plain"); s.State != "established" {
		t.Errorf("session of mn with plain is %s again", s.State)
	}
}

// missing finds the line that is to be run on the other host.
var missing = regexp.MustCompile("run there: `roam add '([^']*)'`")

// strict is asked by a host that it does not know.
func strict(t *testing.T, w *world, mn *host) {
	n := w.newHost("strict", settings{accept: "known", hosts: "# nobody\n"}).start()
	c := w.talk(t, "mn", "tcp6", "strict", 7007)
	c.echoed(t, "hello")
	t.Logf("connected within %d ms", c.ms)
	mn.reaches("strict", "plain")
	if list := n.sessions(); len(list) > 0 {
		t.Errorf("a host that accepts known ones only has sessions %+v", list)
	}
	// Made known by the line that doctor prints on this side, the same host is taken.
	out, _, err := mn.command("doctor", "strict")
	line := missing.FindStringSubmatch(out)
	if exitStatus(err) != 1 || line == nil {
		t.Fatalf("doctor names no line to run there: %s", out)
	}
	if out, _, _ := mn.command("doctor"); !strings.Contains(out,
		"session with strict is plain IPv6 and does not move: no ILNP there") {
		t.Errorf("doctor says nothing of a session that fell back: %s", out)
	}
	if log, err := os.ReadFile(mn.Log); err != nil ||
		!strings.Contains(string(log), "peer=strict reason=\"no ILNP there\"") ||
		!strings.Contains(string(log), "run_there=\"roam add '"+line[1]+"'\"") {
		t.Errorf("the log does not have the line (%v)", err)
	}
	if out, _, _ := n.command("doctor"); !strings.Contains(out, "an unknown node requests a session: "+
		"1000:0000:0000:00a0 at 2001:db8:a001:0:1000::a0") {
		t.Errorf("doctor says nothing of newcomers that were refused: %s", out)
	}
	n.roam("add", line[1])
	n.signal(syscall.SIGTERM)
	n.start()
	w.talk(t, "strict", "tcp6", "mn", 7007).echoed(t, "now we know")
	n.reaches("mn", "established")
	mn.reaches("strict", "established")
}

func unknown(t *testing.T, w *world) {
	for _, network := range []string{"tcp6", "udp6"} {
		c := w.talk(t, "mn", network, "fd69:6c6e:7000:2627:1000::dead", 7007)
		if network == "udp6" {
			continue // a UDP socket connects without a packet; its datagrams are lost
		}
		out := c.out.text()
		if c.connected() || !strings.Contains(out, "no route to host") && !strings.Contains(out, "unreachable") {
			t.Errorf("%s to an unknown host: %s", network, out)
		}
		var ms int
		for _, f := range strings.Fields(out) {
			if n, err := time.ParseDuration(f + "ms"); err == nil {
				ms = int(n.Milliseconds())
				break
			}
		}
		if ms > 900 {
			t.Errorf("%s: refused after %d ms", network, ms)
		}
	}
}
