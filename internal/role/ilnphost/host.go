package ilnphost

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/config"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/dnsio"
	"roam/internal/hostnet"
	"roam/internal/keyfile"
	"roam/internal/rawio"
	"roam/internal/role"
	"roam/internal/role/ilnphost/engine"
	"roam/naming"
	"roam/nidkey"
)

// Kind is the role "host".
var Kind = role.Kind{Name: config.RoleHost, New: func(env role.Env) role.Role { return New(env) }, Restore: Restore}

// Host is an ILNPv6 host. It answers what control.Host asks.
type Host struct {
	role.Silent // the commands themselves examine and explain a host
	env         role.Env
	log         *slog.Logger
	cfg         config.Config
	nid         roam.NID
	// former is that which it had before a rotation, while that is needed; 0: none. It changes in the
	// engine's goroutine only.
	former      roam.NID
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
	settings dataplane.HostSettings
	names    atomic.Pointer[naming.Table]
	keeping  sync.Mutex    // held while the file of added peers is read, written and taken over
	tookOver chan struct{} // closed when no program of an earlier process runs any more
	over     sync.Once     // closes it

	// Only touched by the engine's goroutine, through Do.
	records  map[roam.NID]naming.Record
	hosts    naming.Hosts  // the files that records are from
	skipped  naming.Errors // their faults without those of lines that were read before they were spoilt
	warnings []string
	// literalFault is why literals is not complete; "": it is.
	literalFault string
	key          *nidkey.Key  // nil: this host has none
	oldKey       *ilnp.OldKey // nil: none vouches for it
	tally        tally
	move         move
	security     quota
	refused      refusedNodes
	chatter      quota // lines of the log about single sessions

	rendezvous rendezvous
	borders    siteBorders
	// What the data plane had counted when it was last looked at.
	watched    time.Time
	lastCounts map[string]uint64
}

var (
	_ role.Role    = (*Host)(nil)
	_ control.Host = (*Host)(nil)
)

// New makes a host. It has no effect.
func New(env role.Env) *Host {
	return &Host{
		env: env, log: env.Log, cfg: env.Config, records: make(map[roam.NID]naming.Record),
		security: quota{most: securityLines, period: securityTime},
		chatter:  quota{most: sessionLines, period: sessionTime},
		tookOver: make(chan struct{}),
	}
}

// Start loads the data plane and prepares the host, in the order in which each part
// needs the one before.
func (h *Host) Start(ctx context.Context) (err error) {
	if h.nid, err = identity(ctx, h.cfg, h.log, h.env.Waits); err != nil {
		return err
	}
	// Without its key a host would send updates that its peers refuse, and believe unkeyed ones.
	if h.key, err = keyfile.Of(h.cfg, h.nid, time.Now()); err != nil {
		return err
	}
	if h.oldKey, err = oldKey(h.cfg, h.nid, time.Now()); err != nil {
		return err
	}
	h.former, _ = keyfile.Former(h.cfg, h.nid)
	device, err := h.loadAndSetUp()
	if err != nil {
		return err
	}
	real, err := h.network.HadIdentifier()
	if err != nil {
		return err
	}
	probeID := probeID()
	h.settings = dataplane.HostSettings{
		SessionPrefix: h.cfg.Host.SessionPrefix, NIDs: nidsOf(h),
		RealNID:   real || h.cfg.Host.NID.Source == config.NIDFromAddress,
		AcceptAny: h.cfg.Host.Accept == config.AcceptAny, ProbeID: probeID,
		NonceLength: uint8(h.cfg.ILNP.NonceLength), Segmentation: roam.LinkID(device.Segmentation),
		SegmentationPeer: roam.LinkID(device.SegmentationPeer), Device: roam.LinkID(device.Index),
	}
	if err := h.plane.SetHost(h.settings); err != nil {
		return err
	}
	// The kernel waits for running programs at each link: enough time for the rest.
	attached := make(chan error, 1)
	go func() { attached <- h.attach(device) }()
	err = h.prepare(probeID)
	if err = errors.Join(<-attached, err); err != nil {
		return err
	}
	known, err := h.plane.AttachedUplinks()
	if err != nil {
		return err
	}
	prepared, err := h.plane.PreparedUplinks()
	if err != nil {
		return err
	}
	h.network.WereCandidates(prepared...)
	if each, why := h.plane.GuardsEachLink(); each {
		h.log.Info("links are guarded one by one, each after it has appeared", "why", why)
		h.network.TellLinks()
	}
	return h.network.Start(known...)
}

// loadAndSetUp loads the data plane while the session device is made: each waits
// for the kernel most of the time. A daemon that finds that it cannot run here
// changes nothing.
func (h *Host) loadAndSetUp() (device hostnet.Device, err error) {
	_, noJournal := os.Stat(h.cfg.Journal())
	loaded := make(chan error, 1)
	go func() {
		var err error
		h.plane, err = dataplane.Open(dataplane.Options{
			PinDir: h.cfg.Pins(), Classic: hostnet.Classic{}, Sessions: h.cfg.ILNP.MaxSessions,
			EncapPort: h.cfg.ILNP.UDPPort, LabelBit: h.cfg.ILNP.FlowLabel, Silence: silenceOf(h.cfg),
		})
		loaded <- err
	}()
	if h.network, err = hostnet.Open(h.networkConfig()); err == nil {
		device, err = h.network.Setup()
	}
	notLoaded := <-loaded
	if notLoaded != nil && h.network != nil && errors.Is(noJournal, fs.ErrNotExist) {
		err = errors.Join(err, h.network.Close(), hostnet.Restore(h.cfg.Journal()))
	}
	return device, errors.Join(notLoaded, err)
}

// attach puts the programs on the session device and on the segmentation device, and the guard
// on everything else.
func (h *Host) attach(device hostnet.Device) error {
	if err := h.plane.AttachSegmentation(roam.LinkID(device.SegmentationPeer)); err != nil {
		return err
	}
	if err := h.plane.AttachSession(roam.LinkID(device.Index), roam.LinkID(device.PeerIndex)); err != nil {
		return err
	}
	return h.plane.AttachGuard(h.cfg.Host.SessionPrefix, roam.LinkID(device.Index))
}

// onDevice takes over a session device that was made anew. It runs in the engine's
// goroutine.
func (h *Host) onDevice(device hostnet.Device) {
	h.settings.Segmentation = roam.LinkID(device.Segmentation)
	h.settings.SegmentationPeer = roam.LinkID(device.SegmentationPeer)
	h.settings.Device = roam.LinkID(device.Index)
	if err := errors.Join(h.attach(device), h.plane.SetHost(h.settings)); err != nil {
		h.warn("the session device was made again, without all of its programs (restart roamd): " + err.Error())
		return
	}
	h.log.Info("the session device was made again", "device", device.Name)
}

// prepare makes all that sessions need beside the data plane.
func (h *Host) prepare(probeID uint16) (err error) {
	if h.sender, err = rawio.Open(); err != nil {
		return err
	}
	if h.updates, err = rawio.OpenUpdates(); err != nil {
		return err
	}
	h.reassembled = make(chan rawio.Message)
	core, err := ilnp.New(h.coreConfig(probeID))
	if err != nil {
		return err
	}
	h.engine = engine.New(engine.Config{
		Core: core, Plane: h.plane, Network: h.network, Policy: h.network, Sender: h.sender,
		Translates:    func() (bool, error) { return dataplane.TranslatesAtUplinks(h.plane) },
		Reassembled:   h.reassembled,
		SessionPrefix: h.cfg.Host.SessionPrefix, NID: h.nid, UDPPort: h.cfg.ILNP.UDPPort, Show: h.cfg.ILNP.ShowConnections,
		StateFile: stateFile(h.cfg), RecordFile: h.cfg.Record(), SaveEvery: min(h.cfg.ILNP.IdleTimeout/4, saveEvery), Disabled: h.cfg.Uplinks.Disabled,
		Rules: h.cfg.Rules, CgroupID: dataplane.CgroupID, Preference: h.cfg.Uplinks.PreferenceOf,
		OnEvent: h.onEvent, OnTrouble: h.onTrouble, OnDevice: h.onDevice, OnTick: h.onTick, OnRestored: h.restored,
		OnSuccession: func(s ilnp.Succession) { follow(h, s) }, Log: h.log,
	})
	if err := h.firstNames(); err != nil {
		return err
	}
	h.startDNS()
	h.startLiterals()
	h.borders.open(h)
	return nil
}

func (h *Host) networkConfig() hostnet.Config {
	option := 8
	if h.cfg.ILNP.NonceLength == 12 {
		option = 16
	}
	return hostnet.Config{
		SessionPrefix: h.cfg.Host.SessionPrefix, NID: h.nid, Former: h.former, Device: h.cfg.Host.Device,
		Include: h.cfg.Uplinks.Include, Exclude: h.cfg.Uplinks.Exclude,
		JournalPath: h.cfg.Journal(), OptionSize: option, IgnorePolicy: h.cfg.Uplinks.IgnorePolicy,
	}
}

// Run works until ctx is done: the engine in this goroutine, the rest beside it.
func (h *Host) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kept, watched, bounded := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { defer close(kept); h.keepNames(ctx) }()
	go func() { defer close(watched); h.watchSockets(ctx) }()
	go func() { defer close(bounded); h.boundSlowStarts(ctx) }()
	go h.updates.Run(ctx, func(m rawio.Message) {
		select {
		case h.reassembled <- m:
		case <-ctx.Done():
		}
	})
	go h.borders.run(ctx, h)
	h.watchCounters(time.Now()) // what is refused from now on is told
	h.log.Info("roamd runs", "version", h.env.Version, "nid", h.nid,
		"attach", h.plane.Attach(), "adopted", h.plane.Adopted())
	err := h.engine.Run(ctx)
	cancel()
	<-kept // or it would take resolv.conf after it was given back
	<-watched
	<-bounded
	return err
}

// Close lets go of everything; the data plane and what was set up stay.
func (h *Host) Close() error {
	var errs []error
	errs = append(errs, h.stopDNS())
	if h.literals != nil {
		errs = append(errs, h.literals.Close())
	}
	if h.network != nil {
		errs = append(errs, h.network.Close())
	}
	if h.updates != nil {
		errs = append(errs, h.updates.Close())
	}
	if h.borders.socket != nil {
		errs = append(errs, h.borders.socket.Close())
	}
	if h.sender != nil {
		errs = append(errs, h.sender.Close())
	}
	if h.plane != nil {
		errs = append(errs, h.plane.Close())
	}
	if err := errors.Join(errs...); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Restore gives the host back as it was before the first start, also after a crash. It
// undoes in the order in which traffic is disturbed the least: programs first, so that
// nothing is translated towards addresses that go.
func Restore(cfg config.Config) error {
	err := errors.Join(
		dataplane.Disarm(cfg.Pins(), hostnet.DetachAllClassic),
		hostnet.Restore(cfg.Journal()),
		resolvConf(cfg).Restore(),
	)
	if e := os.Remove(stateFile(cfg)); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// saveEvery is how often the sessions are saved although none has changed.
const saveEvery = time.Minute

// stateFile holds nonces; the run directory does not outlive a reboot, and
// neither does the data plane that the file is about.
func stateFile(cfg config.Config) string { return filepath.Join(cfg.Host.RunDir, "sessions") }
