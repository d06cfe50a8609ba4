package interop

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"roam/lab/topo"
)

const ethLen = 14

// link is a TAP device on a router, with the scripted host behind it. Without
// a virtio-net header the kernel cuts and sums packets as for a real wire.
type link struct {
	file *os.File
	mac  net.HardwareAddr // of the scripted host

	mu     sync.Mutex
	router net.HardwareAddr
}

// openLink makes the device on the router and sets it up.
func openLink(router *topo.Host, name string) (l *link, err error) {
	l = &link{mac: net.HardwareAddr{0x02, 0, 0x5e, 0x10, 0, 1}}
	err = router.Do(func() error {
		l.file, err = openTap(name)
		return err
	})
	if err == nil {
		err = router.SetUp(name)
	}
	if err == nil {
		err = router.Do(func() error {
			i, err := net.InterfaceByName(name)
			if err == nil {
				l.router = i.HardwareAddr
			}
			return err
		})
	}
	if err != nil {
		if l.file != nil {
			l.file.Close()
		}
		return nil, fmt.Errorf("open link of the scripted host: %w", err)
	}
	return l, nil
}

// openTap creates a TAP device in the calling thread's network namespace.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open tap %s: %w", name, err)
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make tap %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// read returns the next IPv6 packet; it blocks until one arrives or the link is closed. It
// treats the last sender as the router, which may be behind the device, on a macvlan.
func (l *link) read() ([]byte, error) {
	b := make([]byte, 4096)
	for {
		n, err := l.file.Read(b)
		if err != nil {
			return nil, fmt.Errorf("read from tap: %w", err)
		}
		if n > ethLen && b[12] == 0x86 && b[13] == 0xdd {
			l.learn(b[6:12])
			return b[ethLen:n], nil
		}
	}
}

// learn stores a hardware address as the router's, unless it is our own.
func (l *link) learn(mac net.HardwareAddr) {
	if !bytes.Equal(mac, l.mac) {
		l.mu.Lock()
		defer l.mu.Unlock()
		copy(l.router, mac)
	}
}

// write sends an IPv6 packet to the router. If the queue is full the packet is lost, as on
// any link.
func (l *link) write(ip []byte) {
	l.mu.Lock()
	f := append(append(append([]byte(nil), l.router...), l.mac...), 0x86, 0xdd)
	l.mu.Unlock()
	_, _ = l.file.Write(append(f, ip...))
}
