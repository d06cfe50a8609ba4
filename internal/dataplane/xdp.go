package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"roam"
)

func (s *Set) xdpPin(dev roam.LinkID) string {
	return filepath.Join(s.Dir(), fmt.Sprintf(linkPrefix+"%d_xdp", dev))
}

// AttachXDP has the driver of a link run a program on each frame that it receives, before the
// programs of AttachLink. It updates the one that an earlier process pinned in place. It fails
// where the driver has no XDP of its own, or another program is there.
func (s *Set) AttachXDP(dev roam.LinkID, prog *ebpf.Program) error {
	pin := s.xdpPin(dev)
	if l, err := link.LoadPinnedLink(pin, nil); err == nil {
		defer l.Close()
		info, err := l.Info()
		if err == nil && info.XDP() != nil && info.XDP().Ifindex == uint32(dev) && l.Update(prog) == nil {
			return nil
		}
	}
	if err := s.DetachXDP(dev); err != nil {
		return err
	}
	l, err := link.AttachXDP(link.XDPOptions{Interface: int(dev), Program: prog, Flags: link.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("attach to XDP of link %d: %w", dev, err)
	}
	defer l.Close()
	if err := l.Pin(pin); err != nil {
		return fmt.Errorf("pin XDP link: %w", err)
	}
	return nil
}

// DetachXDP takes the program of AttachXDP off a link, which may be gone.
func (s *Set) DetachXDP(dev roam.LinkID) error {
	if err := os.Remove(s.xdpPin(dev)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("detach from XDP of link %d: %w", dev, err)
	}
	return nil
}

// AttachedXDP reports whether a link has a program of AttachXDP, of an earlier process too.
func (s *Set) AttachedXDP(dev roam.LinkID) bool {
	_, err := os.Stat(s.xdpPin(dev))
	return err == nil
}
