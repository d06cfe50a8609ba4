package engine

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/testutil"
	"roam/tcpassist"
)

// A connection is stalled when its time-out, 200 ms at least, has doubled so often. Its own next
// transmission is then due after 3.2 s, less what the last listing was late.
const (
	doublings = 4
	dueAlone  = 2500 * time.Millisecond
)

// A connection that has doubled its time-out four times sends at once when it
// is told as tcpassist tells it, and not when nobody tells it.
func TestDoublingsAreTakenBack(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "nft")
	testutil.Need(t, "ip")
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint("told ", told), func(t *testing.T) {
			// Never unlocked: the thread and its namespace end with the test.
			runtime.LockOSThread()
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				t.Fatal(err)
			}
			command(t, "ip", "link", "set", "lo", "up")
			arrived, stall := stalled(t)
			alone := time.Now().Add(dueAlone) // before then the kernel sends nothing by itself
			wait := 300 * time.Millisecond
			if told {
				// The time-out may have doubled once more since it was listed: then what is told leaves
				// one doubling.
				wait = time.Until(alone)
				tell(t, stall)
			}
			select {
			case <-arrived:
				if !told && time.Now().Before(alone) {
					t.Error("it was sent without a word: the test tries nothing")
				}
			case <-time.After(wait):
				if told {
					t.Error("nothing was sent")
				}
			}
		})
	}
}

func command(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
}

// stalled makes a connection whose data was dropped until its time-out had
// doubled often enough, and is not dropped any more.
func stalled(t *testing.T) (arrived <-chan struct{}, stall dataplane.Connection) {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp6", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = l.Close(), c.Close(), peer.Close() })
	port := netip.MustParseAddrPort(c.LocalAddr().String()).Port()
	command(t, "nft", fmt.Sprintf("add table ip6 t; add chain ip6 t i { type filter hook input priority 0; }; add rule ip6 t i tcp sport %d drop", port))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 20*time.Second, func() bool {
		list, err := (&dataplane.Plane{}).Connections(0)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.Backoff > 0 {
				stall = s
			}
		}
		return stall.Backoff >= doublings
	}, "no time-out doubled")
	command(t, "nft", "delete", "table", "ip6", "t")
	done := make(chan struct{})
	go func() {
		if n, _ := peer.Read(make([]byte, 1)); n == 1 {
			close(done)
		}
	}()
	return done, stall
}

// tell sends what wakes the connection.
func tell(t *testing.T, c dataplane.Connection) {
	t.Helper()
	m, now := tcpassist.New[int](), time.Now()
	m.HandlePaths(now, tcpassist.Change[int]{Why: roam.PathsAdded})
	if o, _ := m.Poll(); o != (tcpassist.ListConnections{}) {
		t.Fatalf("%+v in place of a list", o)
	}
	m.HandleConnections(now, []tcpassist.Listed[int]{{Connection: tcpassist.Connection(c)}}, nil)
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for o, ok := m.Poll(); ok; o, ok = m.Poll() {
		if err := unix.Sendto(fd, o.(tcpassist.Inject).Packet[40:], 0, &unix.SockaddrInet6{Addr: c.Local.Addr().As16()}); err != nil {
			t.Fatal(err)
		}
	}
}
