package links

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"roam/internal/testutil"
)

// bound runs a server that is bound to an address of a host, and has the other host send
// it datagrams by name. iperf3 sends its first one once and waits for the answer.
func (w *world) bound(addr string, port int) {
	w.t.Helper()
	server := w.cn.AppCommand(w.top.Context(), "iperf3", "-s", "-1", "-B", addr, "-p", fmt.Sprint(port))
	if err := server.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	testutil.Eventually(w.t, patience, func() bool {
		out, err := w.cn.Command(w.top.Context(), "ss", "-6tln").CombinedOutput()
		return err == nil && bytes.Contains(out, fmt.Appendf(nil, "[%s]:%d", addr, port))
	}, "a listener")
	client := []string{"iperf3", "-6", "-c", "cn", "-p", fmt.Sprint(port), "-u", "-b", "1M", "-t", "1"}
	out, err := w.mn.AppCommand(w.top.Context(), client...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "(0%)") {
		w.t.Errorf("datagrams to a socket on %s: %v\n%s", addr, err, out)
	}
}

// watches waits until the daemon of the correspondent has said a number of times that it
// looks sockets up where hooks have marked them.
func (w *world) watches(times int) {
	w.t.Helper()
	testutil.Eventually(w.t, patience, func() bool {
		b, err := os.ReadFile(w.cn.log)
		return err == nil && bytes.Count(b, []byte("where hooks have marked them")) == times
	}, "the daemon's hooks are in force")
}

// TestServerAppears at the address that is also the correspondent's in its sessions: while the
// daemon watches, after it was killed, and under its successor. Its first datagram arrives.
func TestServerAppears(t *testing.T) {
	t.Parallel()
	testutil.Need(t, "iperf3")
	w, at := rented(t, "sockets")
	addr := at.Addr().String()
	p := w.trip()
	w.watches(1)
	p.phase("a server appears", 0, func() { w.bound(addr, 5301) })
	p.phase("without a daemon", 0, func() {
		if err := w.cn.Signal(w.top.Context(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.bound(addr, 5302)
	})
	p.phase("under another one", 0, func() {
		if err := w.cn.Start(w.top.Context()); err != nil {
			t.Fatal(err)
		}
		w.bound(addr, 5303)
		w.watches(2)
		w.bound(addr, 5304)
	})
	p.end()
}
