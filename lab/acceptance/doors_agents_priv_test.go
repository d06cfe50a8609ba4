package acceptance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"roam/internal/testutil"
	"roam/wire/ip6"
)

// sinkMain prints a line for each datagram that comes to an address.
func sinkMain(args []string) error {
	if len(args) != 1 {
		return errors.New("want an address with port")
	}
	c, err := net.ListenPacket("udp6", args[0])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for b := make([]byte, 1<<16); ; {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", b[:n], from)
	}
}

// advertiseMain sends one Router Advertisement with a prefix, valid for half an
// hour and on-link, out of a link (RFC 4861 §4.2).
func advertiseMain(args []string) error {
	if len(args) != 2 {
		return errors.New("want a link and a prefix")
	}
	link, err := net.InterfaceByName(args[0])
	if err != nil {
		return err
	}
	prefix, err := netip.ParsePrefix(args[1])
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
		return err
	}
	b := []byte{134, 0, 0, 0, 64, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, byte(prefix.Bits()), 0xc0, 0, 0, 7,
		8, 0, 0, 7, 8, 0, 0, 0, 0}
	to := &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::1").As16(), ZoneId: uint32(link.Index)}
	return unix.Sendto(fd, append(b, prefix.Addr().AsSlice()...), 0, to)
}

// nearMAC is the hardware address of all links of vethsMain.
var nearMAC = [6]byte{2, 0, 0, 0, 0, 1}

// linkBurst is how many links beyond the newest one vethsMain sends to: they are
// numbered in the order in which they appear.
const linkBurst = 4

// vethsMain makes pairs of links, and meanwhile sends datagrams from other nodes' session
// addresses into the existing and the new ones, to a socket on a session address of this
// host. It prints the number of links used, and the data that the socket received.
func vethsMain(args []string) error {
	if len(args) < 3 {
		return errors.New("want a number of links, an address with port, and sources")
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(args[1])
	if err != nil {
		return err
	}
	server, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	var delivered atomic.Int64
	go func() {
		for b := make([]byte, 1<<16); ; {
			if _, _, err := server.ReadFromUDPAddrPort(b); err != nil {
				return
			}
			delivered.Add(1)
		}
	}()
	var frames [][]byte
	for _, src := range args[2:] {
		f, err := sessionFrame(netip.MustParseAddr(src), to)
		if err != nil {
			return err
		}
		frames = append(frames, f)
	}
	first, err := highestLink()
	if err != nil {
		return err
	}
	var lines strings.Builder
	for i := first; i < first+count; i++ {
		fmt.Fprintf(&lines, "link add g%d address %v type veth peer name g%dx\nlink set g%dx up\nlink set g%d up\n", i,
			net.HardwareAddr(nearMAC[:]), i, i, i)
	}
	batch := exec.Command("ip", "-batch", "-")
	batch.Stdin = strings.NewReader(lines.String())
	made := make(chan error, 1)
	go func() { made <- batch.Run() }()
	links, packets, err := floodLinks(frames, first, func() bool { return len(made) > 0 })
	if err = errors.Join(err, <-made); err != nil {
		return err
	}
	testutil.Wait(time.Second, func() bool { return delivered.Load() > 0 }) // datagrams still in queues
	fmt.Printf("links %d packets %d delivered %d\n", links, packets, delivered.Load())
	return server.Close()
}

func highestLink() (highest int, err error) {
	list, err := net.Interfaces()
	for _, l := range list {
		highest = max(highest, l.Index)
	}
	return highest, err
}

// sessionDatagram is a packet with a sound checksum.
func sessionDatagram(src netip.Addr, to netip.AddrPort, text string) ([]byte, error) {
	body := append([]byte{0x1b, 0x58, byte(to.Port() >> 8), byte(to.Port()), 0, byte(8 + len(text)), 0, 0}, text...)
	sum := ip6.Checksum(src, to.Addr(), ip6.UDP, body)
	body[6], body[7] = byte(sum>>8), byte(sum)
	b, err := ip6.Header{NextHeader: ip6.UDP, HopLimit: 64, Src: src, Dst: to.Addr()}.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	b[5] = byte(len(body))
	return append(b, body...), nil
}

// sessionFrame is such a packet in a frame to any link of vethsMain.
func sessionFrame(src netip.Addr, to netip.AddrPort) ([]byte, error) {
	b, err := sessionDatagram(src, to, "evil")
	f := append(append([]byte(nil), nearMAC[:]...), 2, 0, 0, 0, 0, 2, 0x86, 0xdd)
	return append(f, b...), err
}

// floodLinks sends into the links that come after one, and to each a last time after
// the end. It returns how many took at least one packet.
func floodLinks(frames [][]byte, first int, ended func() bool) (links, packets int, err error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	took := map[int]bool{}
	newest := first
	send := func(i int) {
		for _, f := range frames {
			if unix.Sendto(fd, f, 0, &unix.SockaddrLinklayer{Protocol: 0xdd86, Ifindex: i, Halen: 6}) == nil {
				took[i], newest = true, max(newest, i)
				packets++
			}
		}
	}
	for !ended() {
		for i := max(first+1, newest-linkBurst); i <= newest+linkBurst; i++ {
			send(i)
		}
	}
	for i := first + 1; i <= newest+linkBurst; i++ {
		send(i)
	}
	return len(took), packets, nil
}
