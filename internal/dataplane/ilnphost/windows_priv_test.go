package ilnphost

import (
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

// A window is set in the connection that is named, which keeps its congestion control, and is paced until it is said
// not to be; not in one whose window is smaller than it should be.
func TestSetWindows(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "ip")
	// Never unlocked: the thread and its namespace end with the test.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var ends [2]netip.AddrPort
	for i := range ends {
		c, err := net.Dial("tcp6", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ends[i] = netip.MustParseAddrPort(c.LocalAddr().String())
	}
	remote := netip.MustParseAddrPort(l.Addr().String())
	p := &Plane{}
	look := func(at netip.AddrPort) Connection {
		t.Helper()
		all, err := p.Connections(0)
		if err != nil {
			t.Fatal(err)
		}
		return all[slices.IndexFunc(all, func(c Connection) bool { return c.Local == at })]
	}
	before := look(ends[0])
	if before.Window == 0 || before.SRTT <= 0 || before.MSS < 1000 || before.Pace != 0 || before.Control == "" {
		t.Fatalf("before: %+v", before)
	}
	set := func(w Window) (done int) {
		t.Helper()
		all, err := p.SetWindows([]Window{w})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	w := Window{Local: ends[0], Remote: remote, Segments: 777, Least: before.Window, Most: 1000, Pace: 1e6}
	done := set(w)
	if c := look(ends[0]); done != 1 || c.Window != 777 || c.Pace != 1e6 || c.Control != before.Control {
		t.Errorf("%d set; %+v", done, c)
	}
	if c := look(ends[1]); c.Window == 777 || c.Pace != 0 {
		t.Errorf("another connection: %+v", c)
	}
	w.Segments, w.Least, w.Pace = 888, 778, 2e6
	done = set(w)
	if c := look(ends[0]); done != 0 || c.Window != 777 || c.Pace != 1e6 {
		t.Errorf("%d set where the window is smaller than it should be; %+v", done, c)
	}
	w.PaceAnyway = true
	done = set(w)
	if c := look(ends[0]); done != 0 || c.Window != 777 || c.Pace != 2e6 {
		t.Errorf("%d set; with a limit in any case: %+v", done, c)
	}
	w.Pace, w.Most, w.PaceAnyway = -1, 0, false
	done = set(w)
	if c := look(ends[0]); done != 0 || c.Window != 777 || c.Pace != 2e6 {
		t.Errorf("%d set; with the limit that it has: %+v", done, c)
	}
	w.Pace = 0
	done = set(w)
	if c := look(ends[0]); done != 0 || c.Window != 777 || c.Pace != 0 {
		t.Errorf("%d set; without a limit: %+v", done, c)
	}
}
