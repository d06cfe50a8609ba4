package hostnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

// connect opens a connection to an address of a namespace, and its other end: of UDP, a
// socket that is connected back.
func connect(t *testing.T, n *nettest.NS, network string, from, to netip.AddrPort) (c, other net.Conn) {
	t.Helper()
	var err error
	n.Do(func() {
		if network == "udp6" {
			c, err = net.DialUDP(network, net.UDPAddrFromAddrPort(from), net.UDPAddrFromAddrPort(to))
			return
		}
		var l net.Listener
		if l, err = net.Listen(network, to.String()); err != nil {
			return
		}
		defer l.Close()
		if c, err = net.DialTCP(network, net.TCPAddrFromAddrPort(from), net.TCPAddrFromAddrPort(to)); err == nil {
			other, err = l.Accept()
		}
	})
	if err != nil {
		t.Fatalf("connect %s to %s: %v", network, to, err)
	}
	t.Cleanup(func() { c.Close() })
	if other != nil {
		t.Cleanup(func() { other.Close() })
	}
	return c, other
}

// failed reports why a socket has ended; nil: it has not.
func failed(c net.Conn) error {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // of an open socket; else reading fails anyhow
	if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, unix.EAGAIN) && !isTimeout(err) {
		return err
	}
	return nil
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// reachesItself waits until the kernel takes packets for so many session
// addresses: a worker makes their routes.
func reachesItself(t *testing.T, n *nettest.NS, addrs int) {
	t.Helper()
	testutil.Eventually(t, soon, func() bool {
		out := n.Run("ip", "-6", "route", "show", "table", "local", "type", "local", "dev", "lo")
		return strings.Count(out, "fd69:6c6e:7000:2627:") == addrs
	}, "local routes of the session addresses")
}

// Sockets that are connected to one address end with an error, and no others: not those
// to another address of the same port, not those that are bound to it, not listeners.
func TestDestroySockets(t *testing.T) {
	n := nettest.New(t)
	gone, kept, own := session(0x0a0b_0c0d_0000_0001), session(0x0a0b_0c0d_0000_0002), session(testNID)
	for _, a := range []netip.Addr{gone, kept, own} {
		n.Run("ip", "-6", "addr", "add", a.String()+"/128", "dev", "lo", "nodad")
	}
	reachesItself(t, n, 3)
	h := openIn(t, n, testConfig(t))
	var end, stay []net.Conn
	for i, network := range []string{"tcp6", "udp6"} {
		for j := range 3 {
			port := uint16(7000 + 10*i + j)
			c, _ := connect(t, n, network, netip.AddrPortFrom(own, 0), netip.AddrPortFrom(gone, port))
			end = append(end, c)
			c, other := connect(t, n, network, netip.AddrPortFrom(own, 0), netip.AddrPortFrom(kept, port))
			stay = append(stay, c)
			if other != nil {
				stay = append(stay, other)
			}
		}
	}
	var listener net.Listener
	var err error
	n.Do(func() { listener, err = net.Listen("tcp6", netip.AddrPortFrom(gone, 8000).String()) })
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = h.DestroySockets(gone)
	testutil.NeedKernel(t, "CONFIG_INET_DIAG_DESTROY", !errors.Is(err, unix.EOPNOTSUPP))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range end {
		if err := failed(c); !errors.Is(err, syscall.ECONNABORTED) {
			t.Errorf("socket from %s to %s: %v", c.LocalAddr(), c.RemoteAddr(), err)
		}
	}
	for _, c := range stay {
		if err := failed(c); err != nil {
			t.Errorf("socket from %s to %s: %v", c.LocalAddr(), c.RemoteAddr(), err)
		}
	}
	var late net.Conn
	n.Do(func() { late, err = net.Dial("tcp6", listener.Addr().String()) })
	if err != nil {
		t.Fatalf("the listener: %v", err)
	}
	late.Close()
}

// A socket that ends by itself between its being listed and destroyed is no error.
func TestDestroySocketThatHasEnded(t *testing.T) {
	n := nettest.New(t)
	own := session(testNID)
	n.Run("ip", "-6", "addr", "add", own.String()+"/128", "dev", "lo", "nodad")
	reachesItself(t, n, 1)
	h := openIn(t, n, testConfig(t))
	c, _ := connect(t, n, "udp6", netip.AddrPortFrom(own, 0), netip.AddrPortFrom(own, 7000))
	ids, err := h.kernel.socketsTo(unix.IPPROTO_UDP, own)
	testutil.NeedKernel(t, "udp_diag", !errors.Is(err, unix.EOPNOTSUPP))
	if err != nil || len(ids) != 1 {
		t.Fatalf("sockets %v, %v", ids, err)
	}
	c.Close()
	if err := h.kernel.destroySocket(unix.IPPROTO_UDP, ids[0]); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("a socket that has ended: %v", err)
	}
	// Many that end while others are destroyed.
	var all []net.Conn
	for i := range 300 {
		c, _ := connect(t, n, "udp6", netip.AddrPortFrom(own, 0), netip.AddrPortFrom(own, uint16(9000+i)))
		all = append(all, c)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, c := range all {
			_ = c.Close()
		}
	}()
	err = h.DestroySockets(own)
	<-closed
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Error(fmt.Errorf("while sockets end: %w", err))
	}
}
