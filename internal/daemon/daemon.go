package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/dnsio"
	"roam/internal/engine"
	"roam/internal/hostnet"
	"roam/internal/rawio"
	"roam/naming"
)

// Options is what a Daemon is started with.
type Options struct {
	ConfigFile string // may be absent: the defaults hold then
	Version    string
	Log        *slog.Logger
}

// Daemon is one running roamd.
type Daemon struct {
	opts        Options
	cfg         config.Config
	nid         roam.NID
	started     time.Time
	lock        *os.File
	plane       *dataplane.Plane
	network     *hostnet.Host
	sender      *rawio.Sender
	updates     *rawio.Updates // those that come in fragments
	reassembled chan rawio.Message
	engine      *engine.Engine
	dns         *dnsio.Server
	resolv      *resolvKeeper // nil: resolv.conf is not ours to care for
	// literals turns real addresses into session addresses; nil: switched off.
	literals *dataplane.Literals
	metrics  *http.Server // nil: not served
	settings dataplane.HostSettings
	starts   uint64 // daemons since the run directory was made
	hub      control.Hub
	history  history
	names    atomic.Pointer[naming.Table]
	stop     context.CancelFunc
	keeping  sync.Mutex // held while the file of added peers is read, written and taken over

	// Only touched by the engine's goroutine, through Do.
	records  map[roam.NID]naming.Record
	hosts    naming.Hosts // the files that records are from
	warnings []string
	// literalFault is why literals is not complete; "": it is.
	literalFault string
	tally        tally
	move         move
	security     quota
	refused      refusedNodes
	chatter      quota // lines of the log about single sessions

	rendezvous rendezvous
	// What the data plane had counted when it was last looked at.
	watched    time.Time
	lastCounts map[string]uint64

	remove atomic.Bool
}

// ErrRunning is wrapped when another daemon holds the run directory.
var ErrRunning = errors.New("another roamd runs with this run directory")

// Run runs a daemon until ctx is done or a control request ends it.
func Run(ctx context.Context, opts Options) error {
	cfg, err := loadConfig(opts.ConfigFile)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := &Daemon{opts: opts, cfg: cfg, started: time.Now(), stop: stop, records: make(map[roam.NID]naming.Record),
		security: quota{most: securityLines, period: securityTime}, chatter: quota{most: sessionLines, period: sessionTime}}
	if err := d.takeRunDir(); err != nil {
		return err
	}
	defer d.lock.Close()
	if d.nid, err = identity(cfg); err != nil {
		return err
	}
	if err := d.open(); err != nil {
		d.close()
		return err
	}
	err = d.serve(ctx)
	d.close()
	if d.remove.Load() {
		err = errors.Join(err, restore(d.cfg))
	}
	return err
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
	if err := os.MkdirAll(d.cfg.Host.RunDir, 0o755); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(d.cfg.Host.RunDir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open lock of run directory: %w", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		return fmt.Errorf("lock %s: %w; stop it first, or give this one another host.run_dir", f.Name(), ErrRunning)
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

// open loads the data plane and prepares the host, in the order in which each
// part needs the one before.
func (d *Daemon) open() (err error) {
	if d.starts, err = countStart(d.cfg.Host.RunDir); err != nil {
		d.opts.Log.Warn(err.Error())
	}
	if err := keepFile(d.cfg.InForce(), config.Format(d.cfg)); err != nil {
		d.opts.Log.Warn("the configuration in force is not kept for `roam down`", "err", err)
	}
	device, err := d.loadAndSetUp()
	if err != nil {
		return err
	}
	real, err := d.network.HadIdentifier()
	if err != nil {
		return err
	}
	probeID := probeID()
	d.settings = dataplane.HostSettings{
		SessionPrefix: d.cfg.Host.SessionPrefix, NIDs: []roam.NID{d.nid},
		RealNID:   real || d.cfg.Host.NID.Source == config.NIDFromAddress,
		AcceptAny: d.cfg.Host.Accept == ilnp.Any, ProbeID: probeID, NonceLength: uint8(d.cfg.ILNP.NonceLength), Segmentation: roam.LinkID(device.Segmentation),
	}
	if err := d.plane.SetHost(d.settings); err != nil {
		return err
	}
	// The kernel waits for running programs at each link: enough time for the rest.
	attached := make(chan error, 1)
	go func() { attached <- d.attach(device) }()
	err = d.prepare(probeID)
	if err = errors.Join(<-attached, err); err != nil {
		return err
	}
	known, err := d.plane.AttachedUplinks()
	if err != nil {
		return err
	}
	prepared, err := d.plane.PreparedUplinks()
	if err != nil {
		return err
	}
	d.network.WereCandidates(prepared...)
	if each, why := d.plane.GuardsEachLink(); each {
		d.opts.Log.Info("links are guarded one by one, each after it has appeared", "why", why)
		d.network.TellLinks()
	}
	return d.network.Start(known...)
}

// loadAndSetUp loads the data plane while the session device is made: each waits
// for the kernel most of the time. A daemon that finds that it cannot run here
// changes nothing.
func (d *Daemon) loadAndSetUp() (device hostnet.Device, err error) {
	_, noJournal := os.Stat(d.cfg.Journal())
	loaded := make(chan error, 1)
	go func() {
		var err error
		d.plane, err = dataplane.Open(dataplane.Options{
			PinDir: d.cfg.Pins(), Classic: hostnet.Classic{}, Sessions: d.cfg.ILNP.MaxSessions,
			EncapPort: d.cfg.ILNP.UDPPort,
		})
		loaded <- err
	}()
	if d.network, err = hostnet.Open(d.networkConfig()); err == nil {
		device, err = d.network.Setup()
	}
	notLoaded := <-loaded
	if notLoaded != nil && d.network != nil && errors.Is(noJournal, fs.ErrNotExist) {
		err = errors.Join(err, d.network.Close(), hostnet.Restore(d.cfg.Journal()))
	}
	return device, errors.Join(notLoaded, err)
}

// attach puts the programs on the session device and on the segmentation device, and the guard
// on everything else.
func (d *Daemon) attach(device hostnet.Device) error {
	if err := d.plane.AttachSegmentation(roam.LinkID(device.SegmentationPeer)); err != nil {
		return err
	}
	if err := d.plane.AttachSession(roam.LinkID(device.Index), roam.LinkID(device.PeerIndex)); err != nil {
		return err
	}
	return d.plane.AttachGuard(d.cfg.Host.SessionPrefix, roam.LinkID(device.Index))
}

// onDevice takes over a session device that was made anew. It runs in the engine's
// goroutine.
func (d *Daemon) onDevice(device hostnet.Device) {
	d.settings.Segmentation = roam.LinkID(device.Segmentation)
	if err := errors.Join(d.attach(device), d.plane.SetHost(d.settings)); err != nil {
		d.warn("the session device was made again, without all of its programs (restart roamd): " + err.Error())
		return
	}
	d.opts.Log.Info("the session device was made again", "device", device.Name)
}

// prepare makes all that sessions need beside the data plane.
func (d *Daemon) prepare(probeID uint16) (err error) {
	if d.sender, err = rawio.Open(); err != nil {
		return err
	}
	if d.updates, err = rawio.OpenUpdates(); err != nil {
		return err
	}
	d.reassembled = make(chan rawio.Message)
	core, err := ilnp.New(d.coreConfig(probeID))
	if err != nil {
		return err
	}
	d.engine = engine.New(engine.Config{
		Core: core, Plane: d.plane, Network: d.network, Policy: d.network, Sender: d.sender, Reassembled: d.reassembled,
		SessionPrefix: d.cfg.Host.SessionPrefix, NID: d.nid, UDPPort: d.cfg.ILNP.UDPPort, Show: d.cfg.ILNP.ShowConnections,
		StateFile: stateFile(d.cfg), RecordFile: d.cfg.Record(), SaveEvery: min(d.cfg.ILNP.IdleTimeout/4, saveEvery), Disabled: d.cfg.Uplinks.Disabled,
		OnEvent: d.onEvent, OnTrouble: d.onTrouble, OnDevice: d.onDevice, OnTick: d.onTick, OnRestored: d.restored, Log: d.opts.Log,
	})
	if err := d.firstNames(); err != nil {
		return err
	}
	d.startDNS()
	d.startLiterals()
	d.startMetrics()
	return nil
}

func (d *Daemon) networkConfig() hostnet.Config {
	option := 8
	if d.cfg.ILNP.NonceLength == 12 {
		option = 16
	}
	return hostnet.Config{
		SessionPrefix: d.cfg.Host.SessionPrefix, NID: d.nid, Device: d.cfg.Host.Device,
		Include: d.cfg.Uplinks.Include, Exclude: d.cfg.Uplinks.Exclude,
		JournalPath: d.cfg.Journal(), OptionSize: option, IgnorePolicy: d.cfg.Uplinks.IgnorePolicy,
	}
}

// serve runs until ctx is done: the engine in this goroutine, the control
// socket beside it.
func (d *Daemon) serve(ctx context.Context) error {
	l, err := control.Listen(d.cfg.Socket())
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { served <- control.Serve(ctx, l, d) }()
	kept := make(chan struct{})
	go func() { defer close(kept); d.keepNames(ctx) }()
	go d.updates.Run(ctx, func(m rawio.Message) {
		select {
		case d.reassembled <- m:
		case <-ctx.Done():
		}
	})
	d.watchCounters(time.Now()) // what is refused from now on is told
	notifyReady()
	d.opts.Log.Info("roamd runs", "version", d.opts.Version, "nid", d.nid, "attach", d.plane.Attach(), "adopted", d.plane.Adopted())
	err = d.engine.Run(ctx)
	cancel()
	<-kept // or it would take resolv.conf after it was given back
	d.hub.Close()
	return errors.Join(err, <-served)
}

// close lets go of everything; the data plane and what was set up stay.
func (d *Daemon) close() {
	var errs []error
	errs = append(errs, d.stopDNS())
	if d.metrics != nil {
		errs = append(errs, d.metrics.Close())
	}
	if d.literals != nil {
		errs = append(errs, d.literals.Close())
	}
	if d.network != nil {
		errs = append(errs, d.network.Close())
	}
	if d.updates != nil {
		errs = append(errs, d.updates.Close())
	}
	if d.sender != nil {
		errs = append(errs, d.sender.Close())
	}
	if d.plane != nil {
		errs = append(errs, d.plane.Close())
	}
	if err := errors.Join(errs...); err != nil && !errors.Is(err, net.ErrClosed) {
		d.opts.Log.Warn("not everything could be closed", "err", err)
	}
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
	d := &Daemon{cfg: cfg}
	if err := d.takeRunDir(); err != nil {
		return err
	}
	defer d.lock.Close()
	return restore(cfg)
}

// restore undoes in the order in which traffic is disturbed the least: programs
// first, so that nothing is translated towards addresses that go.
func restore(cfg config.Config) error {
	err := errors.Join(
		dataplane.Remove(cfg.Pins()),
		hostnet.DetachAllClassic(),
		hostnet.Restore(cfg.Journal()),
		resolvConf(cfg).Release(),
		unmountBPF(cfg.Pins()),
	)
	for _, f := range []string{stateFile(cfg), cfg.Socket(), cfg.InForce(), filepath.Join(cfg.Host.RunDir, "starts")} {
		if e := os.Remove(f); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("restore the host: %w", err)
	}
	return nil
}

// saveEvery is how often the sessions are saved although none has changed.
const saveEvery = time.Minute

// stateFile holds nonces; the run directory does not outlive a reboot, and
// neither does the data plane that the file is about.
func stateFile(cfg config.Config) string { return filepath.Join(cfg.Host.RunDir, "sessions") }
