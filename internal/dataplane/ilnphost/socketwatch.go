package ilnphost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
)

// ErrUnwatched is wrapped when sockets escape the hooks of a SocketWatch: their processes
// are not in its cgroup. The programs look sockets up for each packet then.
var ErrUnwatched = errors.New("sockets on real addresses exist that no hook has reported")

// socketMarks is the table of the map real_sockets.
type socketMarks struct {
	memory []byte
	*bpfSocketMarks
}

// openMarks maps the table, and has all marks count: only a watch of this process may
// say otherwise.
func openMarks(m *ebpf.Map) (*socketMarks, error) {
	size := int(unsafe.Sizeof(bpfSocketMarks{}))
	memory, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map marks of sockets: %w", err)
	}
	s := &socketMarks{memory, (*bpfSocketMarks)(unsafe.Pointer(&memory[0]))}
	atomic.StoreUint32(&s.Valid, 0)
	return s, nil
}

func (s *socketMarks) close() error {
	if s == nil {
		return nil
	}
	s.bpfSocketMarks = nil
	return unix.Munmap(s.memory)
}

// SocketWatch tells the programs where sockets on real addresses may be. Its hooks cover
// the sockets of one cgroup, in the network namespace of the thread that opened it.
type SocketWatch struct {
	objs     socketwatchObjects
	marks    *socketMarks
	searches [2]*link.Iter
	begun    int    // sweeps so far, up to the one that makes marks count
	escaped  bool   // sockets have: the hooks do not cover all
	between  func() // for tests: called before a second search; may be nil
}

// WatchSockets attaches the hooks to a cgroup, in place of those that an earlier process
// pinned. They are worth something from the second Sweep on; until then, and after an
// error, the programs look sockets up for each packet that may be for one. It is not to be
// called while Behind, and the watch is closed before the plane.
func (p *Plane) WatchSockets(cgroup string, prefix roam.L64) (*SocketWatch, error) {
	spec, err := loadSocketwatch()
	if err != nil {
		return nil, fmt.Errorf("read embedded eBPF object: %w", err)
	}
	h := half(uint64(prefix))
	if err := spec.Variables["session_prefix"].Set(binary.NativeEndian.Uint64(h.B[:])); err != nil {
		return nil, fmt.Errorf("set session prefix: %w", err)
	}
	if err := spec.Variables["netns_cookie"].Set(netnsCookie()); err != nil {
		return nil, fmt.Errorf("set network namespace: %w", err)
	}
	w := &SocketWatch{marks: p.marks}
	shared := map[string]*ebpf.Map{"real_sockets": p.objs.RealSockets}
	if err := spec.LoadAndAssign(&w.objs, &ebpf.CollectionOptions{MapReplacements: shared}); err != nil {
		return nil, fmt.Errorf("load hooks for sockets on real addresses: %w", err)
	}
	// What a hook marks from now on is newer than what the table held.
	atomic.AddUint32(&w.marks.Epoch, 1)
	if err := w.attach(p.set.Dir(), cgroup); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *SocketWatch) attach(dir, cgroup string) (err error) {
	for _, h := range []struct {
		name string
		at   ebpf.AttachType
		prog *ebpf.Program
	}{
		{"bind6", ebpf.AttachCGroupInet6PostBind, w.objs.WatchBind6},
		{"connect6", ebpf.AttachCGroupInet6Connect, w.objs.WatchConnect6},
		{"stream", ebpf.AttachCGroupSockOps, w.objs.WatchStream},
	} {
		if err := dataplane.AttachCgroup(filepath.Join(dir, "link_watch_"+h.name), cgroup, h.at, h.prog); err != nil {
			return fmt.Errorf("attach %s to %s: %w", h.name, cgroup, err)
		}
	}
	for i, prog := range []*ebpf.Program{w.objs.SearchTcp, w.objs.SearchUdp} {
		if w.searches[i], err = link.AttachIter(link.IterOptions{Program: prog}); err != nil {
			return fmt.Errorf("attach search for sockets: %w", err)
		}
	}
	return nil
}

// Sweep marks the sockets on real addresses that there are; marks that neither this nor the
// last Sweep has found a socket for count no more. It looks at all TCP and UDP sockets of
// the network namespace. A UDP socket is marked shortly before it can be found connected, so
// Sweeps have to be far apart by that measure: a second is.
func (w *SocketWatch) Sweep() error {
	if w.escaped {
		return nil
	}
	epoch := atomic.AddUint32(&w.marks.Epoch, 1)
	missed, err := w.search()
	if err == nil && missed > 0 { // perhaps a hook was about to run
		if w.between != nil {
			w.between()
		}
		missed, err = w.search()
	}
	if err != nil || missed > 0 {
		atomic.StoreUint32(&w.marks.Valid, 0)
		w.begun = 0
	}
	if err != nil {
		return fmt.Errorf("search sockets: %w", err)
	}
	if missed > 0 {
		w.escaped = true
		return fmt.Errorf("%d %w", missed, ErrUnwatched)
	}
	if w.begun++; w.begun > 1 {
		atomic.StoreUint32(&w.marks.Valid, epoch-1)
	}
	return nil
}

// search runs both iterators, and returns how many sockets had no mark.
func (w *SocketWatch) search() (missed uint32, err error) {
	atomic.StoreUint32(&w.marks.Missed, 0)
	for _, s := range w.searches {
		if err := runIterator(s); err != nil {
			return 0, err
		}
	}
	return atomic.LoadUint32(&w.marks.Missed), nil
}

// runIterator runs an iterator that writes nothing over everything. The kernel stops after
// a million objects, and goes on at the next read.
func runIterator(it *link.Iter) error {
	r, err := it.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		n, err := r.Read(make([]byte, 64))
		switch {
		case errors.Is(err, unix.EAGAIN) || err == nil && n > 0:
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// Close lets go of the hooks; they stay attached, and go on marking.
func (w *SocketWatch) Close() error {
	errs := []error{w.objs.Close()}
	for _, s := range w.searches {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
