package acceptance

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/workload"
)

// TestPathMTU follows the path MTU of a session: found by tracepath and by ping
// in both directions, forgotten when the path changes, and the least of all.
func TestPathMTU(t *testing.T) {
	needs(t, "iperf3", "ping", "tracepath")
	w := newWorld(t, "mtu", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.cable("mn", "net2", false)
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net1")
	w.must("mn", "ping", "-6", "-c", "1", "-W", "3", "cn")
	mn.reaches("cn", "established")
	w.sub("tracepath finds routers and MTU", func(t *testing.T) { tracedPath(t, w) })
	w.sub("a wider path is used as one at once", func(t *testing.T) { widened(t, w, mn) })
	w.sub("links of 1280 bytes", func(t *testing.T) { least(t, w) })
	noLeak(t, mn, cn)
}

// between sets the MTU between the routers.
func (w *world) between(nbytes string) {
	w.t.Helper()
	for _, r := range []string{"r0", "r1"} {
		w.must(r, "ip", "link", "set", "core", "mtu", nbytes)
	}
}

func tracedPath(t *testing.T, w *world) {
	w.between("1380")
	defer w.between("1500")
	out := w.must("mn", "tracepath", "-6", "-n", "cn")
	t.Log(out)
	// The socket gets the MTU minus the length of the nonce.
	for _, want := range []string{w.prefix("mn", 1).Addr().Next().String(), "2001:db8:f::2",
		w.session("cn").String(), "pmtu 1372"} {
		if !strings.Contains(out, want) {
			t.Errorf("tracepath does not show %s", want)
		}
	}
}

var learned = regexp.MustCompile(` mtu (\d+)`)

// pmtu is what a host has learned of the path to a session address, "" if
// nothing.
func (w *world) pmtu(host, peer string) string {
	w.t.Helper()
	if m := learned.FindStringSubmatch(w.must(host, "ip", "-6", "route", "get", w.session(peer).String())); m != nil {
		return m[1]
	}
	return ""
}

// widened lets the correspondent learn a small MTU towards one link of the
// mobile host, and moves that to the other.
func widened(t *testing.T, w *world, mn *host) {
	big := func() error {
		_, err := w.run("cn", "ping", "-6", "-c", "1", "-M", "do", "-s", "1400", "-W", "2", "mn")
		return err
	}
	w.must("r0", "ip", "link", "set", "mn1", "mtu", "1300")
	defer w.must("r0", "ip", "link", "set", "mn1", "mtu", "1500")
	testutil.Eventually(t, patience, func() bool { return big() != nil && w.pmtu("cn", "mn") == "1292" },
		"the correspondent to learn of 1300 bytes")
	w.cable("mn", "net2", true)
	mn.becomes("net2")
	mn.sendsFrom("cn", "net2")
	testutil.Eventually(t, patience, func() bool { return w.pmtu("cn", "mn") == "" }, "the correspondent to forget it")
	if err := big(); err != nil {
		t.Errorf("ping of 1400 bytes by the wider path: %v", err)
	}
	w.cable("mn", "net1", false)
}

// least puts the session on links of IPv6's least MTU, where a full packet has
// no room for a nonce: everything still goes through, in both directions.
func least(t *testing.T, w *world) {
	w.must("mn", "ip", "link", "set", "net2", "mtu", "1280")
	w.must("r0", "ip", "link", "set", "mn2", "mtu", "1280")
	w.between("1280")
	ctx := w.within(60 * time.Second)
	for i, opt := range []workload.IperfOptions{{Name: "TCP up"}, {Name: "TCP down", Reverse: true}} {
		opt.Port, opt.Seconds, opt.Mbps = 5500+i, 2, 20
		w.iperf(t, ctx, opt, 2_000_000)
	}
	// Pings that fill the link have no room for the nonce that they need, and are
	// refused at the other end (RFC 6744 §7): these leave it.
	for _, ends := range [][2]string{{"mn", "cn"}, {"cn", "mn"}} {
		w.must(ends[0], "ping", "-6", "-c", "3", "-i", "0.2", "-M", "do", "-s", "1224", "-W", "3", ends[1])
	}
	// The largest packet of all, whole: 40 + 8 + 1232.
	began := time.Now()
	u, err := workload.StartUDP(w.top.Context(), w.hosts["cn"], w.hosts["mn"], w.scratch(t.Name()), workload.UDPOptions{
		Name: "udp", Target: "cn", Port: 7200, Up: 200, Down: 200, Size: 1232,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Kill)
	flows(t, u, 200)
	w.lossless(t, u, began)
}

// TestNarrowPath sends to a peer that wants every nonce across a path of the minimum MTU between
// wider links: bulk transfers go through, at the second connection with the nonces.
func TestNarrowPath(t *testing.T) {
	needs(t, "iperf3")
	w := newWorld(t, "narrow", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	w.between("1280")
	always := strings.ReplaceAll(w.hostsFile(w.names()...), " cn\n", " nonce=always cn\n")
	mn := w.newHost("mn", settings{hosts: always}).start()
	cn := w.newHost("cn", settings{}).start()
	ctx := w.within(60 * time.Second)
	for i := range 2 {
		before := mn.counters()
		w.iperf(t, ctx, workload.IperfOptions{Name: "TCP up", Port: 5500 + i, Seconds: 2, Mbps: 20}, 2_000_000)
		after := mn.counters()
		with, without := after["tx_nonce"]-before["tx_nonce"], after["tx_nonce_left_out"]-before["tx_nonce_left_out"]
		t.Logf("connection %d: %d packets with the nonce, %d without", i+1, with, without)
		if i > 0 && without > with/100 {
			t.Errorf("%d packets without the nonce, %d with it", without, with)
		}
	}
	noLeak(t, mn, cn)
}
