package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withRoles adds two roles to the known ones: "gauge", which has the section [metrics],
// and "relay", which cannot be where a host is.
func withRoles(t *testing.T) {
	t.Helper()
	known := roles
	t.Cleanup(func() { roles = known })
	roles = append(slices.Clone(known),
		Role{Name: "gauge", Sections: []string{"metrics"}},
		Role{Name: "relay", Excludes: map[string]string{RoleHost: "both translate what the other has translated"}})
}

func TestObservedLinks(t *testing.T) {
	for _, c := range []struct {
		globs  []string
		wants  []string // of lo, wan0, roam0; roam0 is Roam's own
		absent []string
	}{
		{nil, []string{"wan0"}, nil},
		{[]string{"wan*", "usb0"}, []string{"wan0"}, []string{"usb0"}},
		{[]string{"lo", "roam0"}, []string{"lo", "roam0"}, nil},
	} {
		o := Observer{Links: c.globs}
		var wants []string
		for _, link := range []string{"lo", "wan0", "roam0"} {
			if o.Wants(link, link == "roam0") {
				wants = append(wants, link)
			}
		}
		if absent := o.Absent(wants); !slices.Equal(wants, c.wants) || !slices.Equal(absent, c.absent) {
			t.Errorf("%q: wants %q, lacks %q", c.globs, wants, absent)
		}
	}
}

func TestRoleDefaultIsHost(t *testing.T) {
	for _, text := range []string{"", "[host]\nmode = \"hard\"\n", "[role]\n", "[role]\nrun = [\"host\"]\n"} {
		c, err := Parse("t", []byte(text))
		if err != nil || !slices.Equal(c.Roles, []string{RoleHost}) {
			t.Errorf("%q: roles %v, error %v", text, c.Roles, err)
		}
	}
}

func TestRoleFaults(t *testing.T) {
	withRoles(t)
	for _, tc := range []struct{ name, text, want string }{
		{"unknown", "[role]\nrun = [\"host\", \"obsever\"]",
			`t:2:1: role.run: there is no role "obsever"; the roles are "host", "observer", "border", "gauge", "relay"`},
		{"none", "[role]\nrun = []", "t:2:1: role.run: a daemon needs a role"},
		{"twice", "[role]\nrun = [\"host\", \"host\"]", `t:2:1: role.run: "host" is listed twice; list each role once`},
		{"exclusive", "[role]\n\nrun = [\"relay\", \"host\"]",
			`t:3:1: role.run: "host" and "relay" exclude each other: ` +
				"both translate what the other has translated; list one of them"},
		{"type", "[role]\nrun = \"host\"", "t:2:7: role.run: wrong type of value; allowed: a list of roles"},
		{"section without its role", "[host]\nmode = \"hard\"\n[metrics]\nlisten = \"\"",
			`t:3:2: metrics: section [metrics] belongs to the role "gauge", which is off unless role.run lists it; ` +
				"list the role there, or remove the section"},
		{"empty section", "\n[metrics]\n", "t:2:2: metrics: section [metrics] belongs to the role \"gauge\""},
		{"dotted key", "metrics.listen = \"\"", "t:1:1: metrics.listen: section [metrics] belongs"},
		{"inline table", "metrics = { listen = \"\" }", "t:1:1: metrics: section [metrics] belongs"},
		{"section of the host", "[role]\nrun = [\"gauge\"]\n[dns]\nenabled = false\n",
			`t:3:2: dns: section [dns] belongs to the role "host", which role.run in line 2 does not list; ` +
				"list the role there"},
		{"keys of the host", "[role]\nrun = [\"gauge\"]\n[host]\n" +
			"run_dir = \"/run/g\"\nmode = \"hard\"\nnid = \"auto\"\n",
			`t:5:1: host.mode: section [host] without run_dir and state_dir belongs to the role "host"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("t", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that contains %q", err, tc.want)
			}
			if n := strings.Count(err.Error(), "\n") + 1; n != 1 {
				t.Errorf("%d faults, want one:\n%v", n, err)
			}
		})
	}
}

// TestRoleWithoutHost reads a file without the host: it keeps the directories, and
// writes nothing that it would refuse.
func TestRoleWithoutHost(t *testing.T) {
	withRoles(t)
	text := "[role]\nrun = [\"gauge\"]\n" +
		"[host]\nrun_dir = \"/run/g\"\nstate_dir = \"/var/g\"\n[metrics]\nlisten = \"[::1]:1\"\n"
	c, err := Parse("t", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c.Has(RoleHost) || !c.Has("gauge") || c.Host.RunDir != "/run/g" || c.Host.StateDir != "/var/g" {
		t.Errorf("read %+v", c)
	}
	again, err := Parse("formatted", []byte(Format(c)))
	if err != nil || len(Diff(c, again)) > 0 || !slices.Equal(again.Roles, c.Roles) {
		t.Errorf("Format wrote\n%s\nwhich reads back with %v and %v", Format(c), err, Diff(c, again))
	}
}

// TestRoleTakenAway keeps the settings of a role that runs on although the file has no
// place for them any more.
func TestRoleTakenAway(t *testing.T) {
	withRoles(t)
	parse := func(text string) Config {
		t.Helper()
		c, err := Parse("t", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	both := parse("[role]\nrun = [\"host\", \"gauge\"]\n[metrics]\nlisten = \"[::1]:1\"\n[host]\nmode = \"soft\"\n")
	for _, tc := range []struct {
		name     string
		old, new Config
		changes  []string
		restart  []bool
	}{
		{"gauge taken away", both, parse("[host]\nmode = \"hard\"\n"),
			[]string{`host.mode: "soft" -> "hard"`, `role.run: ["host", "gauge"] -> ["host"]`}, []bool{false, true}},
		{"host taken away", both, parse("[role]\nrun = [\"gauge\"]\n[metrics]\nlisten = \"[::1]:1\"\n"),
			[]string{`role.run: ["host", "gauge"] -> ["gauge"]`}, []bool{true}},
		{"host added", parse("[role]\nrun = [\"gauge\"]\n"), parse("[host]\nmode = \"hard\"\n"),
			[]string{`host.mode: "soft" -> "hard"`, `role.run: ["gauge"] -> ["host"]`}, []bool{true, true}},
	} {
		var got []string
		var restart []bool
		for _, c := range Diff(tc.old, tc.new) {
			got, restart = append(got, c.String()), append(restart, c.Restart)
		}
		if !slices.Equal(got, tc.changes) || !slices.Equal(restart, tc.restart) {
			t.Errorf("%s: %q, restart %v", tc.name, got, restart)
		}
	}
	merged := Merge(both, parse("[host]\nmode = \"hard\"\n"))
	if !slices.Equal(merged.Roles, both.Roles) || merged.Metrics != both.Metrics || merged.Host.Mode == both.Host.Mode {
		t.Errorf("in force: %+v", merged)
	}
	hard := both
	hard.Host.Mode = Hard
	if kept := Merge(hard, parse("[role]\nrun = [\"gauge\"]\n")); kept.Host.Mode != Hard {
		t.Error("a role that is not listed any more takes the default of a setting")
	}
}

// TestMergeTakesWhatNeedsNoRestart compares the two ways in which the table of keys
// says so.
func TestMergeTakesWhatNeedsNoRestart(t *testing.T) {
	for _, k := range keys {
		if k.Restart == (k.take != nil) {
			t.Errorf("%s: restart %v, and a way to take it over without: %v", k.Name, k.Restart, k.take != nil)
		}
	}
	next, err := Parse("t", []byte("[host]\nmode = \"hard\"\nhosts = \"/h\"\ndevice = \"r1\"\n"+
		"[uplinks]\ndisabled = [\"eth1\"]\n[dns]\nupstream = [\"::1\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Diff(Merge(Default(), next), next) {
		if c.Key != "host.device" {
			t.Errorf("not taken over: %v", c)
		}
	}
}

func TestLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roam.conf")
	if err := os.WriteFile(file, []byte("[host]\nmode = \"hard\"\n\n[role]\nrun = [\"host\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Line(file, "role.run"); got != 5 {
		t.Errorf("role.run is in line %d, want 5", got)
	}
	if got := Line(file, "dns.listen") + Line(file+"x", "role.run"); got != 0 {
		t.Errorf("a key that is not there is in line %d", got)
	}
}
