// Package nettest makes throw-away network namespaces for privileged tests and
// lays cables between them.
//
// A namespace is a thread that lives in it: it has no name, and is gone with
// the test or with the process, however that ends. It implements what tests
// below the lab need: running functions and commands inside, veth links,
// reading the state of a namespace as text. It omits delays, rates and
// losses, which are the lab's.
//
// Driven by tests only.
package nettest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
)

// NS is a network namespace.
type NS struct {
	t    testing.TB
	tid  int
	work chan func()
}

// New makes a namespace with its loopback up, until the end of the test. It
// skips the test without root.
func New(t testing.TB) *NS {
	t.Helper()
	testutil.NeedRoot(t)
	testutil.Need(t, "ip")
	n := &NS{t: t, work: make(chan func())}
	ready := make(chan error)
	ended := make(chan struct{})
	go func() {
		// Never unlocked: the thread, and with it the namespace, ends with
		// this goroutine.
		runtime.LockOSThread()
		defer close(ended)
		n.tid = unix.Gettid()
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range n.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() { close(n.work); <-ended })
	n.Run("ip", "link", "set", "lo", "up")
	return n
}

// Do runs f on the thread of the namespace and waits for it. f must not end
// the test.
func (n *NS) Do(f func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); f() }
	<-done
}

// Run runs a command inside and returns what it printed; a failure ends the
// test.
func (n *NS) Run(name string, args ...string) string {
	n.t.Helper()
	out, err := n.Try(name, args...)
	if err != nil {
		n.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// Try is Run for commands that may fail. The error holds what the command said
// about it; warnings of one that succeeds are lost.
func (n *NS) Try(name string, args ...string) (out string, err error) {
	n.Do(func() {
		var stdout, stderr strings.Builder
		cmd := exec.Command(tool(name), args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err = cmd.Run(); err != nil {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
		}
		out = stdout.String()
	})
	return out, err
}

// Start runs a command inside until the end of the test.
func (n *NS) Start(name string, args ...string) {
	n.t.Helper()
	var buf bytes.Buffer
	cmd := exec.Command(tool(name), args...)
	cmd.Stdout, cmd.Stderr = &buf, &buf
	// Killed with the thread that started it, hence with the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	n.Do(func() { err = cmd.Start() })
	if err != nil {
		n.t.Fatalf("start %s: %v", name, err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if n.t.Failed() {
			n.t.Logf("%s said: %s", name, buf.String())
		}
	})
}

// Sysctl sets a sysctl inside; the key has slashes.
func (n *NS) Sysctl(key, value string) {
	n.t.Helper()
	var err error
	n.Do(func() { err = os.WriteFile("/proc/sys/"+key, []byte(value), 0) })
	if err != nil {
		n.t.Fatalf("set %s: %v", key, err)
	}
}

// ReadSysctl reads a sysctl inside.
func (n *NS) ReadSysctl(key string) (value string) {
	n.t.Helper()
	var b []byte
	var err error
	n.Do(func() { b, err = os.ReadFile("/proc/sys/" + key) })
	if err != nil {
		n.t.Fatalf("read %s: %v", key, err)
	}
	return strings.TrimSpace(string(b))
}

// Index returns the interface index of a link.
func (n *NS) Index(link string) int {
	n.t.Helper()
	out := n.Run("ip", "-o", "link", "show", "dev", link)
	head, _, _ := strings.Cut(out, ":")
	i, err := strconv.Atoi(head)
	if err != nil {
		n.t.Fatalf("index of %s in %q: %v", link, out, err)
	}
	return i
}

// Cable joins two namespaces by a veth pair, both ends up.
func Cable(a *NS, nameA string, b *NS, nameB string) {
	a.t.Helper()
	a.Run("ip", "link", "add", nameA, "type", "veth", "peer", "name", nameB, "netns", strconv.Itoa(b.tid))
	a.Run("ip", "link", "set", "dev", nameA, "up")
	b.Run("ip", "link", "set", "dev", nameB, "up")
}

// State prints links, addresses, routes and rules inside: equal texts mean
// equal states. Counters, ages, learned neighbours and kernel caches are not in it.
func (n *NS) State() string {
	n.t.Helper()
	var b strings.Builder
	b.WriteString(n.Run("ip", "-o", "link", "show"))
	for line := range strings.Lines(n.Run("ip", "-o", "-6", "addr", "show")) {
		f := strings.Fields(line)
		b.WriteString(strings.Join(f[:min(len(f), 6)], " ") + "\n")
	}
	for line := range strings.Lines(n.Run("ip", "-6", "route", "show", "table", "all")) {
		line, _, _ = strings.Cut(line, " expires ")
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	b.WriteString(n.Run("ip", "-6", "rule", "show"))
	return b.String()
}

// Radvd runs a router advertisement daemon inside with the given
// configuration, whose minimum interval bounds how soon it speaks, and returns
// a function that makes it read a new configuration.
func (n *NS) Radvd(config string) (reload func(config string)) {
	n.t.Helper()
	testutil.Need(n.t, "radvd")
	dir := n.t.TempDir()
	file, pid := filepath.Join(dir, "radvd.conf"), filepath.Join(dir, "pid")
	write := func(config string) {
		if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
			n.t.Fatalf("write radvd.conf: %v", err)
		}
	}
	write(config)
	n.Start("radvd", "-n", "-C", file, "-p", pid, "-m", "stderr")
	number := 0
	testutil.Eventually(n.t, 5*time.Second, func() bool {
		b, err := os.ReadFile(pid)
		if err == nil {
			number, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return number > 0
	}, "radvd wrote its process id")
	return func(config string) {
		write(config)
		if err := syscall.Kill(number, syscall.SIGHUP); err != nil {
			n.t.Fatalf("reload radvd: %v", err)
		}
	}
}

// tool finds a program also where ordinary accounts have no path to.
func tool(name string) string {
	if _, err := exec.LookPath(name); err == nil {
		return name
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if p, err := exec.LookPath(dir + "/" + name); err == nil {
			return p
		}
	}
	return name
}
