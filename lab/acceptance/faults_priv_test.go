package acceptance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam"
	"roam/internal/testutil"
	"roam/lab/node"
)

// TestFaults makes the mistakes of administrators: each is told with its place
// and a way out, and a daemon that runs is not disturbed.
func TestFaults(t *testing.T) {
	w := newWorld(t, "faults", 0, place{"mn", 1, true})
	mn := w.newHost("mn", settings{})
	w.sub("no daemon", func(t *testing.T) {
		_, diag, err := mn.command("session", "show")
		if exitStatus(err) != 3 || !strings.Contains(diag, "roam up") {
			t.Errorf("status %d: %s", exitStatus(err), diag)
		}
	})
	w.sub("a faulty configuration does not start", func(t *testing.T) { faultyStart(t, mn) })
	w.sub("not root", func(t *testing.T) { notRoot(t, w, mn) })
	w.sub("port 53 taken", func(t *testing.T) { portTaken(t, w, mn) })
	mn.write(settings{})
	mn.start()
	w.sub("a second daemon is refused", func(t *testing.T) {
		out, err := w.run("mn", binaries.Roamd, "--config", mn.Config)
		if exitStatus(err) != 1 || !strings.Contains(out, "another roamd runs") || !strings.Contains(out, "host.run_dir") {
			t.Errorf("status %d: %s", exitStatus(err), out)
		}
		if mn.status().State != "running" {
			t.Errorf("status after that: %+v", mn.status())
		}
	})
	w.sub("a faulty configuration is not loaded", func(t *testing.T) { faultyReload(t, mn) })
	w.sub("faulty hosts are not loaded", func(t *testing.T) { faultyHosts(t, mn) })
	w.sub("a good reload is", func(t *testing.T) {
		mn.write(settings{mode: "duality"})
		mn.roam("config", "reload")
		if mode := mn.status().Mode; mode != "duality" {
			t.Errorf("mode %s", mode)
		}
	})
	w.sub("resolv.conf of another network", func(t *testing.T) { resolverOverwritten(t, mn) })
	w.sub("names after a kill", func(t *testing.T) { namesAfterKill(t, w, mn) })
	w.sub("more hosts than there is room for", func(t *testing.T) { tooManyHosts(t, mn) })
}

// resolverOverwritten writes resolv.conf as a manager of links does in a new network.
func resolverOverwritten(t *testing.T, n *host) {
	file := n.Host.ResolvConf()
	if err := os.WriteFile(file, []byte("nameserver 192.0.2.53\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "nameserver "+node.Resolver.String())
	}, "applications ask the daemon again")
	testutil.Eventually(t, patience, func() bool {
		out, _, err := n.command("--json")
		return err == nil && strings.Contains(out, "192.0.2.53:53")
	}, "the daemon asks that network's server")
}

// namesAfterKill kills the daemon, with nothing there to start it again: the C
// library finds the names of others as before, and at once.
func namesAfterKill(t *testing.T, w *world, n *host) {
	const server, name, found = "127.0.0.99", "known.example.org", "192.0.2.7"
	var pc net.PacketConn
	err := n.Host.Do(func() (err error) { pc, err = net.ListenPacket("udp4", server+":53"); return err })
	if err != nil {
		t.Fatal(err)
	}
	testutil.ServeNames(t, pc, name, netip.MustParseAddr(found))
	if err := os.WriteFile(n.Host.ResolvConf(), []byte("nameserver "+server+"\noptions rotate\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, func() bool {
		out, _, err := n.command("--json")
		return err == nil && strings.Contains(out, server+":53")
	}, "the daemon asks that server")
	ask := func(when string) {
		began := time.Now()
		out, err := w.run(n.name, "getent", "--no-addrconfig", "ahostsv4", name)
		if err != nil || !strings.Contains(out, found) {
			t.Errorf("%s: %v, %q", when, err, out)
		}
		if out, err := w.run(n.name, "getent", "--no-addrconfig", "ahostsv4", "unknown.example.org"); exitStatus(err) != 2 {
			t.Errorf("%s, a name that does not exist: %v, %q", when, err, out)
		}
		took := time.Since(began)
		t.Logf("%s: two names took %v", when, took)
		if took > 2*time.Second { // a server that is waited for takes five
			t.Errorf("%s: two names took %v", when, took)
		}
	}
	ask("with the daemon")
	n.signal(syscall.SIGKILL)
	ask("after it was killed")
	n.start()
	ask("with the next one")
}

// exitStatus is 0 for no error and -1 where there is none.
func exitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// faultyConfigs are whole files; line is where the fault is, word what the
// message has to say.
var faultyConfigs = []struct {
	text string
	line int
	word string
}{
	{"[host]\nmode = \"sfot\"\n", 2, "soft"},
	{"[host]\nmoed = \"soft\"\n", 2, "mode"},
	{"[hots]\nmode = \"soft\"\n", 1, "host"},
	{"# first\n[host]\nmode = 3\n", 3, "soft"},
	{"[host]\nmode = \"soft\"\nmode = \"hard\"\n", 3, "mode"},
	{"[host]\nmode = soft\n", 2, ""},
	{"[host\n", 1, ""},
	{"[host]\nnid = \"1:2:3\"\n", 2, "from-address"},
	{"[host]\nnid = \"0200:0:0:1\"\n", 2, "universal"},
	{"[host]\nsession_prefix = \"fd00::/64\"\n", 2, "nearest"},
	{"[host]\nsession_prefix = \"2001:db8::/64\"\n", 2, "fc00::/7"},
	{"[host]\nrun_dir = \"run\"\n", 2, "absolute"},
	{"[dns]\nlisten = \"192.0.2.1:53\"\n", 2, "loopback"},
	{"[dns]\nupstream = [\"nowhere\"]\n", 2, "address"},
	{"[ilnp]\nnonce_length = 8\n", 2, "12"},
	{"[ilnp]\nidle_timeout = \"soon\"\n", 2, ""},
	{"[role]\nrun = [\"hosst\"]\n", 2, "there is no role \"hosst\""},
	{"[host]\nmode = \"soft\"\n[role]\nrun = []\n", 4, "a daemon needs a role"},
	{"[role]\nrun = [\"host\", \"host\"]\n", 2, "listed twice"},
}

func faultyStart(t *testing.T, n *host) {
	file := filepath.Join(n.Host.Dir(), "faulty.conf")
	for i, c := range faultyConfigs {
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s:%d", file, c.line)
		said := map[string]string{}
		_, diag, err := n.command("config", "check", file)
		if said["config check"] = diag; exitStatus(err) != 1 {
			t.Errorf("config check of %q: status %d", c.text, exitStatus(err))
		}
		if i%4 == 0 { // the same code: a few will do
			out, err := n.w.run(n.name, binaries.Roamd, "--config", file)
			if said["roamd"] = out; exitStatus(err) != 1 {
				t.Errorf("roamd with %q: status %d", c.text, exitStatus(err))
			}
		}
		for who, message := range said {
			if !strings.Contains(message, want) || !strings.Contains(message, c.word) {
				t.Errorf("%s of %q says %q, without %q or %q", who, c.text, message, want, c.word)
			}
		}
	}
}

// faultyReload puts faulty files in the place of the one in force.
func faultyReload(t *testing.T, n *host) {
	good, err := os.ReadFile(n.Config)
	if err != nil {
		t.Fatal(err)
	}
	before := n.status()
	for _, c := range []string{"mode = \"sfot\"", "nonsense = 1", "[[[", "\x00", "role.run = [\"hosst\"]"} {
		if err := os.WriteFile(n.Config, append([]byte(c+"\n"), good...), 0o644); err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(n.RunDir(), "control.sock")
		_, diag, err := n.command("--socket", socket, "config", "reload")
		if exitStatus(err) != 1 || !strings.Contains(diag, n.Config+":1") {
			t.Errorf("reload with %q: status %d: %s", c, exitStatus(err), diag)
		}
	}
	if err := os.WriteFile(n.Config, good, 0o644); err != nil {
		t.Fatal(err)
	}
	untouched(t, n, before)
}

func untouched(t *testing.T, n *host, before node.Status) {
	t.Helper()
	after := n.status()
	if after.PID != before.PID || after.Mode != before.Mode || after.State != before.State || !slices.Equal(n.active(), []string{"net1"}) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func faultyHosts(t *testing.T, n *host) {
	before := n.status()
	for _, c := range []struct{ line, word string }{
		{"1000-0-0-1.2001+db8+1", "locator"},
		{"1000-0-0-1.2001+db8+1+1", "name"},
		{"nonsense", "nid="},
		{"nid=1000:0:0:1 l64=ff02:0:0:1 multicast", "ff02"},
		{"nid=1000:0:0:1 l64=fe80:0:0:0 linklocal", "fe80"},
		{"nid=1000:0:0:1 l64=2001:db8:1:1,70000 preference", "65535"},
		{"nid=1000:0:0:1 l64=2001:db8:1:1 checksum=md5 host", "rfc6741"},
		{"nid=1000:0:0:1 colour=red host", "unknown option"},
		{"nid=1000:0:0:1 a_name_with_a_space_ after=1", "names come last"},
		{"nid=0:0:0:0 host", "anycast"},
		{"nid=1000:0:0:1 l64=2001:db8:1:1 one\nnid=1000:0:0:2 l64=2001:db8:1:2 one", "another name"},
	} {
		line := 2 + strings.Count(c.line, "\n")
		if err := os.WriteFile(n.Hosts(), []byte("# a comment\n"+c.line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, diag, err := n.command("config", "reload")
		if exitStatus(err) != 1 || !strings.Contains(diag, fmt.Sprintf("%s:%d", n.Hosts(), line)) || !strings.Contains(diag, c.word) {
			t.Errorf("reload with %q: status %d: %s", c.line, exitStatus(err), diag)
		}
	}
	untouched(t, n, before)
	n.write(settings{})
	n.roam("config", "reload")
}

// tooManyHosts starts the daemon with one known correspondent more than may open
// sessions: it says so, and serves the others.
func tooManyHosts(t *testing.T, n *host) {
	const room = 256
	var hosts strings.Builder
	for i := range room + 1 {
		fmt.Fprintf(&hosts, "nid=%s l64=2001:db8:c0:%x host%d\n", roam.NID(0x1000_0000_0001_0000+i), i, i)
	}
	n.signal(syscall.SIGTERM)
	n.write(settings{accept: "known", hosts: hosts.String(), more: fmt.Sprintf("[ilnp]\nmax_sessions = %d\n", room)})
	n.start()
	out, _, err := n.command("--json")
	if err != nil || strings.Count(out, "raise ilnp.max_sessions") != 1 {
		t.Errorf("no warning: %v, %s", err, out)
	}
	added, said, err := n.command("add", "nid=1000:0000:0002:0000 l64=2001:db8:c1:0 beyond")
	if err != nil || !strings.Contains(added, "reached as") || !strings.Contains(said, "raise ilnp.max_sessions") {
		t.Errorf("one more is added: %v, %q, %q", err, added, said)
	}
}

// notRoot runs the programs under an account without rights.
func notRoot(t *testing.T, w *world, n *host) {
	nobody := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"}
	for _, argv := range [][]string{
		{binaries.Roamd, "--config", n.Config}, {binaries.Roam, "--config", n.Config, "up"}, {binaries.Roam, "--config", n.Config, "down"},
	} {
		out, err := w.run(n.name, append(slices.Clone(nobody), argv...)...)
		if exitStatus(err) != 1 || !strings.Contains(out, "root") {
			t.Errorf("%v: status %d: %s", argv[1:], exitStatus(err), out)
		}
	}
	if _, err := os.Stat(n.RunDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made in the run directory (%v)", err)
	}
}

// portTaken starts the daemon while another resolver holds its port.
func portTaken(t *testing.T, w *world, n *host) {
	const hold = `import signal, socket, sys
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((sys.argv[1], 53))
s = socket.socket(); s.bind((sys.argv[1], 53)); s.listen()
print("ready", flush=True); signal.pause()`
	testutil.Need(t, "python3")
	c := w.hosts["mn"].Command(w.within(time.Minute), "python3", "-c", hold, node.Resolver.String())
	out := &said{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, func() bool { return strings.Contains(out.text(), "ready") }, "another resolver")
	n.start()
	s := n.status()
	if s.State != "degraded" || len(s.Warnings) == 0 || !strings.Contains(strings.Join(s.Warnings, " "), node.Resolver.String()+":53") {
		t.Errorf("status %+v", s)
	}
	t.Logf("warnings: %q", s.Warnings)
	_ = c.Process.Kill()
	_ = c.Wait()
	n.down()
}
