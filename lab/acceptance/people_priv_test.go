package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/testutil"
)

// TestPeople gives Roam what people give it: lines that contradict others, lines with
// slips, and files that change while no daemon runs.
func TestPeople(t *testing.T) {
	needs(t, "getent", "curl")
	w := newWorld(t, "people", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false}, place{"again", 1, false})
	for _, name := range w.names() {
		w.echo(t, name, 7007)
	}
	mn := w.newHost("mn", settings{accept: "known", hosts: "# nobody\n",
		more: "[metrics]\nlisten = \"127.0.0.1:9643\"\n"}).start()
	cn := w.newHost("cn", settings{accept: "known", hosts: w.hostsFile("mn")}).start()
	w.newHost("again", settings{accept: "known", hosts: w.hostsFile("mn")}).start()
	w.sub("a reinstalled peer", func(t *testing.T) { reinstalled(t, w, mn) })
	w.sub("names that mean something else", func(t *testing.T) { meanings(t, w, mn) })
	w.sub("rename and remove", func(t *testing.T) { renamed(t, w, mn, cn) })
	w.sub("faulty lines are skipped and shown", func(t *testing.T) { skipped(t, w, mn) })
	w.sub("SIGHUP reloads", func(t *testing.T) { hungUp(t, w, mn) })
	w.sub("a line is spoilt beside a session", func(t *testing.T) { spoilt(t, w, mn) })
}

// TestFilesChangeWhileNoDaemonRuns has the next daemon follow what the files say by then,
// and not what its predecessor knew.
func TestFilesChangeWhileNoDaemonRuns(t *testing.T) {
	needs(t, "getent")
	w := newWorld(t, "meanwhile", 2*time.Millisecond, place{"mn", 1, true}, place{"cn", 1, false})
	for _, name := range w.names() {
		w.echo(t, name, 7007)
	}
	mn := w.newHost("mn", settings{accept: "known", hosts: w.hostsFile("cn")}).start()
	cn := w.newHost("cn", settings{accept: "known", hosts: w.hostsFile("mn")}).start()
	w.sub("a peer is removed", func(t *testing.T) { removedMeanwhile(t, w, mn, cn) })
	w.sub("a peer is added", func(t *testing.T) {
		mn.signal(syscall.SIGTERM)
		put(t, mn.Hosts(), []byte(w.hostsFile("cn")))
		mn.start()
		w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "hello")
		mn.reaches("cn", "established")
	})
	w.sub("a line changes", func(t *testing.T) { changedMeanwhile(t, w, mn, cn) })
}

// line is what `roam add` is given for a host of the world, under another name.
func (w *world) line(name, as string) string {
	return strings.Replace(strings.TrimSpace(w.hostsFile(name)), " "+name, " "+as, 1)
}

// peersFile is the file of added peers of a host.
func (h *host) peersFile() string { return filepath.Join(h.Host.Dir(), "state", "peers") }

// resolved returns the address that an application gets for a name.
func resolved(w *world, from, name string) string {
	out, _ := w.run(from, "getent", "ahostsv6", name)
	address, _, _ := strings.Cut(out, " ")
	return address
}

// resolves waits until applications get that address for a name; "": none.
func resolves(t *testing.T, w *world, from, name, address string) {
	t.Helper()
	testutil.Eventually(t, patience, func() bool { return resolved(w, from, name) == address },
		fmt.Sprintf("%s is %q on %s", name, address, from))
}

// undecided runs a command that has to leave a choice to the user.
func (h *host) undecided(t *testing.T, ways []string, args ...string) {
	t.Helper()
	before, _ := os.ReadFile(h.peersFile())
	out, diag, err := h.command(args...)
	if exitStatus(err) != 2 || out != "" {
		t.Errorf("roam %s: status %d: %s%s", strings.Join(args, " "), exitStatus(err), out, diag)
	}
	for _, way := range ways {
		if !strings.Contains(diag, way) {
			t.Errorf("roam %s says %q, without %q", strings.Join(args, " "), diag, way)
		}
	}
	if after, _ := os.ReadFile(h.peersFile()); string(after) != string(before) {
		t.Errorf("roam %s has written:\n%s", strings.Join(args, " "), after)
	}
}

// reinstalled adds a peer, and then the same name with the identifier that it has after
// it was installed anew: the daemon starts whatever was said.
func reinstalled(t *testing.T, w *world, mn *host) {
	mn.roam("add", w.line("cn", "server"))
	resolves(t, w, "mn", "server", w.session("cn").String())
	mn.undecided(t, []string{"means node", "--replace", "--as NAME"}, "add", w.line("again", "server"))
	resolves(t, w, "mn", "server", w.session("cn").String())
	mn.signal(syscall.SIGTERM)
	mn.start()
	resolves(t, w, "mn", "server", w.session("cn").String())

	mn.roam("add", "--replace", w.line("again", "server"))
	resolves(t, w, "mn", "server", w.session("again").String())
	w.talk(t, "mn", "tcp6", "server", 7007).echoed(t, "hello")
	mn.signal(syscall.SIGTERM)
	mn.start()
	if s := mn.status(); s.State != "running" {
		t.Errorf("after a restart: %s, %v", s.State, s.Warnings)
	}
	resolves(t, w, "mn", "server", w.session("again").String())
	if b, _ := os.ReadFile(mn.peersFile()); strings.Contains(string(b), w.nid("cn").String()) {
		t.Errorf("the node that has lost its only name is kept:\n%s", b)
	}
	mn.roam("remove", w.nid("again").String())
	resolves(t, w, "mn", "server", "")
}

// meanings adds names that should not be taken unasked.
func meanings(t *testing.T, w *world, mn *host) {
	for _, name := range []string{"localhost", "ip6-localhost", "localdomain", "www.example.com"} {
		mn.undecided(t, []string{name, "--as NAME", "--force"}, "add", w.line("cn", name))
	}
	host, err := os.Hostname() // the hosts of the lab share it
	if err != nil {
		t.Fatal(err)
	}
	mn.undecided(t, []string{"the name of this host", "--as NAME", "--force"}, "add", w.line("cn", host))
	if got := resolved(w, "mn", "localhost"); got != "::1" && got != "" {
		t.Errorf("localhost is %s", got)
	}
	mn.roam("add", "--as", "cn", w.line("cn", "www.example.com"))
	resolves(t, w, "mn", "cn", w.session("cn").String())
	if got := resolved(w, "mn", "www.example.com"); got != "" {
		t.Errorf("www.example.com is %s", got)
	}
	mn.roam("add", "--force", w.line("cn", "www.example.com"))
	resolves(t, w, "mn", "www.example.com", w.session("cn").String())
	// It has that name now, so that a newer line of it is taken as it is.
	mn.roam("add", w.line("cn", "www.example.com"))
	mn.roam("remove", "www.example.com")
}

// renamed gives a peer with a live connection another name, and removes it then.
func renamed(t *testing.T, w *world, mn, cn *host) {
	mn.roam("add", strings.Replace(w.line("cn", "server"), " server", " anywhere=yes server", 1))
	c := w.talk(t, "mn", "tcp6", "server", 7007)
	c.echoed(t, "hello")
	mn.reaches("cn", "established")
	mn.roam("rename", "server", "nas")
	resolves(t, w, "mn", "nas", w.session("cn").String())
	resolves(t, w, "mn", "server", "")
	c.echoed(t, "still-here")
	if s := mn.with("nas"); s.State != "established" || !slices.Equal(s.Names, []string{"nas"}) {
		t.Errorf("session %+v", s)
	}
	var shown []struct {
		NID     string
		Names   []string
		Options []string
		State   string
		Written []struct {
			File string
			Line int
		}
	}
	if err := mn.AskFor(t.Context(), &shown, "peer", "show", "nas"); err != nil || len(shown) != 1 {
		t.Fatalf("peer show: %v, %+v", err, shown)
	}
	p := shown[0]
	if p.NID != w.nid("cn").String() || p.State != "established" || !slices.Equal(p.Options, []string{"anywhere=yes"}) ||
		len(p.Written) != 1 || p.Written[0].File != mn.peersFile() {
		t.Errorf("peer show: %+v", p)
	}
	mn.roam("remove", "nas")
	resolves(t, w, "mn", "nas", "")
	notAdmitted(t, w, mn, cn)
	if _, diag, err := mn.command("remove", "nas"); exitStatus(err) != 1 || !strings.Contains(diag, "peer show") {
		t.Errorf("remove again: %d, %s", exitStatus(err), diag)
	}
}

// notAdmitted makes a host with fresh state connect to mn: it gets plain IPv6, and reports
// so.
func notAdmitted(t *testing.T, w *world, mn, other *host) {
	t.Helper()
	other.down()
	other.start()
	w.talk(t, other.name, "tcp6", "mn", 7007).echoed(t, "newcomer")
	other.reaches("mn", "plain")
	for _, s := range mn.sessions() {
		if s.Address == w.session(other.name) {
			t.Errorf("mn has %+v", s)
		}
	}
}

// skipped starts the daemon with lines that cannot be used, also such as an older
// `roam add` wrote: the others hold.
func skipped(t *testing.T, w *world, mn *host) {
	mn.signal(syscall.SIGTERM)
	hosts := fmt.Sprintf("nid=%s l64=nowhere typo\n%s", w.nid("again"), w.hostsFile("cn"))
	put(t, mn.Hosts(), []byte(hosts))
	put(t, mn.peersFile(), []byte("nid=1000:0:0:1 l64=2001:db8:1:1 twice\nnid=1000:0:0:2 l64=2001:db8:1:1 twice\n"))
	mn.start()
	resolves(t, w, "mn", "cn", w.session("cn").String())
	w.talk(t, "mn", "tcp6", "cn", 7007).echoed(t, "hello")
	first, second := mn.Hosts()+":1", mn.peersFile()+":2"
	s := mn.status()
	if s.State != "degraded" || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "2 lines") ||
		!strings.Contains(s.Warnings[0], first) {
		t.Errorf("status: %s, %q", s.State, s.Warnings)
	}
	if _, diag, err := mn.command("config", "check"); exitStatus(err) != 1 || !strings.Contains(diag, first+": ") ||
		!strings.Contains(diag, second+": ") {
		t.Errorf("config check: %d, %s", exitStatus(err), diag)
	}
	if out, _, _ := mn.command("doctor"); !strings.Contains(out, first+": ") || !strings.Contains(out, second+": ") {
		t.Errorf("doctor: %s", out)
	}
	if log, err := os.ReadFile(mn.Log); err != nil || !strings.Contains(string(log), "at="+first) ||
		!strings.Contains(string(log), "at="+second) {
		t.Errorf("the log does not name both lines: %v", err)
	}
	if out := w.must("mn", "curl", "-sS", "http://127.0.0.1:9643/metrics"); !strings.Contains(out,
		"\nroam_skipped_lines 2\n") {
		t.Errorf("metrics: %s", out)
	}
	// The node of a line that was added goes by its identifier, and with it the fault.
	mn.roam("remove", "1000:0:0:2")
	put(t, mn.Hosts(), []byte(w.hostsFile("cn")))
	mn.roam("config", "reload")
	if s := mn.status(); s.State != "running" {
		t.Errorf("of good lines: %s, %q", s.State, s.Warnings)
	}
	mn.roam("config", "check")
	mn.roam("remove", "twice")
}

// hungUp sends the daemon SIGHUP, by which many daemons read their files again: it goes on with the files of now.
func hungUp(t *testing.T, w *world, mn *host) {
	put(t, mn.Hosts(), []byte(w.hostsFile("cn")+w.line("again", "fresh")+"\n"))
	pid := mn.status().PID
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, patience, func() bool { return mn.Over() || resolved(w, "mn", "fresh") != "" },
		"the new name")
	if s := mn.status(); mn.Over() || s.PID != pid || s.State != "running" {
		t.Errorf("after SIGHUP to %d: %+v", pid, s)
	}
}

// spoilt puts a fault into the line of a peer with a live connection, and takes one out of another line: neither a
// reload nor a command about another peer ends the session.
func spoilt(t *testing.T, w *world, mn *host) {
	mn.signal(syscall.SIGTERM)
	put(t, mn.Hosts(), []byte("what\n"+w.hostsFile("cn")))
	mn.start()
	c := w.talk(t, "mn", "tcp6", "cn", 7007)
	c.echoed(t, "hello")
	mn.reaches("cn", "established")
	since := mn.with("cn").Since
	option := strings.Replace(w.hostsFile("cn"), " cn", " bogus=1 cn", 1)
	for word, line := range map[string]string{"option": option, "identifier": "nid=1:2:3 cn\n"} {
		put(t, mn.Hosts(), []byte(line))
		_, diag, err := mn.command("config", "reload")
		if exitStatus(err) != 1 || !strings.Contains(diag, "nothing was changed") {
			t.Errorf("reload with a bad %s: %d, %s", word, exitStatus(err), diag)
		}
		mn.roam("add", w.line("again", "server"))
		mn.roam("rename", "server", "nas")
		mn.roam("remove", "nas")
		resolves(t, w, "mn", "nas", "")
		resolves(t, w, "mn", "cn", w.session("cn").String())
		c.echoed(t, word)
	}
	put(t, mn.Hosts(), []byte(w.hostsFile("cn")))
	mn.roam("config", "reload")
	c.echoed(t, "corrected")
	if s := mn.with("cn"); s.Since != since || mn.status().State != "running" {
		t.Errorf("session %+v, before since %v; status %+v", s, since, mn.status())
	}
	put(t, mn.Hosts(), []byte("# nobody\n"))
	mn.roam("config", "reload")
	resolves(t, w, "mn", "cn", "")
}

// removedMeanwhile takes a peer out of the hosts file while its session is kept for the
// next daemon.
func removedMeanwhile(t *testing.T, w *world, mn, cn *host) {
	w.talk(t, "cn", "tcp6", "mn", 7007).echoed(t, "hello")
	mn.reaches("cn", "established")
	cn.reaches("mn", "established")
	mn.signal(syscall.SIGTERM)
	put(t, mn.Hosts(), []byte("# nobody\n"))
	mn.start()
	if list := mn.sessions(); len(list) > 0 {
		t.Errorf("sessions %+v", list)
	}
	resolves(t, w, "mn", "cn", "")
	notAdmitted(t, w, mn, cn)
}

// changedMeanwhile corrects a locator of a peer while no daemon runs.
func changedMeanwhile(t *testing.T, w *world, mn, cn *host) {
	cn.down() // mn gets no locator from there
	put(t, mn.Hosts(), []byte(fmt.Sprintf("nid=%s l64=2001:db8:c0de:1 cn\n", w.nid("cn"))))
	mn.down()
	mn.start()
	mn.signal(syscall.SIGTERM)
	put(t, mn.Hosts(), []byte(w.hostsFile("cn")))
	mn.start()
	cn.start()
	c := w.talk(t, "mn", "tcp6", "cn", 7007)
	if !c.connected() {
		t.Fatalf("%s; mn knows %+v", c.out.text(), mn.with("cn"))
	}
	c.echoed(t, "hello")
	mn.reaches("cn", "established")
}

// TestFaultyConfigurationUnderADaemon spoils roam.conf under a daemon that is well: it is
// asked, ended and undone all the same.
func TestFaultyConfigurationUnderADaemon(t *testing.T) {
	needs(t, "bpftool")
	w := newWorld(t, "spoilt", 0, place{"mn", 1, true})
	mn := w.newHost("mn", settings{})
	good, err := os.ReadFile(mn.Config)
	if err != nil {
		t.Fatal(err)
	}
	before := settledState(t, w, "mn")
	for _, c := range []struct{ name, first string }{
		{"a value", "mode = \"sfot\"\n"}, {"no TOML", "[[[\n"}, {"nothing of it is left", ""},
	} {
		w.sub(c.name, func(t *testing.T) {
			mn.start()
			text := append([]byte(c.first), good...)
			if c.first == "" {
				text = []byte("???\n")
			}
			put(t, mn.Config, text)
			var args []string
			if c.first == "" {
				// Not even the run directory can be read: the user says where it is.
				args = []string{"--socket", filepath.Join(mn.RunDir(), "control.sock")}
			}
			_, diag, err := mn.command(append(args, "session", "show")...)
			if err != nil || args == nil && (!strings.Contains(diag, "warning: ") || !strings.Contains(diag, mn.Config+":1")) {
				t.Errorf("session show: %v, %s", err, diag)
			}
			if _, _, err := mn.command("config", "check"); exitStatus(err) != 1 {
				t.Errorf("config check: status %d", exitStatus(err))
			}
			if _, diag, err := mn.command(append(args, "down")...); err != nil {
				t.Errorf("down: %v, %s", err, diag)
			}
			testutil.Eventually(t, patience, mn.Over, "the daemon to end")
			unchanged(t, w, before, mn)
			put(t, mn.Config, good)
		})
	}
	w.sub("what a killed daemon left", func(t *testing.T) {
		mn.start()
		mn.signal(syscall.SIGKILL)
		put(t, mn.Config, append([]byte("[[[\n"), good...))
		mn.roam("down")
		unchanged(t, w, before, mn)
	})
}
