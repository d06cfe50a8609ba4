package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// Remove takes everything away that processes pinned below this directory, of all sets:
// programs are detached, maps are freed once the last process has closed them.
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
