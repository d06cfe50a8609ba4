package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is what Replace does to a file system. Until Sync, nothing that was
// written to a file is sure to survive a loss of power; until SyncDir, neither
// is a name.
type disk interface {
	Create(name string, mode fs.FileMode) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(dir string) error
}

type file interface {
	io.Writer
	Sync() error
	Close() error
}

// Replace makes b the contents of the file at path, with the given mode. After
// a crash or a loss of power at any point the file holds the old contents or
// the new ones, whole. It writes path + ".new" first, so one caller at a time may
// replace a file. On an error the file is as it was.
func Replace(path string, b []byte, mode fs.FileMode) error {
	return replace(system{}, path, b, mode)
}

func replace(d disk, path string, b []byte, mode fs.FileMode) error {
	temp := path + ".new"
	f, err := d.Create(temp, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync() // before the rename: the name must not outlive the contents
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, d.Remove(temp))
	}
	return d.SyncDir(filepath.Dir(path))
}

// system is the disk of the operating system.
type system struct{}

// Create makes the file anew: one that was left with a wider mode would keep it.
func (system) Create(name string, mode fs.FileMode) (file, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }
func (system) Remove(name string) error     { return os.Remove(name) }

func (system) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
