package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/control/controltest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// world is one command line's surroundings: a daemon that may not run, and a
// host that does nothing.
type world struct {
	*app
	daemon   *controltest.Fake
	out, err bytes.Buffer
	machine  *fakeHost
}

// absent stands for the daemon that does not run.
var errAbsent = control.Errorf(control.CodeUnavailable, "%w on /run/roam/control.sock", control.ErrNotRunning).
	WithHint("start it with `roam up`")

func newWorld(t *testing.T) *world {
	t.Helper()
	// Times of events are shown in the zone of the reader.
	old := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = old })
	w := &world{daemon: controltest.New(), machine: &fakeHost{root: true, alive: true}}
	w.app = &app{
		printer: printer{
			Terminal: &cli.Terminal{Program: "roam", Out: &w.out, Err: &w.err},
			now:      func() time.Time { return controltest.Now },
		},
		connect: func(string) control.Backend { return w.daemon }, host: w.machine,
		wait: func(context.Context, time.Duration) error { return nil },
		// A test must not read the file of the machine that it runs on.
		usual: "/nonexistent/roam.conf",
	}
	return w
}

// try runs one command line and returns its status and what it printed.
func (w *world) try(args ...string) (status int, out, errs string) {
	w.out.Reset()
	w.err.Reset()
	w.JSON, w.configPath, w.socketPath, w.warned = false, "", "", false
	status = w.run(args)
	return status, w.out.String(), w.err.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run the test with -update to accept)\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

func TestGolden(t *testing.T) {
	for _, tc := range []struct {
		file string
		args []string
	}{
		{"status.txt", nil},
		{"status.json", []string{"--json"}},
		{"session.txt", []string{"session", "show"}},
		{"session-peer.json", []string{"session", "show", "SERVER.", "--json"}},
		{"peer.txt", []string{"peer", "show"}},
		{"peer.json", []string{"peer", "--json"}},
		{"peer-one.txt", []string{"peer", "show", "SERVER."}},
		{"rename.json", []string{"rename", "b.example", "c", "--json"}},
		{"remove.json", []string{"remove", "b.example", "--json"}},
		{"path.txt", []string{"path"}},
		{"path.json", []string{"path", "show", "server", "--json"}},
		{"locator.txt", []string{"locator", "show"}},
		{"locator.json", []string{"locator", "--json"}},
		{"counter.txt", []string{"counter"}},
		{"counter-all.txt", []string{"counter", "show", "--all"}},
		{"counter.json", []string{"counter", "show", "--json"}},
		{"reload.txt", []string{"config", "reload"}},
		{"reload.json", []string{"config", "reload", "--json"}},
		{"help.txt", []string{"--help"}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			status, out, errs := newWorld(t).try(tc.args...)
			if status != cli.StatusOK || errs != "" {
				t.Errorf("status %d, errors %q", status, errs)
			}
			golden(t, tc.file, out)
			if strings.HasSuffix(tc.file, ".json") && !json.Valid([]byte(out)) {
				t.Error("not JSON")
			}
		})
	}
}

func TestColours(t *testing.T) {
	w := newWorld(t)
	w.Colour = true
	_, out, _ := w.try()
	golden(t, "status-colour.txt", out)
	_, plain, _ := newWorld(t).try()
	for _, code := range []string{cli.Bold, cli.Green, cli.Yellow, cli.Red} {
		out = strings.ReplaceAll(out, "\x1b["+code+"m", "")
	}
	if strings.ReplaceAll(out, "\x1b[0m", "") != plain {
		t.Error("colours change the text or its alignment")
	}
}

func TestEmptyHost(t *testing.T) {
	w := newWorld(t)
	w.daemon.LocatorList, w.daemon.SessionList = nil, nil
	w.daemon.StatusValue.State = "degraded"
	w.daemon.StatusValue.Warnings = []string{"port 53 is taken"}
	w.daemon.StatusValue.Plane = control.Plane{}
	status, out, errs := w.try()
	golden(t, "status-empty.txt", out)
	if status != cli.StatusOK || errs != "warning: port 53 is taken\n" {
		t.Errorf("status %d, errors %q", status, errs)
	}
	if _, out, _ = w.try("session"); out != noPeer+"\n" {
		t.Errorf("session: %q", out)
	}
}

// TestNotes: what may be so is part of the answer, and no warning.
func TestNotes(t *testing.T) {
	w := newWorld(t)
	w.daemon.StatusValue.Notes = []string{"rule 1 does without the link wlan0, which is no uplink at present"}
	status, out, errs := w.try()
	if !strings.HasSuffix(out, "\n\nnote: rule 1 does without the link wlan0, which is no uplink at present\n") ||
		!strings.Contains(out, "running for") || status != cli.StatusOK || errs != "" {
		t.Errorf("status %d, errors %q\n%s", status, errs, out)
	}
}

func TestInstructions(t *testing.T) {
	listed := " is 0000:0000:0000:0002, reached as fd69:6c6e:7000:2627::2\nproof: listed locator: it was validated where " +
		"its record lists it; its nonce\n       moves the session\n"
	for _, tc := range []struct{ args, told, out string }{
		{"mode duality", "mode duality", "duality\n"},
		{"mode hard --json", "mode hard", "{\n  \"mode\": \"hard\"\n}\n"},
		{"mode", "", "soft\n"},
		{"locator enable wwan0", "enable wwan0", "wwan0 enabled\n"},
		{"locator disable wlan0", "disable wlan0", "wlan0 disabled\n"},
		{"locator disable wlan0 --json", "disable wlan0", "{\n  \"link\": \"wlan0\",\n  \"enabled\": false\n}\n"},
		{"add nid=1:2:3:4 l64=2001:db8:1:1 b", "add nid=1:2:3:4 l64=2001:db8:1:1 b", "b.example" + listed},
		{"add --as c --replace --force nid=1:2:3:4 b", "add nid=1:2:3:4 b as c replace force", "c" + listed},
		{"remove b.example", "remove b.example", "removed b.example, 0000:0000:0000:0002\n"},
		{"rename b c", "rename b c", "c is 0000:0000:0000:0002, reached as fd69:6c6e:7000:2627::2\n"},
		{"rename --force --replace b c", "rename b c replace force", "c is 0000:0000:0000:0002, reached as fd69:6c6e:7000:2627::2\n"},
		{"export", "", "roam1:11-22ff-0-1:2001+db8+1+1:host.example:00000000\n"},
		{"export --json", "", "{\n  \"line\": \"roam1:11-22ff-0-1:2001+db8+1+1:host.example:00000000\"\n}\n"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			w := newWorld(t)
			status, out, errs := w.try(strings.Fields(tc.args)...)
			if status != cli.StatusOK || out != tc.out || errs != "" {
				t.Errorf("status %d, out %q, errors %q", status, out, errs)
			}
			if got := strings.Join(w.daemon.Instructions(), ";"); got != tc.told {
				t.Errorf("told %q, want %q", got, tc.told)
			}
		})
	}
}

func TestAddJSON(t *testing.T) {
	status, out, _ := newWorld(t).try("add", "--json", "nid=1:2:3:4 b")
	var p control.Peer
	if err := json.Unmarshal([]byte(out), &p); err != nil || status != cli.StatusOK || p.NID != 2 {
		t.Errorf("status %d, %q, %v", status, out, err)
	}
}

// A correspondent that is kept, and of which something does not work, is no failure.
func TestAddWithWarning(t *testing.T) {
	w := newWorld(t)
	w.daemon.AddWarning = "table is full"
	status, out, errs := w.try("add", "nid=1:2:3:4 b")
	if status != cli.StatusOK || !strings.Contains(out, "reached as") || errs != "warning: table is full\n" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

func TestFailures(t *testing.T) {
	broken := func(w *world) { w.daemon.Err = errors.New("disk on fire") }
	away := func(w *world) { w.daemon.Err = errAbsent }
	undecided := func(w *world) {
		w.daemon.Undecided = control.Errorf(control.CodeChoice, "add: b means another").
			WithHint("`roam add --as NAME LINE`; `roam add --replace LINE`")
	}
	for _, tc := range []struct {
		args   string
		before func(*world)
		status int
		want   string
	}{
		{"", away, cli.StatusNoDaemon, "roam: no daemon answers on /run/roam/control.sock\nhint: start it with `roam up`\n"},
		{"monitor", away, cli.StatusNoDaemon, "start it with `roam up`"},
		{"--json", away, cli.StatusNoDaemon, `{"error":"no daemon answers on /run/roam/control.sock","hint":"start it with` + " `roam up`" + `","status":3}`},
		{"", broken, cli.StatusFailure, "roam: disk on fire\n"},
		{"session show", broken, cli.StatusFailure, "disk on fire"},
		{"locator show", broken, cli.StatusFailure, "disk on fire"},
		{"counter show", broken, cli.StatusFailure, "disk on fire"},
		{"config reload", broken, cli.StatusFailure, "disk on fire"},
		{"peer show", broken, cli.StatusFailure, "disk on fire"},
		{"remove b", broken, cli.StatusFailure, "disk on fire"},
		{"rename b c", broken, cli.StatusFailure, "disk on fire"},
		{"add nid=1:2:3:4 b", undecided, cli.StatusUsage, "roam: add: b means another\nhint: `roam add --as NAME LINE`; `roam add --replace LINE`\n"},
		{"add --json nid=1:2:3:4 b", undecided, cli.StatusUsage, `"status":2`},
		{"rename b c", undecided, cli.StatusUsage, "hint: `roam add --as NAME LINE`"},
		{"peer show nobody", nil, cli.StatusFailure, "hint: known: 0000:0000:0000:0003, plain.example, quiet.example, server.example\n"},
		{"rename b", nil, cli.StatusUsage, "needs NEW"},
		{"remove", nil, cli.StatusUsage, "needs PEER"},
		{"export", broken, cli.StatusFailure, "disk on fire"},
		{"mode", broken, cli.StatusFailure, "disk on fire"},
		{"up", broken, cli.StatusFailure, "disk on fire"},
		{"down", broken, cli.StatusFailure, "disk on fire"},
		{"add nid=1:2:3:4 b", broken, cli.StatusFailure, "disk on fire"},
		{"locator enable eth9", nil, cli.StatusFailure, "roam: no uplink \"eth9\"\nhint: the links are wlan0, wwan0\n"},
		{"session show nobody", nil, cli.StatusFailure, "hint: known: server.example, 0000:0000:0000:0003, plain.example, quiet.example\n"},
		{"add roam1:x", nil, cli.StatusFailure, "hint: on the other host: roam export"},
		{"sesion", nil, cli.StatusUsage, `did you mean "session"?`},
		{"frobnicate", nil, cli.StatusUsage, `"frobnicate" is not a verb of "roam"`},
		{"list", nil, cli.StatusUsage, `did you mean "status"?`},
		{"del", nil, cli.StatusUsage, `did you mean "remove"?`},
		{"start", nil, cli.StatusUsage, `did you mean "up"?`},
		{"up extra", nil, cli.StatusUsage, `"roam up" takes no argument: "extra"`},
		{"session shwo", nil, cli.StatusUsage, `did you mean "show"?`},
		{"mode sofft", nil, cli.StatusUsage, "hint: the modes are soft, hard and duality"},
		{"mode soft hard", nil, cli.StatusUsage, "takes no further argument"},
		{"locator enable", nil, cli.StatusUsage, `"roam locator enable" needs LINK`},
		{"locator enable a b", nil, cli.StatusUsage, `takes no further argument: "b"`},
		{"add", nil, cli.StatusUsage, "needs LINE"},
		{"config", nil, cli.StatusUsage, "needs a verb"},
		{"--nonsense", nil, cli.StatusUsage, "unknown flag: --nonsense"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			w := newWorld(t)
			if tc.before != nil {
				tc.before(w)
			}
			status, out, errs := w.try(strings.Fields(tc.args)...)
			if status != tc.status || !strings.Contains(errs, tc.want) || out != "" {
				t.Errorf("status %d, want %d\nout %q\nerrors %q\nwant %q", status, tc.status, out, errs, tc.want)
			}
		})
	}
}

func TestMonitor(t *testing.T) {
	path := control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: 0x2001_0db8_00ff_0001}
	events := []control.Event{
		{
			Time: controltest.Now, Kind: "handoff-started",
			From: []control.LinkLocator{{Link: "wlan0", L64: 0x2001_0db8_0001_0001}}, To: []control.LinkLocator{{Link: "wwan0", L64: 0x2001_0db8_0002_0001}},
		},
		{Time: controltest.Now.Add(20 * time.Millisecond), Kind: "update-acked", Peer: 2, PeerName: "server.example", Path: &path, RTTMS: 20.15},
		{Time: controltest.Now.Add(21 * time.Millisecond), Kind: "handoff-done", DurationMS: 20.8},
		{Time: controltest.Now.Add(time.Second), Kind: "refused", Peer: 3, Reason: "update without nonce"},
		{Time: controltest.Now.Add(time.Second), Kind: "update-received", Peer: 3, Locators: path2()},
	}
	for _, file := range []string{"monitor.txt", "monitor.json"} {
		t.Run(file, func(t *testing.T) {
			w := newWorld(t)
			w.JSON = strings.HasSuffix(file, ".json")
			// The daemon ends once it has told its events.
			w.connect = func(string) control.Backend { return teller{w.daemon, events} }
			err := w.monitor(t.Context(), wanted{})
			if !errors.Is(err, control.ErrNotRunning) {
				t.Errorf("the end of the daemon is told as %v", err)
			}
			golden(t, file, w.out.String())
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWorld(t)
	w.daemon.Hub.Close()
	if err := w.monitor(ctx, wanted{}); err != nil {
		t.Errorf("an interrupted monitor ends with %v", err)
	}
}

func TestConfigVerbs(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	for file, text := range map[string]string{good: "[host]\nmode = \"hard\"\n", bad: "[host]\nmode = \"x\"\nnid = 5\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	if status, out, _ := w.try("config", "check", good); status != cli.StatusOK || out != good+": no fault\n" {
		t.Errorf("check: %d, %q", status, out)
	}
	if status, out, errs := w.try("config", "check", "--config", bad); status != cli.StatusFailure || out != "" ||
		!strings.HasPrefix(errs, bad+":2:1: host.mode: ") || !strings.Contains(errs, "\n"+bad+":3:7: host.nid: ") {
		t.Errorf("check of faults: %d, %q, %q", status, out, errs)
	}
	status, out, errs := w.try("config", "check", "--json", bad)
	var c checked
	if err := json.Unmarshal([]byte(out), &c); err != nil || status != cli.StatusFailure || errs != "" || c.OK || len(c.Faults) != 2 || c.Faults[1].Line != 3 {
		t.Errorf("check --json: %d, %q, %q, %v", status, out, errs, err)
	}
	if status, _, errs := w.try("config", "check", filepath.Join(dir, "absent")); status != cli.StatusFailure || !strings.Contains(errs, "no such file") {
		t.Errorf("check of nothing: %d, %q", status, errs)
	}
	if status, out, _ := w.try("config", "show", "--config", good); status != cli.StatusOK || !strings.Contains(out, "\nmode = \"hard\"\n") {
		t.Errorf("show: %d, %q", status, out)
	}
	status, out, _ = w.try("config", "show", "--json", "--config", good)
	values := map[string]string{}
	if err := json.Unmarshal([]byte(out), &values); err != nil || status != cli.StatusOK || values["host.mode"] != `"hard"` {
		t.Errorf("show --json: %d, %q, %v", status, out, err)
	}
	if status, _, errs := w.try("config", "show", "--config", bad); status != cli.StatusFailure || !strings.Contains(errs, "roam config check") {
		t.Errorf("show of faults: %d, %q", status, errs)
	}
	w.daemon.ReloadValue = control.Reloaded{}
	if _, out, _ := w.try("config", "reload"); out != "nothing has changed\n" {
		t.Errorf("reload: %q", out)
	}
}

// TestConfigCheckReadsTheHostsFile names the lines of the files that the configuration
// names, also where that has a fault itself.
func TestConfigCheckReadsTheHostsFile(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	named := "[host]\nhosts = \"/h\"\nstate_dir = \"/s\"\n"
	for file, text := range map[string]string{good: named, bad: named + "mood = 1\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	w.machine.files = map[string]string{"/h": "nid=1:2:3:4 a\n", "/s/peers": "# added\nnid=1:2:3:5 a\nwhat\n"}
	const first = "/s/peers:2: name a means node 0001:0002:0003:0004 since /h:1: give this node, 0001:0002:0003:0005, another name\n/s/peers:3: "
	if status, out, errs := w.try("config", "check", good); status != cli.StatusFailure || out != "" || !strings.HasPrefix(errs, first) {
		t.Errorf("check: %d, %q, %q", status, out, errs)
	}
	status, out, errs := w.try("config", "check", "--json", bad)
	var c checked
	if err := json.Unmarshal([]byte(out), &c); err != nil || status != cli.StatusFailure || errs != "" || c.OK || len(c.Faults) != 3 {
		t.Fatalf("check --json: %d, %q, %q, %v", status, out, errs, err)
	}
	if f := c.Faults[0]; f.File != bad || f.Line != 4 || c.Faults[1].File != "/s/peers" || c.Faults[1].Line != 2 {
		t.Errorf("faults %+v", c.Faults)
	}
	w.machine.files["/s/peers"] = ""
	if status, out, _ := w.try("config", "check", good); status != cli.StatusOK || out != good+": no fault\n" {
		t.Errorf("check of good files: %d, %q", status, out)
	}
}

// TestFaultyConfigurationHidesNoDaemon asks a daemon that is well, while its file has a
// fault: it is found by what can be read, and the fault is told once.
func TestFaultyConfigurationHidesNoDaemon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roam.conf")
	if err := os.WriteFile(file, []byte("[host]\nmood = 1\nrun_dir = \"/run/h1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	var sockets []string
	w.connect = func(socket string) control.Backend {
		sockets = append(sockets, socket)
		return w.daemon
	}
	for _, args := range []string{"", "session show", "mode hard", "export", "doctor server.example", "peer show"} {
		status, out, errs := w.try(append(strings.Fields(args), "--config", file)...)
		if out == "" || strings.Count(errs, "warning: ") < 2 || strings.Count(errs, "host.mood") != 1 || !strings.Contains(errs, "/run/h1") {
			t.Errorf("%s: status %d, %q, %q", args, status, out, errs)
		}
		if want := map[bool]int{true: cli.StatusFailure}[strings.HasPrefix(args, "doctor")]; status != want {
			t.Errorf("%s: status %d, want %d", args, status, want)
		}
	}
	for _, s := range sockets {
		if s != "/run/h1/control.sock" {
			t.Errorf("asked %s", s)
		}
	}
	sockets = nil
	if _, _, errs := w.try("--config", file, "--socket", "/x/control.sock"); errs != "" || len(sockets) != 1 || sockets[0] != "/x/control.sock" {
		t.Errorf("with a socket: %q, asked %q", errs, sockets)
	}
	if status, _, errs := w.try("--config", file+".absent"); status != cli.StatusFailure || !strings.Contains(errs, "no such file") {
		t.Errorf("of no file: %d, %q", status, errs)
	}
	if status, _, errs := w.try("config", "check", "--config", file); status != cli.StatusFailure || !strings.Contains(errs, "host.mood") {
		t.Errorf("check: %d, %q", status, errs)
	}
}

func TestSocketComesFromTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(file, []byte("host.run_dir = \"/run/h1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.configPath = file
	if got, err := w.socket(); err != nil || got != "/run/h1/control.sock" {
		t.Errorf("socket() = %q, %v", got, err)
	}
}

func TestVersion(t *testing.T) {
	w := newWorld(t)
	if status, out, errs := w.try("version"); status != cli.StatusOK || !strings.HasPrefix(out, "roam devel (go") || !strings.Contains(out, "roamd 1.2.3") || !strings.Contains(errs, "different versions") {
		t.Errorf("version: %d, %q, %q", status, out, errs)
	}
	w.daemon.Err = errAbsent
	if status, out, errs := w.try("version", "--json"); status != cli.StatusOK || strings.Contains(out, "daemon") || errs != "" {
		t.Errorf("version without daemon: %d, %q, %q", status, out, errs)
	}
	if status, out, _ := w.try("--version"); status != cli.StatusOK || out != "roam devel\n" {
		t.Errorf("--version: %d, %q", status, out)
	}
}

func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"__complete session show ":  "server.example\n",
		"__complete locator enable": "enable\t",
		"__complete locator show ":  "",
		"__complete mode d":         "duality\n",

		"__complete monitor --kind ":         "path-avoided\n",
		"__complete policy explain 1:: 2:: ": "icmpv6\ntcp\nudp\n:4\n",
		"__complete policy explain ":         ":4\n",
	} {
		w := newWorld(t)
		fields := strings.Fields(args)
		if strings.HasSuffix(args, " ") {
			fields = append(fields, "")
		}
		w.out.Reset()
		if status := w.run(fields); status != cli.StatusOK || !strings.Contains(w.out.String(), want) {
			t.Errorf("%s: %d, %q, want %q", args, status, w.out.String(), want)
		}
	}
	if status, out, _ := newWorld(t).try("completion", "bash"); status != cli.StatusOK || !strings.Contains(out, "__start_roam") {
		t.Errorf("completion bash: %d", status)
	}
}
