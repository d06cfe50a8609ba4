package rawio

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/nettest"
	"roam/internal/testutil"
)

const soon = 10 * time.Second

func openIn(t *testing.T, n *nettest.NS) *Sender {
	t.Helper()
	var s *Sender
	var err error
	n.Do(func() { s, err = Open() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// frames listens on a link and returns what came so far, with Ethernet header.
func frames(t *testing.T, n *nettest.NS, link string) (read func() [][]byte) {
	t.Helper()
	var fd int
	var err error
	index := n.Index(link)
	n.Do(func() {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IPV6)))
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_IPV6), Ifindex: index})
		}
	})
	if err != nil {
		t.Fatalf("listen on %s: %v", link, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	var got [][]byte
	return func() [][]byte {
		for {
			b := make([]byte, 2048)
			n, from, err := unix.Recvfrom(fd, b, 0)
			if err != nil {
				return got
			}
			if sa, ok := from.(*unix.SockaddrLinklayer); ok && sa.Pkttype != unix.PACKET_OUTGOING {
				got = append(got, b[:n])
			}
		}
	}
}

// containing counts the frames with a payload.
func containing(list [][]byte, payload string) (n int) {
	for _, b := range list {
		if bytes.Contains(b, []byte(payload)) {
			n++
		}
	}
	return n
}

// Two uplinks; the default route of A is better. Packets sent on B leave by B, from an
// address still in duplicate detection, with the router's neighbor entry unresolved, and
// none is lost meanwhile.
func TestSendLeavesByTheNamedLink(t *testing.T) {
	host := nettest.New(t)
	routers := map[string]*nettest.NS{}
	heard := map[string]func() [][]byte{}
	for i, up := range []string{"upA", "upB"} {
		r := nettest.Router(t, "lan", host, up)
		r.Run("ip", "addr", "add", fmt.Sprintf("2001:db8:%d::1/64", i+1), "dev", "lan", "nodad")
		r.Run("ip", "addr", "add", "fe80::1/64", "dev", "lan", "nodad")
		host.Run("ip", "addr", "add", fmt.Sprintf("2001:db8:%d::5/64", i+1), "dev", up, "nodad")
		host.Run("ip", "-6", "route", "add", "default", "via", "fe80::1", "dev", up, "metric", fmt.Sprint(100+i))
		routers[up], heard[up] = r, frames(t, r, "lan")
	}
	// A neighbour needs a usable link-local address to ask from.
	testutil.Eventually(t, soon, func() bool { return host.Run("ip", "-6", "addr", "show", "tentative") == "" },
		"addresses usable")
	s := openIn(t, host)
	dst := net.ParseIP("2001:db8:ffff::9")
	const burst = 50
	for i, up := range []string{"upB", "upA"} {
		src := fmt.Sprintf("2001:db8:%d::77", 2-i)
		host.Run("ip", "-6", "addr", "add", src+"/128", "dev", up)
		host.Run("ip", "-6", "neigh", "flush", "dev", up)
		link := roam.LinkID(host.Index(up))
		payload := "through " + up
		for k := range burst {
			if err := s.Send(link, whole(net.ParseIP(src), dst, fmt.Sprintf("%s %02d.", payload, k))); err != nil {
				t.Fatal(err)
			}
		}
		testutil.Eventually(t, soon, func() bool { return containing(heard[up](), payload) == burst }, "all packets "+payload)
		var train [][]byte
		for k := range burst {
			train = append(train, whole(net.ParseIP(src), dst, fmt.Sprintf("train %s %02d.", up, k)))
		}
		if err := s.SendTrain(link, train); err != nil {
			t.Fatal(err)
		}
		passed := func() bool { return containing(heard[up](), "train "+up) == burst }
		testutil.Eventually(t, soon, passed, "a train through "+up)
		astray := whole(net.ParseIP(src), net.ParseIP("2001:db8:ffff::a"), "astray")
		if err := s.SendTrain(link, append(train, astray)); !errors.Is(err, ErrPacket) {
			t.Errorf("a train to two nodes was sent: %v", err)
		}
		for other, read := range heard {
			if n := containing(read(), payload); other != up && n != 0 {
				t.Errorf("%d packets %s left by %s", n, payload, other)
			}
		}
	}
}

func TestSendNamesWhatIsWrong(t *testing.T) {
	host := nettest.New(t)
	s := openIn(t, host)
	p := whole(net.ParseIP("2001:db8::1"), net.ParseIP("2001:db8::2"), "x")
	if err := s.Send(0, p); err == nil {
		t.Error("no link accepted")
	}
	if err := s.Send(9999, p); err == nil || !strings.Contains(err.Error(), "link 9999") {
		t.Errorf("a link that does not exist: %v", err)
	}
	if err := s.Send(roam.LinkID(host.Index("lo")), p[:30]); !errors.Is(err, ErrPacket) {
		t.Errorf("a truncated packet: %v", err)
	}
	if err := s.Send(roam.LinkID(host.Index("lo")), p); !errors.Is(err, ErrNoRoute) {
		t.Errorf("a link without a route there: %v", err)
	}
	if err := s.Inject(1, nil, p); err == nil {
		t.Error("no hardware address accepted")
	}
}

// Inject reaches a socket of our own stack; Resend leaves through the device.
func TestInjectAndResend(t *testing.T) {
	host := nettest.New(t)
	host.Sysctl("net/ipv6/conf/default/accept_dad", "0")
	host.Run("ip", "link", "add", "dev0", "type", "veth", "peer", "name", "dev0x")
	for _, l := range []string{"dev0", "dev0x"} {
		host.Run("ip", "link", "set", l, "arp", "off", "up")
	}
	host.Run("ip", "addr", "add", "fd69:6c6e:7000:2627::1/128", "dev", "dev0", "nodad")
	device, peer := roam.LinkID(host.Index("dev0")), roam.LinkID(host.Index("dev0x"))
	mac := hardware(t, host, "dev0")
	s := openIn(t, host)

	own, other := net.ParseIP("fd69:6c6e:7000:2627::1"), net.ParseIP("fd69:6c6e:7000:2627::2")
	var fd int
	var err error
	host.Do(func() { fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_NONBLOCK, 253) })
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	in := whole(other, own, "for our stack")
	in[6] = 253 // a protocol for experiments (RFC 3692)
	b := make([]byte, 100)
	// Repeat until it arrives: the kernel uses an address only after it has noticed that
	// the link came up.
	testutil.Eventually(t, soon, func() bool {
		if err := s.Inject(peer, mac, in); err != nil {
			t.Fatal(err)
		}
		n, _, err := unix.Recvfrom(fd, b, 0)
		return err == nil && string(b[:n]) == "for our stack"
	}, "own stack received what was injected")

	heard := frames(t, host, "dev0x")
	if err := s.Resend(device, mac, whole(own, other, "for the plane"), 0); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, soon, func() bool { return containing(heard(), "for the plane") == 1 },
		"far end saw what was retransmitted")
}

func hardware(t *testing.T, n *nettest.NS, link string) net.HardwareAddr {
	t.Helper()
	var text []byte
	var err error
	n.Do(func() {
		var l *net.Interface
		if l, err = net.InterfaceByName(link); err == nil {
			text = l.HardwareAddr
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestOpenWithoutPrivilege(t *testing.T) {
	host := nettest.New(t)
	var err error
	host.Do(func() {
		// The raw call changes this thread only, which ends with the test.
		const nobody = 65534
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); e != 0 {
			err = e
			return
		}
		_, err = Open()
	})
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("error %v, want EPERM", err)
	}
}
