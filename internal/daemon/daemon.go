package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/config"
	"roam/internal/control"
	"roam/internal/dataplane"
	"roam/internal/durable"
	"roam/internal/role"
)

// Options is what a Daemon is started with.
type Options struct {
	ConfigFile string // may be absent: the defaults hold then
	Version    string
	Log        *slog.Logger
	Reload     <-chan os.Signal // each has the configuration read again; nil: none does
}

// Daemon is one running roamd.
type Daemon struct {
	control.Host   // the role of that name, or what says why there is none
	control.Border // likewise
	opts           Options
	kinds          []role.Kind // that there are
	load           func(file string) (config.Config, error)
	started        time.Time
	starts         uint64 // daemons since the run directory was made
	lock           *os.File
	roles          []*member    // those of the configuration, in the order of their start
	metrics        *http.Server // nil: not served
	hub            control.Hub
	history        history
	warnings       []string // of the daemon itself; written before requests are served
	stop           context.CancelFunc
	remove         atomic.Bool

	wanted    atomic.Pointer[[]string] // the roles that the file lists; nil: those in force
	reloading sync.Mutex               // held while the file is read, and cfg compared and replaced
	cfg       config.Config            // in force
}

var _ control.Backend = (*Daemon)(nil)

// ErrRunning is wrapped when another daemon holds the run directory.
var ErrRunning = errors.New("another roamd runs with this run directory")

// Run runs a daemon until ctx is done or a control request ends it.
func Run(ctx context.Context, opts Options) error {
	cfg, err := loadConfig(opts.ConfigFile)
	if err != nil {
		return err
	}
	d := newDaemon(opts, cfg, kinds)
	if err := d.takeRunDir(); err != nil {
		return err
	}
	defer d.lock.Close()
	return d.live(ctx)
}

func newDaemon(opts Options, cfg config.Config, kinds []role.Kind) *Daemon {
	return &Daemon{opts: opts, cfg: cfg, kinds: kinds, load: loadConfig, started: time.Now()}
}

// loadConfig takes the defaults when there is no file.
func loadConfig(file string) (config.Config, error) {
	cfg, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return config.Default(), nil
	}
	return cfg, err
}

func (d *Daemon) takeRunDir() error {
	if err := checkRunDir(d.cfg); err != nil {
		return err
	}
	if err := os.MkdirAll(d.cfg.Host.RunDir, 0o755); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(d.cfg.Host.RunDir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open lock of run directory: %w", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		return fmt.Errorf("lock %s: %w; stop it first, or give this one another host.run_dir and "+
			"host.state_dir, and another network namespace if both are hosts", f.Name(), ErrRunning)
	}
	d.lock = f
	return mountBPF(d.cfg.Pins())
}

// lockTime is how long a killed predecessor may take to die: the kernel lets go
// of its programs first, and of its lock last.
const lockTime = 2 * time.Second

func lock(f *os.File) error {
	deadline := time.Now().Add(lockTime)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// live is the life of a daemon that has its run directory.
func (d *Daemon) live(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d.stop = stop
	d.keep()
	err := d.startRoles(ctx)
	switch {
	case err == nil:
		d.startMetrics()
		err = d.serve(ctx)
	case errors.Is(err, context.Canceled):
		err = nil // ended on request while a role waited in its start
	}
	d.close()
	if d.remove.Load() {
		err = errors.Join(err, restore(d.cfg, d.kinds))
	}
	return err
}

// keep writes what a successor, and `roam down`, want to know.
func (d *Daemon) keep() {
	var err error
	if d.starts, err = countStart(d.cfg.Host.RunDir); err != nil {
		d.opts.Log.Warn(err.Error())
	}
	d.keepConfig()
	if err := keepRunDir(d.cfg); err != nil {
		d.opts.Log.Warn("a later change of host.run_dir will not be noticed", "err", err)
	}
}

// keepConfig writes the configuration in force.
func (d *Daemon) keepConfig() {
	if err := durable.Replace(d.cfg.InForce(), []byte(config.Format(d.cfg)), 0o644); err != nil {
		d.opts.Log.Warn("the configuration in force is not kept for `roam down`", "err", err)
	}
}

// serve runs the roles and the control socket until ctx is done, or no role is left.
func (d *Daemon) serve(ctx context.Context) error {
	l, err := control.Listen(d.cfg.Socket())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- control.Serve(ctx, l, d) }()
	reloaded := make(chan struct{})
	go func() { defer close(reloaded); d.reloadOnSignal(ctx) }()
	err = d.runRoles(ctx)
	cancel()
	d.hub.Close()
	<-reloaded // no role is closed meanwhile
	return errors.Join(err, <-served)
}

// close lets go of everything; data planes and what was set up stay.
func (d *Daemon) close() {
	if d.metrics != nil {
		if err := d.metrics.Close(); err != nil {
			d.opts.Log.Warn("not everything could be closed", "err", err)
		}
	}
	for _, m := range slices.Backward(d.roles) {
		d.closeRole(m)
	}
}

// publish passes an event to those that watch, and keeps it.
func (d *Daemon) publish(e control.Event) {
	d.hub.Publish(e)
	d.history.add(e)
}

// Restore gives the host back as it was before the first start, also after a
// crash. It refuses while a daemon runs.
//
// A file with faults does not keep it from that: what the daemon has kept of its
// configuration, or the paths that can be read of the file, serve as well.
func Restore(configFile string) error {
	cfg, err := loadConfig(configFile)
	if err != nil {
		cfg = config.Rescue(configFile)
	}
	d := newDaemon(Options{}, cfg, kinds)
	if err := d.takeRunDir(); err != nil {
		return err
	}
	defer d.lock.Close()
	return restore(cfg, kinds)
}

// restore undoes every kind of role, in the reverse order of the start: one that is not
// listed any more may have left something. The pins go last: the kernel holds the lock of
// all changes of links and addresses while it detaches, and detaches when this has ended.
func restore(cfg config.Config, kinds []role.Kind) error {
	var errs []error
	for _, k := range slices.Backward(kinds) {
		errs = append(errs, k.Restore(cfg))
	}
	errs = append(errs, dataplane.Remove(cfg.Pins()), unmountBPF(cfg.Pins()))
	starts := filepath.Join(cfg.Host.RunDir, "starts")
	for _, f := range []string{cfg.Socket(), cfg.InForce(), starts, runDirFile(cfg)} {
		if err := os.Remove(f); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("restore the host: %w", err)
	}
	return nil
}
