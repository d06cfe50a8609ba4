package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const (
	// hookPins is how many pins a program on a hook may have: the kernel cannot replace
	// the program of such a link, so the new one is attached beside its predecessor.
	hookPins = 3
	// hookPriority is the first of the priorities that such a program may have: before
	// connection tracking and everybody's rules. No two programs may have the same one.
	hookPriority = -1500
	hookPlaces   = 16
)

// AttachPrerouting attaches a program to NF_INET_PRE_ROUTING of IPv6, for all links of
// the network namespace of the calling thread, and pins it; only then it removes that of
// an earlier process with the same name.
func (s *Set) AttachPrerouting(name string, prog *ebpf.Program) error {
	var l link.Link
	err := error(unix.EBUSY)
	for i := 0; i < hookPlaces && errors.Is(err, unix.EBUSY); i++ {
		l, err = link.AttachNetfilter(link.NetfilterOptions{
			Program: prog, ProtocolFamily: unix.NFPROTO_IPV6, Hook: unix.NF_INET_PRE_ROUTING, Priority: int32(hookPriority + i),
		})
	}
	if err != nil {
		return fmt.Errorf("attach the %s of all links: %w", name, err)
	}
	defer l.Close()
	old, err := s.HookPins(name)
	if err != nil {
		return err
	}
	taken := make(map[string]bool, len(old))
	for _, pin := range old {
		taken[pin] = true
	}
	for i := range hookPins {
		pin := fmt.Sprintf("%s%s_%d", linkPrefix, name, i)
		if taken[pin] {
			continue
		}
		if err := l.Pin(filepath.Join(s.Dir(), pin)); err != nil {
			return fmt.Errorf("pin the %s of all links: %w", name, err)
		}
		break
	}
	for _, pin := range old {
		if err := os.Remove(filepath.Join(s.Dir(), pin)); err != nil {
			return fmt.Errorf("remove the earlier %s of all links: %w", name, err)
		}
	}
	return nil
}

// HookPins lists the pins of programs of that name on the hook. More than one there is
// only where a process was killed between two steps; the last name is kept free.
func (s *Set) HookPins(name string) ([]string, error) {
	entries, err := os.ReadDir(s.Dir())
	if err != nil {
		return nil, fmt.Errorf("list pins: %w", err)
	}
	var pins []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), linkPrefix+name+"_") {
			pins = append(pins, e.Name())
		}
	}
	for len(pins) >= hookPins {
		if err := os.Remove(filepath.Join(s.Dir(), pins[0])); err != nil {
			return nil, fmt.Errorf("remove the earlier %s of all links: %w", name, err)
		}
		pins = pins[1:]
	}
	return pins, nil
}
