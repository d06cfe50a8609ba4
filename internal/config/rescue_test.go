package config

import (
	"os"
	"path/filepath"
	"testing"
)

// A file with a fault still says where its daemon is, wherever the fault stands.
func TestRescue(t *testing.T) {
	for name, tc := range map[string]struct{ text, run, state string }{
		"an unknown key":       {"[host]\nrun_dir = \"/run/h1\"\nmood = 1\nstate_dir = \"/var/h1\"\n", "/run/h1", "/var/h1"},
		"a value not allowed":  {"host.mode = \"x\"\nhost.run_dir = \"/run/h1\" # ours\n", "/run/h1", "/var/lib/roam"},
		"no TOML before it":    {"[host\nmode = = 1\n[host]\nrun_dir = \"/run/h1\"\n", "/run/h1", "/var/lib/roam"},
		"no TOML behind it":    {"[host]\nrun_dir = \"/run/h1\"\n???\nstate_dir = \"/var/h1\"\n", "/run/h1", "/var/h1"},
		"the path is at fault": {"[host]\nrun_dir = 5\nstate_dir = \"relative\"\n", "/run/roam", "/var/lib/roam"},
		"in another section":   {"[dns]\nrun_dir = \"/run/h1\"\n", "/run/roam", "/var/lib/roam"},
		"nothing":              {"", "/run/roam", "/var/lib/roam"},
		"no text at all":       {"\x00\xff[[[]]]\n=\n", "/run/roam", "/var/lib/roam"},
	} {
		if cfg := rescue([]byte(tc.text)); cfg.Host.RunDir != tc.run || cfg.Host.StateDir != tc.state {
			t.Errorf("%s: %s and %s, want %s and %s", name, cfg.Host.RunDir, cfg.Host.StateDir, tc.run, tc.state)
		}
	}
}

// What the daemon keeps in its run directory knows more than a file with faults.
func TestRescueKnowsWhatIsInForce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "roam.conf")
	cfg := Default()
	cfg.Host.RunDir, cfg.Host.StateDir = filepath.Join(dir, "run"), filepath.Join(dir, "state")
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "[host]\nrun_dir = \""+cfg.Host.RunDir+"\"\nmood = 1\n")
	if got := Rescue(file); got.Host.RunDir != cfg.Host.RunDir || got.Host.StateDir != Default().Host.StateDir {
		t.Errorf("without a daemon: %+v", got.Host)
	}
	write(cfg.InForce(), Format(cfg))
	if got := Rescue(file); got.Host.StateDir != cfg.Host.StateDir {
		t.Errorf("with what a daemon keeps: %+v", got.Host)
	}
	if got := Rescue(filepath.Join(dir, "absent")); got.Host.RunDir != Default().Host.RunDir {
		t.Errorf("of no file: %+v", got.Host)
	}
}
