package daemon

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/control/controltest"
	"roam/internal/metrics"
	"roam/internal/role"
	"roam/internal/testutil"
)

// second is the name of a role that only these tests have.
const second = "second"

// bench is a daemon of fake roles in a directory of its own, and what they did.
type bench struct {
	t       *testing.T
	d       *Daemon
	roles   map[string]*fake
	log     buffer
	file    string // roam.conf
	client  *control.Client
	stop    context.CancelFunc
	ended   chan error
	mu      sync.Mutex
	actions []string
}

// fake is a role whose doings the test decides.
type fake struct {
	role.Silent
	bench    *bench
	env      role.Env
	name     string
	startErr error
	waits    string        // for which Start waits until the end
	deaf     error         // what it answers to every question
	amiss    string        // a fault of which its status tells
	refuses  error         // what it says of a configuration before it is taken over
	ends     chan error    // what ends Run early
	next     config.Config // of the last Reload
}

// fakeHost answers what a host does.
type fakeHost struct {
	*fake
	control.Host
}

func (b *bench) did(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.actions = append(b.actions, what)
}

func (b *bench) done() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.actions)
}

func (f *fake) Start(ctx context.Context) error {
	f.bench.did("start " + f.name)
	if f.waits != "" {
		f.env.Waits(f.waits)
		<-ctx.Done()
		return ctx.Err()
	}
	return f.startErr
}

func (f *fake) Run(ctx context.Context) error {
	f.env.Publish(control.Event{Kind: f.name + "-runs"})
	select {
	case err := <-f.ends:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (f *fake) Close() error {
	f.bench.did("close " + f.name)
	return nil
}

func (f *fake) Check(config.Config) error { return f.refuses }

func (f *fake) Reload(_ context.Context, next config.Config) error {
	f.bench.did("reload " + f.name)
	f.next = next
	return f.deaf
}

func (f *fake) Status(_ context.Context, s *control.Status, own *control.RoleStatus) error {
	if f.name == config.RoleHost {
		s.NID = 7
	}
	own.Facts = append(own.Facts, control.RoleFact{Name: "links", Value: f.name + "0"})
	if f.amiss != "" {
		own.Error, own.Do = f.amiss, "plug it in"
	}
	return f.deaf
}

func (f *fake) Counters(context.Context) ([]control.Counter, error) {
	return []control.Counter{{Name: f.name + "_packets", Meaning: "seen", Value: 3}}, f.deaf
}

func (f *fake) Metrics(_ context.Context, w io.Writer) error {
	if f.deaf != nil {
		_, _ = io.WriteString(w, "half a fam")
		return f.deaf
	}
	return metrics.WriteFamilies(w, metrics.Family{
		Name: "roam_" + f.name + "_packets_total", Kind: "counter", Help: "Seen.",
		Samples: []metrics.Sample{{Value: 3}},
	})
}

func (f *fake) Doctor(context.Context) ([]control.RoleFinding, error) {
	return []control.RoleFinding{{Level: "warning", Text: f.name + " sees little", Do: "look elsewhere"}}, f.deaf
}

func (f *fake) Explain(_ context.Context, peer roam.NID) ([]string, error) {
	return []string{f.name + " has seen " + peer.String()}, f.deaf
}

func (f *fake) Report(context.Context) (any, error) { return map[string]int{f.name: 1}, f.deaf }

// newBench prepares a daemon that is a host and a second role; change is given the roles
// before they start.
func newBench(t *testing.T, change func(b *bench, cfg *config.Config)) *bench {
	t.Helper()
	b := &bench{t: t, roles: make(map[string]*fake), ended: make(chan error, 1)}
	dir := t.TempDir()
	b.file = filepath.Join(t.TempDir(), "roam.conf")
	text := "# a daemon\n[role]\nrun = [\"host\", \"second\"]\n"
	if err := os.WriteFile(b.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Host.RunDir, cfg.Host.StateDir, cfg.Roles = dir, dir, []string{config.RoleHost, second}
	for _, name := range cfg.Roles {
		b.roles[name] = &fake{bench: b, name: name, ends: make(chan error)}
	}
	change(b, &cfg)
	kind := func(name string, wrap func(*fake) role.Role) role.Kind {
		return role.Kind{
			Name:    name,
			New:     func(env role.Env) role.Role { b.roles[name].env = env; return wrap(b.roles[name]) },
			Restore: func(config.Config) error { b.did("restore " + name); return nil },
		}
	}
	log := slog.New(slog.NewTextHandler(&b.log, nil))
	b.d = newDaemon(Options{ConfigFile: b.file, Version: "test", Log: log}, cfg, []role.Kind{
		kind(config.RoleHost, func(f *fake) role.Role { return fakeHost{f, controltest.New()} }),
		kind(second, func(f *fake) role.Role { return f }),
	})
	b.client = control.NewClient(cfg.Socket())
	return b
}

// start runs the daemon until the test ends, and waits until it answers.
func (b *bench) start() {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	b.stop = stop
	go func() { b.ended <- b.d.live(ctx) }()
	b.t.Cleanup(stop)
	testutil.Eventually(b.t, 10*time.Second, func() bool {
		_, err := b.client.Status(b.t.Context())
		return err == nil
	}, "the daemon does not answer")
}

// end waits for the daemon's end.
func (b *bench) end() error {
	b.t.Helper()
	select {
	case err := <-b.ended:
		return err
	case <-time.After(10 * time.Second):
		b.t.Fatal("the daemon does not end")
		return nil
	}
}

func (b *bench) status() control.Status {
	b.t.Helper()
	s, err := b.client.Status(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// wantDone compares what the roles did.
func (b *bench) wantDone(want ...string) {
	b.t.Helper()
	if got := b.done(); !slices.Equal(got, want) {
		b.t.Errorf("done: %q, want %q", got, want)
	}
}

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
