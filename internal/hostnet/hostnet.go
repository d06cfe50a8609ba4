package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"roam"
	"roam/internal/hostnet/desired"
)

// Config says what hostnet needs to know of this host.
type Config struct {
	SessionPrefix roam.L64 // never taken for a Locator
	NID           roam.NID // low half of the addresses that hostnet adds
	Former        roam.NID // likewise, while sessions of it live: see KeepFormer; 0: none
	Device        string   // name of the session device, "roam0"; its peer is Device + "x"
	Include       []string // globs; if any, only links that match one are uplinks
	Exclude       []string // globs; links that match one are never uplinks
	JournalPath   string   // file of changes made to the host; its folder must exist
	OptionSize    int      // bytes kept free under the least uplink MTU: 8 or 16; 0 means 8
	IgnorePolicy  bool     // policies of routing and IPsec obstruct nothing: see Host.Obstruction
}

// Host is the network of this host, as seen from the network namespace of the
// thread that called Open. Its methods may be called from any goroutine.
type Host struct {
	rules  rules
	option int
	kernel *kernel
	watch  *subscription
	events chan Event
	done   chan struct{} // closed by Close
	// stopped is closed when the watch goroutine has ended; nil before Start.
	stopped chan struct{}
	once    sync.Once

	state *applier
	// Owned by the goroutine of run, and by Setup and Start before it exists.
	table   *table
	picture picture
	ours    map[addrKey]bool // addresses that we added
	// locators holds the addresses that we want to stand now.
	locators map[addrKey]desired.Address
	// devices and session are what Setup wants.
	devices []desired.Device
	session desired.State
	tries   map[addrKey]*attempt
	// acted holds the links that the reader of events knows: false until it has
	// taken Acted.
	acted map[int]bool
	// regained holds Locators whose prefix:NID was lost and added again, until
	// when they count as usable.
	regained map[roam.LinkLocator]time.Time
	// unresolved holds links that came up and whose router's hardware address
	// is not known yet, until when their Locators wait for it.
	unresolved map[int]time.Time
	// carrier holds which links were up at the last look; nil before the first.
	carrier map[int]bool
	// hearing is where accept_ra is wanted to be 2; nil before the first look.
	// heard are the links where an earlier process wanted it.
	hearing []desired.Sysctl
	// asked is the beginning of forwarding after which routers were asked.
	asked time.Time
	heard map[int]bool
	// recalled holds the links with a prefix of which only recallPrefixes knows.
	recalled map[int]bool
	// toldExcess holds the links that were told to have too many advertised prefixes.
	toldExcess map[int]bool
	// flaps holds when links lost their carrier of late.
	flaps map[int][]time.Time
	// hurried is until when the kernel is asked for carriers.
	hurried time.Time
	// drains holds links that lost carrier a moment ago.
	drains  map[int]waiting
	pending []Event
	stale   bool // the table may lack something: dump before the next use
	// deviceSound is whether the session device was as Setup left it.
	deviceSound bool
	survey      survey // of policies, the last one

	policies *policies // nil: they obstruct nothing
	surveys  chan survey
	policy   atomic.Pointer[policy] // read by any goroutine

	// intruders are the foreign routes and addresses of the session prefix that
	// were told.
	intruders map[string]bool
	mended    time.Time // when the session device or its route was last made again
	// everyLink has the stream tell of each link; told holds those that it has.
	everyLink bool
	told      map[int]bool
	// candidates holds the names of the links that were told as such; "": not by this
	// process.
	candidates map[int]string

	// direct is the link that was asked for as the way of session packets, redirected says
	// that it is another one, directly is what stands for it.
	direct     atomic.Int64
	kept       atomic.Uint32 // what KeepFormer was told last
	redirected chan struct{}
	directly   desired.State

	mu     sync.Mutex // guards what follows
	shown  Snapshot
	device Device
}

// Open connects to netlink and reads the journal of an earlier process. It
// changes nothing.
func Open(cfg Config) (*Host, error) {
	if cfg.Device == "" || cfg.JournalPath == "" || cfg.NID == 0 || cfg.SessionPrefix == 0 {
		return nil, errors.New("open host network: device, journal, NID and session prefix are needed")
	}
	j, err := loadJournal(cfg.JournalPath)
	if err != nil {
		return nil, err
	}
	k, err := openKernel()
	if err != nil {
		return nil, err
	}
	k.session = cfg.SessionPrefix
	h := &Host{
		rules: rules{session: cfg.SessionPrefix, nid: cfg.NID, former: cfg.Former, device: cfg.Device,
			include: cfg.Include, exclude: cfg.Exclude},
		option: cfg.OptionSize, kernel: k, state: newApplier(k, j), table: newTable(),
		ours: map[addrKey]bool{}, locators: map[addrKey]desired.Address{},
		tries: map[addrKey]*attempt{}, regained: map[roam.LinkLocator]time.Time{},
		unresolved: map[int]time.Time{}, drains: map[int]waiting{}, flaps: map[int][]time.Time{},
		told: map[int]bool{}, acted: map[int]bool{}, heard: map[int]bool{}, recalled: map[int]bool{},
		toldExcess: map[int]bool{},
		events:     make(chan Event), done: make(chan struct{}), surveys: make(chan survey), redirected: make(chan struct{}, 1),
	}
	if h.option == 0 {
		h.option = 8
	}
	for _, x := range h.state.left(ownerRouters) {
		h.heard[desired.LinkOf(x)] = true
	}
	if err = h.adoptAddresses(); err != nil {
		k.close()
		return nil, err
	}
	if h.watch, err = listen(); err != nil {
		k.close()
		return nil, err
	}
	if !cfg.IgnorePolicy {
		if h.policies, err = openPolicies(); err != nil {
			h.watch.Close()
			k.close()
			return nil, err
		}
	}
	return h, nil
}

// Setup makes the session device, its address and its route, or adopts those
// that exist. It is called once, before Start, and needs CAP_NET_ADMIN.
func (h *Host) Setup() (Device, error) {
	d, err := h.setup()
	if err != nil {
		return Device{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.device = d
	return d, nil
}

// Start begins the watch: prefix:NID is kept on every uplink and events flow.
// The first events tell what is there already. Known are the links that an earlier
// process took for uplinks, with the programs attached: they still are, or are told
// to be gone. It is called once.
func (h *Host) Start(known ...roam.LinkID) error {
	h.picture.uplinks = map[int]Uplink{}
	for _, l := range known {
		h.picture.uplinks[int(l)], h.acted[int(l)] = Uplink{Link: l}, true
	}
	// Takes back what a process that died in between has left changed for a moment, and its
	// direct route.
	if err := errors.Join(joined(h.setLocators()), h.endDirect()); err != nil {
		return fmt.Errorf("start watch: %w", err)
	}
	t, err := h.kernel.resync(nil, time.Now())
	if err != nil {
		return fmt.Errorf("start watch: %w", err)
	}
	h.table = t
	h.recallPrefixes()
	if err := h.startPolicies(); err != nil {
		return fmt.Errorf("start watch: %w", err)
	}
	batches := make(chan batch)
	h.stopped = make(chan struct{})
	go read(h.watch, batches, h.done)
	go h.run(batches)
	return nil
}

// TellLinks has the stream tell of each link that is there or appears and is
// neither the loopback nor Roam's own. It is called before Start.
func (h *Host) TellLinks() { h.everyLink = true }

// Events returns the one stream of events. It never loses one: what the reader
// has not taken waits in memory. It is closed by Close, and when the watch
// cannot go on, after a Trouble that says why.
func (h *Host) Events() <-chan Event { return h.events }

// Snapshot returns the state that the events amount to, the newest ones that
// still wait to be read included.
func (h *Host) Snapshot() Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shown
}

// Device returns what Setup made, with the MTU now in force.
func (h *Host) Device() Device {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.device
}

// FlushPMTU forgets what path MTU discovery learned for one session address,
// since its path is another one now.
func (h *Host) FlushPMTU(dst netip.Addr) error {
	err := h.kernel.flushPMTU(h.Device().Index, dst)
	if link := int(h.direct.Load()); link != 0 {
		err = errors.Join(err, h.kernel.flushPMTU(link, dst))
	}
	return err
}

// Close ends the watch and leaves the host as it is: addresses, device and
// journal stay for a successor, or for Restore. The direct route goes.
func (h *Host) Close() (err error) {
	h.once.Do(func() {
		close(h.done)
		h.watch.Close()
		if h.stopped != nil {
			<-h.stopped
			err = h.endDirect()
		}
		if h.policies != nil {
			h.policies.close()
		}
		h.kernel.close()
	})
	return err
}
