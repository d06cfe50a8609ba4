// Package rawio sends whole IPv6 packets: control packets out of a given link, and session
// packets into or out of the session device.
//
// It implements the sending half of the core's outputs Transmit and Release, and receives
// the Locator Updates that arrive in fragments; all other control packets come from the
// data plane. It computes no checksum and fragments nothing: packets must be complete. It
// is driven by internal/role/ilnphost/engine, internal/hostnet and internal/role/ilnphost.
package rawio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"roam"
)

// ErrPacket is wrapped by errors about the packet itself: not IPv6, or a wrong length
// field.
var ErrPacket = errors.New("not a whole IPv6 packet")

// ErrBusy is wrapped if the kernel's queue is full and the packet was not sent.
var ErrBusy = errors.New("queue full")

// ErrNoRoute is wrapped by errors of Send if the link has no route to the destination.
var ErrNoRoute = errors.New("no route")

const (
	headerLen = 40
	// priority selects the first band of pfifo_fast, for CS6 traffic.
	priority = 7
	// sendBuffer holds a burst of updates to several thousand correspondents.
	sendBuffer = 4 << 20
)

// Sender holds the sockets. They belong to the network namespace of the thread that called
// Open. Its methods may be called from any goroutine and never block.
type Sender struct {
	raw    int // IPPROTO_RAW: whole packets that the kernel routes
	packet int // AF_PACKET: whole packets for a given device
}

// Open makes the sockets. It needs CAP_NET_RAW.
func Open() (*Sender, error) {
	raw, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("open raw IPv6 socket: %w", err)
	}
	// Protocol 0: the socket receives nothing.
	packet, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		unix.Close(raw)
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	s := &Sender{raw: raw, packet: packet}
	if err := s.tune(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sender) tune() error {
	for _, fd := range []int{s.raw, s.packet} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, priority); err != nil {
			return fmt.Errorf("set priority of raw socket: %w", err)
		}
		// Best effort: without CAP_NET_ADMIN the default buffer stays.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer)
	}
	// Nothing reads the raw socket, so it must not queue packets.
	if err := unix.Shutdown(s.raw, unix.SHUT_RD); err != nil && !errors.Is(err, unix.ENOTCONN) {
		return fmt.Errorf("shut raw socket for reading: %w", err)
	}
	return nil
}

// Close releases the sockets.
func (s *Sender) Close() error {
	return errors.Join(unix.Close(s.raw), unix.Close(s.packet))
}

// Send sends a whole IPv6 packet out of a link, to that link's own router even if another
// link has a better default route. The kernel resolves the neighbor and queues the packet
// meanwhile.
func (s *Sender) Send(link roam.LinkID, packet []byte) error {
	dst, err := destination(packet)
	if err != nil {
		return fmt.Errorf("send on link %d: %w", link, err)
	}
	if link <= 0 {
		return fmt.Errorf("send to %s: no link named", net.IP(dst[:]))
	}
	// An interface in IPV6_PKTINFO with no source address makes the route look-up strict:
	// it uses only routes of that interface.
	var info [unix.SizeofInet6Pktinfo]byte
	binary.NativeEndian.PutUint32(info[16:], uint32(link))
	oob := controlMessage(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, info[:])
	to := &unix.SockaddrInet6{Addr: dst, ZoneId: uint32(link)}
	if err := unix.Sendmsg(s.raw, packet, oob, to, unix.MSG_DONTWAIT); err != nil {
		return fmt.Errorf("send to %s on link %d: %w", net.IP(dst[:]), link, sorted(err))
	}
	return nil
}

// Inject hands a whole IPv6 packet to the local stack, as if it had arrived on the device
// whose hardware address is mac: it sends the packet on peer, the other end of that device.
// Source and destination must be session addresses.
func (s *Sender) Inject(peer roam.LinkID, mac net.HardwareAddr, packet []byte) error {
	if err := s.deliver(peer, mac, packet, nil); err != nil {
		return fmt.Errorf("inject into own stack: %w", err)
	}
	return nil
}

// Resend sends a whole IPv6 packet out of the session device, through the data plane on its
// egress, as if the local stack had sent it. mac is the device's own hardware address, and
// mark what the packet's is for the data plane; 0: none.
func (s *Sender) Resend(device roam.LinkID, mac net.HardwareAddr, packet []byte, mark uint32) error {
	var oob []byte
	if mark != 0 {
		oob = controlMessage(unix.SOL_SOCKET, unix.SO_MARK, binary.NativeEndian.AppendUint32(nil, mark))
	}
	if err := s.deliver(device, mac, packet, oob); err != nil {
		return fmt.Errorf("resend through data plane: %w", err)
	}
	return nil
}

// SendTo sends a whole IPv6 packet out of a link to the neighbor with that hardware
// address, without routing and neighbor discovery. mac may be a multicast address.
func (s *Sender) SendTo(link roam.LinkID, mac net.HardwareAddr, packet []byte) error {
	if err := s.deliver(link, mac, packet, nil); err != nil {
		return fmt.Errorf("send to neighbour %s: %w", mac, err)
	}
	return nil
}

func (s *Sender) deliver(device roam.LinkID, mac net.HardwareAddr, packet, oob []byte) error {
	if _, err := destination(packet); err != nil {
		return err
	}
	if len(mac) != 6 {
		return fmt.Errorf("hardware address %q of device %d has %d bytes, want 6", mac, device, len(mac))
	}
	to := &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_IPV6), Ifindex: int(device), Halen: 6}
	copy(to.Addr[:], mac)
	if err := unix.Sendmsg(s.packet, packet, oob, to, unix.MSG_DONTWAIT); err != nil {
		return fmt.Errorf("device %d: %w", device, sorted(err))
	}
	return nil
}

// destination checks the fixed header and returns the destination address.
func destination(packet []byte) (dst [16]byte, err error) {
	if len(packet) < headerLen || packet[0]>>4 != 6 {
		return dst, fmt.Errorf("%d bytes without an IPv6 header: %w", len(packet), ErrPacket)
	}
	if n := int(binary.BigEndian.Uint16(packet[4:])); n != len(packet)-headerLen {
		return dst, fmt.Errorf("payload length %d, but %d bytes follow: %w", n, len(packet)-headerLen, ErrPacket)
	}
	return [16]byte(packet[24:40]), nil
}

// controlMessage builds one ancillary message.
func controlMessage(level, kind int, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	h := b[:unix.CmsgLen(0)]
	if unix.SizeofCmsghdr == 16 {
		binary.NativeEndian.PutUint64(h, uint64(unix.CmsgLen(len(data))))
	} else {
		binary.NativeEndian.PutUint32(h, uint32(unix.CmsgLen(len(data))))
	}
	binary.NativeEndian.PutUint32(h[unix.SizeofCmsghdr-8:], uint32(level))
	binary.NativeEndian.PutUint32(h[unix.SizeofCmsghdr-4:], uint32(kind))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

// sorted wraps the errors that mean a full queue or a missing route in this package's own.
func sorted(err error) error {
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return fmt.Errorf("%w: %w", ErrNoRoute, err)
	}
	return err
}

func htons(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
