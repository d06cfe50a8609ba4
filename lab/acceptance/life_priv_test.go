package acceptance

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
)

// TestLife starts, kills and removes daemons: sessions survive the one, the
// host is as it was after the other.
func TestLife(t *testing.T) {
	needs(t, "curl", "bpftool")
	w := newWorld(t, "life", 2*time.Millisecond, place{"mn", 2, true}, place{"cn", 1, false})
	w.serve(t, "cn", 8080)
	before := map[string][]string{"mn": settledState(t, w, "mn"), "cn": settledState(t, w, "cn")}
	mn, cn := w.newHost("mn", settings{}).start(), w.newHost("cn", settings{}).start()
	w.sub("only our own prefix is routed anew", func(t *testing.T) { ownRoutes(t, w, before["mn"]) })
	w.sub("kill -9 and restart under load", func(t *testing.T) { restart(t, w, mn, cn, syscall.SIGKILL, 7100) })
	w.sub("SIGTERM and restart under load", func(t *testing.T) { restart(t, w, mn, cn, syscall.SIGTERM, 7110) })
	w.sub("kill -9 of the other end", func(t *testing.T) { restart(t, w, cn, mn, syscall.SIGKILL, 7120) })
	w.sub("a host rebooted can be reached by name again", func(t *testing.T) {
		for _, lose := range []func(*host) error{
			func(n *host) error { return n.Forget() },
			func(n *host) error { return n.Reboot() }, // with the record of its sessions
		} {
			rebooted(t, w, cn, lose)
			rebooted(t, w, mn, lose)
		}
	})
	w.sub("a state file of garbage is no obstacle", func(t *testing.T) { garbage(t, w, mn) })
	w.sub("down gives the host back", func(t *testing.T) {
		mn.down()
		unchanged(t, w, before["mn"], mn)
	})
	w.sub("a start that fails changes nothing", func(t *testing.T) { failedStart(t, w, mn, before["mn"]) })
	w.sub("down after kill -9 gives the host back", func(t *testing.T) {
		cn.signal(syscall.SIGKILL)
		cn.roam("down")
		unchanged(t, w, before["cn"], cn)
		cn.roam("down") // a second time without effect is no fault
	})
	w.sub("up starts a daemon of its own, down ends it", func(t *testing.T) { upDown(t, w, mn, before["mn"]) })
}

// volatile matches values that change by themselves: remaining lifetimes, kernel
// counts, and the congestion controls of all daemons of the machine.
var volatile = regexp.MustCompile(` (expires \d+sec|valid_lft \w+|preferred_lft \w+|roam[0-9a-f]{8}\b)|` +
	`^/proc/sys/net/netfilter/nf_conntrack_count.*$`)

// settledState is hostState when duplicate detection is over: what it changes is
// not ours.
func settledState(t *testing.T, w *world, name string) []string {
	t.Helper()
	testutil.Eventually(t, patience, func() bool {
		return !strings.Contains(w.must(name, "ip", "-o", "addr"), "tentative")
	}, "duplicate detection goes on on "+name)
	return hostState(w, name)
}

// hostState lists links, addresses, routes, rules, network sysctls and the
// resolver file of a host, one a line.
func hostState(w *world, name string) []string {
	w.t.Helper()
	var all strings.Builder
	for _, argv := range [][]string{
		{"ip", "-o", "-d", "link"}, {"ip", "-o", "addr"}, {"ip", "-6", "route", "show", "table", "all"},
		{"ip", "-4", "route", "show", "table", "all"}, {"ip", "-6", "rule"}, {"cat", "/etc/resolv.conf"}, {"bpftool", "net"},
	} {
		all.WriteString(w.must(name, argv...))
	}
	// Not every one of them can be read.
	out, _ := w.run(name, "grep", "-rs", ".", "/proc/sys/net")
	all.WriteString(out)
	var lines []string
	for line := range strings.Lines(all.String()) {
		if line = strings.TrimSpace(volatile.ReplaceAllString(line, "")); line != "" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// differences lists what is gone (-) and what is new (+).
func differences(before, after []string) (out []string) {
	for _, l := range before {
		if !slices.Contains(after, l) {
			out = append(out, "- "+l)
		}
	}
	for _, l := range after {
		if !slices.Contains(before, l) {
			out = append(out, "+ "+l)
		}
	}
	return out
}

// unchanged waits until the host is as before, and checks the files left in the run
// directory.
func unchanged(t *testing.T, w *world, before []string, n *host) {
	t.Helper()
	var diff []string
	if !testutil.Wait(3*time.Second, func() bool {
		diff = differences(before, hostState(w, n.name))
		return len(diff) == 0
	}) {
		t.Errorf("%s is not as it was:\n%s", n.name, strings.Join(diff, "\n"))
	}
	unmounted(t, n)
}

// unmounted fails the test if a daemon that was removed has left files or mounts.
func unmounted(t *testing.T, n *host) {
	t.Helper()
	var left []string
	_ = filepath.WalkDir(n.RunDir(), func(path string, d os.DirEntry, err error) error {
		// The lock is an empty file that the next start takes; the log is
		// what an administrator reads after a failure.
		if err == nil && !d.IsDir() && d.Name() != "lock" && d.Name() != "roamd.log" {
			left = append(left, path)
		}
		return nil
	})
	if len(left) > 0 {
		t.Errorf("left in the run directory: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), n.RunDir()) {
		t.Errorf("still mounted below %s (%v)", n.RunDir(), err)
	}
}

// ownRoutes looks at the routing tables while Roam is up: no line is gone, and
// what is new lies in the session prefix, on the session device, or is the
// kernel's own entry for prefix:NID.
func ownRoutes(t *testing.T, w *world, before []string) {
	now := w.must("mn", "ip", "-6", "route", "show", "table", "all")
	for line := range strings.Lines(now) {
		line = strings.TrimSpace(volatile.ReplaceAllString(line, ""))
		ours := strings.Contains(line, "fd69:6c6e:7000:2627:") || strings.Contains(line, " roam0")
		for n := 1; n <= 2; n++ {
			a := w.wire("mn", n).String()
			ours = ours || strings.HasPrefix(line, "local "+a+" ")
		}
		if !slices.Contains(before, line) && !ours {
			t.Errorf("new route: %s", line)
		}
	}
	for _, line := range before {
		if strings.Contains(line, " via ") && strings.Contains(line, "dev net") &&
			!strings.Contains(now, strings.Fields(line)[0]) {
			t.Errorf("route gone: %s", line)
		}
	}
}

// identity is what must be the same after a restart.
type identity struct {
	NID      roam.NID
	Address  netip.Addr
	State    string
	Since    time.Time
	Locators []roam.L64
}

func identityOf(n *host) (list []identity) {
	for _, s := range n.sessions() {
		id := identity{NID: s.NID, Address: s.Address, State: s.State, Since: s.Since}
		for _, l := range s.Locators {
			id.Locators = append(id.Locators, l.L64)
		}
		slices.Sort(id.Locators)
		list = append(list, id)
	}
	return list
}

// restart ends the daemon of one end under load, lets the load run on without
// it, and starts it again.
func restart(t *testing.T, w *world, n, other *host, how syscall.Signal, port int) {
	began := time.Now()
	u := w.udp(t, "mn", "cn", "cn", port, 1000)
	n.reaches(other.name, "established")
	was, _ := json.Marshal(identityOf(n))
	received := n.with(other.name).RxPackets
	n.signal(how)
	flows(t, u, 1500)
	n.start()
	flows(t, u, 1500)
	if now, _ := json.Marshal(identityOf(n)); string(now) != string(was) {
		t.Errorf("session before: %s\nsession after: %s", was, now)
	}
	if s := n.with(other.name); s.RxPackets < received+3000 || s.Dead {
		t.Errorf("counters did not go on: %d packets received, then %d", received, s.RxPackets)
	}
	if !n.status().Plane.Adopted {
		t.Error("the data plane was made anew")
	}
	w.lossless(t, u, began)
}

// rebooted takes state from a host and starts it again; the other end
// still has its session. A new connection by name has to work soon.
func rebooted(t *testing.T, w *world, n *host, lose func(*host) error) {
	w.must("mn", "curl", "-6", "-sSf", "-o", "/dev/null", "http://cn:8080/")
	n.signal(syscall.SIGKILL)
	n.roam("down")
	if err := lose(n); err != nil {
		t.Fatal(err)
	}
	n.start()
	began := time.Now()
	testutil.Eventually(t, patience, func() bool {
		_, err := w.run("mn", "curl", "-6", "-sSf", "--max-time", "10", "-o", "/dev/null", "http://cn:8080/")
		return err == nil
	}, "a connection by name after "+n.name+" was rebooted")
	took := time.Since(began)
	t.Logf("%s rebooted: a connection by name took %v", n.name, took.Round(time.Millisecond))
	n.reaches(map[string]string{"mn": "cn", "cn": "mn"}[n.name], "established")
	if took > 4*time.Second { // the claim is 2 s; a busy machine gets twice that
		t.Errorf("a connection by name took %v", took)
	}
}

// garbage damages what the daemon left for its successor: without its sessions
// that starts clean; without the record of what was changed on the host it says
// where and what to do, and touches nothing.
func garbage(t *testing.T, w *world, n *host) {
	sessions, journal := filepath.Join(n.RunDir(), "sessions"), filepath.Join(n.RunDir(), "host.json")
	n.signal(syscall.SIGTERM)
	kept := map[string][]byte{}
	for _, file := range []string{sessions, journal} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kept[file] = b
	}
	put := func(file string, b []byte) {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, damaged := range [][]byte{[]byte("\x00\xff{{not a state"), {}, kept[journal][:len(kept[journal])/2]} {
		put(journal, damaged)
		out, err := w.run(n.name, binaries.Roamd, "--config", n.Config)
		if err == nil || !strings.Contains(out, journal) || !strings.Contains(out, "remove the file") {
			t.Errorf("start with a damaged journal: %v: %s", err, out)
		}
	}
	put(journal, kept[journal])
	for _, damaged := range [][]byte{[]byte("\x00\xff{{not a state"), {}, kept[sessions][:len(kept[sessions])/2]} {
		put(sessions, damaged)
		n.start()
		testutil.Eventually(t, patience, func() bool {
			_, err := w.run("mn", "curl", "-6", "-sSf", "--max-time", "10", "-o", "/dev/null", "http://cn:8080/")
			return err == nil
		}, "a connection by name after a start with damaged sessions")
		n.signal(syscall.SIGTERM)
	}
	n.start()
}

// upDown uses the verbs of the command line alone.
func upDown(t *testing.T, w *world, n *host, before []string) {
	var up struct {
		PID     int  `json:"pid"`
		Already bool `json:"already"`
	}
	if err := n.AskFor(t.Context(), &up, "up"); err != nil || up.PID == 0 || up.Already {
		t.Fatalf("up: %v, %+v", err, up)
	}
	testutil.Eventually(t, patience, func() bool { return len(n.active()) > 0 }, "an active locator after up")
	if err := n.AskFor(t.Context(), &up, "up"); err != nil || !up.Already {
		t.Errorf("up again: %v, %+v", err, up)
	}
	n.roam("down")
	unchanged(t, w, before, n)
}

// failedStart keeps the daemon from loading its programs: something else lies
// where it pins one of its tables.
func failedStart(t *testing.T, w *world, n *host, before []string) {
	pins := filepath.Join(n.RunDir(), "bpf")
	if err := os.MkdirAll(pins, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("bpffs", pins, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(pins, "ilnp", "sessions"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := n.Host.Command(n.w.within(patience), binaries.Roamd, "--config", n.Config).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "map sessions") {
		t.Errorf("start without its tables: %v: %s", err, out)
	}
	if diff := differences(before, hostState(w, n.name)); len(diff) > 0 {
		t.Errorf("%s is not as it was:\n%s", n.name, strings.Join(diff, "\n"))
	}
	n.roam("down") // what the test itself made
	unchanged(t, w, before, n)
}
