package dataplane

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"roam"
	"roam/ilnp"
)

// ABI is the number of the contract with the C side, ROAM_ABI in types.h.
// Pinned maps of another number are not reused.
const ABI = 22

// CopyMark is the mark of a packet that is sent through the session device under the
// other rule of checksums than its session's, COPY_MARK in segmentation device.h.
const CopyMark = 0x726f616d

// ClassicAttacher attaches programs through clsact, for kernels without tcx
// (before 6.6). The attachment outlives the process.
type ClassicAttacher interface {
	AttachClassic(link roam.LinkID, ingress bool, program int, name string) error
	DetachClassic(link roam.LinkID, ingress bool) error
	// Attached returns the links that have programs of ours in both directions.
	Attached() ([]roam.LinkID, error)
}

// Options is what a Plane is opened with.
type Options struct {
	PinDir  string          // directory on a bpffs; made if it is not there
	Classic ClassicAttacher // used where the kernel has no tcx; nil: none
	NoTCX   bool            // attaches through Classic although the kernel has tcx
	// NoNetfilter guards each link by itself although the kernel has programs on
	// the hooks of netfilter.
	NoNetfilter bool
	// Sessions is how many there may be at a time, 0 for DefaultSessions. Maps
	// that an earlier process made for another number are not reused.
	Sessions int
	// EncapPort is the UDP port of control messages where a path drops the
	// option or ICMPv6; 0: none is taken.
	EncapPort uint16
}

// Plane is the loaded data plane. Its methods may be called from one goroutine;
// those that attach programs share nothing with the others, and may be called
// from a second one, and Connections from any.
type Plane struct {
	opts             Options
	objs             objects
	raw              rawPrograms
	guard            guard
	csumFlags        uint64
	tcx              bool
	adopted          bool
	remade           bool // in place of maps of an earlier process that do not fit
	behind           bool // the programs of an earlier process go on with maps of their own
	waiting          []attachment
	realNID          bool // the NIDs are also those of plain IPv6
	urgent, requests chan Event
	unvalidated      chan Event
	closing          chan struct{}
	readers          []*ringbuf.Reader
	lives            *ebpf.Memory // of the map of that name, once it was read
	rows             *ebpf.Memory // of entries: a session waits to be written, without a call to the kernel
	reading          sync.WaitGroup
	broken           [3]error // why the readers ended, once they have
	uplinks          uplinkTable
	slots            slotTable
	index            *index
	places           placeTable
	pause            *pause
	known            map[ilnp.SessionKey]bpfSessionEntry
	more             map[ilnp.SessionKey][]bpfHalf // sources beyond those of the entry
	sent             map[ilnp.SessionKey]sentOn
	collisions       collisionTable
	placed           map[roam.NID][]roam.L64 // in the map of places
	obstructed       map[Obstruction]bool    // the map of that name; nil: it was not read yet
}

// ErrNoHelper is wrapped when the kernel lacks something without substitute.
var ErrNoHelper = errors.New("kernel lacks a feature that the data plane needs")

// Open loads the programs and opens their maps, those that an earlier process
// pinned where they fit. Nothing is attached yet, or all that was attached
// still is, with the old programs.
func Open(opts Options) (*Plane, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise memory limit for eBPF: %w", err)
	}
	if err := os.MkdirAll(opts.PinDir, 0o700); err != nil {
		return nil, fmt.Errorf("make pin directory: %w", err)
	}
	p := newPlane(opts)
	if err := p.load(); err != nil {
		return nil, err
	}
	if err := p.adopt(); err != nil {
		p.Close()
		return nil, err
	}
	p.tcx = !opts.NoTCX && haveTCX()
	if !p.tcx && opts.Classic == nil {
		p.Close()
		return nil, fmt.Errorf("neither tcx links (Linux 6.6) nor clsact: %w", ErrNoHelper)
	}
	if p.remade {
		uplinks, err := p.AttachedUplinks()
		if err != nil {
			p.Close()
			return nil, err
		}
		p.behind = len(uplinks) > 0
	}
	if err := p.read(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func newPlane(opts Options) *Plane {
	return &Plane{
		opts:   opts,
		urgent: make(chan Event, 1024), requests: make(chan Event, 1024), unvalidated: make(chan Event, 1024),
		closing: make(chan struct{}),
		known:   make(map[ilnp.SessionKey]bpfSessionEntry),
		more:    make(map[ilnp.SessionKey][]bpfHalf),
		sent:    make(map[ilnp.SessionKey]sentOn),
		placed:  make(map[roam.NID][]roam.L64),
	}
}

// Flags of bpf_l4_csum_replace: BPF_F_PSEUDO_HDR, and BPF_F_IPV6 (Linux 6.16,
// and some stable kernels).
const (
	pseudoHeader = 1 << 4
	pseudoIPv6   = 1 << 7
)

// checksumFlags returns the flags for a changed IPv6 pseudo-header.
func checksumFlags() uint64 {
	if haveChecksumIPv6(pseudoIPv6 | pseudoHeader) {
		return pseudoHeader | pseudoIPv6
	}
	return pseudoHeader
}

// haveChecksumIPv6 runs a two-line program: the helper refuses unknown flags
// before it looks at anything else.
func haveChecksumIPv6(flags uint64) bool {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.SchedCLS,
		License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, 14+40+16),
			asm.Mov.Imm(asm.R3, 0),
			asm.Mov.Imm(asm.R4, 0),
			asm.LoadImm(asm.R5, int64(flags), asm.DWord),
			asm.FnL4CsumReplace.Call(),
			asm.Return(),
		},
	})
	if err != nil {
		return false
	}
	defer prog.Close()
	packet := make([]byte, 14+40+20)
	packet[12], packet[13] = 0x86, 0xdd
	ret, err := prog.Run(&ebpf.RunOptions{Data: packet})
	return err == nil && int32(ret) == 0
}

// haveTCX asks for a link on a device that there is not: a kernel that knows tcx
// looks for that first. To attach something for a try, and to detach it, would
// wait twice for all programs that run.
func haveTCX() bool {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.SchedCLS,
		License:      "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		return false
	}
	defer prog.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: math.MaxInt32, Program: prog, Attach: ebpf.AttachTCXIngress})
	if err == nil {
		l.Close()
	}
	return err == nil || errors.Is(err, unix.ENODEV)
}

// FeatureGuard is the name of the feature that links are guarded from their first
// packet on.
const FeatureGuard = "netfilter-bpf"

// Features names what the kernel has and the plane uses.
func (p *Plane) Features() []string {
	var f []string
	if p.tcx {
		f = append(f, "tcx")
	} else {
		f = append(f, "clsact")
	}
	if checksumFlags()&pseudoIPv6 != 0 {
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
	if p.tcx {
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
	for _, r := range p.readers {
		errs = append(errs, r.Close())
	}
	p.reading.Wait()
	errs = append(errs, p.broken[0], p.broken[1], p.broken[2], p.closeEntries(), p.raw.Close(), p.guard.close())
	return errors.Join(append(errs, p.objs.Close())...)
}

// Remove takes everything away that processes of this run directory pinned:
// programs are detached, maps are freed once the last process has closed them.
func Remove(pinDir string) error { return removePins(pinDir, func(string) bool { return true }) }

// removePins removes the pins of a directory whose names are chosen.
func removePins(dir string, chosen func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	for _, e := range entries {
		// The kernel's own iterators, in a bpffs that was mounted anew: they go
		// with the mount and cannot be removed.
		if e.Name() == "maps.debug" || e.Name() == "progs.debug" || !chosen(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove pin: %w", err)
		}
	}
	return nil
}
