package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"roam/internal/testutil"
)

// machine is a made-up system for build/setup and build/with-go: its only
// commands are the ones that we put there.
type machine struct {
	t    *testing.T
	dir  string
	root string // the repository
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, dir: t.TempDir(), root: root}
	for _, dir := range []string{"bin", "sources"} {
		if err := os.Mkdir(filepath.Join(m.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// What the scripts themselves are made of.
	for _, tool := range []string{"bash", "cat", "chmod", "dirname", "grep", "head", "mktemp", "rm",
		"sed", "sort", "tail"} {
		testutil.Need(t, tool)
		p, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(p, filepath.Join(m.dir, "bin", tool)); err != nil {
			t.Fatal(err)
		}
	}
	m.script("id", "echo ${FAKE_UID:-0}")
	m.file("go.mod", "module roam\n\ngo 1.25.0\n")
	m.file("os-release", "ID=debian\nVERSION_CODENAME=bookworm\n")
	return m
}

func (m *machine) file(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// script puts a command into the machine.
func (m *machine) script(name, text string) {
	m.t.Helper()
	p := filepath.Join(m.dir, "bin", name)
	if err := os.WriteFile(p, []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// golang puts a go command of a version into the machine.
func (m *machine) golang(version string) {
	m.script("go", "echo go version go"+version+" linux/amd64; echo GOTOOLCHAIN=$GOTOOLCHAIN")
}

// apt puts an apt-get in that logs what it is asked, and brings a Go when it
// is asked for one; candidate is the version that the plain distribution has.
func (m *machine) apt(candidate, brings string) {
	m.script("apt-cache", `[ -z "$2" ] || echo "  Candidate: `+candidate+`"`)
	m.script("apt-get", `echo "$*" >>"$MACHINE/apt.log"
case "$*" in indextargets*) echo http://mirror.test/debian-security/; echo http://mirror.test/debian/;; *"install golang-go"|*golang-go)
	printf '#!/bin/bash\necho go version go`+brings+` linux/amd64\n' >"$MACHINE/bin/go"; chmod +x "$MACHINE/bin/go";;
esac`)
}

// run runs a script of build/ in the machine and returns all that it says.
func (m *machine) run(env []string, script string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(m.dir, "bin", "bash"),
		append([]string{filepath.Join(m.root, "build", script)}, args...)...)
	cmd.Env = append([]string{
		"PATH=" + filepath.Join(m.dir, "bin"), "MACHINE=" + m.dir,
		"ROAM_GO_DIRS=" + filepath.Join(m.dir, "usr-local-go-bin"),
		"ROAM_GO_MOD=" + filepath.Join(m.dir, "go.mod"),
		"ROAM_SYSTEM_PATH=", "ROAM_SOURCES_DIR=" + filepath.Join(m.dir, "sources"),
		"ROAM_POLICY=" + filepath.Join(m.dir, "policy-rc.d"),
		"ROAM_OS_RELEASE=" + filepath.Join(m.dir, "os-release"),
		"ROAM_CERTIFICATES=" + filepath.Join(m.dir, "go.mod"),
	}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) aptLog() string {
	log, _ := os.ReadFile(filepath.Join(m.dir, "apt.log"))
	return string(log)
}

func TestWithGoChoosesByAge(t *testing.T) {
	for version, want := range map[string]string{
		"1.26.1":  "GOTOOLCHAIN=\n",     // newer than go.mod asks for
		"1.25":    "GOTOOLCHAIN=auto\n", // older than 1.25.0, which Go itself orders so
		"1.25rc1": "GOTOOLCHAIN=auto\n", // likewise
		"1.25.0":  "GOTOOLCHAIN=\n",     // the very one
		"1.21.0":  "GOTOOLCHAIN=auto\n", // fetches a newer one
		"1.20.14": "no Go of at least",  // cannot
		"1.9":     "no Go of at least",  // not 1.90
	} {
		t.Run(version, func(t *testing.T) {
			m := newMachine(t)
			m.golang(version)
			if out, _ := m.run(nil, "with-go", "go", "version"); !strings.Contains(out, want) {
				t.Errorf("said %q, want %q in it", out, want)
			}
		})
	}
}

func TestWithGoLooksBehindAnOldGo(t *testing.T) {
	m := newMachine(t)
	m.golang("1.19.8")
	dir := filepath.Join(m.dir, "usr-local-go-bin")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m.file("usr-local-go-bin/go", "#!/bin/bash\necho go version go1.26.0 linux/amd64\n")
	if err := os.Chmod(filepath.Join(dir, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := m.run(nil, "with-go", "--where"); err != nil || out != dir+"/go 1.26.0\n" {
		t.Errorf("chose %q (%v), want the one behind PATH", out, err)
	}
}

func TestSetupLeavesAGoodMachineAlone(t *testing.T) {
	m := newMachine(t)
	m.golang("1.25.3")
	m.apt("2:1.19~1", "1.19.8")
	if out, err := m.run(nil, "setup", "build"); err != nil || out != "" || m.aptLog() != "" {
		t.Errorf("said %q (%v) and asked apt %q, want silence", out, err, m.aptLog())
	}
}

func TestSetupTakesTheDistributionsGo(t *testing.T) {
	m := newMachine(t)
	m.apt("2:1.24~2", "1.24.4")
	out, err := m.run(nil, "setup", "build")
	if err != nil || !strings.Contains(m.aptLog(), "install golang-go") || strings.Contains(m.aptLog(), "-t ") {
		t.Errorf("said %q (%v) and asked apt %q, want a plain installation", out, err, m.aptLog())
	}
	if _, err := os.Stat(filepath.Join(m.dir, "policy-rc.d")); err == nil {
		t.Error("left its policy-rc.d behind")
	}
}

func TestSetupTakesTheBackports(t *testing.T) {
	m := newMachine(t)
	m.golang("1.19.8")
	m.apt("2:1.19~1", "1.23.9")
	out, err := m.run(nil, "setup", "build")
	if err != nil || !strings.Contains(m.aptLog(), "install -t bookworm-backports golang-go") {
		t.Errorf("said %q (%v) and asked apt %q, want an installation from backports", out, err, m.aptLog())
	}
	source, err := os.ReadFile(filepath.Join(m.dir, "sources", "roam-backports.list"))
	if err != nil || string(source) != "deb http://mirror.test/debian/ bookworm-backports main\n" {
		t.Errorf("the source is %q (%v)", source, err)
	}
	if !strings.Contains(out, "roam-backports.list") {
		t.Errorf("said %q, without the file that it added", out)
	}
}

func TestSetupDoesWithoutThePinnedCompiler(t *testing.T) {
	m := newMachine(t)
	m.golang("1.25.0")
	m.apt("(none)", "")
	out, _ := m.run(nil, "setup", "test")
	if !strings.Contains(out, "no clang-14: the compiled BPF objects will not be compared") {
		t.Errorf("said %q, without a word on clang-14", out)
	}
	if strings.Contains(m.aptLog(), "clang-14") || !strings.Contains(m.aptLog(), "tshark") {
		t.Errorf("asked apt %q, want the rest installed", m.aptLog())
	}
}

func TestSetupSaysWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*machine)
		env     []string
		set     string
		want    string
	}{
		"no root, no Go": {func(m *machine) { m.apt("2:1.24~2", "1.24.4") }, []string{"FAKE_UID=1000"}, "build",
			"run this as root, or install Go 1.25.0 or later from https://go.dev/dl"},
		"no apt, no Go": {func(*machine) {}, nil, "build", "no apt-get"},
		"no backports": {func(m *machine) { m.apt("1.19", "1"); m.file("os-release", "ID=other\n") }, nil, "build",
			"too old (1.19); install Go 1.25.0"},
		"backports too old": {func(m *machine) { m.apt("1.19", "1.20.1") }, nil, "build", "still not found"},
		"no root, no tools": {func(m *machine) { m.golang("1.25.0"); m.apt("", "") }, []string{"FAKE_UID=1000"}, "demo",
			"or: apt-get install iproute2"},
		"no apt, no tools": {func(m *machine) { m.golang("1.25.0") }, nil, "demo",
			"install by hand what these Debian packages hold: iproute2"},
		"apt brings none": {func(m *machine) { m.golang("1.25.0"); m.apt("", "") }, nil, "demo",
			"installed, but not found: iproute2"},
		"apt fails": {func(m *machine) {
			m.golang("1.25.0")
			m.script("apt-get", `[ "$2" = update ] || { echo E: held packages; exit 100; }`)
		}, nil, "demo", "E: held packages"},
		"no network": {func(m *machine) { m.golang("1.25.0"); m.script("apt-get", "exit 100") }, nil,
			"demo", "is the network up"},
		"no such set": {func(*machine) {}, nil, "all", "no such set: all (build, demo, lab, test, kernels, guest)"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			c.prepare(m)
			out, err := m.run(c.env, "setup", c.set)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("said %q (%v), want a failure that says %q", out, err, c.want)
			}
		})
	}
}
