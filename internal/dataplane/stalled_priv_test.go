package dataplane

import (
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

// A connection whose segments vanish is listed once its time-out has doubled,
// with the sequence number that it waits for, and no other one is.
func TestStalled(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "nft")
	testutil.Need(t, "ip")
	// Never unlocked: the thread and its namespace end with the test.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	run := func(argv ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	run("ip", "link", "set", "lo", "up")
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conns [2]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("tcp6", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	local := netip.MustParseAddrPort(conns[0].LocalAddr().String())
	run("nft", "add table ip6 t; add chain ip6 t i { type filter hook input priority 0; }; add rule ip6 t i tcp sport "+
		conns[0].LocalAddr().String()[len("[::1]:"):]+" drop")
	if _, err := conns[0].Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	p := &Plane{}
	var list []Stall
	testutil.Eventually(t, 10*time.Second, func() bool {
		if list, err = p.Stalled(); err != nil {
			t.Fatal(err)
		}
		return len(list) > 0
	}, "nothing stalls")
	if len(list) != 1 || list[0].Local != local || list[0].Remote.String() != l.Addr().String() || list[0].Backoff < 1 || list[0].Seq == 0 {
		t.Errorf("stalled: %+v, want %v", list, local)
	}
}
