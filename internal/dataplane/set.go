package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"roam"
)

// ClassicAttacher attaches programs through clsact, for kernels without tcx
// (before 6.6). The attachment outlives the process. Of two programs on one hook the
// one of the lower rank runs first; attaching again at a rank replaces the program in
// place.
type ClassicAttacher interface {
	AttachClassic(link roam.LinkID, ingress bool, rank, program int, name string) error
	DetachClassic(link roam.LinkID, ingress bool, rank int) error
	// Attached returns the links that have programs of ours at these ranks in both
	// directions.
	Attached(ingressRank, egressRank int) ([]roam.LinkID, error)
}

// Options is what a Set is opened with.
type Options struct {
	Dir     string          // directory on a bpffs that all sets of a host share
	Name    string          // of the set, and of its directory below Dir
	Classic ClassicAttacher // used where the kernel has no tcx; nil: none
	NoTCX   bool            // attaches through Classic although the kernel has tcx
	// Places says where each set stands on a link; nil: the package's Places.
	Places map[string]int
}

// Set is a set of objects that share pinned maps, and their programs on links. Its
// methods that attach programs may be called from one goroutine.
type Set struct {
	opts    Options
	tcx     bool
	behind  bool // the programs of an earlier process go on with maps of their own
	waiting []attachment
	idle    func() (*ebpf.Program, error) // lets everything pass
	held    sync.Map                      // a mutex for each link: see hold
}

// ErrNoHelper is wrapped when the kernel lacks something without substitute.
var ErrNoHelper = errors.New("kernel lacks a feature that the data plane needs")

// Open makes the directory of a set, and moves to it what a build before this layout
// pinned there directly below Dir, if the set is the one that such a build had.
func Open(opts Options) (*Set, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise memory limit for eBPF: %w", err)
	}
	if opts.Places == nil {
		opts.Places = Places
	}
	if _, placed := opts.Places[opts.Name]; !placed {
		return nil, fmt.Errorf("set %s has no place among the programs of a link", opts.Name)
	}
	s := &Set{opts: opts, idle: sync.OnceValues(loadIdle)}
	if err := os.MkdirAll(s.Dir(), 0o700); err != nil {
		return nil, fmt.Errorf("make pin directory: %w", err)
	}
	if opts.Name == flatSet {
		if err := movePins(opts.Dir, s.Dir()); err != nil {
			return nil, err
		}
	}
	s.tcx = !opts.NoTCX && haveTCX()
	if !s.tcx && opts.Classic == nil {
		return nil, fmt.Errorf("neither tcx links (Linux 6.6) nor clsact: %w", ErrNoHelper)
	}
	return s, nil
}

// OpenSet opens a set of one object and loads that.
func OpenSet(opts Options, read func() (*ebpf.CollectionSpec, error), abi uint32, to any) (*Set, error) {
	spec, err := read()
	if err != nil {
		return nil, fmt.Errorf("read embedded eBPF object: %w", err)
	}
	s, err := Open(opts)
	if err != nil {
		return nil, err
	}
	return s, s.Load(spec, abi, to)
}

// Dir returns the directory of the set's pins.
func (s *Set) Dir() string { return filepath.Join(s.opts.Dir, s.opts.Name) }

// TCX reports whether programs are attached through tcx, not through clsact.
func (s *Set) TCX() bool { return s.tcx }

// linkPrefix begins the names of the pins that attach programs.
const linkPrefix = "link_"

// abiMap is the map of each set that holds its ABI number, of bpf/lib/abi.h.
const abiMap = "abi"

// Load makes the maps of an object, or opens those that an earlier process pinned,
// loads its programs and assigns both to the fields of a struct. Pinned maps of another
// ABI number, or of another shape, are unpinned first. What is attached stays so, with
// the programs and maps of the build before, until AttachLink replaces it: without
// programs, packets would reach the stack untranslated, and be answered with resets.
func (s *Set) Load(spec *ebpf.CollectionSpec, abi uint32, to any) error {
	fits, err := s.fits(abi)
	if err != nil {
		return err
	}
	if fits {
		err = s.load(spec, abi, to)
	}
	if fits && !errors.Is(err, ebpf.ErrMapIncompatible) {
		return err
	}
	if err := removePins(s.Dir(), func(name string) bool { return !strings.HasPrefix(name, linkPrefix) }); err != nil {
		return err
	}
	links, err := s.Attached()
	if err != nil {
		return err
	}
	s.behind = len(links) > 0
	return s.load(spec, abi, to)
}

// fits reports whether there are no pinned maps, or those of this ABI number.
func (s *Set) fits(abi uint32) (bool, error) {
	entries, err := os.ReadDir(s.Dir())
	if err != nil {
		return false, fmt.Errorf("list pins: %w", err)
	}
	maps := 0
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), linkPrefix) {
			maps++
		}
	}
	return maps == 0 || pinnedABI(filepath.Join(s.Dir(), abiMap)) == abi, nil
}

// pinnedABI reads a pinned ABI number; 0: there is none.
func pinnedABI(pin string) (abi uint32) {
	m, err := ebpf.LoadPinnedMap(pin, nil)
	if err != nil {
		return 0
	}
	defer m.Close()
	if m.ValueSize() != 4 || m.Lookup(uint32(0), &abi) != nil {
		return 0
	}
	return abi
}

func (s *Set) load(spec *ebpf.CollectionSpec, abi uint32, to any) error {
	all, err := loadCollection(spec, s.Dir())
	if err != nil {
		return fmt.Errorf("load eBPF programs: %w", err)
	}
	defer all.Close() // what was not assigned: the constants, which the programs hold
	if m := all.Maps[abiMap]; m == nil {
		return fmt.Errorf("load eBPF programs: the object has no map %s", abiMap)
	} else if err := m.Put(uint32(0), abi); err != nil {
		return fmt.Errorf("write ABI number: %w", err)
	}
	if err := all.Assign(to); err != nil {
		return fmt.Errorf("load eBPF programs: %w", err)
	}
	return nil
}
