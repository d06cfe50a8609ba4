// Package testutil holds the few helpers that tests with effects share: asking
// for privileges and tools by name, and waiting on a condition instead of
// sleeping for a guessed time.
//
// It implements skips that can be counted and forbidden: a test that lacks
// something skips and names what it lacks, and where ROAM_EXPECT_ALL=1 is set
// (a machine known to be complete) the same test fails instead. It omits
// everything about topologies, which belongs to lab/topo. It is driven by
// tests only.
package testutil

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// ExpectAll names the environment variable that turns every skip of this
// package into a failure when it is "1".
const ExpectAll = "ROAM_EXPECT_ALL"

// The pause between two looks at a condition is a tenth of the wait so far,
// within these bounds: short against what is waited for, and long enough to
// leave the processor to it, as a look may start a program.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 100 * time.Millisecond
)

// NeedRoot skips the test unless it runs as root, or fails it where
// everything is expected.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		lack(t, "root")
	}
}

// Need skips the test unless the machine has what name says, or fails it
// where everything is expected. A name is one of:
//
//	a path        "/dev/net/tun": the file exists
//	"cgroup2"     a cgroup2 hierarchy is mounted
//	"netns"       this process may create a network namespace (it is root)
//	"ipv6"        the kernel has IPv6
//	a tool        "radvd": found in PATH or in the sbin directories
func Need(t testing.TB, name string) {
	t.Helper()
	if !has(name) {
		lack(t, name)
	}
}

// NeedKernel skips the test unless the kernel has what name says; has is the
// result of trying it. The skip is no failure where everything is expected: a
// machine can be completed with packages, its kernel cannot. It is one where the environment
// says that this kernel has it (ROAM_KERNEL_HAS, names with spaces between them).
func NeedKernel(t testing.TB, name string, has bool) {
	t.Helper()
	if !has && slices.Contains(strings.Fields(os.Getenv("ROAM_KERNEL_HAS")), name) {
		t.Fatalf("this kernel has %s, but it does not work", name)
	}
	if !has {
		t.Skipf("needs a kernel with %s", name)
	}
}

// NeedEnv returns the value of an environment variable by which a test is given what
// no machine has by itself, as what says; it skips the test where the variable is not
// set, also where everything is expected.
func NeedEnv(t testing.TB, name, what string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skipf("needs %s, %s", name, what)
	}
	return value
}

// Eventually waits until ok returns true and fails the test with msg when it
// has not within deadline. It looks at once, then again and again at growing
// distances, and a last time at the deadline, so that a slow machine gets a fair
// answer.
func Eventually(t testing.TB, deadline time.Duration, ok func() bool, msg string) {
	t.Helper()
	if !Wait(deadline, ok) {
		t.Fatalf("not within %v: %s", deadline, msg)
	}
}

// Wait is Eventually for callers that want to go on: it reports whether ok
// returned true within deadline.
func Wait(deadline time.Duration, ok func() bool) bool {
	begin := time.Now()
	for {
		if ok() {
			return true
		}
		waited := time.Since(begin)
		if waited >= deadline {
			return false
		}
		pause := min(max(waited/10, shortestPause), longestPause, deadline-waited)
		<-time.After(pause)
	}
}

// lack is the single place where a test is skipped, so that the skip always
// carries the same words and can be searched for.
func lack(t testing.TB, what string) {
	t.Helper()
	msg := fmt.Sprintf("needs %s", what)
	if os.Getenv(ExpectAll) == "1" {
		t.Fatalf("%s (and %s=1 forbids to skip)", msg, ExpectAll)
	}
	t.Skip(msg)
}

// has answers Need.
func has(name string) bool {
	switch {
	case strings.HasPrefix(name, "/"):
		_, err := os.Stat(name)
		return err == nil
	case name == "cgroup2":
		b, err := os.ReadFile("/proc/self/mountinfo")
		return err == nil && strings.Contains(string(b), " - cgroup2 ")
	case name == "netns":
		return os.Geteuid() == 0
	case name == "ipv6":
		_, err := os.Stat("/proc/net/if_inet6")
		return err == nil
	}
	return hasTool(name)
}

// hasTool looks in PATH, and in the sbin directories that the PATH of an
// ordinary account leaves out.
func hasTool(name string) bool {
	if _, err := exec.LookPath(name); err == nil {
		return true
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if _, err := exec.LookPath(dir + "/" + name); err == nil {
			return true
		}
	}
	return false
}
