package links

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/lab/topo"
)

// forever is the infinite lifetime of RFC 4861 §4.6.2.
const forever = 0xffff_ffff

// advert is a Router Advertisement (RFC 4861 §4.2). Lifetimes are in seconds.
type advert struct {
	router   uint16 // lifetime as default router
	prefixes []prefix
}

// prefix is a Prefix Information option, on-link and autonomous.
type prefix struct {
	l64              roam.L64
	preferred, valid uint32
}

// lasting advertises prefixes that no test outlives.
func lasting(ls ...roam.L64) advert {
	a := advert{router: 1800}
	for _, l := range ls {
		a.prefixes = append(a.prefixes, prefix{l, 1800, 3600})
	}
	return a
}

// marshal leaves the checksum to the kernel.
func (a advert) marshal() []byte {
	b := make([]byte, 16)
	b[0], b[4] = 134, 64
	binary.BigEndian.PutUint16(b[6:], a.router)
	for _, p := range a.prefixes {
		o := make([]byte, 32)
		o[0], o[1], o[2], o[3] = 3, 4, 64, 0xc0
		binary.BigEndian.PutUint32(o[4:], p.valid)
		binary.BigEndian.PutUint32(o[8:], p.preferred)
		binary.BigEndian.PutUint64(o[16:], uint64(p.l64))
		b = append(b, o...)
	}
	return b
}

// advertEvery is the pause between two advertisements: short, since a host that
// came late waits for the next one.
const advertEvery = 200 * time.Millisecond

// advertiser is the part of a router that advertises on one interface. Unlike
// a radvd it says exactly what a test wants, impossible things too.
type advertiser struct {
	fd   int
	done chan struct{}
	once sync.Once
	gone sync.WaitGroup

	mu  sync.Mutex
	now advert
}

// advertise starts to advertise on an interface of a router.
func advertise(h *topo.Host, ifname string, a advert) (*advertiser, error) {
	r := &advertiser{fd: -1, done: make(chan struct{}), now: a}
	err := h.Do(func() (err error) {
		if r.fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(r.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
			return err
		}
		return unix.BindToDevice(r.fd, ifname)
	})
	if err != nil {
		return nil, fmt.Errorf("advertise on %s: %w", ifname, err)
	}
	r.gone.Go(r.run)
	return r, nil
}

func (r *advertiser) run() {
	tick := time.NewTicker(advertEvery)
	defer tick.Stop()
	for {
		r.send()
		select {
		case <-r.done:
			return
		case <-tick.C:
		}
	}
}

// send sends one advertisement to all nodes. An interface that is down sends
// nothing, as with any router.
func (r *advertiser) send() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = unix.Sendto(r.fd, r.now.marshal(), 0, &unix.SockaddrInet6{Addr: [16]byte{0: 0xff, 1: 2, 15: 1}})
}

// set changes what is advertised, at once.
func (r *advertiser) set(a advert) {
	r.mu.Lock()
	r.now = a
	r.mu.Unlock()
	r.send()
}

// stop falls silent, without a last word.
func (r *advertiser) stop() {
	r.once.Do(func() {
		close(r.done)
		r.gone.Wait()
		unix.Close(r.fd)
	})
}
