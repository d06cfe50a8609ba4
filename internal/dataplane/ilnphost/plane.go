package ilnphost

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"

	"roam"
	"roam/ilnp"
	"roam/internal/dataplane"
	"roam/structops"
)

// ABI is the number of the contract with the C side, of bpf/ilnp/types.h. Pinned maps
// of another number are not reused.
const ABI = uint32(bpfAbiNumberABI)

// CopyMark is the mark of a packet that is sent through the session device under the
// other rule of checksums than its session's, COPY_MARK in segmentation device.h.
const CopyMark = 0x726f616d

// HeldMark is the mark of a packet that was handed over for want of an entry, and is sent through the session device
// again: it may pass where others wait for it, HELD_MARK in segdev.h.
const HeldMark = 0x726f616c

// Options is what a Plane is opened with.
type Options struct {
	PinDir  string                    // directory on a bpffs; made if it is not there
	Classic dataplane.ClassicAttacher // used where the kernel has no tcx; nil: none
	NoTCX   bool                      // attaches through Classic although the kernel has tcx
	// NoNetfilter guards each link by itself although the kernel has programs on
	// the hooks of netfilter.
	NoNetfilter bool
	// Sessions is how many there may be at a time, 0 for DefaultSessions. Maps
	// that an earlier process made for another number are not reused.
	Sessions int
	// EncapPort is the UDP port of control messages where a path drops the
	// option or ICMPv6; 0: none is taken.
	EncapPort uint16
	// LabelBit has packets of sessions bear the highest bit of the flow label, but those of flows with a rule.
	LabelBit bool
	// Silence is how long a session may send without receiving anything before the programs
	// report it; 0: 2 s.
	Silence time.Duration
}

// Plane is the loaded data plane. Its methods may be called from one goroutine;
// those that attach programs share nothing with the others, and may be called
// from a second one, and Connections, WatchSockets, BoundSlowStarts, PrepareUplink and ReleaseUplink from any.
type Plane struct {
	Sockets
	opts             Options
	objs             objects
	raw              rawPrograms
	guard            guard
	csumFlags        uint64
	summed           dataplane.Summed
	ticks            tickClock
	set              *dataplane.Set
	adopted          bool
	realNID          bool // the NIDs are also those of plain IPv6
	urgent, requests chan Event
	unvalidated      chan Event
	closing          chan struct{}
	rings            []*dataplane.Ring
	details          *ebpf.Memory // of what was seen of sessions, once it was read
	lines            *lineTable
	rows             *ebpf.Memory // of entries: a session waits to be written, without a call to the kernel
	uplinks          uplinkTable
	slots            placeTable
	index            *index
	places           placeTable
	pause            *pause
	marks            *socketMarks
	slowStarts       slowStarts
	known            map[ilnp.SessionKey]bpfSessionEntry
	more             map[ilnp.SessionKey][]bpfHalf // sources beyond those of the entry
	sent             map[ilnp.SessionKey]sentOn
	counted          map[ilnp.SessionKey]counted
	changed          changedSlots
	collisions       collisionTable
	placed           map[roam.NID][]roam.L64 // in the map of places
	rules            ruleTable
	tables           flowTables
	macs             updateKeys
	obstructed       map[Obstruction]bool // the map of that name; nil: it was not read yet
}

// setName is the name of the host's set of objects, and of its directory of pins.
const setName = "ilnp"

// Open loads the programs and opens their maps, those that an earlier process
// pinned where they fit. Nothing is attached yet, or all that was attached
// still is, with the old programs.
func Open(opts Options) (*Plane, error) {
	p := newPlane(opts)
	var err error
	if p.set, err = dataplane.Open(setOptions(opts)); err != nil {
		return nil, err
	}
	go dataplane.TickZero() // takes some time, meanwhile the kernel looks at the programs
	go dataplane.PrepareHooks()
	p.csumFlags = dataplane.ChecksumFlags()
	p.summed, _ = dataplane.ChecksumState() // without it the kernel's helper adjusts checksums
	if err := p.load(); err != nil {
		return nil, err
	}
	if p.slowStarts, err = newSlowStarts(); err != nil {
		p.Close()
		return nil, err
	}
	if err := errors.Join(p.ticks.start(p.changeHost), p.adopt()); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.read(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func setOptions(opts Options) dataplane.Options {
	return dataplane.Options{Dir: opts.PinDir, Name: setName, Classic: opts.Classic, NoTCX: opts.NoTCX}
}

func newPlane(opts Options) *Plane {
	return &Plane{
		opts:   opts,
		urgent: make(chan Event, 1024), requests: make(chan Event, 1024), unvalidated: make(chan Event, 1024),
		closing: make(chan struct{}),
		known:   make(map[ilnp.SessionKey]bpfSessionEntry),
		more:    make(map[ilnp.SessionKey][]bpfHalf),
		sent:    make(map[ilnp.SessionKey]sentOn),
		counted: make(map[ilnp.SessionKey]counted),
		placed:  make(map[roam.NID][]roam.L64),
	}
}

// FeatureGuard is the name of the feature that links are guarded from their first
// packet on.
const FeatureGuard = "netfilter-bpf"

// Features names what the kernel has and the plane uses.
func (p *Plane) Features() []string {
	var f []string
	f = append(f, p.Attach())
	if dataplane.SumsIPv6(dataplane.ChecksumFlags()) {
		f = append(f, "csum-replace-ipv6")
	}
	if p.guard.all {
		f = append(f, FeatureGuard)
	}
	if features.HaveMapType(ebpf.RingBuf) == nil {
		f = append(f, "ringbuf")
	}
	return f
}

// Adopted reports whether sessions of an earlier process were found.
func (p *Plane) Adopted() bool { return p.adopted }

// Attach returns how programs are attached, "tcx" or "clsact".
func (p *Plane) Attach() string {
	if p.set.TCX() {
		return "tcx"
	}
	return "clsact"
}

// Urgent returns what the data plane reports of correspondents and of this host
// itself. It is closed by Close, or when the ring cannot be read: then Close says why.
func (p *Plane) Urgent() <-chan Event { return p.urgent }

// Requests returns what it reports of first packets of local applications: whoever
// reads all looks at Urgent first. It is closed as Urgent is.
func (p *Plane) Requests() <-chan Event { return p.requests }

// Pending peers returns what it reports of pending peers, and of errors from outside. It
// is closed as Urgent is.
func (p *Plane) Unvalidated() <-chan Event { return p.unvalidated }

// Close lets go of the plane; what is pinned and attached stays. Events that
// nobody has taken by then are lost. The error tells also why a ring could not be
// read. It is called once.
func (p *Plane) Close() error {
	var errs []error
	close(p.closing)
	p.ticks.stop()
	for _, r := range p.rings {
		errs = append(errs, r.Close())
	}
	errs = append(errs, p.closeEntries(), p.raw.Close(), p.guard.close(), p.slowStarts.bytes.Close())
	return errors.Join(append(errs, p.objs.Close())...)
}

// Behind reports whether the programs of an earlier process go on until TakeOver.
func (p *Plane) Behind() bool { return p.set.Behind() }

// TakeOver attaches what had to wait: where the maps of an earlier process could not be
// adopted, its programs go on with them until the new maps have the sessions.
func (p *Plane) TakeOver() error { return p.set.TakeOver() }

// Disarm ends what programs do that processes pinned below this directory, or attached through
// clsact.
func Disarm(pinDir string, detachClassic func() error) error {
	return errors.Join(structops.EndPinned(thresholdPin(filepath.Join(pinDir, setName))),
		dataplane.Disarm(pinDir, detachClassic))
}

// Remove takes everything away that processes pinned below this directory.
func Remove(pinDir string) error { return dataplane.Remove(pinDir) }
