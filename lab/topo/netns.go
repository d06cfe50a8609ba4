package topo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// netnsDir is where ip-netns(8) looks for named namespaces, so that a person
// can look into a running experiment with "ip -n NAME".
const netnsDir = "/run/netns"

// onThread runs f on an OS thread of its own, which ends afterwards. It serves work that
// changes the thread for good, such as entering a namespace.
func onThread(f func() error) error {
	ch := make(chan error)
	go func() {
		// Never unlocked, so that the runtime ends the thread with the goroutine.
		runtime.LockOSThread()
		ch <- f()
	}()
	return <-ch
}

// makeNetns creates a named network namespace and returns it opened.
func makeNetns(name string) (*os.File, error) {
	if err := prepareNetnsDir(); err != nil {
		return nil, err
	}
	path := filepath.Join(netnsDir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return nil, fmt.Errorf("create mount point of namespace: %w", err)
	}
	_ = f.Close()
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare network namespace: %w", err)
		}
		if err := unix.Mount(threadNetns(), path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind namespace to %s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	return os.Open(path)
}

// threadNetns is the path of the calling thread's network namespace.
func threadNetns() string { return fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()) }

// prepareNetnsDir makes the directory of named namespaces a shared mount, as ip-netns(8)
// does, so that every mount namespace sees the unmounting of a name and the namespace ends.
// The lock excludes other processes that do the same.
func prepareNetnsDir() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", netnsDir, err)
	}
	d, err := os.Open(netnsDir)
	if err != nil {
		return fmt.Errorf("open %s: %w", netnsDir, err)
	}
	defer d.Close()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", netnsDir, err)
	}
	err = unix.Mount("", netnsDir, "", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // not a mount point yet
		if err = unix.Mount(netnsDir, netnsDir, "", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", netnsDir, "", unix.MS_SHARED|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("share %s: %w", netnsDir, err)
	}
	return nil
}

// removeNetns removes a named namespace; a missing one is no error.
func removeNetns(name string) error {
	path := filepath.Join(netnsDir, name)
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove namespace %s: %w", name, err)
	}
	return nil
}

// Do runs f on a thread inside the host's network namespace and returns its error. Sockets,
// netlink handles and TAP devices that f opens stay in that namespace. f must not start
// goroutines that rely on being inside.
func (h *Host) Do(f func() error) error {
	ch := make(chan error)
	go func() {
		runtime.LockOSThread()
		restored, err := h.inside(f)
		if restored {
			// Otherwise the thread stays locked and dies with this
			// goroutine rather than serve others in a foreign namespace.
			runtime.UnlockOSThread()
		}
		ch <- err
	}()
	return <-ch
}

// DoHere is Do on the calling thread, whose goroutine must be locked to it: so what f opens is
// in the table of files of that thread. It returns an error too if the thread could not leave
// the namespace again.
func (h *Host) DoHere(f func() error) error {
	restored, err := h.inside(f)
	if !restored {
		err = errors.Join(err, fmt.Errorf("cannot leave the namespace of %s", h.name))
	}
	return err
}

// inside switches the locked thread to the host's namespace around f.
func (h *Host) inside(f func() error) (restored bool, err error) {
	old, err := os.Open(threadNetns())
	if err != nil {
		return true, fmt.Errorf("open own namespace: %w", err)
	}
	defer old.Close()
	if err := unix.Setns(int(h.netns.Fd()), unix.CLONE_NEWNET); err != nil {
		return true, fmt.Errorf("enter namespace of %s: %w", h.name, err)
	}
	err = f()
	return unix.Setns(int(old.Fd()), unix.CLONE_NEWNET) == nil, err
}
