package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// flatSet is the set whose pins builds up to ABI 21 had directly in the directory that
// all sets share now.
const flatSet = "ilnp"

// movePins moves the pins of a directory to another one on the same bpffs. Pins of that
// name there are older, and go.
func movePins(from, to string) error {
	return eachPin(from, func(name string) error {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("move pin of an earlier build: %w", err)
		}
		return nil
	})
}

// Disarm ends what programs do that processes pinned below this directory, of all sets, or
// attached through clsact, which detachClassic detaches. On links of tcx a program that does
// nothing takes their place. To detach them there takes the kernel a grace period of RCU
// for each direction of each link, one after the other, under the lock that all changes of
// links, addresses and routes need: Remove has it begin, when those are done.
//
// Where nothing is pinned, nothing is attached: Disarm then does not wait for that lock.
func Disarm(dir string, detachClassic func() error) error {
	pins, err := allPins(dir)
	if err != nil || len(pins) == 0 {
		return err
	}
	idle, err := loadIdle()
	if err != nil {
		return fmt.Errorf("load a program that does nothing: %w", err)
	}
	defer idle.Close()
	errs := []error{detachClassic()}
	for _, pin := range pins {
		if !strings.HasPrefix(filepath.Base(pin), linkPrefix) || replaced(pin, idle) {
			continue
		}
		if err := os.Remove(pin); err != nil {
			errs = append(errs, fmt.Errorf("detach program: %w", err))
		}
	}
	return errors.Join(errs...)
}

// replaced puts a program in the place of that of a pinned attachment, and reports whether
// that is one to a link that is there, and took it.
func replaced(pin string, prog *ebpf.Program) bool {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return false
	}
	defer l.Close()
	return linkedTo(l) != 0 && l.Update(prog) == nil
}

// allPins lists the pins of a directory and of those below it; one that is not there has
// none.
func allPins(dir string) (pins []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list pins: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			below, err := allPins(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			pins = append(pins, below...)
		}
	}
	err = eachPin(dir, func(name string) error {
		pins = append(pins, filepath.Join(dir, name))
		return nil
	})
	return pins, err
}

// Remove takes everything away that processes pinned below this directory, of all sets. The
// kernel detaches the programs in the background, and frees the maps once the last process
// has closed them.
func Remove(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below := filepath.Join(dir, e.Name())
		if err := Remove(below); err != nil {
			return err
		}
		if err := os.Remove(below); err != nil {
			return fmt.Errorf("remove pin directory: %w", err)
		}
	}
	return removePins(dir, func(string) bool { return true })
}

// removePins removes the pins of a directory whose names are chosen.
func removePins(dir string, chosen func(name string) bool) error {
	return eachPin(dir, func(name string) error {
		if !chosen(name) {
			return nil
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove pin: %w", err)
		}
		return nil
	})
}

// eachPin calls do for each pin of a directory, but not for directories in it.
func eachPin(dir string, do func(name string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	for _, e := range entries {
		// The kernel's own iterators, in a bpffs that was mounted anew, go with the mount
		// and cannot be removed.
		if e.IsDir() || e.Name() == "maps.debug" || e.Name() == "progs.debug" {
			continue
		}
		if err := do(e.Name()); err != nil {
			return err
		}
	}
	return nil
}
