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
	"roam/flowrule"
	"roam/ilnp"
	"roam/ilnp/slowpath"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
	"roam/internal/loop"
	"roam/internal/rawio"
)

// Plane is what the engine needs of the data plane.
type Plane interface {
	AttachUplink(link roam.LinkID, hasMAC bool) error
	DetachUplink(link roam.LinkID) error
	PrepareUplink(link roam.LinkID) error
	ReleaseUplink(link roam.LinkID) error
	GuardLink(link roam.LinkID, hasMAC bool) error
	SetUplinks([]dataplane.UplinkEntry) error
	SetServerAddrs([]netip.Addr) error
	UplinksInUse() []roam.LinkLocator
	Hints() ([]dataplane.Event, error)
	Behind() bool
	TakeOver() error
	Upsert(ilnp.Entry, dataplane.Turn) error
	Delete(ilnp.SessionKey) error
	Sync([]ilnp.Entry) error
	SetObstructed(map[dataplane.Obstruction]bool) error
	WriteRules(number uint32, r dataplane.FlowRules) (uint32, error)
	RotateSecret() error
	Connections(session roam.L64) ([]dataplane.Connection, error)
	SetWindows([]dataplane.Window) ([]dataplane.Window, error)
	Activity(others []ilnp.SessionKey) ([]ilnp.Activity, error)
	LastHeard(keys []ilnp.SessionKey) ([]ilnp.Activity, error)
	Urgent() <-chan dataplane.Event
	Requests() <-chan dataplane.Event
	Unvalidated() <-chan dataplane.Event
	IsRead(<-chan dataplane.Event) bool
	Dismiss(k ilnp.SessionKey, shown ilnp.Nonce) error
}

// Network is what the engine needs of the host's network.
type Network interface {
	Events() <-chan hostnet.Event
	Device() hostnet.Device
	FlushPMTU(dst netip.Addr) error
	Direct(roam.LinkID)
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
	SendTrain(link roam.LinkID, packets [][]byte) error
	SendTo(link roam.LinkID, mac net.HardwareAddr, packet []byte) error
	Inject(peer roam.LinkID, mac net.HardwareAddr, packet []byte) error
	Resend(device roam.LinkID, mac net.HardwareAddr, packet []byte, mark uint32) error
}

// Config is what an Engine is made of.
type Config struct {
	Core    *ilnp.Core
	Plane   Plane
	Network Network
	Policy  Policies
	Sender  Sender
	// Translates is dataplane.TranslatesAtUplinks; nil: they do not.
	Translates func() (bool, error)
	// Reassembled are the control messages that came in fragments; nil: none.
	Reassembled   <-chan rawio.Message
	SessionPrefix roam.L64
	NID           roam.NID
	UDPPort       uint16                    // of encapsulated control messages; 0: none
	Show          bool                      // connections that stand still after a move, to firewalls
	StateFile     string                    // where sessions are kept for a successor, while the data plane goes on
	RecordFile    string                    // where they are kept for the time after the next boot; "": nowhere
	SaveEvery     time.Duration             // at the latest, when none has changed; 0: not then
	Rules         flowrule.Set              // of the user, for flows; see Engine.SetRules
	CgroupID      func(dir string) uint64   // 0: there is none
	Preference    func(link string) uint16  // of the locators on a link
	Disabled      []string                  // names of links that are not to be used
	OnEvent       func(ilnp.Event, *Engine) // called in the engine's goroutine
	OnTrouble     func(link, reason string) // likewise
	OnDevice      func(hostnet.Device)      // likewise: the session device is another one
	OnTick        func(now time.Time)       // likewise, about once a second
	OnSuccession  func(ilnp.Succession)     // likewise: a correspondent has a new key
	OnRestored    func(now time.Time)       // likewise, once, when the core has what a predecessor left
	Log           *slog.Logger
}

const (
	activityEvery = time.Second
	secretEvery   = 10 * time.Minute
)

var (
	errPlaneEnded   = errors.New("events of the data plane ended")
	errNetworkEnded = errors.New("watch of the network ended")
)

// Engine is one running host. Run it in one goroutine; Do reaches it from
// others.
type Engine struct {
	*base
	loop *loop.Loop
	uplinks
	policy
	direct
	savers
	assistant
	candidates
	rules
	pending    slowpath.PendingQueue
	held       slowpath.Queue // first packets
	copies     slowpath.Copies
	excess     slowpath.Queue // what exceeds the allowance of pending peers
	noRoomTold time.Time      // when the log told last of a session without an entry
	lastForged dataplane.Refusal
	pathMTUs   slowpath.PathMTUs
	admitted   *admitted         // the last pending peer that was, until its session has an entry
	later      []dataplane.Event // met while looking for those of one pending peer or session
	ahead      ahead
}

// New makes an engine; Run starts it.
func New(cfg Config) *Engine {
	l := loop.New(nil)
	b := &base{
		cfg:     cfg,
		core:    cfg.Core,
		clock:   l.Now,
		entries: make(map[ilnp.SessionKey]ilnp.Entry),
		names:   make(map[ilnp.SessionKey]ilnp.SessionKey),
		refused: make(map[string]uint64),
	}
	e := &Engine{
		base:      b,
		loop:      l,
		uplinks:   newUplinks(b),
		savers:    newSavers(b),
		assistant: newAssistant(b),
		held:      slowpath.NewFirstQueue(),
		excess:    slowpath.NewExcessQueue(),
	}
	e.candidates = candidates{
		base: b, uplinks: &e.uplinks, known: make(map[roam.LinkID]bool), prepared: make(chan roam.LinkID, 1),
	}
	e.policy = policy{base: b, uplinks: &e.uplinks}
	e.rules = rules{base: b}
	e.direct = direct{base: b, uplinks: &e.uplinks, policy: &e.policy, attached: make(map[roam.LinkID]bool)}
	return e
}

// Do calls f in the engine's goroutine and returns when it has been carried
// out, with all that the core wanted done because of it. When the engine does not run any
// more the error is loop.ErrStopped.
func (e *Engine) Do(ctx context.Context, f func(now time.Time)) error { return e.loop.Do(ctx, f) }

// Run feeds and drains the core until ctx is done, then saves the sessions for
// a successor. The data plane goes on.
func (e *Engine) Run(ctx context.Context) error {
	defer e.loop.Close()
	if err := e.start(ctx); err != nil {
		return err
	}
	e.loop.Add(e.part())
	if err := e.loop.Run(ctx); err != nil {
		return err
	}
	return e.saveLast()
}

// part is what the engine has a loop do. Pending peers wait while correspondents have
// something to say, but timers do not wait for ever.
func (e *Engine) part() *loop.Part {
	onPlane := func(c <-chan dataplane.Event) loop.Source { return loop.On(c, errPlaneEnded, e.handlePlane) }
	onSaved := func(s *saver) loop.Source {
		return loop.On(s.done, nil, func(_ time.Time, w written) { e.report("save sessions", s.written(w)) })
	}
	// What connections need is loaded soon, as they would wait for it, but not now, when sessions wait to begin.
	load := sync.OnceFunc(e.assistant.load)
	now := e.clock()
	return &loop.Part{
		Urgent:  []loop.Source{onPlane(e.cfg.Plane.Urgent())},
		Backlog: []loop.Backlog{leftover{e}},
		Sources: []loop.Source{
			loop.On(e.cfg.Network.Events(), errNetworkEnded, e.handleNetwork),
			onPlane(e.cfg.Plane.Requests()),
			onPlane(e.cfg.Plane.Unvalidated()),
			loop.On(e.cfg.Reassembled, nil, e.handleReassembled),
			loop.On(e.lists, nil, e.listed),
			loop.On(e.windows, nil, e.windowsSet),
			loop.On(e.prepared, nil, func(_ time.Time, l roam.LinkID) { e.prepareNext(l) }),
			onSaved(&e.saver),
			onSaved(&e.recorder),
		},
		Machines: []loop.Machine{
			hostMachine{e},
			loop.Every(now, activityEvery, func(now time.Time) { e.readActivity(now); e.chooseDirect(); load() }),
			loop.Every(now, secretEvery, func(time.Time) {
				e.report("rotate the secret of answers", e.cfg.Plane.RotateSecret())
			}),
		},
		Late: []loop.Machine{e.assistant.machine()},
	}
}

// hostMachine is the engine as its loop sees it: the core, the saves and the policies, whose
// deadlines are handled together.
type hostMachine struct{ *Engine }

// PollTimeout returns the earliest of their deadlines.
func (h hostMachine) PollTimeout() (time.Time, bool) {
	at, ok := h.core.PollTimeout()
	at, ok = h.saveDue(at, ok)
	if due := h.policy.due(); !due.IsZero() && (!ok || due.Before(at)) {
		at, ok = due, true
	}
	return at, ok
}

// HandleTimeout handles those that have come.
func (h hostMachine) HandleTimeout(now time.Time) { h.handleTimer(now) }

// Drain carries out what the core wants done.
func (h hostMachine) Drain(now time.Time) { h.drain(now) }

func (e *Engine) handleTimer(now time.Time) {
	e.checkSome(now)
	e.save(now)
	if at, ok := e.core.PollTimeout(); ok && !now.Before(at) {
		e.core.HandleTimeout(now)
	}
}

func (e *Engine) readActivity(now time.Time) {
	e.uplinks.confirm(now)
	e.rules.lookAgain()
	acts, err := e.cfg.Plane.Activity(e.core.Watched())
	if err != nil {
		e.report("read activity", err)
		return
	}
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
		e.report("read when correspondents last sent", err)
		return
	}
	e.core.HandleHeard(acts)
}
