package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
	"roam/internal/rawio"
	"roam/tcpassist"
)

// Plane is what the engine needs of the data plane.
type Plane interface {
	AttachUplink(link roam.LinkID, hasMAC bool) error
	DetachUplink(link roam.LinkID) error
	GuardLink(link roam.LinkID, hasMAC bool) error
	SetUplinks([]dataplane.UplinkEntry) error
	SetServerAddrs([]netip.Addr) error
	UplinksInUse() []roam.LinkLocator
	Behind() bool
	TakeOver() error
	Upsert(ilnp.Entry) error
	Delete(ilnp.SessionKey) error
	Sync([]ilnp.Entry) error
	SetObstructed(map[dataplane.Obstruction]bool) error
	RotateSecret() error
	Connections(session roam.L64) ([]dataplane.Connection, error)
	Activity() ([]ilnp.Activity, map[ilnp.SessionKey]dataplane.Traffic, error)
	LastHeard(keys []ilnp.SessionKey) ([]ilnp.Activity, error)
	Urgent() <-chan dataplane.Event
	Requests() <-chan dataplane.Event
	Unvalidated() <-chan dataplane.Event
	Heard() bool
	Dismiss(k ilnp.SessionKey, shown ilnp.Nonce) error
}

// Network is what the engine needs of the host's network.
type Network interface {
	Events() <-chan hostnet.Event
	Device() hostnet.Device
	FlushPMTU(dst netip.Addr) error
	DestroySockets(remote netip.Addr) error
}

// Policies is what the engine asks of this host's policies, once the network has told
// that there are any (hostnet.PolicyChanged).
type Policies interface {
	Obstruction(hostnet.Flow) string
	Everything(hostnet.Flow) string
}

// Sender is what the engine sends with.
type Sender interface {
	Send(link roam.LinkID, packet []byte) error
	SendTo(link roam.LinkID, mac net.HardwareAddr, packet []byte) error
	Inject(peer roam.LinkID, mac net.HardwareAddr, packet []byte) error
	Resend(device roam.LinkID, mac net.HardwareAddr, packet []byte) error
	ResendMarked(device roam.LinkID, mac net.HardwareAddr, packet []byte, mark uint32) error
}

// Config is what an Engine is made of.
type Config struct {
	Core    *ilnp.Core
	Plane   Plane
	Network Network
	Policy  Policies
	Sender  Sender
	// Reassembled are the control messages that came in fragments; nil: none.
	Reassembled   <-chan rawio.Message
	SessionPrefix roam.L64
	NID           roam.NID
	UDPPort       uint16                    // of encapsulated control messages; 0: none
	Show          bool                      // connections that stand still after a move, to firewalls
	StateFile     string                    // where sessions are kept for a successor, while the data plane goes on
	RecordFile    string                    // where they are kept for the time after the next boot; "": nowhere
	SaveEvery     time.Duration             // at the latest, when none has changed; 0: not then
	Disabled      []string                  // names of links that are not to be used
	OnEvent       func(ilnp.Event, *Engine) // called in the engine's goroutine
	OnTrouble     func(link, reason string) // likewise
	OnDevice      func(hostnet.Device)      // likewise: the session device is another one
	OnTick        func(now time.Time)       // likewise, about once a second
	OnRestored    func(now time.Time)       // likewise, once, when the core has what a predecessor left
	Log           *slog.Logger
}

const (
	activityEvery = time.Second
	// adoptWithin is how long a successor waits for the locators of the
	// sessions that it found before it believes that they are gone.
	adoptWithin = 2 * time.Second
	secretEvery = 10 * time.Minute
	// urgentInARow bounds what is handled before everything else has a turn.
	urgentInARow = 64
)

var (
	errPlaneEnded   = errors.New("events of the data plane ended")
	errNetworkEnded = errors.New("watch of the network ended")
)

// ErrStopped is returned by Do when the engine does not run any more.
var ErrStopped = errors.New("engine has stopped")

// Engine is one running host. Run it in one goroutine; Do reaches it from
// others.
type Engine struct {
	cfg      Config
	core     *ilnp.Core
	runsRoam func(ilnp.SessionKey) bool
	commands chan func()
	done     chan struct{}
	links    map[roam.LinkID]hostnet.Uplink
	locals   map[roam.LinkLocator]uint64 // when each was last wanted, as a count
	wanted   uint64
	rowed    []roam.LinkLocator // those that have rows in the data plane
	crowded  bool               // more locators than the data plane has rows
	disabled map[string]bool
	// serverAddrs are the addresses of the uplinks, as last written.
	serverAddrs []netip.Addr
	entries     map[ilnp.SessionKey]ilnp.Entry
	names       map[ilnp.SessionKey]ilnp.SessionKey // of sessions that have a second alias: by that, the key
	unsure      unsure
	traffic     map[ilnp.SessionKey]dataplane.Traffic
	held        held
	firsts      firsts
	excess      held // what exceeds the allowance of pending peers
	refused     map[string]uint64
	noRoomTold  time.Time // when the log told last of a session without an entry
	lastForged  dataplane.Refusal
	tooBig      map[ilnp.SessionKey]int // what the last Packet Too Big of a session named
	assist      *tcpassist.Machine[ilnp.SessionKey]
	lists       chan list // of connections, for assist; at most one is under way
	began       time.Time
	later       []dataplane.Event // of pending peers, met while looking for those of another one
	adopted     bool              // sessions of a predecessor were found
	saver       saver
	recorder    saver     // the same for the next boot
	saved       time.Time // when a save was last asked for
	policy      policy
	adopting    bool // the data plane is not to be touched yet
}

// New makes an engine; Run starts it.
func New(cfg Config) *Engine {
	e := &Engine{
		cfg:      cfg,
		core:     cfg.Core,
		runsRoam: cfg.Core.RunsRoam,
		commands: make(chan func()),
		done:     make(chan struct{}),
		links:    make(map[roam.LinkID]hostnet.Uplink),
		locals:   make(map[roam.LinkLocator]uint64),
		disabled: make(map[string]bool),
		entries:  make(map[ilnp.SessionKey]ilnp.Entry),
		names:    make(map[ilnp.SessionKey]ilnp.SessionKey),
		refused:  make(map[string]uint64),
		tooBig:   make(map[ilnp.SessionKey]int),
		held:     held{perSession: heldPerSession, inAll: heldInAll},
		excess:   held{perSession: excessPerSession, inAll: excessInAll},
		assist:   tcpassist.New[ilnp.SessionKey](),
		lists:    make(chan list, 1),
		began:    time.Now(),
		saver:    saver{file: cfg.StateFile, after: saveAfter, write: write, done: make(chan written, 1)},
		recorder: saver{file: cfg.RecordFile, after: recordAfter, write: record, done: make(chan written, 1)},
	}
	for _, name := range cfg.Disabled {
		e.disabled[name] = true
	}
	return e
}

// Do calls f in the engine's goroutine and returns when it has been carried
// out, with all that the core wanted done because of it.
func (e *Engine) Do(ctx context.Context, f func(now time.Time)) error {
	finished := make(chan struct{})
	select {
	case e.commands <- func() { f(time.Now()); e.drain(); close(finished) }:
	case <-e.done:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	<-finished
	return nil
}

// Run feeds and drains the core until ctx is done, then saves the sessions for
// a successor. The data plane goes on.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.done)
	if err := e.start(ctx); err != nil {
		return err
	}
	// What lists connections is loaded soon, as connections that are to be woken
	// would wait for it, but not now, when sessions wait to begin.
	loadList := sync.OnceFunc(func() {
		go func() { _, _ = e.cfg.Plane.Connections(e.cfg.SessionPrefix) }()
	})
	activity := time.NewTicker(activityEvery)
	defer activity.Stop()
	secret := time.NewTicker(secretEvery)
	defer secret.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Pending peers wait while correspondents have something to say, but timers
		// do not wait for ever.
		for n := 0; n < urgentInARow && e.takeUrgent(); n++ {
		}
		e.takeLater()
		e.assistTCP(time.Now())
		e.arm(timer)
		select {
		case <-ctx.Done():
			return e.saveLast()
		case ev, ok := <-e.cfg.Network.Events():
			if !ok {
				return errNetworkEnded
			}
			e.handleNetwork(ev)
		case ev, ok := <-e.cfg.Plane.Urgent():
			if !ok {
				return errPlaneEnded
			}
			e.handlePlane(ev)
		case ev, ok := <-e.cfg.Plane.Requests():
			if !ok {
				return errPlaneEnded
			}
			e.handlePlane(ev)
		case ev, ok := <-e.cfg.Plane.Unvalidated():
			if !ok {
				return errPlaneEnded
			}
			e.handlePlane(ev)
		case m := <-e.cfg.Reassembled:
			e.handleReassembled(m)
		case f := <-e.commands:
			f()
		case <-activity.C:
			e.readActivity()
			loadList()
		case <-secret.C:
			e.report("rotate the secret of answers", e.cfg.Plane.RotateSecret())
		case l := <-e.lists:
			e.listed(time.Now(), l)
		case w := <-e.saver.done:
			e.report("save sessions", e.saver.written(w))
		case w := <-e.recorder.done:
			e.report("save sessions", e.recorder.written(w))
		case <-timer.C:
			e.handleTimer()
		}
		e.drain()
	}
}

// takeUrgent handles one urgent event if there is one.
func (e *Engine) takeUrgent() bool {
	select {
	case ev, ok := <-e.cfg.Plane.Urgent():
		if !ok {
			return false // Run notices
		}
		e.handlePlane(ev)
		e.drain()
		return true
	default:
		return false
	}
}

// arm sets the one timer to the earliest of the core's time, the next save and
// the next list of connections.
func (e *Engine) arm(timer *time.Timer) {
	if len(e.later) > 0 {
		timer.Reset(0)
		return
	}
	at, ok := e.core.PollTimeout()
	at, ok = e.saveDue(at, ok)
	if due, wants := e.assist.PollTimeout(); wants && (!ok || due.Before(at)) {
		at, ok = due, true
	}
	if due := e.policy.due(); !due.IsZero() && (!ok || due.Before(at)) {
		at, ok = due, true
	}
	if !ok {
		timer.Reset(time.Hour)
		return
	}
	timer.Reset(max(time.Until(at), 0))
}

func (e *Engine) handleTimer() {
	now := time.Now()
	e.checkSome(now)
	e.save(now)
	if at, ok := e.core.PollTimeout(); ok && !now.Before(at) {
		e.core.HandleTimeout(now)
	}
}

func (e *Engine) readActivity() {
	now := time.Now()
	acts, traffic, err := e.cfg.Plane.Activity()
	if err != nil {
		e.report("read activity", err)
		return
	}
	e.traffic = traffic
	e.core.HandleActivity(now, acts)
	e.saveNowAndThen(now)
	if e.cfg.OnTick != nil {
		e.cfg.OnTick(now)
	}
}

// readHeard shows the core when the correspondents were last heard for whom that
// matters, before this host's locators change.
func (e *Engine) readHeard() {
	keys := e.core.Unacquainted()
	if len(keys) == 0 {
		return
	}
	acts, err := e.cfg.Plane.LastHeard(keys)
	if err != nil {
		e.report("read when correspondents were heard", err)
		return
	}
	e.core.HandleHeard(acts)
}

// start brings the core to the present state of the host before the data plane
// is touched, so that sessions of an earlier process are not interrupted.
func (e *Engine) start(ctx context.Context) error {
	if err := e.restore(); err != nil {
		// Sessions that cannot be restored end; the host still comes up.
		e.cfg.Log.Warn("sessions of the last run are lost", "err", err)
	}
	if e.cfg.OnRestored != nil {
		e.cfg.OnRestored(time.Now())
	}
	missing := make(map[roam.LinkLocator]bool)
	for _, l := range e.inUse() {
		missing[l] = true
	}
	e.adopting, e.adopted = true, len(missing) > 0
	deadline := time.NewTimer(adoptWithin)
	defer deadline.Stop()
	for len(missing) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			clear(missing)
		case ev, ok := <-e.cfg.Network.Events():
			if !ok {
				return errNetworkEnded // before the rows of locators that nobody has seen go
			}
			e.handleNetwork(ev)
			switch ev := ev.(type) {
			case hostnet.LocatorChanged:
				if ev.Present {
					delete(missing, ev.LinkLocator)
				}
			case hostnet.LinkGone:
				maps.DeleteFunc(missing, func(l roam.LinkLocator, _ bool) bool { return l.Link == ev.Link })
			}
		}
	}
	e.adopting = false
	e.writeUplinks()
	for _, p := range e.core.Snapshot() {
		e.permitted(time.Now(), p) // the core leaves its obstructed paths
	}
	e.drainInto(func(o ilnp.Output) {
		switch o.(type) {
		case ilnp.Upsert, ilnp.Delete: // all at once, below
		case ilnp.PathsChanged: // its connections have not been there to see it
		default:
			e.execute(o)
		}
	})
	all := e.core.Snapshot()
	for i, p := range all {
		all[i] = e.permitted(time.Now(), p)
	}
	e.writeObstructed()
	if err := e.sync(all); err != nil {
		return err
	}
	if err := e.cfg.Plane.TakeOver(); err != nil {
		return fmt.Errorf("take over from the last run: %w", err)
	}
	return nil
}

// inUse returns the locators that sessions of an earlier process send from: as its
// programs do, or, where these go on with maps of their own, as it has left word.
func (e *Engine) inUse() []roam.LinkLocator {
	if !e.cfg.Plane.Behind() {
		return e.cfg.Plane.UplinksInUse()
	}
	var list []roam.LinkLocator
	for _, p := range e.core.Snapshot() {
		for _, path := range p.Paths {
			list = append(list, path.Local)
		}
	}
	return list
}

// sync brings the data plane up to date. There may be more sessions than room, as less
// is configured than was: those without an entry are not among pairs (see upsert).
func (e *Engine) sync(all []ilnp.Entry) error {
	err := e.cfg.Plane.Sync(all)
	full := errors.Is(err, dataplane.ErrFull)
	if err != nil && !full {
		return fmt.Errorf("bring the data plane up to date: %w", err)
	}
	for _, p := range all {
		if !full || e.cfg.Plane.Upsert(p) == nil {
			e.keep(p)
		}
	}
	if n := len(all) - len(e.entries); n > 0 {
		e.report("keep all sessions of the last run", fmt.Errorf("%d of %d: %w", n, len(all), dataplane.ErrFull))
	}
	return nil
}

// restore takes the sessions of the last run. Where the data plane was removed
// since, by command or by a reboot, so was the file for a successor.
func (e *Engine) restore() error {
	take := e.core.Restore
	b, err := os.ReadFile(e.cfg.StateFile)
	if errors.Is(err, os.ErrNotExist) && e.cfg.RecordFile != "" {
		take = e.core.Recall
		b, err = os.ReadFile(e.cfg.RecordFile)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read sessions of the last run: %w", err)
	}
	if err := take(time.Now(), b); err != nil {
		return fmt.Errorf("restore sessions of the last run: %w", err)
	}
	return nil
}

// report logs an error that does not end the daemon.
func (e *Engine) report(what string, err error) {
	if err != nil {
		e.cfg.Log.Error("cannot "+what, "err", err)
	}
}
