package scene

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"roam/lab/topo"
)

// routerAdvert is the ICMPv6 type (RFC 4861 §4.2).
const routerAdvert = 134

// Advert is a Router Advertisement as it reached the mobile host.
type Advert struct {
	At   time.Time // the kernel's time of arrival
	Link string
}

// raWatch listens to Router Advertisements in a host, beside the kernel and the
// daemon.
type raWatch struct {
	f    *os.File
	done chan struct{}
	mu   sync.Mutex
	list []Advert
}

// watchRA opens a raw socket in the host that receives Router Advertisements only.
func watchRA(h *topo.Host, access []string) (*raWatch, error) {
	names := map[uint32]string{}
	fd := -1
	err := h.Do(func() (err error) {
		for _, l := range access {
			i, err := net.InterfaceByName(l)
			if err != nil {
				return err
			}
			names[uint32(i.Index)] = l
		}
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
			unix.IPPROTO_ICMPV6); err != nil {
			return err
		}
		filter := unix.ICMPv6Filter{}
		for i := range filter.Data {
			filter.Data[i] = ^uint32(0) // a set bit blocks its type
		}
		filter.Data[routerAdvert/32] &^= 1 << (routerAdvert % 32)
		if err = unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter); err != nil {
			return err
		}
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1); err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return nil, fmt.Errorf("listen to router advertisements on %s: %w", h.Name(), err)
	}
	w := &raWatch{f: os.NewFile(uintptr(fd), "router advertisements"), done: make(chan struct{})}
	go w.run(names)
	return w, nil
}

func (w *raWatch) run(names map[uint32]string) {
	defer close(w.done)
	raw, err := w.f.SyscallConn()
	if err != nil {
		return
	}
	buf, oob := make([]byte, 1500), make([]byte, 256)
	for {
		var on int
		var rerr error
		err := raw.Read(func(fd uintptr) bool {
			_, on, _, _, rerr = unix.Recvmsg(int(fd), buf, oob, 0)
			return rerr != unix.EAGAIN
		})
		if err != nil {
			return // closed
		}
		if rerr == nil {
			w.note(oob[:on], names)
		}
	}
}

func (w *raWatch) note(oob []byte, names map[uint32]string) {
	seen := Advert{At: time.Now()}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for _, m := range msgs {
		switch {
		case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16:
			seen.At = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 20:
			seen.Link = names[binary.NativeEndian.Uint32(m.Data[16:])]
		}
	}
	w.mu.Lock()
	w.list = append(w.list, seen)
	w.mu.Unlock()
}

// seen returns the advertisements received so far.
func (w *raWatch) seen() []Advert {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Advert(nil), w.list...)
}

func (w *raWatch) close() {
	_ = w.f.Close()
	<-w.done
}
