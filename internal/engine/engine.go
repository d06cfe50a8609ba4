package engine

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"roam"
	"roam/ilnp"
	"roam/ilnp/slowpath"
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
	secretEvery   = 10 * time.Minute
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
	commands chan func(now time.Time)
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
	pending     slowpath.PendingQueue
	traffic     map[ilnp.SessionKey]dataplane.Traffic
	held        slowpath.Queue // first packets
	copies      slowpath.Copies
	excess      slowpath.Queue // what exceeds the allowance of pending peers
	refused     map[string]uint64
	noRoomTold  time.Time // when the log told last of a session without an entry
	lastForged  dataplane.Refusal
	pathMTUs    slowpath.PathMTUs
	assist      *tcpassist.Machine[ilnp.SessionKey]
	lists       chan list         // of connections, for assist; at most one is under way
	later       []dataplane.Event // of pending peers, met while looking for those of another one
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
		commands: make(chan func(time.Time)),
		done:     make(chan struct{}),
		links:    make(map[roam.LinkID]hostnet.Uplink),
		locals:   make(map[roam.LinkLocator]uint64),
		disabled: make(map[string]bool),
		entries:  make(map[ilnp.SessionKey]ilnp.Entry),
		names:    make(map[ilnp.SessionKey]ilnp.SessionKey),
		refused:  make(map[string]uint64),
		held:     slowpath.NewFirstQueue(),
		excess:   slowpath.NewExcessQueue(),
		assist:   tcpassist.New[ilnp.SessionKey](),
		lists:    make(chan list, 1),
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
	case e.commands <- func(now time.Time) { f(now); e.drain(now); close(finished) }:
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
	c := clocks{time.NewTicker(activityEvery), time.NewTicker(secretEvery), time.NewTimer(0)}
	defer c.stop()
	for {
		// Pending peers wait while correspondents have something to say, but timers
		// do not wait for ever.
		for n := 0; n < urgentInARow && e.takeUrgent(); n++ {
		}
		e.takeLater()
		e.assistTCP(time.Now())
		e.arm(c.timer)
		handle, err := e.await(ctx, c, loadList)
		if errors.Is(err, errDone) {
			return e.saveLast()
		} else if err != nil {
			return err
		}
		now := time.Now() // what is done for one event is done at one time
		handle(now)
		e.drain(now)
	}
}

// clocks are what the engine wakes up by.
type clocks struct {
	activity, secret *time.Ticker
	timer            *time.Timer // see arm
}

func (c clocks) stop() {
	c.activity.Stop()
	c.secret.Stop()
	c.timer.Stop()
}

// errDone is that of await when the engine is to end.
var errDone = errors.New("the engine is to end")

// await waits for the next event, and returns what handles it. With the first reading of
// activity, loadList is called.
func (e *Engine) await(ctx context.Context, c clocks, loadList func()) (handle func(now time.Time), err error) {
	ofPlane := func(ev dataplane.Event, ok bool) (func(time.Time), error) {
		if !ok {
			return nil, errPlaneEnded
		}
		return func(now time.Time) { e.handlePlane(now, ev) }, nil
	}
	saved := func(s *saver, w written) (func(time.Time), error) {
		return func(time.Time) { e.report("save sessions", s.written(w)) }, nil
	}
	select {
	case <-ctx.Done():
		return nil, errDone
	case ev, ok := <-e.cfg.Network.Events():
		if !ok {
			return nil, errNetworkEnded
		}
		return func(now time.Time) { e.handleNetwork(now, ev) }, nil
	case ev, ok := <-e.cfg.Plane.Urgent():
		return ofPlane(ev, ok)
	case ev, ok := <-e.cfg.Plane.Requests():
		return ofPlane(ev, ok)
	case ev, ok := <-e.cfg.Plane.Unvalidated():
		return ofPlane(ev, ok)
	case m := <-e.cfg.Reassembled:
		return func(now time.Time) { e.handleReassembled(now, m) }, nil
	case f := <-e.commands:
		return f, nil
	case <-c.activity.C:
		return func(now time.Time) { e.readActivity(now); loadList() }, nil
	case <-c.secret.C:
		return func(time.Time) { e.report("rotate the secret of answers", e.cfg.Plane.RotateSecret()) }, nil
	case l := <-e.lists:
		return func(now time.Time) { e.listed(now, l) }, nil
	case w := <-e.saver.done:
		return saved(&e.saver, w)
	case w := <-e.recorder.done:
		return saved(&e.recorder, w)
	case <-c.timer.C:
		return e.handleTimer, nil
	}
}

// takeUrgent handles one urgent event if there is one.
func (e *Engine) takeUrgent() bool {
	select {
	case ev, ok := <-e.cfg.Plane.Urgent():
		if !ok {
			return false // Run notices
		}
		now := time.Now()
		e.handlePlane(now, ev)
		e.drain(now)
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

func (e *Engine) handleTimer(now time.Time) {
	e.checkSome(now)
	e.save(now)
	if at, ok := e.core.PollTimeout(); ok && !now.Before(at) {
		e.core.HandleTimeout(now)
	}
}

func (e *Engine) readActivity(now time.Time) {
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

// report logs an error that does not end the daemon.
func (e *Engine) report(what string, err error) {
	if err != nil {
		e.cfg.Log.Error("cannot "+what, "err", err)
	}
}
