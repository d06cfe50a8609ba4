package ilnphost

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
	"roam/wire/ip6"
	"roam/wire/xlate/decide"
)

// watch attaches the hooks, and has the marks count.
func (r *rig) watch(cgroup string) *SocketWatch {
	r.t.Helper()
	w, err := r.WatchSockets(cgroup, roam.DefaultSessionPrefix)
	r.must(err)
	r.t.Cleanup(func() { w.Close() })
	for want := range uint32(2) {
		r.sweep(w, 1)
		if got := min(r.marks.Valid, 1); got != want {
			r.t.Fatalf("after %d sweeps marks below %d do not count", want+1, r.marks.Valid)
		}
	}
	return w
}

func (r *rig) sweep(w *SocketWatch, times int) {
	r.t.Helper()
	for range times {
		r.must(w.Sweep())
	}
}

// mayBeReal reports whether the programs look sockets up for a packet of the peer.
func (r *rig) mayBeReal(port uint16) bool {
	node := decide.NodeMark(theirs)
	m := decide.Marks{Valid: r.marks.Valid, Of: map[uint16]uint32{node: r.marks.Mark[node], port: r.marks.Mark[port]}}
	return m.MayBeReal(theirs, port)
}

// watchRig is a host whose NID is that of a real address, with a session and the two
// real addresses.
func watchRig(t *testing.T) (r *rig, mine, other netip.Addr) {
	t.Helper()
	testutil.Need(t, "cgroup2")
	r, mine, other = realEnds(t)
	r.change(func(s *HostSettings) { s.RealNID = true })
	r.upsert(entryFor(there, else1))
	ip(t, "link add far1 type veth peer name far2")
	ip(t, "link set far2 up")
	ip(t, "link set far1 up")
	ip(t, "-6 route add "+at(else1, theirs).Addr().String()+" dev far1 src "+mine.String())
	return r, mine, other
}

// closers closes several.
type closers []io.Closer

// Close closes them in turn.
func (c closers) Close() error {
	for _, each := range c {
		each.Close()
	}
	return nil
}

func udpSocket(t *testing.T, from, to netip.AddrPort) io.Closer {
	t.Helper()
	var local *net.UDPAddr
	if from.IsValid() {
		local = net.UDPAddrFromAddrPort(from)
	}
	if !to.IsValid() {
		c, err := net.ListenUDP("udp6", local)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, err := net.DialUDP("udp6", local, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tcpSockets are both ends of a connection, which leave nothing behind when they close. The
// listener is closed before.
func tcpSockets(t *testing.T, from, to netip.AddrPort, multipath bool) io.Closer {
	t.Helper()
	l, err := net.ListenTCP("tcp6", &net.TCPAddr{Port: int(to.Port())})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from)}
	d.SetMultipathTCP(multipath)
	c, err := d.DialContext(context.Background(), "tcp6", to.String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []*net.TCPConn{c.(*net.TCPConn), accepted} {
		if err := end.SetLinger(0); err != nil {
			t.Fatal(err)
		}
	}
	return closers{accepted, c}
}

// halfOpen is a listener on any address that has answered the peer's first segment, from
// an address that nobody answers. The peer resets it in the end.
type halfOpen struct {
	*net.TCPListener
	t    *testing.T
	port uint16
}

func newHalfOpen(t *testing.T, port uint16) *halfOpen {
	t.Helper()
	l, err := net.ListenTCP("tcp6", &net.TCPAddr{Port: int(port)})
	if err != nil {
		t.Fatal(err)
	}
	h := &halfOpen{l, t, port}
	h.arrive(segmentTo(port, flagSYN)[:20])
	h.wait(true)
	return h
}

// arrive has the kernel receive a segment of the peer.
func (h *halfOpen) arrive(segment []byte) {
	h.t.Helper()
	raw, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err != nil {
		h.t.Fatal(err)
	}
	defer unix.Close(raw)
	b := packet(at(else1, theirs), at(here, ours), ip6.TCP, segment)
	if err := unix.Sendto(raw, b, 0, &unix.SockaddrInet6{Addr: at(here, ours).Addr().As16()}); err != nil {
		h.t.Fatal(err)
	}
}

// wait waits until there is a half-open connection, or none. No other socket here is.
func (h *halfOpen) wait(want bool) {
	h.t.Helper()
	testutil.Eventually(h.t, 5*time.Second, func() bool {
		b, err := os.ReadFile("/proc/thread-self/net/tcp6")
		return err == nil && strings.Contains(string(b), " 03 ") == want
	}, "the kernel has the half-open connection or has not")
}

// Close resets the connection and closes the listener.
func (h *halfOpen) Close() error {
	reset := segmentTo(h.port, 0x04)[:20]
	binary.BigEndian.PutUint32(reset[4:], 0x1001)
	h.arrive(reset)
	h.wait(false)
	return h.TCPListener.Close()
}

// beginning is a connection whose first segment is on its way.
func beginning(t *testing.T, from, to netip.AddrPort) io.Closer {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "connection")
	if err := unix.Bind(fd, &unix.SockaddrInet6{Port: int(from.Port()), Addr: from.Addr().As16()}); err != nil {
		t.Fatal(err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if !errors.Is(err, unix.EINPROGRESS) {
		t.Fatal(err)
	}
	return f
}

// realCase is one kind of socket on a real address.
type realCase struct {
	name   string
	open   func(t *testing.T) io.Closer
	packet []byte // of plain IPv6, for it
	port   uint16
}

func realCases(mine, other netip.Addr) []realCase {
	bound := func(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }
	any, far := netip.IPv6Unspecified(), at(else1, theirs).Addr()
	return []realCase{
		{"bound datagram socket", func(t *testing.T) io.Closer {
			return udpSocket(t, bound(mine, 5002), netip.AddrPort{})
		}, fromPeer(there, none, ip6.UDP, datagram(5002)), 5002},
		{"bound and connected datagram socket", func(t *testing.T) io.Closer {
			return udpSocket(t, bound(mine, 5001), bound(other, 5000))
		}, fromPeer(there, none, ip6.UDP, udp(20)), 5001},
		{"connected datagram socket", func(t *testing.T) io.Closer {
			return udpSocket(t, bound(any, 5001), bound(far, 5000))
		}, fromPeer(else1, none, ip6.UDP, udp(20)), 5001},
		{"listener", func(t *testing.T) io.Closer {
			l, err := net.ListenTCP("tcp6", net.TCPAddrFromAddrPort(bound(mine, 444)))
			if err != nil {
				t.Fatal(err)
			}
			return l
		}, fromPeer(there, none, ip6.TCP, segmentTo(444, flagSYN)), 444},
		{"half-open connection", func(t *testing.T) io.Closer {
			return newHalfOpen(t, 443)
		}, fromPeer(else1, none, ip6.TCP, segmentTo(443, flagACK)), 443},
		{"connection that begins", func(t *testing.T) io.Closer {
			return beginning(t, bound(mine, 443), bound(far, 40000))
		}, fromPeer(else1, none, ip6.TCP, segmentTo(443, flagSYN|flagACK)), 443},
		{"accepted connection", func(t *testing.T) io.Closer {
			return tcpSockets(t, bound(other, 40000), bound(mine, 443), false)
		}, fromPeer(there, none, ip6.TCP, segmentTo(443, flagACK)), 443},
		{"connection", func(t *testing.T) io.Closer {
			return tcpSockets(t, bound(mine, 443), bound(other, 40000), false)
		}, fromPeer(there, none, ip6.TCP, segmentTo(443, flagACK)), 443},
		{"multipath connection", func(t *testing.T) io.Closer {
			return tcpSockets(t, bound(mine, 443), bound(other, 40000), true)
		}, fromPeer(there, none, ip6.TCP, segmentTo(443, flagACK)), 443},
	}
}

// A socket on a real address gets its first packet, whenever it was made; the packets of
// sessions cost no look-up before it is there, nor soon after it is gone.
func TestSocketWatch(t *testing.T) {
	for i, c := range realCases(netip.Addr{}, netip.Addr{}) {
		t.Run(c.name, func(t *testing.T) {
			r, mine, other := watchRig(t)
			c := realCases(mine, other)[i]
			w := r.watch(rootCgroup(t))
			if r.mayBeReal(c.port) {
				t.Error("sockets are looked up, and there is none")
			}
			open := c.open(t)
			t.Cleanup(func() { open.Close() })
			r.left("at once", c.packet, c.packet)
			r.sweep(w, 3)
			r.left("later", c.packet, c.packet)
			r.must(r.Delete(entryFor(there).Key))
			r.upsert(entryFor(there, else1))
			r.left("in another session", c.packet, c.packet)
			open.Close()
			r.sweep(w, 2)
			if r.mayBeReal(c.port) {
				t.Error("sockets are looked up although none is left")
			}
			r.check([]verdictCase{{"when it is closed", c.packet, passOn, delivered, nil}})
		})
		t.Run(c.name+" of before", func(t *testing.T) {
			r, mine, other := watchRig(t)
			c := realCases(mine, other)[i]
			open := c.open(t)
			t.Cleanup(func() { open.Close() })
			r.left("without a watch", c.packet, c.packet)
			r.watch(rootCgroup(t))
			r.left("with one", c.packet, c.packet)
		})
	}
}
