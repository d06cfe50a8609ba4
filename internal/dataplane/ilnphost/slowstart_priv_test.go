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

// A connection whose window grows gets the threshold that its session has, and keeps its congestion control; not one
// without a bound, nor one after the end.
func TestSlowStarts(t *testing.T) {
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
	defer bounds.bytes.Close()
	p := &Plane{slowStarts: bounds}
	attach := func() *SlowStarts {
		t.Helper()
		s, err := p.slowStarts.attach(pins, rootCgroup(t), 0) // of loopback addresses
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := attach()
	row := bpfSessionEntry{Alias: bpfSessionKey{Remote: half(1)}, RemoteNid: half(2)}
	follow := func(old, row bpfSessionEntry, bytes int) {
		t.Helper()
		if err := p.slowStarts.follow(old, row, bytes); err != nil {
			t.Fatal(err)
		}
	}
	const threshold = 200
	bounded := func(control string) bool { t.Helper(); return sendFirst(t, control).Snd_ssthresh == threshold }
	// On a busy host TCP may end a slow start before that.
	isBounded := func(control string) bool {
		t.Helper()
		return slices.ContainsFunc(make([]int, 10), func(int) bool { return bounded(control) })
	}
	bytes := threshold * (loopMSS + 86)
	if bounded("cubic") {
		t.Error("a connection without a bound has one")
	}
	follow(bpfSessionEntry{}, row, bytes)
	if !isBounded("cubic") || !isBounded("reno") {
		t.Error("a connection has not the bound of its session")
	}
	named := row
	named.Alias.Remote, named.RemoteNid, named.Flags = half(3), half(1), bpfEntryFlagsENTRY_NAMED
	follow(row, named, bytes)
	if !isBounded("cubic") {
		t.Error("a connection by the peer's NID has not the bound of its session")
	}
	unnamed := named
	unnamed.Flags = 0
	if follow(named, unnamed, bytes); bounded("cubic") {
		t.Error("a connection has the bound of a session that is another one's by now")
	}
	follow(bpfSessionEntry{}, row, bytes)
	if follow(row, bpfSessionEntry{}, 0); bounded("cubic") || len(p.slowStarts.set) != 1 {
		t.Errorf("of a session that has ended there is left %v", p.slowStarts.set)
	}
	follow(bpfSessionEntry{}, row, bytes)
	before := controls(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if bounded("cubic") {
		t.Error("a connection has a bound after the end")
	}
	if now := controls(t); now != before-1 {
		t.Errorf("%d congestion controls after the end, %d before", now, before)
	}
	s = attach()
	if _, err := os.Stat(thresholdPin(pins)); err != nil { // the registration ends with its process
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	} else { // it does not, and the process is killed
		s.hook.Close()
		s.control.Collection.Close()
	}
	if err := Disarm(filepath.Dir(pins), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(pins); len(left) > 0 || controls(t) != before-1 {
		t.Errorf("left are %v, and %d congestion controls, %d before", left, controls(t), before)
	}
}

// controls returns how many congestion controls of ours the machine has.
func controls(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "roam")
}

// loopMSS is how much a segment bears over an MTU of 1,500 bytes, with timestamps.
const loopMSS = 1500 - 40 - 20 - 12

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
