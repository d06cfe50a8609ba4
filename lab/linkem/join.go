package linkem

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namedNetns is the directory of ip-netns(8) for named namespaces.
const namedNetns = "/run/netns"

// Join makes an emulated link between two existing network namespaces. An end is
// NETNS/DEVICE: the namespace by name or as the path of a file, and the name of the new
// device; without a slash, the device is in the caller's namespace. Both devices are up
// when Join returns, and are removed when the link is closed or the process ends.
func Join(a, b string, ab, ba Params) (*Link, error) {
	var taps [2]*Tap
	for i, end := range [2]string{a, b} {
		t, err := tapAt(end)
		if err != nil {
			if i == 1 {
				err = errors.Join(err, taps[0].Close())
			}
			return nil, err
		}
		taps[i] = t
	}
	l, err := New(taps[0], taps[1], ab, ba)
	if err != nil {
		return nil, errors.Join(err, taps[0].Close(), taps[1].Close())
	}
	return l, nil
}

// tapAt makes a device at one end and brings it up.
func tapAt(end string) (t *Tap, err error) {
	at := strings.LastIndexByte(end, '/')
	netns, name := end[:max(at, 0)], end[at+1:]
	if name == "" || len(name) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("end %q of a link: want NETNS/DEVICE with a device name of 1 to %d characters", end,
			unix.IFNAMSIZ-1)
	}
	if at >= 0 && !strings.Contains(netns, "/") {
		netns = filepath.Join(namedNetns, netns)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked, so that the thread, which is in another namespace, ends.
		runtime.LockOSThread()
		if at >= 0 {
			if err = enter(netns); err != nil {
				return
			}
		}
		if t, err = OpenTap(name); err != nil {
			return
		}
		if err = bringUp(name); err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	<-done
	if err != nil {
		return nil, fmt.Errorf("end %q of a link: %w", end, err)
	}
	return t, nil
}

// enter moves the calling thread to the namespace of a file.
func enter(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

// bringUp sets IFF_UP on a device of the calling thread's namespace.
func bringUp(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("ask for flags of %s: %w", name, err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	return nil
}
