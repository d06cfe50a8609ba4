package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
)

// Detach takes the set's programs off a link, which may be gone.
func (s *Set) Detach(dev roam.LinkID) error {
	defer s.hold(dev)()
	s.waiting = slices.DeleteFunc(s.waiting, func(a attachment) bool { return a.dev == dev })
	if err := s.DetachXDP(dev); err != nil {
		return err
	}
	if !s.tcx {
		return errors.Join(s.opts.Classic.DetachClassic(dev, true, s.rank(s.opts.Name, true)),
			s.opts.Classic.DetachClassic(dev, false, s.rank(s.opts.Name, false)))
	}
	for _, ingress := range []bool{true, false} {
		if err := os.Remove(s.linkPin(dev, ingress)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("detach from link %d: %w", dev, err)
		}
	}
	return nil
}

// Attached returns the links that have programs of this set in both directions, those
// of an earlier process too, and not only that of Prepare. Pins of links that are gone are
// removed.
func (s *Set) Attached() ([]roam.LinkID, error) {
	if !s.tcx {
		return s.opts.Classic.Attached(s.rank(s.opts.Name, true), s.rank(s.opts.Name, false))
	}
	pinned, err := s.ingressPins()
	if err != nil {
		return nil, err
	}
	var links []roam.LinkID
	for _, dev := range pinned {
		if _, err := os.Stat(s.linkPin(dev, false)); err != nil || isIdle(s.linkPin(dev, false)) {
			continue
		}
		if attachedTo(s.linkPin(dev, true)) == dev {
			links = append(links, dev)
		} else if err := s.Detach(dev); err != nil {
			return nil, err
		}
	}
	return links, nil
}

// ingressPins lists the links for whose ingress there is a pin.
func (s *Set) ingressPins() ([]roam.LinkID, error) {
	entries, err := os.ReadDir(s.Dir())
	if err != nil {
		return nil, fmt.Errorf("list pins: %w", err)
	}
	var links []roam.LinkID
	for _, e := range entries {
		var dev roam.LinkID
		if n, _ := fmt.Sscanf(e.Name(), linkPrefix+"%d_ingress", &dev); n == 1 && e.Name() == linkName(dev, true) {
			links = append(links, dev)
		}
	}
	return links, nil
}

// DropDeadPins removes the pins on the ingress of links that are gone.
func (s *Set) DropDeadPins() error {
	if !s.tcx {
		return nil
	}
	pinned, err := s.ingressPins()
	if err != nil {
		return err
	}
	var errs []error
	for _, dev := range pinned {
		if pin := s.linkPin(dev, true); attachedTo(pin) == 0 {
			errs = append(errs, os.Remove(pin))
		}
	}
	return errors.Join(errs...)
}

// attachedTo returns the link that a pin attaches a program to; 0: none any more.
func attachedTo(pin string) roam.LinkID {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return 0
	}
	defer l.Close()
	return linkedTo(l)
}

// linkedTo returns the network link of a tcx link; 0: it is gone, or this is no tcx link.
func linkedTo(l link.Link) roam.LinkID {
	info, err := l.Info()
	if err != nil || info.TCX() == nil {
		return 0
	}
	return roam.LinkID(info.TCX().Ifindex)
}

func linkName(dev roam.LinkID, ingress bool) string {
	direction := "egress"
	if ingress {
		direction = "ingress"
	}
	return fmt.Sprintf(linkPrefix+"%d_%s", dev, direction)
}

func (s *Set) linkPin(dev roam.LinkID, ingress bool) string {
	return filepath.Join(s.Dir(), linkName(dev, ingress))
}

// attachment is a program that waits for TakeOver.
type attachment struct {
	dev     roam.LinkID
	ingress bool
	prog    *ebpf.Program
}

// TakeOver attaches what had to wait: where the maps of an earlier process could not be
// adopted, its programs go on with them until the new maps are filled. A link that is
// gone meanwhile is no error.
func (s *Set) TakeOver() error {
	waiting := s.waiting
	s.behind, s.waiting = false, nil
	var errs []error
	for _, a := range waiting {
		if err := s.AttachLink(a.dev, a.ingress, a.prog); err != nil && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("attach to link %d: %w", a.dev, err))
		}
	}
	return errors.Join(errs...)
}

// Behind reports whether the programs of an earlier process go on until TakeOver.
func (s *Set) Behind() bool { return s.behind }

// ordering is held from the search for the neighbours of a new link until that is pinned:
// sets find each other by their pins, and each role attaches in a goroutine of its own.
var ordering sync.Mutex

// AttachLink puts a program on one direction of a link, at the place of its set. It
// updates the link that an earlier process pinned in place, so that no packet passes
// unseen; where there is none, or its device is gone, it makes and pins one. While the
// set is behind, the program waits.
func (s *Set) AttachLink(dev roam.LinkID, ingress bool, prog *ebpf.Program) error {
	if s.behind {
		s.waiting = append(s.waiting, attachment{dev, ingress, prog})
		return nil
	}
	if !s.tcx {
		info, err := prog.Info()
		if err != nil {
			return fmt.Errorf("read program name: %w", err)
		}
		return s.opts.Classic.AttachClassic(dev, ingress, s.rank(s.opts.Name, ingress), prog.FD(), info.Name)
	}
	defer s.hold(dev)()
	return s.attachTCX(dev, ingress, prog)
}

// attachTCX attaches a program through tcx, while the link is held.
func (s *Set) attachTCX(dev roam.LinkID, ingress bool, prog *ebpf.Program) error {
	pin := s.linkPin(dev, ingress)
	if adoptLink(pin, dev, prog) {
		return nil
	}
	ordering.Lock()
	defer ordering.Unlock()
	where := ebpf.AttachTCXEgress
	if ingress {
		where = ebpf.AttachTCXIngress
	}
	at, release, err := s.anchor(dev, ingress)
	if err != nil {
		return fmt.Errorf("find programs of other sets: %w", err)
	}
	defer release()
	l, err := link.AttachTCX(link.TCXOptions{Interface: int(dev), Program: prog, Attach: where, Anchor: at})
	if err != nil {
		return fmt.Errorf("attach through tcx: %w", err)
	}
	defer l.Close()
	if err := l.Pin(pin); err != nil {
		return fmt.Errorf("pin tcx link: %w", err)
	}
	return nil
}

// AttachBoth puts one program on the ingress of a link and one on its egress.
func (s *Set) AttachBoth(dev roam.LinkID, in, out *ebpf.Program) error {
	if err := s.AttachLink(dev, true, in); err != nil {
		return fmt.Errorf("attach to ingress of link %d: %w", dev, err)
	}
	if err := s.AttachLink(dev, false, out); err != nil {
		return fmt.Errorf("attach to egress of link %d: %w", dev, err)
	}
	return nil
}

// adoptLink reports whether the pinned link was for this device and now runs
// prog. Otherwise the pin is gone.
func adoptLink(pin string, dev roam.LinkID, prog *ebpf.Program) bool {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		os.Remove(pin)
		return false
	}
	defer l.Close()
	if linkedTo(l) == dev && l.Update(prog) == nil {
		return true
	}
	os.Remove(pin)
	return false
}

// AttachCgroup attaches a program to a cgroup and pins the link, and only then lets go
// of the link that an earlier process pinned: that may be of another cgroup.
func AttachCgroup(pin, cgroup string, at ebpf.AttachType, prog *ebpf.Program) error {
	l, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: at, Program: prog})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := os.Remove(pin); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return l.Pin(pin)
}
