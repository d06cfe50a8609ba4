package topo

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/lab/linkem"
)

// newLab makes a lab that is closed with the test, and asks that nothing of
// it is left.
func newLab(t testing.TB) *Lab {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "cgroup2")
	l, err := New("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for _, path := range leftovers(t, l.Name()) {
			t.Error("left behind:", path)
		}
	})
	return l
}

// leftovers finds what a lab of that name has on the machine.
func leftovers(t testing.TB, name string) (found []string) {
	t.Helper()
	root, err := cgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{netnsDir, root, StateDir} {
		m, err := filepath.Glob(filepath.Join(dir, name+"*"))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m...)
	}
	return found
}

func newHostT(t testing.TB, l *Lab, name string) *Host {
	t.Helper()
	h, err := l.Host(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func output(t testing.TB, c *Cmd) string {
	t.Helper()
	b, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(c.Args, " "), err)
	}
	return strings.TrimSpace(string(b))
}

func TestVethPing(t *testing.T) {
	testutil.Need(t, "ping")
	l := newLab(t)
	a, b := newHostT(t, l, "a"), newHostT(t, l, "b")
	must(t,
		l.Veth(a, "eth0", b, "eth0"),
		a.AddAddr("eth0", netip.MustParsePrefix("2001:db8:1::1/64")),
		b.AddAddr("eth0", netip.MustParsePrefix("2001:db8:1::2/64")))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	output(t, a.Command(ctx, "ping", "-c1", "-W5", "2001:db8:1::2"))
	got, err := b.WaitAddr(ctx, "eth0", netip.MustParsePrefix("2001:db8:1::/64"))
	if err != nil || got != netip.MustParseAddr("2001:db8:1::2") {
		t.Fatalf("address %v, %v", got, err)
	}
}

func TestRouteThroughRouter(t *testing.T) {
	testutil.Need(t, "ping")
	l := newLab(t)
	a, r, b := newHostT(t, l, "a"), newHostT(t, l, "r"), newHostT(t, l, "b")
	all := netip.MustParsePrefix("::/0")
	must(t,
		r.Forward(),
		l.Veth(a, "eth0", r, "a"), l.Veth(b, "eth0", r, "b"),
		a.AddAddr("eth0", netip.MustParsePrefix("2001:db8:1::2/64")),
		r.AddAddr("a", netip.MustParsePrefix("2001:db8:1::1/64")),
		r.AddAddr("b", netip.MustParsePrefix("2001:db8:2::1/64")),
		b.AddAddr("eth0", netip.MustParsePrefix("2001:db8:2::2/64")),
		a.AddRoute(all, netip.MustParseAddr("2001:db8:1::1"), "eth0"),
		b.AddRoute(all, netip.MustParseAddr("2001:db8:2::1"), "eth0"))
	output(t, a.Command(t.Context(), "ping", "-c1", "-W5", "2001:db8:2::2"))
}

func TestCommandLivesWhereItShould(t *testing.T) {
	l := newLab(t)
	h := newHostT(t, l, "a")
	must(t, h.SetResolver(netip.MustParseAddr("2001:db8::53")),
		h.AddName(netip.MustParseAddr("2001:db8::1"), "peer"))

	if got := output(t, h.Command(t.Context(), "cat", "/proc/self/cgroup")); !strings.HasSuffix(got, "/"+h.ID()) {
		t.Errorf("cgroup of a command: %q", got)
	}
	want, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	if got := output(t, h.Command(t.Context(), "readlink", "/proc/self/ns/mnt")); got != want {
		t.Errorf("command has mount namespace %s, not the caller's %s", got, want)
	}
	if got := output(t, h.AppCommand(t.Context(), "cat", "/etc/resolv.conf")); got != "nameserver 2001:db8::53" {
		t.Errorf("application sees resolv.conf %q", got)
	}
	if got := output(t, h.AppCommand(t.Context(), "cat", "/etc/hosts")); !strings.Contains(got, "2001:db8::1 peer") {
		t.Errorf("application sees hosts %q", got)
	}
	if got := output(t, h.Command(t.Context(), "cat", "/etc/resolv.conf")); strings.Contains(got, "2001:db8::53") {
		t.Errorf("the host's resolv.conf leaked out")
	}
}

func TestAppSeesReplacedResolver(t *testing.T) {
	l := newLab(t)
	h := newHostT(t, l, "a")
	for _, text := range []string{"nameserver ::1", "nameserver ::2", "nameserver ::3"} {
		next := h.ResolvConf() + ".new"
		must(t, os.WriteFile(next, []byte(text), 0o644), os.Rename(next, h.ResolvConf()))
		if got := output(t, h.AppCommand(t.Context(), "cat", "/etc/resolv.conf")); got != text {
			t.Errorf("application sees %q, want %q", got, text)
		}
	}
}

func TestSysctlIsPerHost(t *testing.T) {
	l := newLab(t)
	a, b := newHostT(t, l, "a"), newHostT(t, l, "b")
	const key = "net.ipv6.conf.all.forwarding"
	must(t, a.Forward())
	for h, want := range map[*Host]string{a: "1", b: "0"} {
		if got, err := h.GetSysctl(key); err != nil || got != want {
			t.Errorf("%s on %s = %q, %v; want %s", key, h.Name(), got, err, want)
		}
	}
}

// A process of a host is a session of its own: the kernel shares processors among sessions, so
// other programs of the lab's session do not keep it waiting.
func TestProcessesHaveSessions(t *testing.T) {
	l := newLab(t)
	h := newHostT(t, l, "a")
	for _, c := range []*Cmd{h.Command(t.Context(), "sleep", "1000"), h.AppCommand(t.Context(), "sleep", "1000")} {
		must(t, c.Start())
		sid, err := unix.Getsid(c.Process.Pid)
		if err != nil || sid != c.Process.Pid {
			t.Errorf("process %d is of session %d, %v", c.Process.Pid, sid, err)
		}
	}
}

func TestCloseKillsWhatRuns(t *testing.T) {
	l := newLab(t)
	h := newHostT(t, l, "a")
	// The child leaves its parent and its session, as a daemon does.
	c := h.Command(context.Background(), "sh", "-c", "setsid sleep 1000 & exec sleep 1000")
	must(t, c.Start())
	testutil.Eventually(t, 5*time.Second, func() bool { return len(cgroupProcs(h.Cgroup())) == 2 }, "two processes")
	pids := cgroupProcs(h.Cgroup())
	must(t, l.Close())
	if err := c.Wait(); err == nil {
		t.Error("process ended by itself")
	}
	for _, pid := range pids {
		if _, err := startTime(pid); err == nil && !zombie(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if err := h.Command(t.Context(), "true").Start(); err == nil {
		t.Error("a process started on a closed lab")
	}
}

// Impossible requests are refused, and leave nothing behind.
func TestRefusals(t *testing.T) {
	testutil.Need(t, "/dev/net/tun")
	l := newLab(t)
	a, b := newHostT(t, l, "a"), newHostT(t, l, "b")
	if _, err := l.Host("a"); err == nil {
		t.Error("a second host of the same name")
	}
	must(t, l.Veth(a, "eth0", b, "eth0"))
	if err := l.Veth(a, "eth0", b, "eth1"); err == nil {
		t.Error("a second interface of the same name")
	}
	if _, err := l.Link(a, "eth1", b, "eth0", linkem.Params{}); err == nil {
		t.Error("a link to an interface that exists")
	}
	if _, err := l.Link(a, "eth1", b, "eth1", linkem.Params{Loss: 2}); err == nil {
		t.Error("a link that loses more than all")
	}
	// Both names are free again.
	_, err := l.Link(a, "eth1", b, "eth1", linkem.Params{})
	must(t, err)
	if err := a.Sysctl("net.ipv6.no_such_key", "1"); err == nil {
		t.Error("a parameter that is not there was set")
	}
	if err := a.Command(t.Context()).Run(); err == nil {
		t.Error("nothing was run without an error")
	}
	must(t, l.Close(), l.Close())
	if _, err := l.Host("c"); err == nil {
		t.Error("a host in a closed lab")
	}
}

// zombie reports whether a process has ended and waits for its parent only.
func zombie(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || strings.Contains(string(b), ") Z ")
}
