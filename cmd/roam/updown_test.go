package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/control/controltest"
)

const upLine = "0011:22ff:0000:0001, fd69:6c6e:7000:2627:11:22ff:0:1\n"

func TestUpStartsTheDaemon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roam.conf")
	if err := os.WriteFile(file, []byte("[host]\nmode = \"hard\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.daemon.Err = errAbsent
	w.machine.systemd = true // does not matter for a file of one's own
	w.machine.onStart = func() { w.daemon.Err = nil }
	status, out, errs := w.try("up", "--config", file)
	if status != cli.StatusOK || out != "up: "+upLine || errs != "" {
		t.Errorf("up: %d, %q, %q", status, out, errs)
	}
	if want := []string{"detach --config " + file}; !slices.Equal(w.machine.done, want) {
		t.Errorf("did %q, want %q", w.machine.done, want)
	}
	status, out, _ = w.try("up", "--config", file)
	if status != cli.StatusOK || out != "up already: "+upLine || len(w.machine.done) != 1 {
		t.Errorf("up again: %d, %q, did %q", status, out, w.machine.done)
	}
}

func TestUpThroughSystemd(t *testing.T) {
	w := newWorld(t)
	w.daemon.Err = errAbsent
	w.machine.systemd = true
	w.machine.onStart = func() { w.daemon.Err = nil }
	// No file is named: only then is it the unit's daemon that is meant.
	status, out, errs := w.try("up", "--json")
	var s started
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != cli.StatusOK || s.PID != 4711 || s.Already {
		t.Errorf("up: %d, %q, %q, %v", status, out, errs, err)
	}
	if want := []string{"systemctl start"}; !slices.Equal(w.machine.done, want) {
		t.Errorf("did %q, want %q", w.machine.done, want)
	}
}

func TestUpFails(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*fakeHost)
		want   []string
	}{
		"no root":      {func(h *fakeHost) { h.root = false }, []string{"only root may", "sudo roam up"}},
		"no answer":    {func(*fakeHost) {}, []string{"does not answer after 10s", "roamd.log"}},
		"ends at once": {func(h *fakeHost) { h.ended = errors.New("exit status 1") }, []string{"ended at once: exit status 1\nthe last line", "roamd.log"}},
		"no roamd":     {func(h *fakeHost) { h.fail = errors.New("find roamd") }, []string{"find roamd"}},
		"no unit":      {func(h *fakeHost) { h.fail, h.systemd = errors.New("masked"), true }, []string{"masked"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.daemon.Err = errAbsent
			tc.before(w.machine)
			status, out, errs := w.try("up")
			if out != "" || status != cli.StatusFailure && status != cli.StatusNoDaemon {
				t.Errorf("status %d, out %q", status, out)
			}
			for _, want := range tc.want {
				if !strings.Contains(errs, want) {
					t.Errorf("errors %q lack %q", errs, want)
				}
			}
		})
	}
}

// silent is a daemon that is stopped: it answers nothing.
type silent struct{ *controltest.Fake }

func (silent) Status(ctx context.Context) (control.Status, error) {
	<-ctx.Done()
	return control.Status{}, ctx.Err()
}

// TestUpOfASilentDaemon does not wait for ever.
func TestUpOfASilentDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.connect = func(string) control.Backend { return silent{w.daemon} }
		status, _, errs := w.try("up")
		if status != cli.StatusFailure || !strings.Contains(errs, "has not answered for 10s") || w.machine.done != nil {
			t.Errorf("status %d, %q, did %q", status, errs, w.machine.done)
		}
	})
}

// TestUpOfAHostWithoutAnAddress says what the daemon waits for.
func TestUpOfAHostWithoutAnAddress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roam.conf")
	if err := os.WriteFile(file, []byte("[host]\nnid = \"from-address\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.daemon.Err = errAbsent
	status, _, errs := w.try("up", "--config", file)
	const want = "waits until this host has a global IPv6 address; its log: "
	if status == cli.StatusOK || !strings.Contains(errs, want) {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestUpRefusesABadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roam.conf")
	if err := os.WriteFile(file, []byte("[host]\nmood = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	status, _, errs := w.try("up", "--config", file)
	if status != cli.StatusFailure || !strings.Contains(errs, ":2:1: host.mood: unknown key") || w.machine.done != nil {
		t.Errorf("status %d, %q, did %q", status, errs, w.machine.done)
	}
}

func TestUpWarnsOfTrust(t *testing.T) {
	w := newWorld(t)
	w.machine.output = map[string]string{"ip6tables-save": "-A INPUT -s fc00::/7 -j ACCEPT\n"}
	status, _, errs := w.try("up")
	if status != cli.StatusOK || !strings.Contains(errs, "warning: a firewall rule trusts more than it should: ip6tables -A INPUT -s fc00::/7 -j ACCEPT") {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestDown(t *testing.T) {
	w := newWorld(t)
	w.daemon.OnShutdown = func(bool) { w.machine.alive = false }
	status, out, errs := w.try("down")
	if status != cli.StatusOK || out != "down: the host is restored\n" || errs != "" {
		t.Errorf("down: %d, %q, %q", status, out, errs)
	}
	if got := w.daemon.Instructions(); !slices.Equal(got, []string{"shutdown and remove"}) {
		t.Errorf("told %q", got)
	}
	// Whether the host is as it was is looked at, not assumed.
	if want := []string{"roamd restore --config /etc/roam/roam.conf"}; !slices.Equal(w.machine.done, want) {
		t.Errorf("did %q, want %q", w.machine.done, want)
	}
	w = newWorld(t)
	w.daemon.OnShutdown = func(bool) { w.machine.alive = false }
	w.machine.root = false
	if status, _, errs := w.try("down"); status != cli.StatusOK || w.machine.done != nil {
		t.Errorf("down by a member of the group: %d, %q, did %q", status, errs, w.machine.done)
	}
	w.daemon.Err, w.machine.root, w.machine.fail = nil, true, errors.New("pins stay")
	if status, _, errs := w.try("down"); status != cli.StatusFailure || !strings.Contains(errs, "pins stay") {
		t.Errorf("down that leaves something: %d, %q", status, errs)
	}
}

func TestDownWithoutADaemon(t *testing.T) {
	w := newWorld(t)
	w.daemon.Err = errAbsent
	status, out, _ := w.try("down", "--json", "--config", "/dev/null")
	if status != cli.StatusOK || out != "{\n  \"stopped\": false\n}\n" {
		t.Errorf("down: %d, %q", status, out)
	}
	if want := []string{"roamd restore --config /dev/null"}; !slices.Equal(w.machine.done, want) {
		t.Errorf("did %q, want %q", w.machine.done, want)
	}
	w.machine.root = false
	if status, _, errs := w.try("down"); status != cli.StatusFailure || !strings.Contains(errs, "sudo roam down") {
		t.Errorf("down without root: %d, %q", status, errs)
	}
}

// TestDownBetweenTwoStarts keeps systemd from starting the daemon again that has just ended, or does not answer yet.
func TestDownBetweenTwoStarts(t *testing.T) {
	const restored = "roamd restore --config /nonexistent/roam.conf"
	for name, tc := range map[string]struct {
		args []string
		root bool
		want []string
	}{
		"that of the unit":   {[]string{"down"}, true, []string{"systemctl stop", restored}},
		"not root":           {[]string{"down"}, false, nil},
		"another one's":      {[]string{"down", "--config", "/dev/null"}, true, []string{"roamd restore --config /dev/null"}},
		"at another's place": {[]string{"down", "--socket", "/x/control.sock"}, true, []string{restored}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.daemon.Err, w.machine.systemd, w.machine.root = errAbsent, true, tc.root
			if status, _, errs := w.try(tc.args...); (status == cli.StatusOK) != tc.root {
				t.Errorf("down: %d, %q", status, errs)
			}
			if !slices.Equal(w.machine.done, tc.want) {
				t.Errorf("did %q, want %q", w.machine.done, tc.want)
			}
		})
	}
}

func TestDownThroughSystemd(t *testing.T) {
	w := newWorld(t)
	w.machine.systemd, w.machine.unitPID = true, 4711
	if status, _, errs := w.try("down"); status != cli.StatusOK {
		t.Errorf("down: %d, %q", status, errs)
	}
	// The unit must end it: it would start a daemon again that ended itself.
	want := []string{"systemctl stop", "roamd restore --config /etc/roam/roam.conf"}
	if !slices.Equal(w.machine.done, want) || w.daemon.Instructions() != nil {
		t.Errorf("did %q, told %q", w.machine.done, w.daemon.Instructions())
	}
}

func TestDownOfADaemonThatStays(t *testing.T) {
	w := newWorld(t)
	status, _, errs := w.try("down")
	if status != cli.StatusFailure || !strings.Contains(errs, "kill -9 4711") {
		t.Errorf("down: %d, %q", status, errs)
	}
}

// TestDownUnderAFaultyConfiguration ends a daemon that is well, and undoes what it has
// done by the configuration that it keeps, which the file with faults does not tell.
func TestDownUnderAFaultyConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "roam.conf")
	if err := os.WriteFile(file, []byte("[host]\nmood = 1\nrun_dir = \"/run/h1\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		socket, kept, want string
		runs               bool
	}{
		{"", "/run/h1/roam.conf", "/run/h1/roam.conf", true},
		{"", "/run/h1/roam.conf", "/run/h1/roam.conf", false},
		{"/x/control.sock", "/x/roam.conf", "/x/roam.conf", true},
		{"", "", file, false}, // roamd makes of the file what can be made of it
	} {
		w := newWorld(t)
		w.daemon.StatusValue.Config = file
		w.machine.files = map[string]string{tc.kept: "[host]\n"}
		if tc.runs {
			w.daemon.OnShutdown = func(bool) { w.machine.alive = false }
		} else {
			w.daemon.Err = errAbsent
		}
		args := []string{"down", "--config", file}
		if tc.socket != "" {
			args = append(args, "--socket", tc.socket)
		}
		status, out, errs := w.try(args...)
		if want := []string{"roamd restore --config " + tc.want}; status != cli.StatusOK || !strings.HasPrefix(out, "down") || !slices.Equal(w.machine.done, want) {
			t.Errorf("%+v: status %d, %q, %q, did %q", tc, status, out, errs, w.machine.done)
		}
	}
}
