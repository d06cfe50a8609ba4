package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Group owns the socket where a group of that name exists, so that its members
// need not be root.
const Group = "roam"

// Listen makes the control socket at path, mode 0660. A socket that a dead
// daemon left is replaced; one that answers is an error.
func Listen(path string) (net.Listener, error) {
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return nil, Errorf(CodeConflict, "listen on %s: another daemon answers there", path).
			WithHint("stop it (`roam down`), or give this one another host.run_dir and host.state_dir")
	} else if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// The socket gets its mode and owner in a private directory and moves into
	// place then: there is no moment when others could connect.
	dir := filepath.Join(filepath.Dir(path), ".c"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer os.RemoveAll(dir)
	private := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: private, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err := publish(private, path); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &listener{Listener: l, path: path}, nil
}

func publish(private, path string) error {
	if g, err := user.LookupGroup(Group); err == nil {
		gid, err := strconv.Atoi(g.Gid)
		if err != nil {
			return fmt.Errorf("group %s: %w", Group, err)
		}
		if err := os.Chown(private, -1, gid); err != nil {
			return err
		}
	}
	if err := os.Chmod(private, 0o660); err != nil {
		return err
	}
	return os.Rename(private, path)
}

// listener removes the socket's name when it is closed.
type listener struct {
	net.Listener
	path string
}

func (l *listener) Close() error {
	err := l.Listener.Close()
	// Closed twice, or replaced by a successor's socket: the first close has
	// removed the name already, a second must not remove another's.
	if err == nil {
		_ = os.Remove(l.path)
	}
	return err
}
