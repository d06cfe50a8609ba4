package hostnet

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// tap is a network device whose carrier the test decides on. Unlike that of a
// veth pair it is none of those whose losses the kernel tells of at once.
type tap struct {
	t  *testing.T
	fd int
}

func newTap(t *testing.T, n *nettest.NS, name string) (d tap) {
	t.Helper()
	return newTunTap(t, n, name, unix.IFF_TAP)
}

func newTunTap(t *testing.T, n *nettest.NS, name string, kind uint16) (d tap) {
	t.Helper()
	var err error
	d.t = t
	n.Do(func() {
		if d.fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return
		}
		var req *unix.Ifreq
		if req, err = unix.NewIfreq(name); err == nil {
			req.SetUint16(kind | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(d.fd, unix.TUNSETIFF, req)
		}
	})
	if err != nil {
		t.Fatalf("make %s: %v", name, err)
	}
	t.Cleanup(func() { unix.Close(d.fd) })
	return d
}

func (d tap) carrier(on int) {
	d.t.Helper()
	if err := unix.IoctlSetPointerInt(d.fd, unix.TUNSETCARRIER, on); err != nil {
		d.t.Fatal(err)
	}
}

// upTap is one with an address, a default route and a router whose hardware
// address is known.
func upTap(t *testing.T, n *nettest.NS, name string, l roam.L64) tap {
	t.Helper()
	d := newTap(t, n, name)
	n.Run("ip", "link", "set", "dev", name, "up")
	n.Run("ip", "addr", "add", l.Prefix().Addr().Next().String()+"/64", "dev", name, "nodad")
	n.Run("ip", "-6", "neigh", "add", "fe80::1", "lladdr", "02:00:00:00:00:01", "dev", name, "nud", "permanent")
	n.Run("ip", "-6", "route", "append", "default", "via", "fe80::1", "dev", name)
	return d
}

// A carrier that is lost within a second after another one was lost, or came, is
// told of at once, too.
func TestCarriersLostInARow(t *testing.T) {
	testutil.Need(t, "/dev/net/tun")
	testutil.NeedKernel(t, "carriers told of when asked for (Linux 6.12)", atLeast(t, 6, 12))
	host := nettest.New(t)
	a, b := upTap(t, host, "upA", netA), upTap(t, host, "upB", netB)
	h := startIn(t, host, testConfig(t))
	there := map[roam.L64]bool{}
	next(t, h, func(e LocatorChanged) bool {
		there[e.L64] = e.Present
		return there[netA] && there[netB]
	})
	a.carrier(0)
	next(t, h, absent(netA))
	for _, what := range []string{"a loss", "a return"} {
		began := time.Now()
		b.carrier(0)
		next(t, h, absent(netB))
		if d := time.Since(began); d > 600*time.Millisecond {
			t.Errorf("the loss after %s was told of after %v", what, d)
		}
		b.carrier(1)
		next(t, h, present(netB))
	}
}

// atLeast reports whether this kernel is of that version or later.
func atLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatalf("read the kernel's version: %v", err)
	}
	var a, b int
	if _, err := fmt.Sscanf(string(release), "%d.%d", &a, &b); err != nil {
		t.Fatalf("read the kernel's version %q: %v", release, err)
	}
	return a > major || a == major && b >= minor
}
