package dataplane

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"roam"
)

// idleName is the name of the program that keeps a set's place on a link without doing
// anything.
const idleName = "roam_idle"

// loadIdle loads a program that lets everything pass, to the next program of the link if
// there is one, and counts nothing.
func loadIdle() (*ebpf.Program, error) {
	const next = -1 // TCX_NEXT
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: idleName, Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, next), asm.Return()},
	})
}

// hold keeps others from attaching to a link, or detaching from it, until release.
func (s *Set) hold(dev roam.LinkID) (release func()) {
	l, _ := s.held.LoadOrStore(dev, &sync.Mutex{})
	mutex := l.(*sync.Mutex)
	mutex.Lock()
	return mutex.Unlock
}

// Prepare puts a program that does nothing on both directions of a link, where no program
// of the set is. To attach the first program to a link takes the kernel a grace period of
// RCU, 10 to 20 ms, for each direction; to put another one in its place, as AttachLink
// does then, takes none. It may be called from any goroutine. Under clsact it does
// nothing.
func (s *Set) Prepare(dev roam.LinkID) error {
	if !s.tcx {
		return nil
	}
	idle, err := s.idle()
	if err != nil {
		return fmt.Errorf("load a program that does nothing: %w", err)
	}
	defer s.hold(dev)()
	for _, ingress := range []bool{true, false} {
		if attachedTo(s.linkPin(dev, ingress)) == dev {
			continue
		}
		if err := s.attachTCX(dev, ingress, idle); err != nil {
			return fmt.Errorf("prepare link %d: %w", dev, err)
		}
	}
	return nil
}

// Release takes back what Prepare did, unless another program has come in its place. The
// link may be gone. It may be called from any goroutine.
func (s *Set) Release(dev roam.LinkID) error {
	if !s.tcx {
		return nil
	}
	defer s.hold(dev)()
	for _, ingress := range []bool{true, false} {
		pin := s.linkPin(dev, ingress)
		if !isIdle(pin) {
			continue
		}
		if err := os.Remove(pin); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("release link %d: %w", dev, err)
		}
	}
	return nil
}

// Prepared returns the links that Prepare was called for and that have no other program,
// in this process or in an earlier one; they may be gone.
func (s *Set) Prepared() ([]roam.LinkID, error) {
	if !s.tcx {
		return nil, nil
	}
	pinned, err := s.ingressPins()
	if err != nil {
		return nil, err
	}
	var links []roam.LinkID
	for _, dev := range pinned {
		if isIdle(s.linkPin(dev, true)) || isIdle(s.linkPin(dev, false)) {
			links = append(links, dev)
		}
	}
	return links, nil
}

// isIdle reports whether a pin attaches the program that does nothing.
func isIdle(pin string) bool {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return false
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return false
	}
	prog, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return false
	}
	defer prog.Close()
	about, err := prog.Info()
	return err == nil && about.Name == idleName
}
