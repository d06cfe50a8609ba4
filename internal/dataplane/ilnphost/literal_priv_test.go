package ilnphost

import (
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/testutil"
)

// addressed gives the loopback link the addresses that the test speaks with.
func addressed(t *testing.T, as ...netip.Addr) {
	t.Helper()
	testutil.Need(t, "ip")
	ip(t, "link set lo up")
	for _, a := range as {
		ip(t, "-6 addr add "+a.String()+"/128 dev lo nodad")
	}
	wantLocal(t, as...)
}

// rootCgroup is the root of cgroup2, wherever the host has mounted it.
func rootCgroup(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		t.Fatalf("mount cgroup2: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(root, unix.MNT_DETACH) })
	return root
}

func openLiterals(t *testing.T, dir string) *Literals {
	t.Helper()
	l, err := OpenLiterals(dir, rootCgroup(t), roam.DefaultSessionPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// connected returns the addresses that a UDP socket sees after it was connected
// to an address: its own, and the other end's.
func connected(t *testing.T, from, to netip.Addr) (own, peer netip.Addr) {
	t.Helper()
	var local *net.UDPAddr
	if from.IsValid() {
		local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	c, err := net.DialUDP("udp6", local, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 4000)))
	if err != nil {
		t.Fatalf("connect to %v: %v", to, err)
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		var sa unix.Sockaddr
		if sa, err = unix.Getpeername(int(fd)); err == nil {
			peer = netip.AddrFrom16(sa.(*unix.SockaddrInet6).Addr)
		}
	})
	if err != nil {
		t.Fatalf("ask for the other end: %v", err)
	}
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), peer
}

// A socket that connects to a real address of a correspondent uses the session
// and does not notice; others are left alone.
func TestLiteralConnect(t *testing.T) {
	dir := enclose(t)
	testutil.Need(t, "cgroup2")
	real, other := at(there, theirs), at(there, unlistedPeer(1).NID)
	mine, theirSession := session(ours).Addr(), session(theirs).Addr()
	addressed(t, mine, theirSession, at(here, ours).Addr(), real.Addr(), other.Addr())
	l := openLiterals(t, dir)
	defer l.Close()
	if _, peer := connected(t, netip.Addr{}, real.Addr()); peer != real.Addr() {
		t.Fatalf("before anybody is known: %v", peer)
	}
	if err := l.Set(map[roam.ILV]roam.NID{real: theirs}); err != nil {
		t.Fatal(err)
	}
	own, peer := connected(t, netip.Addr{}, real.Addr())
	if roam.ILVFromAddr(own).L64 != roam.DefaultSessionPrefix || peer != real.Addr() {
		t.Errorf("from %v to %v: not by session, or the application notices", own, peer)
	}
	if own, peer = connected(t, netip.Addr{}, other.Addr()); roam.ILVFromAddr(own).L64 == roam.DefaultSessionPrefix || peer != other.Addr() {
		t.Errorf("pending peer at the same locator: from %v to %v", own, peer)
	}
	if own, peer = connected(t, at(here, ours).Addr(), real.Addr()); own != at(here, ours).Addr() || peer != real.Addr() {
		t.Errorf("bound to a real address: from %v to %v", own, peer)
	}
	if own, peer = connected(t, mine, real.Addr()); own != mine || peer != real.Addr() {
		t.Errorf("bound to our session address: from %v to %v", own, peer)
	}
	if _, peer = connected(t, netip.Addr{}, theirSession); peer != theirSession {
		t.Errorf("by session address: the other end is %v", peer)
	}
	if err := l.Set(nil); err != nil {
		t.Fatal(err)
	}
	if own, _ = connected(t, netip.Addr{}, real.Addr()); roam.ILVFromAddr(own).L64 == roam.DefaultSessionPrefix {
		t.Errorf("from %v after the correspondent was forgotten", own)
	}
}

// Once the hooks are detached, as where literals are switched off after a restart, a real address is an ordinary one.
func TestLiteralDetach(t *testing.T) {
	dir := enclose(t)
	testutil.Need(t, "cgroup2")
	real := at(there, theirs)
	addressed(t, session(ours).Addr(), session(theirs).Addr(), at(here, ours).Addr(), real.Addr())
	l := openLiterals(t, dir)
	if err := l.Set(map[roam.ILV]roam.NID{real: theirs}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	bySession := func() bool {
		own, _ := connected(t, netip.Addr{}, real.Addr())
		return roam.ILVFromAddr(own).L64 == roam.DefaultSessionPrefix
	}
	if !bySession() {
		t.Fatal("hooks do not outlive the process")
	}
	for range 2 { // also where there are none
		if err := DetachLiterals(dir); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Eventually(t, 10*time.Second, func() bool { return !bySession() }, "a real address is an ordinary one")
	if pins, _ := filepath.Glob(filepath.Join(dir, setName, "link_*")); len(pins) > 0 {
		t.Errorf("%v are left", pins)
	}
}

// An unconnected socket sends to a real address, and its answers seem to come
// from there.
func TestLiteralSendmsg(t *testing.T) {
	dir := enclose(t)
	testutil.Need(t, "cgroup2")
	real, moved := at(there, theirs), at(else1, theirs)
	addressed(t, session(ours).Addr(), session(theirs).Addr(), real.Addr())
	l := openLiterals(t, dir)
	defer l.Close()
	if err := l.Set(map[roam.ILV]roam.NID{real: theirs, moved: theirs}); err != nil {
		t.Fatal(err)
	}
	server, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(session(theirs).Addr(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6unspecified})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	deadline := time.Now().Add(5 * time.Second)
	server.SetDeadline(deadline)
	client.SetDeadline(deadline)
	port := server.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	// The second time of one it is there already; the last one used is the one seen.
	for _, used := range []netip.Addr{real.Addr(), real.Addr(), moved.Addr(), real.Addr()} {
		if _, err := client.WriteToUDPAddrPort([]byte("question"), netip.AddrPortFrom(used, port)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 32)
		n, from, err := server.ReadFromUDPAddrPort(b)
		if err != nil || string(b[:n]) != "question" {
			t.Fatalf("server has %q: %v", b[:n], err)
		}
		if _, err := server.WriteToUDPAddrPort([]byte("answer"), from); err != nil {
			t.Fatal(err)
		}
		n, from, err = client.ReadFromUDPAddrPort(b)
		if err != nil || string(b[:n]) != "answer" || from != netip.AddrPortFrom(used, port) {
			t.Errorf("client has %q from %v: %v", b[:n], from, err)
		}
	}
}

// A datagram whose source the application names goes where that belongs: to the
// session from our session address, and plain from a real one.
func TestLiteralSourceNamed(t *testing.T) {
	dir := enclose(t)
	testutil.Need(t, "cgroup2")
	real := at(there, theirs)
	addressed(t, session(ours).Addr(), session(theirs).Addr(), real.Addr(), at(here, ours).Addr())
	l := openLiterals(t, dir)
	defer l.Close()
	if err := l.Set(map[roam.ILV]roam.NID{real: theirs}); err != nil {
		t.Fatal(err)
	}
	client, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(client)
	for from, to := range map[roam.ILV]roam.ILV{session(ours): session(theirs), at(here, ours): real} {
		server, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(), 4001)))
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		server.SetDeadline(time.Now().Add(5 * time.Second))
		source := unix.PktInfo6(&unix.Inet6Pktinfo{Addr: from.Addr().As16()})
		if err := unix.Sendmsg(client, []byte("x"), source, &unix.SockaddrInet6{Port: 4001, Addr: real.Addr().As16()}, 0); err != nil {
			t.Fatalf("send from %v: %v", from.Addr(), err)
		}
		_, sender, err := server.ReadFromUDPAddrPort(make([]byte, 8))
		if err != nil || sender.Addr() != from.Addr() {
			t.Errorf("sent from %v, came from %v: %v", from.Addr(), sender, err)
		}
	}
}

// A table that is full is one error, not one for each address without room.
func TestLiteralTableIsFull(t *testing.T) {
	dir := enclose(t)
	testutil.Need(t, "cgroup2")
	l := openLiterals(t, dir)
	defer l.Close()
	room := int(l.objs.Literals.MaxEntries())
	want := make(map[roam.ILV]roam.NID)
	for i := range room + 100 {
		want[unlistedPeer(i+1)] = roam.NID(i + 1)
	}
	if err := l.Set(want); err == nil || strings.Contains(err.Error(), "\n") || len(l.set) != room {
		t.Errorf("%v with %d of %d places used, want one line that says so", err, len(l.set), room)
	}
	if err := l.Set(nil); err != nil || len(l.set) != 0 {
		t.Errorf("%d addresses left: %v", len(l.set), err)
	}
}

// A successor finds the table and takes the hooks over; sockets of other
// network namespaces are none of theirs.
func TestLiteralRestart(t *testing.T) {
	dir := enclose(t)
	testutil.Need(t, "cgroup2")
	real := at(there, theirs)
	addressed(t, session(ours).Addr(), session(theirs).Addr(), real.Addr())
	known := map[roam.ILV]roam.NID{real: theirs}
	l := openLiterals(t, dir)
	if err := l.Set(known); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = openLiterals(t, dir)
	defer l.Close()
	if !maps.Equal(l.set, known) {
		t.Errorf("found %v, want %v", l.set, known)
	}
	bySession := func() bool {
		own, _ := connected(t, netip.Addr{}, real.Addr())
		return roam.ILVFromAddr(own).L64 == roam.DefaultSessionPrefix
	}
	if !bySession() {
		t.Error("the successor's hooks do not work")
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	addressed(t, session(ours).Addr(), session(theirs).Addr(), real.Addr())
	if bySession() {
		t.Error("a socket of another network namespace was turned")
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 2 { // the kernel's own two files stay
		t.Errorf("left are %v: %v", left, err)
	}
}
