package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/testutil"
)

// TestKindsAreTheRolesOfTheConfiguration compares the two lists of roles.
func TestKindsAreTheRolesOfTheConfiguration(t *testing.T) {
	var have, want []string
	for _, k := range kinds {
		have = append(have, k.Name)
	}
	for _, r := range config.Roles() {
		want = append(want, r.Name)
	}
	if !slices.Equal(have, want) {
		t.Errorf("the daemon has %q, the configuration knows %q", have, want)
	}
}

// TestRolesBringTheirParts asks a daemon with two roles for everything.
func TestRolesBringTheirParts(t *testing.T) {
	b := newBench(t, func(*bench, *config.Config) {})
	b.start()
	ctx := t.Context()
	s := b.status()
	want := []control.RoleStatus{
		{Name: "host", State: "running", Facts: []control.RoleFact{{Name: "links", Value: "host0"}}},
		{Name: second, State: "running", Facts: []control.RoleFact{{Name: "links", Value: "second0"}}},
	}
	if !slices.EqualFunc(s.Roles, want, sameStatus) || s.State != "running" || s.NID != 7 || len(s.Warnings) > 0 {
		t.Errorf("status %+v", s)
	}
	list, err := b.client.Counters(ctx)
	if err != nil || len(list) != 2 || list[0].Name != "host_packets" ||
		list[1].Name != "second_packets" || list[1].Value != 3 {
		t.Errorf("counters %+v, %v", list, err)
	}
	text, err := b.d.metricsText(ctx)
	for _, line := range []string{
		"roam_host_packets_total 3", "roam_second_packets_total 3",
		`roam_role_up{role="host"} 1`, `roam_role_up{role="second"} 1`,
	} {
		if err != nil || !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("metrics lack %q, %v:\n%s", line, err, text)
		}
	}
	reports, err := b.client.Roles(ctx, 9)
	if err != nil || len(reports) != 2 || reports[1].Findings[0].Text != "second sees little" ||
		reports[1].Explain[0] != "second has seen 0000:0000:0000:0009" || string(reports[1].Report) != `{"second":1}` {
		t.Errorf("reports %+v, %v", reports, err)
	}
	if reports, err = b.client.Roles(ctx, 0); err != nil || reports[0].Explain != nil {
		t.Errorf("of no peer: %+v, %v", reports, err)
	}
	var kinds []string
	testutil.Eventually(t, 10*time.Second, func() bool {
		events, err := b.client.History(ctx)
		kinds = nil
		for _, e := range events {
			kinds = append(kinds, e.Kind)
		}
		return err == nil && slices.Contains(kinds, "host-runs") && slices.Contains(kinds, "second-runs")
	}, "the history lacks the events of a role")
	if _, err := b.client.Locators(ctx); err != nil {
		t.Errorf("the host does not answer: %v", err)
	}
	b.stop()
	if err := b.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	b.wantDone("start host", "start second", "close second", "close host")
}

func sameStatus(a, b control.RoleStatus) bool {
	return a.Name == b.Name && a.State == b.State && a.Error == b.Error && a.Do == b.Do &&
		slices.Equal(a.Facts, b.Facts)
}

// TestHostAloneIsShownAsBefore looks at a daemon with the default role.
func TestHostAloneIsShownAsBefore(t *testing.T) {
	b := newBench(t, func(_ *bench, cfg *config.Config) { cfg.Roles = []string{config.RoleHost} })
	b.start()
	if s := b.status(); s.Roles != nil || s.NID != 7 || s.State != "running" {
		t.Errorf("status %+v", s)
	}
	if list, err := b.client.Counters(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("counters %+v, %v", list, err)
	}
}

// noFeature is why a role cannot start on some kernels.
var noFeature = control.Errorf(control.CodeUnsupported, "this kernel has no tcx").WithHint("run Linux 6.6 or newer")

// TestRoleThatCannotStart has the second role lack a feature of the kernel: it says so
// with the line and what to do, and the host runs.
func TestRoleThatCannotStart(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Config) { b.roles[second].startErr = noFeature })
	b.start()
	b.wantDone("start host", "start second", "close second")
	s := b.status()
	do := `run Linux 6.6 or newer; then restart roamd, or take "second" out of role.run (` + b.file + `:3)`
	want := control.RoleStatus{Name: second, State: "failed", Error: "this kernel has no tcx", Do: do}
	if len(s.Roles) != 2 || !sameStatus(s.Roles[1], want) || s.Roles[0].State != "running" || s.State != "degraded" {
		t.Errorf("status %+v, want the role %+v", s, want)
	}
	warning := `the role "second" does not run: this kernel has no tcx; ` + do
	if !slices.Contains(s.Warnings, warning) {
		t.Errorf("warnings %q, want %q", s.Warnings, warning)
	}
	for _, part := range []string{"a role cannot start", "this kernel has no tcx", "role=second", "Linux 6.6"} {
		if out := b.log.String(); !strings.Contains(out, part) {
			t.Errorf("log without %q:\n%s", part, out)
		}
	}
	if list, err := b.client.Counters(t.Context()); err != nil || len(list) != 1 || list[0].Name != "host_packets" {
		t.Errorf("counters %+v, %v", list, err)
	}
	text, err := b.d.metricsText(t.Context())
	if err != nil || !strings.Contains(string(text), `roam_role_up{role="second"} 0`) {
		t.Errorf("metrics %v:\n%s", err, text)
	}
	reports, err := b.client.Roles(t.Context(), 0)
	if err != nil || len(reports) != 2 || !sameStatus(reports[1].RoleStatus, want) {
		t.Errorf("reports %+v, %v", reports, err)
	}
	if _, err := b.client.Locators(t.Context()); err != nil {
		t.Errorf("the host does not answer: %v", err)
	}
	b.stop()
	if err := b.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	b.wantDone("start host", "start second", "close second", "close host")
}

// TestHostThatCannotStart leaves the second role alone: what only a host answers has the
// reason.
func TestHostThatCannotStart(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Config) { b.roles[config.RoleHost].startErr = noFeature })
	b.start()
	_, err := b.client.Locators(t.Context())
	if err == nil || !strings.Contains(err.Error(), `the role "host" does not run: this kernel has no tcx`) ||
		!strings.Contains(control.Hint(err), "Linux 6.6") || !strings.Contains(control.Hint(err), b.file+":3") {
		t.Errorf("locators: %v; %s", err, control.Hint(err))
	}
	if s := b.status(); len(s.Roles) != 2 || s.Roles[1].State != "running" || s.Roles[0].State != "failed" {
		t.Errorf("status %+v", s)
	}
}

// TestNoHost runs a daemon that is none.
func TestNoHost(t *testing.T) {
	b := newBench(t, func(_ *bench, cfg *config.Config) { cfg.Roles = []string{second} })
	b.start()
	err := b.client.SetLinkEnabled(t.Context(), "wlan0", true)
	if err == nil || !strings.Contains(err.Error(), "no ILNP host") || !strings.Contains(control.Hint(err), b.file+":3") {
		t.Errorf("enable: %v; %s", err, control.Hint(err))
	}
	err = b.client.SetDrained(t.Context(), "wan0", true)
	if err == nil || !strings.Contains(err.Error(), "no site border") || !strings.Contains(control.Hint(err), `"border"`) {
		t.Errorf("drain: %v; %s", err, control.Hint(err))
	}
	if s := b.status(); len(s.Roles) != 1 || s.Roles[0].Name != second || s.State != "running" {
		t.Errorf("status %+v", s)
	}
}

// TestNoRoleCanStart ends the daemon with the reasons, the hint of the first included.
func TestNoRoleCanStart(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Config) {
		b.roles[config.RoleHost].startErr, b.roles[second].startErr = noFeature, errors.New("no second")
	})
	err := b.d.live(t.Context())
	if !errors.Is(err, noFeature) || !strings.Contains(err.Error(), "no second") ||
		control.Hint(err) != noFeature.Hint {
		t.Errorf("ended with %v; %s", err, control.Hint(err))
	}
	if got := b.done(); !slices.Contains(got, "close host") || !slices.Contains(got, "close second") {
		t.Errorf("done: %q", got)
	}
}

// TestRoleThatWaits does not hold up the units after this one, says what it waits for, and ends on request.
func TestRoleThatWaits(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	b := newBench(t, func(b *bench, cfg *config.Config) {
		cfg.Roles, b.roles[config.RoleHost].waits = []string{config.RoleHost}, "an address"
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { b.ended <- b.d.live(ctx) }()
	if err := manager.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	state := make([]byte, 256)
	n, err := manager.Read(state)
	if got := string(state[:n]); err != nil || got != "READY=1\nSTATUS=waits for an address" {
		t.Errorf("systemd is sent %q, %v", got, err)
	}
	if !strings.Contains(b.log.String(), `for="an address"`) {
		t.Errorf("log: %s", b.log.String())
	}
	stop()
	if err := b.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestRoleThatEndsEarly goes on without it, and ends with the last.
func TestRoleThatEndsEarly(t *testing.T) {
	b := newBench(t, func(*bench, *config.Config) {})
	b.start()
	b.roles[second].ends <- errors.New("the ring is broken")
	testutil.Eventually(t, 10*time.Second, func() bool {
		s := b.status()
		return len(s.Roles) == 2 && s.Roles[1].State == "failed" && s.Roles[1].Error == "the ring is broken"
	}, "the role that has ended is not shown as such")
	if _, err := b.client.Locators(t.Context()); err != nil {
		t.Errorf("the host does not answer: %v", err)
	}
	if out := b.log.String(); !strings.Contains(out, "the ring is broken") {
		t.Errorf("log:\n%s", out)
	}
	b.roles[config.RoleHost].ends <- errors.New("the engine is broken")
	if err := b.end(); err == nil || !strings.Contains(err.Error(), "the engine is broken") {
		t.Errorf("ended with %v", err)
	}
}

// TestRoleThatDoesNotAnswer keeps the others' answers.
func TestRoleThatDoesNotAnswer(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Config) { b.roles[second].deaf = errors.New("busy") })
	b.start()
	if list, err := b.client.Counters(t.Context()); err != nil || len(list) == 0 || list[0].Name != "host_packets" {
		t.Errorf("counters %+v, %v", list, err)
	}
	if text, err := b.d.metricsText(t.Context()); err != nil || strings.Contains(string(text), "half a fam") {
		t.Errorf("metrics %v:\n%s", err, text)
	}
	if s := b.status(); len(s.Roles) != 2 || s.Roles[1].Error != "busy" {
		t.Errorf("status %+v", s)
	}
	b.roles[config.RoleHost].deaf = errors.New("busy, too")
	if _, err := b.client.Counters(t.Context()); err == nil {
		t.Error("no role answers, and that is no error")
	}
}

// TestReloadTakesARoleAway lets it run on until the next start.
func TestReloadTakesARoleAway(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Config) { b.roles[second].amiss = "no link" })
	b.d.load = func(string) (config.Config, error) {
		next := b.d.cfg
		next.Roles, next.Host.Hosts = []string{config.RoleHost}, "/elsewhere"
		return next, nil
	}
	b.start()
	r, err := b.client.Reload(t.Context())
	restart := []string{`role.run: ["host", "second"] -> ["host"]`}
	applied := []string{`host.hosts: "/etc/roam/hosts" -> "/elsewhere"`}
	if err != nil || !slices.Equal(r.Restart, restart) || !slices.Equal(r.Applied, applied) {
		t.Errorf("reloaded %+v, %v", r, err)
	}
	if text, err := os.ReadFile(b.d.cfg.InForce()); err != nil || !strings.Contains(string(text), "/elsewhere") {
		t.Errorf("the daemon keeps %q, %v", text, err)
	}
	want := `the role "second" runs, but: role.run (` + b.file + `:3) no longer lists it; ` +
		`restart roamd to end it, or list it again`
	if s := b.status(); len(s.Roles) != 2 || s.Roles[1].State != "running" || !slices.Equal(s.Warnings, []string{want}) {
		t.Errorf("status %+v, want the warning %q", s, want)
	}
	if reports, err := b.client.Roles(t.Context(), 0); err != nil || len(reports) != 2 || reports[1].Error == "" {
		t.Errorf("reports %+v, %v", reports, err)
	}
	next := b.roles[second].next
	if !next.Has(second) || next.Host.Hosts != "/elsewhere" {
		t.Errorf("the second role was told %+v", next)
	}
	if r, err := b.client.Reload(t.Context()); err != nil || !slices.Equal(r.Restart, restart) || len(r.Applied) > 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
}

// TestReloadAddsARole says that it waits for a restart; listed as at the start, nothing is
// amiss again.
func TestReloadAddsARole(t *testing.T) {
	b := newBench(t, func(_ *bench, cfg *config.Config) { cfg.Roles = []string{config.RoleHost} })
	listed := []string{config.RoleHost, second}
	b.d.load = func(string) (config.Config, error) {
		next := b.d.cfg
		next.Roles = listed
		return next, nil
	}
	b.start()
	want := `the role "second" does not run: role.run (` + b.file + `:3) lists it since roamd has started; restart roamd`
	for _, warnings := range [][]string{{want}, nil} {
		if _, err := b.client.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := b.status()
		if !slices.Equal(s.Warnings, warnings) || (s.Roles != nil) != (warnings != nil) {
			t.Errorf("status %+v, want the warnings %q", s, warnings)
		}
		listed = []string{config.RoleHost}
	}
}

// TestRoleWithAFault shows what is amiss with a role that runs, and what to do.
func TestRoleWithAFault(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Config) { b.roles[second].amiss = "no link" })
	b.start()
	want := `the role "second" runs, but: no link; plug it in`
	s := b.status()
	if s.State != "degraded" || !slices.Equal(s.Warnings, []string{want}) || s.Roles[1].State != "running" {
		t.Errorf("status %+v, want the warning %q", s, want)
	}
}

// TestReloadBySignal reloads for each signal, and logs the outcome, which nobody else is told.
func TestReloadBySignal(t *testing.T) {
	signals := make(chan os.Signal, 1)
	b := newBench(t, func(*bench, *config.Config) {})
	var fault error
	b.d.opts.Reload = signals
	b.d.load = func(string) (config.Config, error) {
		next := b.d.cfg
		next.Host.Hosts = "/elsewhere"
		return next, fault
	}
	b.start()
	logged := func(want string) {
		t.Helper()
		in := func() bool { return strings.Contains(b.log.String(), want) }
		testutil.Eventually(t, 10*time.Second, in, want)
	}
	signals <- syscall.SIGHUP
	logged("/elsewhere")
	if next := b.roles[second].next; next.Host.Hosts != "/elsewhere" {
		t.Errorf("the second role was told %+v", next)
	}
	fault = errors.New("a fault in line 3")
	signals <- syscall.SIGHUP
	logged(`err="a fault in line 3" do="nothing was changed"`)
	b.stop()
	if err := b.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestReloadThatARoleRefuses stays with the old configuration.
func TestReloadThatARoleRefuses(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Config) {
		spoilt := control.Errorf(control.CodeInvalid, "a line is spoilt")
		b.roles[config.RoleHost].deaf = spoilt.WithHint("nothing was changed")
	})
	b.d.load = func(string) (config.Config, error) {
		next := b.d.cfg
		next.Host.Hosts = "/elsewhere"
		return next, nil
	}
	b.start()
	if _, err := b.client.Reload(t.Context()); err == nil || control.Hint(err) != "nothing was changed" {
		t.Errorf("reload: %v", err)
	}
	if slices.Contains(b.done(), "reload second") || b.d.cfg.Host.Hosts == "/elsewhere" {
		t.Errorf("done: %q; in force: %q", b.done(), b.d.cfg.Host.Hosts)
	}
}

// TestReloadThatTheLastRoleRefuses changes nothing of the first one: all are asked before any takes something over.
// The file is read under the lock, so that of two reloads the later one has the later text.
func TestReloadThatTheLastRoleRefuses(t *testing.T) {
	spoilt := control.Errorf(control.CodeInvalid, "a line is spoilt").WithHint("nothing was changed")
	b := newBench(t, func(b *bench, _ *config.Config) { b.roles[second].refuses = spoilt })
	b.d.load = func(string) (config.Config, error) {
		if b.d.reloading.TryLock() {
			b.d.reloading.Unlock()
			t.Error("the file is read while another reload may be")
		}
		next := b.d.cfg
		next.Host.Hosts = "/elsewhere"
		return next, nil
	}
	b.start()
	if _, err := b.client.Reload(t.Context()); err == nil || control.Hint(err) != "nothing was changed" {
		t.Errorf("reload: %v", err)
	}
	if slices.Contains(b.done(), "reload host") || b.d.cfg.Host.Hosts == "/elsewhere" {
		t.Errorf("done: %q; in force: %q", b.done(), b.d.cfg.Host.Hosts)
	}
}

// TestSettingOfAFailedRoleWaits says of a role that does not run that its setting is not
// in force.
func TestSettingOfAFailedRoleWaits(t *testing.T) {
	b := newBench(t, func(b *bench, _ *config.Config) { b.roles[config.RoleHost].startErr = noFeature })
	b.d.load = func(string) (config.Config, error) {
		next := b.d.cfg
		next.Host.Hosts = "/elsewhere"
		return next, nil
	}
	b.start()
	if r, err := b.client.Reload(t.Context()); err != nil || len(r.Applied) > 0 || len(r.Restart) != 1 {
		t.Errorf("reloaded %+v, %v", r, err)
	}
}

// TestDownRestoresEveryRole undoes them in the reverse order of the start, one that was
// not listed included.
func TestDownRestoresEveryRole(t *testing.T) {
	for _, roles := range [][]string{{config.RoleHost, second}, {config.RoleHost}} {
		b := newBench(t, func(_ *bench, cfg *config.Config) { cfg.Roles = roles })
		b.start()
		if _, err := os.Stat(b.d.cfg.InForce()); err != nil {
			t.Errorf("the configuration in force is not kept: %v", err)
		}
		if err := b.client.Shutdown(context.Background(), true); err != nil {
			t.Fatal(err)
		}
		if err := b.end(); err != nil {
			t.Errorf("ended with %v", err)
		}
		done := b.done()
		if got := done[len(done)-3:]; !slices.Equal(got, []string{"close host", "restore second", "restore host"}) {
			t.Errorf("%q: done %q", roles, done)
		}
		if _, err := os.Stat(b.d.cfg.InForce()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: what is kept for `roam down` is left: %v", roles, err)
		}
	}
}
