package links

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"roam/lab/topo"
)

// openTun makes a device without link layer: what a raw-IP modem or a PPP
// daemon gives a host. It has carrier while the file is open.
func openTun(h *topo.Host, ifname string) (f *os.File, err error) {
	err = h.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		ifr, err := unix.NewIfreq(ifname)
		if err == nil {
			ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
		}
		if err != nil {
			unix.Close(fd)
			return err
		}
		f = os.NewFile(uintptr(fd), ifname)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make tun %s: %w", ifname, err)
	}
	return f, h.SetUp(ifname)
}

// tunPair joins the mobile host with the router by a cable of two tun devices;
// the returned function pulls both ends out of their hosts.
func (w *world) tunPair(t testing.TB, here, there string) (cut func()) {
	t.Helper()
	a, err := openTun(w.mn.Host, here)
	if err != nil {
		t.Fatal(err)
	}
	b, err := openTun(w.r, there)
	if err != nil {
		t.Fatal(err)
	}
	carry := func(from, to *os.File) {
		buf := make([]byte, 65536)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			_, _ = to.Write(buf[:n]) // a full queue drops, as cables do
		}
	}
	go carry(a, b)
	go carry(b, a)
	cut = func() { a.Close(); b.Close() }
	t.Cleanup(cut)
	return cut
}
