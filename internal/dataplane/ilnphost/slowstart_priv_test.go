package ilnphost

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

// thresholdBounds are the bounds of slow starts of a test, and where what sets them is pinned.
type thresholdBounds struct {
	slowStarts
	pins string
}

func newThresholdBounds(t *testing.T) *thresholdBounds {
	t.Helper()
	testutil.Need(t, "ip")
	testutil.Need(t, "cgroup2")
	pins := filepath.Join(enclose(t), setName)
	if err := os.Mkdir(pins, 0o700); err != nil {
		t.Fatal(err)
	}
	ip(t, "link set lo mtu 1500 up")
	bounds, err := newSlowStarts()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bounds.bytes.Close() })
	return &thresholdBounds{bounds, pins}
}

// begin has connections with loopback addresses bounded.
func (b *thresholdBounds) begin(t *testing.T) *SlowStarts {
	t.Helper()
	s, err := b.attach(b.pins, rootCgroup(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bind gives connections of an entry that replaces another one a bound, in bytes.
func (b *thresholdBounds) bind(t *testing.T, old, row bpfSessionEntry, bytes int) {
	t.Helper()
	if err := b.follow(old, row, bytes); err != nil {
		t.Fatal(err)
	}
}

// threshold is the bound, in segments; bytes are those of them on a link.
const (
	threshold      = 200
	thresholdBytes = threshold * (loopMSS + 86)
	loopMSS        = 1500 - 40 - 20 - 12 // data of a segment over an MTU of 1,500 bytes, with timestamps
)

func bounded(t *testing.T, control string) bool {
	t.Helper()
	return sendFirst(t, control).Snd_ssthresh == threshold
}

// isBounded tries it several times: on a busy host TCP may end a slow start before that.
func isBounded(t *testing.T, control string) bool {
	t.Helper()
	return slices.ContainsFunc(make([]int, 10), func(int) bool { return bounded(t, control) })
}

// peer is the entry of the session with the loopback address.
func peer() bpfSessionEntry {
	return bpfSessionEntry{Alias: bpfSessionKey{Remote: half(1)}, RemoteNid: half(2)}
}

// A connection whose window grows gets the threshold that its session has, and keeps its congestion control; not one
// without a bound.
func TestSlowStarts(t *testing.T) {
	b := newThresholdBounds(t)
	defer b.begin(t).Close()
	none, row := bpfSessionEntry{}, peer()
	if bounded(t, "cubic") {
		t.Error("a connection without a bound has one")
	}
	b.bind(t, none, row, thresholdBytes)
	if !isBounded(t, "cubic") || !isBounded(t, "reno") {
		t.Error("a connection has not the bound of its session")
	}
	named := row
	named.Alias.Remote, named.RemoteNid, named.Flags = half(3), half(1), bpfEntryFlagsENTRY_NAMED
	b.bind(t, row, named, thresholdBytes)
	if !isBounded(t, "cubic") {
		t.Error("a connection by the peer's NID has not the bound of its session")
	}
	unnamed := named
	unnamed.Flags = 0
	if b.bind(t, named, unnamed, thresholdBytes); bounded(t, "cubic") {
		t.Error("a connection has the bound of a session that is another one's by now")
	}
	b.bind(t, none, row, thresholdBytes)
	if b.bind(t, row, none, 0); bounded(t, "cubic") || len(b.set) != 1 {
		t.Errorf("of a session that has ended there is left %v", b.set)
	}
}

// A session for whose bound there is no space has none, which is no fault; another one's end makes space.
func TestSlowStartsFull(t *testing.T) {
	b := newThresholdBounds(t)
	entry := func(n int) bpfSessionEntry { return bpfSessionEntry{Alias: bpfSessionKey{Remote: half(uint64(n + 1))}} }
	most := int(b.bytes.MaxEntries())
	for n := range most + 1 {
		b.bind(t, bpfSessionEntry{}, entry(n), thresholdBytes)
	}
	if len(b.set) != most {
		t.Errorf("%d sessions have a bound, of %d", len(b.set), most)
	}
	b.bind(t, entry(0), bpfSessionEntry{}, 0)
	b.bind(t, entry(most), entry(most), thresholdBytes)
	if b.set[entry(most).Alias.Remote] != thresholdBytes {
		t.Error("where there is space again, a session has no bound")
	}
}

// Without the daemon no connection has a bound, and no congestion control of ours is left, also where the daemon was
// killed and the kernel keeps one for longer.
func TestSlowStartsEnd(t *testing.T) {
	b := newThresholdBounds(t)
	s := b.begin(t)
	b.bind(t, bpfSessionEntry{}, peer(), thresholdBytes)
	if !isBounded(t, "cubic") {
		t.Error("a connection has not the bound of its session")
	}
	if !isThere(t, s) {
		t.Error("the kernel has no congestion control that sets thresholds")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if bounded(t, "cubic") {
		t.Error("a connection has a bound after the end")
	}
	if isThere(t, s) {
		t.Error("a congestion control is left after the end")
	}
	s = b.begin(t)
	if _, err := os.Stat(thresholdPin(b.pins)); err != nil { // the registration ends with its process
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		s.hook.Close()
		s.control.Collection.Close()
	}
	if err := Disarm(filepath.Dir(b.pins), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(b.pins); len(left) > 0 || isThere(t, s) {
		t.Errorf("left are %v, and a congestion control: %v", left, isThere(t, s))
	}
}

// isThere reports whether the kernel has the congestion control that sets thresholds. Daemons of other tests have theirs.
func isThere(t *testing.T, s *SlowStarts) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(strings.Fields(string(b)), s.name)
}

// sendFirst sends over a new connection of a congestion control, which has to be its own afterwards, until its slow
// start is over or has sent a lot.
func sendFirst(t *testing.T, control string) (info *unix.TCPInfo) {
	t.Helper()
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
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	read := make(chan error, 1)
	go func() { _, err := io.CopyN(io.Discard, a, 8<<20); read <- err }()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	on := func(f func(fd int) error) {
		t.Helper()
		if e := raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil || err != nil {
			t.Fatal(errors.Join(e, err))
		}
	}
	on(func(fd int) error { return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, control) })
	if _, err := c.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	on(func(fd int) (err error) {
		own, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if name := strings.TrimRight(own, "\x00"); name != control {
			t.Errorf("the congestion control is %q, of %q", name, control)
		}
		if err == nil {
			info, err = unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		}
		return err
	})
	t.Logf("%s: window %d, threshold %d, segments of %d", control, info.Snd_cwnd, info.Snd_ssthresh, info.Snd_mss)
	return info
}
