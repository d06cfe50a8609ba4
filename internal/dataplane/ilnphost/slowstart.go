package ilnphost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
	"roam/structops"
)

// SlowStarts ends the first slow start of TCP connections at what the entry of their session says. It covers the
// sockets of one cgroup, in the network namespace of the thread that opened it, and CUBIC and Reno.
type SlowStarts struct {
	control *structops.Control
	name    string // of the congestion control
	hook    link.Link
}

// thresholdPin returns where the registration is pinned if it outlives its process.
func thresholdPin(setDir string) string { return filepath.Join(setDir, "threshold_setter") }

// slowStarts are the bounds of the sessions' slow starts.
type slowStarts struct {
	bytes *ebpf.Map
	set   map[bpfHalf]uint32 // what is in it
}

func newSlowStarts() (s slowStarts, err error) {
	spec, err := loadSlowstart()
	if err != nil {
		return s, fmt.Errorf("read embedded eBPF object: %w", err)
	}
	s.set = make(map[bpfHalf]uint32)
	s.bytes, err = ebpf.NewMap(spec.Maps["slow_starts"])
	return s, err
}

// follow has connections of a session have its bound, in bytes, whose entry replaces another one; 0: they have none.
func (s *slowStarts) follow(old, row bpfSessionEntry, bytes int) error {
	var errs []error
	for _, alias := range aliasesOf(old) {
		if !slices.Contains(aliasesOf(row), alias) {
			errs = append(errs, s.put(alias, 0))
		}
	}
	for _, alias := range aliasesOf(row) {
		errs = append(errs, s.put(alias, uint32(min(bytes, math.MaxInt32))))
	}
	return errors.Join(errs...)
}

// aliasesOf returns by which session addresses connections may know the peer.
func aliasesOf(row bpfSessionEntry) []bpfHalf {
	switch {
	case row == bpfSessionEntry{}:
		return nil
	case row.Flags&bpfEntryFlagsENTRY_NAMED != 0:
		return []bpfHalf{row.Alias.Remote, row.RemoteNid}
	}
	return []bpfHalf{row.Alias.Remote}
}

func (s *slowStarts) put(alias bpfHalf, bytes uint32) (err error) {
	if s.set[alias] == bytes {
		return nil
	}
	if bytes == 0 {
		err = s.bytes.Delete(alias)
	} else {
		err = s.bytes.Put(alias, bytes)
	}
	if errors.Is(err, unix.E2BIG) {
		return nil // the map is full: TCP itself ends slow start
	}
	if err != nil {
		return fmt.Errorf("bound slow start: %w", err)
	}
	if s.set[alias] = bytes; bytes == 0 {
		delete(s.set, alias)
	}
	return nil
}

// BoundSlowStarts attaches the hook to a cgroup, and registers what sets thresholds, until Close, or until this process
// ends: bounds that nobody renews are worth nothing.
func (p *Plane) BoundSlowStarts(cgroup string, prefix roam.L64) (*SlowStarts, error) {
	return p.slowStarts.attach(p.set.Dir(), cgroup, prefix)
}

func (s *slowStarts) attach(setDir, cgroup string, prefix roam.L64) (*SlowStarts, error) {
	spec, err := loadSlowstart()
	if err != nil {
		return nil, fmt.Errorf("read embedded eBPF object: %w", err)
	}
	name, field := setterName()
	h := half(uint64(prefix))
	for v, value := range map[string]any{
		"session_prefix": binary.NativeEndian.Uint64(h.B[:]),
		"netns_cookie":   netnsCookie(),
		"setter_name":    field,
	} {
		if err := spec.Variables[v].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", v, err)
		}
	}
	shared := map[string]*ebpf.Map{"slow_starts": s.bytes}
	pin := thresholdPin(setDir)
	if err := structops.EndPinned(pin); err != nil {
		return nil, err
	}
	c, err := structops.Register(spec, "threshold_setter", name, shared)
	if err != nil {
		return nil, fmt.Errorf("register what sets thresholds: %w", err)
	}
	if err := c.Pin(pin); err != nil {
		return nil, errors.Join(fmt.Errorf("pin what sets thresholds: %w", err), c.Close())
	}
	hook, err := link.AttachCgroup(link.CgroupOptions{
		Path: cgroup, Attach: ebpf.AttachCGroupSockOps, Program: c.Collection.Programs["bound_slow_start"],
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach bounds of slow start to %s: %w", cgroup, err), c.Close())
	}
	return &SlowStarts{c, name, hook}, nil
}

// Close ends that.
func (s *SlowStarts) Close() error { return errors.Join(s.hook.Close(), s.control.Close()) }
