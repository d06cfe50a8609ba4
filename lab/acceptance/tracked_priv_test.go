package acceptance

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
)

// askMain measures an echo server as a user experiences it: it connects a number of times,
// with one word each, then sends words on one connection, and prints the longest time of
// each and the number of late ones.
func askMain(args []string) error {
	if len(args) != 2 {
		return errors.New("want an address and a number")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	connect := func() (net.Conn, *bufio.Reader, error) {
		c, err := net.DialTimeout("tcp6", args[0], 20*time.Second)
		if err != nil {
			return nil, nil, err
		}
		return c, bufio.NewReader(c), c.SetDeadline(time.Now().Add(15 * time.Second))
	}
	word := func(c net.Conn, r *bufio.Reader) error {
		if _, err := fmt.Fprintln(c, "a word"); err != nil {
			return err
		}
		_, err := r.ReadString('\n')
		return err
	}
	var first, later slowest
	for range n {
		err := first.time(func() error {
			c, r, err := connect()
			if err != nil {
				return err
			}
			defer c.Close()
			return word(c, r)
		})
		if err != nil {
			return err
		}
	}
	c, r, err := connect()
	if err != nil {
		return err
	}
	defer c.Close()
	for range 5 * n {
		if err := later.time(func() error { return word(c, r) }); err != nil {
			return err
		}
	}
	fmt.Printf("connections %d %d words %d %d\n", first.most.Milliseconds(), first.late,
		later.most.Milliseconds(), later.late)
	return nil
}

// late is a delay that users notice: less than the least time-out of TCP, and more than any
// round trip here.
const late = 150 * time.Millisecond

// slowest keeps the worst of many times.
type slowest struct {
	most time.Duration
	late int
}

func (s *slowest) time(f func() error) error {
	began := time.Now()
	if err := f(); err != nil {
		return err
	}
	d := time.Since(began)
	s.most = max(s.most, d)
	if d > late {
		s.late++
	}
	return nil
}

// asked runs askMain on the mobile host.
func asked(t *testing.T, w *world) (first, later slowest) {
	t.Helper()
	var out said
	w.agent(t, "mn", &out, "ask", "["+w.session("cn").String()+"]:7007", "40")
	var a, b int
	testutil.Eventually(t, 2*time.Minute, func() bool {
		n, _ := fmt.Sscanf(out.text(), "connections %d %d words %d %d", &a, &first.late, &b, &later.late)
		return n == 4 || strings.Contains(out.text(), "ask: ")
	}, "answers to many questions")
	if strings.Contains(out.text(), "ask: ") {
		t.Fatal(out.text())
	}
	first.most, later.most = time.Duration(a)*time.Millisecond, time.Duration(b)*time.Millisecond
	return first, later
}

// TestTrackedPath has one of two paths in use at a time lead through a firewall
// that tracks connections: it sees a part of each, and drops what does not fit that.
// TCP may stand still once, for as long as it takes to find out.
func TestTrackedPath(t *testing.T) {
	needs(t, "nft", "curl")
	for i, c := range []struct {
		name, rules, loose string
		gathers            bool // for certain; elsewhere it may be
	}{
		{"nothing tracks", "", "1", false},
		{"invalid is dropped on the second path", `oifname "mn2" ct state invalid drop; iifname "mn2" ct state invalid drop`,
			"1", true},
		{"only answers come in on the second path",
			`iifname "mn2" accept; oifname "mn2" ct state established,related accept; oifname "mn2" meta l4proto tcp drop`, "1",
			false},
		{"invalid is dropped on the first path", `oifname "mn1" ct state invalid drop; iifname "mn1" ct state invalid drop`,
			"1", true},
		{"invalid is dropped on both paths", `ct state invalid drop`, "1", true},
		{"nothing is picked up on the second path",
			`oifname "mn2" ct state invalid drop; iifname "mn2" ct state invalid drop`, "0", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, fmt.Sprint("tracked", i), 5*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
			mn, cn := w.newHost("mn", settings{mode: "duality"}).start(), w.newHost("cn", settings{}).start()
			mn.becomes("net1", "net2")
			w.echo(t, "cn", 7007)
			old := w.talk(t, "mn", "tcp6", "cn", 7007)
			old.echoed(t, "hello")
			mn.sendsFrom("cn", "net1", "net2")
			cn.reaches("mn", "established")
			if c.rules != "" {
				w.track(t, c.rules, c.loose)
			}
			began := time.Now()
			d := w.download(t, "mn", "cn", "cn", 8080, 20_000_000, 0)
			// On a quiet machine 3 s do; without an answer it takes minutes.
			if err := d.Wait(w.within(30 * time.Second)); err != nil {
				t.Error(err)
			}
			took := time.Since(began)
			first, later := asked(t, w)
			old.echoed(t, "still there")
			if c.gathers {
				// What a firewall sees of one transfer may fit by chance; of many it does not.
				for by := time.Now().Add(time.Minute); !gathered(mn, cn) && time.Now().Before(by); {
					if err := w.download(t, "mn", "cn", "cn", 8080, 20_000_000, 0).Wait(w.within(30 * time.Second)); err != nil {
						t.Error(err)
					}
				}
				w.cable("mn", "net1", false)
				old.echoed(t, "on what is left")
				w.cable("mn", "net1", true)
				mn.sendsFrom("cn", "net1", "net2")
				old.echoed(t, "on both again")
			}
			t.Logf("20 MB in %v; connections: slowest %v, %d of 40 late; words: slowest %v, %d of 200 late",
				took.Round(time.Millisecond), first.most, first.late, later.most, later.late)
			here, there := mn.with("cn").Spread, cn.with("mn").Spread
			if c.gathers && !gathered(mn, cn) || c.rules == "" && (here != "packet" || there != "packet") {
				t.Errorf("TCP is spread by %s here, by %s there", here, there)
			}
		})
	}
}

// gathered says whether both ends spread TCP by connection.
func gathered(mn, cn *host) bool {
	return mn.with("cn").Spread == "flow" && cn.with("mn").Spread == "flow"
}

// takes returns how long a download of n bytes from cn takes.
func (w *world) takes(t *testing.T, port int, n int64) time.Duration {
	t.Helper()
	began := time.Now()
	if err := w.download(t, "mn", "cn", "cn", port, n, 0).Wait(w.within(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// besides compares a download by net1 alone with one by net1 and net2, by turns: with the second path it may take the
// given part longer. What else the machine does slows down some of them, so the fastest of each kind count, of as many
// as it takes. These are two at least, as one slow download by net1 alone would let any pass; a share of the wrong path
// slows down each.
func (w *world) besides(t *testing.T, mn, cn *host, n int64, most float64) {
	t.Helper()
	const rounds = 4
	with := func(verb string, paths int) {
		mn.roam("locator", verb, "net2")
		testutil.Eventually(t, patience, func() bool { return len(cn.with("mn").Paths) == paths },
			fmt.Sprintf("cn sends by %d paths", paths))
	}
	var alone, both time.Duration
	for i := range rounds {
		with("disable", 1)
		took := w.takes(t, 8080+2*i, n)
		with("enable", 2)
		alone = lesser(alone, took)
		both = lesser(both, w.takes(t, 8081+2*i, n))
		t.Logf("%d MB: %v by net1 alone, %v by both", n/1e6, alone.Round(time.Millisecond), both.Round(time.Millisecond))
		if i > 0 && both.Seconds() <= most*alone.Seconds() {
			return
		}
	}
	t.Errorf("it takes %.2f times as long by both paths, want %.2f at most", both.Seconds()/alone.Seconds(), most)
}

// lesser returns the lesser of two durations that are known; 0 is not.
func lesser(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// TestUnequalPaths has TCP over two paths of unequal length, which would take for
// lost what is only late: it keeps to the short one as long as that is there, and is as fast as
// by that alone. That is no firewall.
func TestUnequalPaths(t *testing.T) {
	needs(t, "curl")
	w := newWorld(t, "unequal", 5*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	for _, d := range []linkem.Direction{linkem.AB, linkem.BA} {
		if err := w.links["mn/net2"].Set(d, linkem.Params{Delay: 50 * time.Millisecond, Rate: 50e6}); err != nil {
			t.Fatal(err)
		}
	}
	mn, cn := w.newHost("mn", settings{mode: "duality"}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net1", "net2")
	w.echo(t, "cn", 7007)
	talk := w.talk(t, "mn", "tcp6", "cn", 7007)
	talk.echoed(t, "hello")
	mn.sendsFrom("cn", "net1", "net2")
	cn.reaches("mn", "established")
	w.besides(t, mn, cn, 20_000_000, 1.5)
	if here, there := mn.with("cn").Spread, cn.with("mn").Spread; here != "length" || there != "length" {
		t.Errorf("TCP is spread by %s here, by %s there", here, there)
	}
	talk.echoed(t, "by the short one")
	w.cable("mn", "net1", false)
	talk.echoed(t, "by the long one")
	w.cable("mn", "net1", true)
	mn.sendsFrom("cn", "net1", "net2")
	talk.echoed(t, "by the short one again")
}

// TestUnequalRates has TCP over two paths that are equally long, of which one is five
// times as fast: it is not slower than by that alone.
func TestUnequalRates(t *testing.T) {
	needs(t, "curl")
	w := newWorld(t, "rates", 10*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	for i, rate := range []int64{25e6, 5e6} {
		for _, d := range []linkem.Direction{linkem.AB, linkem.BA} {
			if err := w.links[fmt.Sprintf("mn/net%d", i+1)].Set(d, linkem.Params{Delay: 5 * time.Millisecond,
				Rate: rate}); err != nil {
				t.Fatal(err)
			}
		}
	}
	mn, cn := w.newHost("mn", settings{mode: "duality"}).start(), w.newHost("cn", settings{}).start()
	mn.becomes("net1", "net2")
	w.echo(t, "cn", 7007)
	w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "hello")
	mn.sendsFrom("cn", "net1", "net2")
	cn.reaches("mn", "established")
	w.besides(t, mn, cn, 8_000_000, 1.1)
}

// track makes the router of the core a firewall with these rules; loose says whether
// it takes up connections that it has not seen begin.
func (w *world) track(t *testing.T, rules, loose string) {
	t.Helper()
	path := filepath.Join(w.dir, "tracked.nft")
	text := fmt.Sprintf("table ip6 tracked {\n chain forward { type filter hook forward priority 0\n%s\n }\n}\n",
		strings.ReplaceAll(rules, "; ", "\n"))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	w.must("r0", "nft", "-f", path)
	w.must("r0", "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_loose="+loose)
}
