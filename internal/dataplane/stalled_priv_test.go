package dataplane

import (
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
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

// Connections from addresses with the prefix are in haste and are not any more,
// and no others; what an application has set stays.
func TestHasten(t *testing.T) {
	testutil.NeedRoot(t)
	usual, err := usualTimeout()
	if err != nil {
		t.Fatal(err)
	}
	testutil.NeedKernel(t, "a bound of TCP's time-outs (Linux 6.15)", usual > 0)
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var fds [2]int
	for i := range fds {
		c, err := net.Dial("tcp6", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f, err := c.(*net.TCPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fds[i] = int(f.Fd())
	}
	if err := unix.SetsockoptInt(fds[1], unix.SOL_TCP, tcpRTOMax, 5000); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		session roam.L64
		haste   bool
		want    int
	}{{1, true, int(usual)}, {0, true, hastyTimeout}, {1, false, hastyTimeout}, {0, false, int(usual)}} {
		if err := (&Plane{}).Hasten(c.session, c.haste); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{c.want, 5000} {
			if got, err := unix.GetsockoptInt(fds[i], unix.SOL_TCP, tcpRTOMax); err != nil || got != want {
				t.Errorf("prefix %v, haste %v: time-out of connection %d at most %d ms, want %d (%v)", c.session, c.haste, i, got, want, err)
			}
		}
	}
}

// A connection that was cut off for longer than its bounded time-outs would last
// lives on when it is hastened: TCP must not count them.
func TestHasteIsNoEnd(t *testing.T) {
	testutil.NeedRoot(t)
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp6", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	usual, err := usualTimeout()
	if err != nil {
		t.Fatal(err)
	}
	testutil.NeedKernel(t, "a bound of TCP's time-outs (Linux 6.15)", usual > 0)
	for _, haste := range []bool{true, false} {
		if err := (&Plane{}).Hasten(0, haste); err != nil {
			t.Fatal(err)
		}
		most, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_TCP, tcpRTOMax)
		if err != nil {
			t.Fatal(err)
		}
		patience, err := unix.GetsockoptInt(int(f.Fd()), unix.SOL_TCP, unix.TCP_USER_TIMEOUT)
		if err != nil || haste != (patience > 15*60*1000) || haste != (most == hastyTimeout) {
			t.Errorf("haste %v: time-outs of at most %d ms, given up after %d ms (%v)", haste, most, patience, err)
		}
	}
}

// tcpRTOMax is TCP_RTO_MAX_MS.
const tcpRTOMax = 44
