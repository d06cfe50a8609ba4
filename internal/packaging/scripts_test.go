package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/testutil"
)

// machine is a made-up system: a root directory for dpkg, and programs that
// only note how they were called.
type machine struct {
	t         *testing.T
	root, bin string
}

func newMachine(t *testing.T, systemd bool) *machine {
	t.Helper()
	testutil.NeedRoot(t) // dpkg insists
	testutil.Need(t, "dpkg-deb")
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "root")}
	m.bin = filepath.Join(filepath.Dir(m.root), "bin")
	for _, d := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers",
		"run/roam/bpf", "var/lib/roam"} {
		m.mkdir(d)
	}
	if systemd {
		m.mkdir("run/systemd/system")
	}
	m.file("var/lib/dpkg/status", "")
	m.file("run/roam/lock", "")
	m.file("var/lib/roam/nid", "0011:22ff:0000:0001\n")
	for name, answer := range map[string]string{
		"roam": "exit ${FAKE_ROAM:-0}", "roamd": "", "systemctl": `case "$*" in *is-active*) exit ${FAKE_ACTIVE:-0};; esac`,
		"deb-systemd-helper": `case "$*" in *was-enabled*) exit ${FAKE_ENABLED:-0};; esac`,
		"deb-systemd-invoke": "exit ${FAKE_INVOKE:-0}",
		"groupadd":           "", "groupdel": "", "getent": "exit ${FAKE_GROUP:-2}",
	} {
		m.script(name, answer)
	}
	return m
}

func (m *machine) mkdir(dir string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) file(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.root, name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) script(name, answer string) {
	m.t.Helper()
	if err := os.MkdirAll(m.bin, 0o755); err != nil {
		m.t.Fatal(err)
	}
	text := "#!/bin/sh\necho \"" + name + " $*\" >>\"$MACHINE/calls\"\n" + answer + "\n"
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// dpkg runs dpkg on the machine and returns what its scripts called.
func (m *machine) dpkg(env []string, args ...string) (calls []string, said string) {
	m.t.Helper()
	log := filepath.Join(filepath.Dir(m.root), "calls")
	_ = os.Remove(log)
	all := append([]string{"--root=" + m.root, "--force-script-chrootless", "--force-depends", "--no-triggers",
		"--log=/dev/null"}, args...)
	c := exec.Command("dpkg", all...)
	c.Env = append(append(os.Environ(), "PATH="+m.bin+":"+os.Getenv("PATH")+":/usr/sbin:/sbin", "MACHINE="+
		filepath.Dir(m.root), "DPKG_MAINTSCRIPT_DEBUG="), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		m.t.Fatalf("dpkg %v: %v: %s", args, err, out)
	}
	b, _ := os.ReadFile(log)
	return strings.Split(strings.TrimSpace(string(b)), "\n"), string(out)
}

func (m *machine) has(name string) bool {
	_, err := os.Lstat(filepath.Join(m.root, name))
	return err == nil
}

// wants compares the calls, as a whole, with what is expected; "…" at the end
// of a word stands for anything.
func wants(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLifeOfThePackage installs, upgrades, removes and purges it where systemd
// runs.
func TestLifeOfThePackage(t *testing.T) {
	file := deb(t)
	m := newMachine(t, true)
	calls, _ := m.dpkg(nil, "--install", file)
	wants(t, "installation", calls, "getent group roam", "groupadd --system roam",
		"deb-systemd-helper unmask roamd.service", "deb-systemd-helper --quiet was-enabled roamd.service",
		"deb-systemd-helper enable roamd.service",
		"systemctl --system daemon-reload", "deb-systemd-invoke start roamd.service")
	m.file("etc/roam/hosts", "# mine\n")

	// The daemon is not touched before the new files are there, and then only
	// restarted: sessions go on.
	calls, _ = m.dpkg([]string{"FAKE_GROUP=0"}, "--install", file)
	wants(t, "upgrade", calls, "getent group roam",
		"deb-systemd-helper unmask roamd.service", "deb-systemd-helper --quiet was-enabled roamd.service",
		"deb-systemd-helper enable roamd.service",
		"systemctl --system daemon-reload", "systemctl --quiet is-active roamd.service",
		"deb-systemd-invoke restart roamd.service")
	if b, err := os.ReadFile(filepath.Join(m.root, "etc/roam/hosts")); err != nil || string(b) != "# mine\n" {
		t.Errorf("the hosts file after an upgrade: %q, %v", b, err)
	}

	calls, _ = m.dpkg(nil, "--remove", "roam")
	wants(t, "removal", calls, "deb-systemd-invoke stop roamd.service", "roam down",
		"deb-systemd-helper purge roamd.service", "systemctl --system daemon-reload")
	for name, want := range map[string]bool{
		"usr/sbin/roamd": false, "usr/bin/roam": false, "run/roam": false,
		"etc/roam/hosts": true, "etc/roam/roam.conf": true, "var/lib/roam/nid": true,
	} {
		if m.has(name) != want {
			t.Errorf("after removal, %s is there: %v, want %v", name, !want, want)
		}
	}
	calls, _ = m.dpkg([]string{"FAKE_GROUP=0"}, "--purge", "roam")
	wants(t, "purge", calls, "getent group roam", "groupdel roam")
	for _, name := range []string{"etc/roam", "var/lib/roam"} {
		if m.has(name) {
			t.Errorf("after a purge, %s is there", name)
		}
	}
}

func TestWhatTheAdministratorChose(t *testing.T) {
	file := deb(t)
	m := newMachine(t, true)
	m.dpkg(nil, "--install", file)
	calls, _ := m.dpkg([]string{"FAKE_ENABLED=1", "FAKE_ACTIVE=3"}, "--install", file)
	text := strings.Join(calls, "\n")
	if strings.Contains(text, "helper enable") || strings.Contains(text, "deb-systemd-invoke") {
		t.Errorf("a stopped and disabled daemon was touched:\n%s", text)
	}
}

// TestInstalledAgain: what the removal has stopped runs again after the next installation, although dpkg names the
// version before as in an upgrade; a daemon that the administrator stops then stays so.
func TestInstalledAgain(t *testing.T) {
	file := deb(t)
	m := newMachine(t, true)
	m.dpkg(nil, "--install", file)
	m.dpkg(nil, "--remove", "roam")
	stopped := []string{"FAKE_ACTIVE=3"}
	calls, _ := m.dpkg(stopped, "--install", file)
	if text := strings.Join(calls, "\n"); !strings.Contains(text, "deb-systemd-invoke start roamd.service") {
		t.Errorf("the daemon does not run after a removal and an installation:\n%s", text)
	}
	calls, _ = m.dpkg(stopped, "--install", file)
	if text := strings.Join(calls, "\n"); strings.Contains(text, "deb-systemd-invoke") {
		t.Errorf("a stopped daemon was touched by an upgrade:\n%s", text)
	}
}

func TestFaultsDoNotBreakThePackage(t *testing.T) {
	file := deb(t)
	m := newMachine(t, true)
	if _, said := m.dpkg([]string{"FAKE_INVOKE=1"}, "--install", file); !strings.Contains(said, "roam doctor") {
		t.Errorf("the daemon did not start, and dpkg said %s", said)
	}
	calls, _ := m.dpkg([]string{"FAKE_ROAM=1", "FAKE_INVOKE=1"}, "--remove", "roam")
	if text := strings.Join(calls, "\n"); !strings.Contains(text, "roam down\nroamd restore") {
		t.Errorf("a failed `roam down` was not followed by a restore:\n%s", text)
	}
}

func TestWithoutSystemd(t *testing.T) {
	file := deb(t)
	m := newMachine(t, false)
	calls, _ := m.dpkg(nil, "--install", file)
	if text := strings.Join(calls, "\n"); strings.Contains(text, "systemctl") || strings.Contains(text, "invoke") {
		t.Errorf("systemd was called where it does not run:\n%s", text)
	}
	calls, _ = m.dpkg(nil, "--remove", "roam")
	wants(t, "removal", calls, "roam down", "deb-systemd-helper purge roamd.service")
}
