package ilnphost

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"roam"

	"roam/wire/ip6"
	"roam/wire/xlate/decide"
)

// A mark ends with the second sweep after that in which its socket was seen last: that of
// a socket which is marked and not connected yet outlasts the first one.
func TestMarksEnd(t *testing.T) {
	r, _, _ := watchRig(t)
	w := r.watch(rootCgroup(t))
	r.marks.Mark[5009] = r.marks.Epoch
	for sweeps, want := range []bool{true, true, false, false} {
		if r.mayBeReal(5009) != want {
			t.Errorf("after %d sweeps the mark counts: %v", sweeps, !want)
		}
		r.sweep(w, 1)
	}
}

// Sockets are looked up for the packets of one port, or of one peer, whatever number of
// sessions there is.
func TestMarksOfOneSocket(t *testing.T) {
	const sessions = 1000
	r, mine, other := watchRig(t)
	r.watch(rootCgroup(t))
	looked := func(port uint16) (n int) {
		for i := range sessions {
			m := decide.Marks{Valid: r.marks.Valid, Of: map[uint16]uint32{port: r.marks.Mark[port]}}
			node := decide.NodeMark(numbered(i).RemoteNID)
			m.Of[node] = r.marks.Mark[node]
			if m.MayBeReal(numbered(i).RemoteNID, port) {
				n++
			}
		}
		return n
	}
	want := func(what string, port uint16, want int) {
		t.Helper()
		if got := looked(port); got != want {
			t.Errorf("%s: packets of %d of %d sessions have sockets looked up, want %d", what, got, sessions, want)
		}
	}
	addressed(t, session(ours).Addr())
	for _, from := range []netip.Addr{netip.IPv6Unspecified(), session(ours).Addr()} {
		c := udpSocket(t, netip.AddrPortFrom(from, 5003), netip.AddrPort{})
		want("bound to "+from.String(), 5003, 0)
		c.Close()
	}
	defer udpSocket(t, netip.AddrPortFrom(mine, 5002), netip.AddrPort{}).Close()
	want("bound", 5002, sessions)
	want("another port", 5004, 0)
	defer udpSocket(t, netip.AddrPortFrom(mine, 5001), netip.AddrPortFrom(other, 5000)).Close()
	want("connected", 5004, 1)
}

// A socket that was bound before it was connected is a bound one again when it
// disconnects, of which no hook is told.
func TestDisconnectedSocket(t *testing.T) {
	r, mine, other := watchRig(t)
	w := r.watch(rootCgroup(t))
	c := udpSocket(t, netip.AddrPortFrom(mine, 5001), netip.AddrPortFrom(other, 5000)).(*net.UDPConn)
	defer c.Close()
	r.sweep(w, 3)
	raw, err := c.SyscallConn()
	r.must(err)
	r.must(raw.Control(func(fd uintptr) {
		none := unix.RawSockaddrAny{Addr: unix.RawSockaddr{Family: unix.AF_UNSPEC}}
		_, _, e := unix.Syscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&none)), unix.SizeofSockaddrInet6)
		if e != 0 {
			err = e
		}
	}))
	r.must(err)
	b := fromPeer(there, none, ip6.UDP, udp(20))
	for range 4 {
		r.left("disconnected", b, b)
		r.sweep(w, 1)
	}
}

// Sockets that a hook turned to a session address, and those of other network namespaces,
// have no mark.
func TestUnmarkedSockets(t *testing.T) {
	r, mine, _ := watchRig(t)
	addressed(t, session(ours).Addr(), session(theirs).Addr())
	l := openLiterals(t, r.dir+"/pins")
	defer l.Close()
	r.must(l.Set(map[roam.ILV]roam.NID{at(else1, theirs): theirs}))
	r.watch(rootCgroup(t))
	defer udpSocket(t, netip.AddrPort{}, netip.AddrPortFrom(at(else1, theirs).Addr(), 5000)).Close()
	if r.mayBeReal(5004) {
		t.Error("a socket with session addresses is marked")
	}
	r.must(unix.Unshare(unix.CLONE_NEWNET))
	addressed(t, mine)
	defer udpSocket(t, netip.AddrPortFrom(mine, 5004), netip.AddrPort{}).Close()
	if r.mayBeReal(5004) {
		t.Error("a socket of another network namespace is marked")
	}
}

// Sockets of processes outside of the cgroup are told to the caller, and looked up for
// each packet from then on.
func TestSocketsOutsideOfTheCgroup(t *testing.T) {
	r, mine, _ := watchRig(t)
	child := filepath.Join(rootCgroup(t), "roam-test-"+filepath.Base(r.dir))
	r.must(os.Mkdir(child, 0o755))
	t.Cleanup(func() { os.Remove(child) })
	w := r.watch(child)
	defer udpSocket(t, netip.AddrPortFrom(mine, 5002), netip.AddrPort{}).Close()
	if r.mayBeReal(5002) {
		t.Fatal("the hooks cover a socket outside of their cgroup: the test is worth nothing")
	}
	if err := w.Sweep(); !errors.Is(err, ErrUnwatched) {
		t.Errorf("sweep: %v", err)
	}
	for range 3 {
		b := fromPeer(there, none, ip6.UDP, datagram(5002))
		r.left("not seen by a hook", b, b)
		r.sweep(w, 1)
	}
}

// A hook that is late, so that an iterator finds the socket before it has its mark, is no
// sign of sockets that escape.
func TestLateHook(t *testing.T) {
	r, mine, _ := watchRig(t)
	child := filepath.Join(rootCgroup(t), "roam-test-"+filepath.Base(r.dir))
	r.must(os.Mkdir(child, 0o755))
	t.Cleanup(func() { os.Remove(child) })
	w := r.watch(child)
	defer udpSocket(t, netip.AddrPortFrom(mine, 5002), netip.AddrPort{}).Close()
	w.between = func() { atomic.StoreUint32(&r.marks.Mark[5002], r.marks.Epoch) }
	r.sweep(w, 3)
	if r.marks.Valid == 0 || !r.mayBeReal(5002) {
		t.Errorf("marks below %d do not count, that of the socket does: %v", r.marks.Valid, r.mayBeReal(5002))
	}
}

// The hooks outlive the daemon: a socket that appears after it was killed is found by the
// programs that go on, and by those of a successor, which begins without marks.
func TestSocketAppearsWithoutDaemon(t *testing.T) {
	r, mine, _ := watchRig(t)
	cgroup := rootCgroup(t)
	r.restart() // a plane of its own, which closes
	r.change(func(s *HostSettings) { s.RealNID = true })
	r.upsert(entryFor(there, else1))
	w, err := r.WatchSockets(cgroup, roam.DefaultSessionPrefix)
	r.must(err)
	r.sweep(w, 2)
	goesOn, err := r.objs.IlnpUplinkIngress.Clone()
	r.must(err)
	defer goesOn.Close()
	if r.mayBeReal(5002) {
		t.Error("sockets are looked up, and there is none")
	}
	r.must(w.Close())
	r.close()
	socket := udpSocket(t, netip.AddrPortFrom(mine, 5002), netip.AddrPort{})
	b := fromPeer(there, none, ip6.UDP, datagram(5002))
	verdict, out, err := tryRun(goesOn, frame(b))
	r.must(err)
	if verdict != passOn || !bytes.Equal(out, frame(b)) {
		t.Errorf("without a daemon: verdict %d, %s", verdict, difference(out, frame(b)))
	}
	r.open()
	r.must(r.SetHost(r.host))
	r.left("before the successor watches", b, b)
	if r.marks.Valid != 0 {
		t.Errorf("marks from %d on count, in a plane that nobody watches for", r.marks.Valid)
	}
	w = r.watch(cgroup)
	r.left("found by the successor", b, b)
	socket.Close()
	r.sweep(w, 2)
	if r.mayBeReal(5002) {
		t.Error("sockets are looked up although none is left")
	}
}

// Sockets are looked up only where there is a mark: without one, not even the packets of
// sockets that there are find them.
func TestNoLookupWithoutMark(t *testing.T) {
	for i, c := range realCases(netip.Addr{}, netip.Addr{}) {
		t.Run(c.name, func(t *testing.T) {
			r, mine, other := watchRig(t)
			open := realCases(mine, other)[i].open(t)
			t.Cleanup(func() { open.Close() })
			r.left("without a watch", c.packet, c.packet)
			r.marks.Valid = 1
			r.check([]verdictCase{{"without a mark", c.packet, passOn, delivered, nil}})
			r.marks.Mark[c.port] = 1
			r.left("with that of its port", c.packet, c.packet)
			r.marks.Mark[c.port], r.marks.Mark[decide.NodeMark(theirs)] = 0, 1
			r.left("with that of the peer", c.packet, c.packet)
		})
	}
}
