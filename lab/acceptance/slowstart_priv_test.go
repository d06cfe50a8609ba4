package acceptance

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
	"roam/lab/linkem"
	"roam/lab/workload"
)

// windows are what ss says of the window and the threshold of a connection in segments, as its first data are sent.
var windows = regexp.MustCompile(`cubic .*cwnd:(\d+) ssthresh:(\d+)`)

// earlyThreshold returns the threshold of a connection from a port of a host whose window has not come near to it, and
// that has lost nothing; 0: there is none. TCP itself sets a threshold at the window that it has.
func (w *world) earlyThreshold(name string, port int) int {
	for line := range strings.Lines(w.must(name, "ss", "-tinH", fmt.Sprint("sport = :", port))) {
		m := windows.FindStringSubmatch(line)
		if m == nil || strings.Contains(line, "retrans:") {
			continue
		}
		window, _ := strconv.Atoi(m[1])
		if threshold, _ := strconv.Atoi(m[2]); 2*window < threshold {
			return threshold
		}
	}
	return 0
}

// boundOver has the mobile host fetch n times, from a port of its own, and returns the first threshold that a
// connection has early; 0: none has one.
func (w *world) boundOver(t *testing.T, port, n int) (threshold int) {
	t.Helper()
	f, err := workload.StartFetches(t.Context(), w.hosts["cn"], w.hosts["mn"], workload.FetchOptions{
		Name: "fetch", Target: "cn", Port: port, Sizes: []int{500_000}, Times: n, CC: "cubic",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Kill()
	over := make(chan error, 1)
	go func() { _, err := f.Wait(w.within(patience)); over <- err }()
	for threshold == 0 {
		select {
		case err := <-over:
			if err != nil {
				t.Fatal(err)
			}
			return 0
		default:
			threshold = w.earlyThreshold("cn", port)
		}
	}
	return threshold
}

// TestSlowStart has a correspondent send over two links: the first slow start of its connections ends at what both hold
// in a round trip, which its daemon knows before. Over one link, and when the daemon is gone, TCP itself ends it.
func TestSlowStart(t *testing.T) {
	needs(t, "ss")
	w := newWorld(t, "slowstart", 50*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	for i, rate := range []int64{20e6, 5e6} {
		for _, d := range []linkem.Direction{linkem.AB, linkem.BA} {
			p := linkem.Params{Delay: 50 * time.Millisecond, Rate: rate}
			if err := w.links[fmt.Sprintf("mn/net%d", i+1)].Set(d, p); err != nil {
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
	const holds = 25_000_000 / 8 / 10 / 1500 // segments in a round trip of 0.1 s
	if threshold := w.boundOver(t, 7021, 20); threshold < holds*8/10 || threshold > holds*14/10 {
		t.Errorf("the threshold is %d, and both links hold %d segments", threshold, holds)
	}
	w.cable("mn", "net2", false)
	testutil.Eventually(t, patience, func() bool { return len(cn.with("mn").Paths) == 1 }, "cn uses one link")
	if threshold := w.boundOver(t, 7022, 2); threshold > 0 {
		t.Errorf("over one link the threshold is %d", threshold)
	}
	w.cable("mn", "net2", true)
	if w.boundOver(t, 7023, 20) == 0 {
		t.Error("with both links again there is no threshold")
	}
	cn.signal(syscall.SIGKILL)
	if threshold := w.boundOver(t, 7024, 2); threshold > 0 {
		t.Errorf("without its daemon the threshold is %d", threshold)
	}
}
