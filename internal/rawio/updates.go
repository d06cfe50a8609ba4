package rawio

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Message is an ICMPv6 message that the stack has reassembled, with a verified checksum.
type Message struct {
	Src, Dst netip.Addr
	Body     []byte // from the ICMPv6 type on
}

// Updates receives the Locator Updates that arrive in fragments. The data plane hands whole
// ones to the daemon, and passes only fragments to the stack, each authenticated by its
// nonce.
type Updates struct {
	file *os.File
	conn interface {
		Read(func(fd uintptr) bool) error
	}
}

const typeLocatorUpdate = 156

// OpenUpdates opens the socket in the network namespace of the calling thread.
// It needs CAP_NET_RAW.
func OpenUpdates() (*Updates, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMPV6)
	if err != nil {
		return nil, fmt.Errorf("open socket for fragmented Locator Updates: %w", err)
	}
	f := os.NewFile(uintptr(fd), "icmpv6")
	var filter unix.ICMPv6Filter // a set bit blocks a type
	for i := range filter.Data {
		filter.Data[i] = ^uint32(0)
	}
	filter.Data[typeLocatorUpdate>>5] &^= 1 << (typeLocatorUpdate & 31)
	err = errors.Join(
		unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1))
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("prepare socket for fragmented Locator Updates: %w", err)
	}
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("prepare socket for fragmented Locator Updates: %w", err)
	}
	return &Updates{file: f, conn: conn}, nil
}

// Close makes Run return.
func (u *Updates) Close() error { return u.file.Close() }

// Run calls take with each message until ctx is done or the socket is closed.
func (u *Updates) Run(ctx context.Context, take func(Message)) {
	buf, oob := make([]byte, 1<<16), make([]byte, 256)
	for ctx.Err() == nil {
		var n, oobn int
		var from unix.Sockaddr
		var failure error
		err := u.conn.Read(func(fd uintptr) bool {
			n, oobn, _, from, failure = unix.Recvmsg(int(fd), buf, oob, 0)
			return !errors.Is(failure, unix.EAGAIN)
		})
		if err != nil {
			return
		}
		src, ok := from.(*unix.SockaddrInet6)
		if failure != nil || !ok {
			continue
		}
		if dst, ok := packetDestination(oob[:oobn]); ok {
			take(Message{Src: netip.AddrFrom16(src.Addr), Dst: dst, Body: append([]byte(nil), buf[:n]...)})
		}
	}
}

// packetDestination finds the destination address in ancillary data.
func packetDestination(oob []byte) (netip.Addr, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, m := range messages {
		if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 16 {
			return netip.AddrFrom16([16]byte(m.Data[:16])), true
		}
	}
	return netip.Addr{}, false
}
