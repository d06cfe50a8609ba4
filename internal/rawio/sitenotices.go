package rawio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"roam"
	"roam/wire/ilnp"
)

// The groups that site notices go to (RFC 4291 §2.7.1).
var (
	AllNodes   = netip.MustParseAddr("ff02::1")
	AllRouters = netip.MustParseAddr("ff02::2")
)

// SiteNotices exchanges site notices with the neighbours on a link, in UDP. It receives those
// alone that no router has forwarded, from link-local addresses.
type SiteNotices struct {
	file *os.File
	port uint16
	conn interface {
		Read(func(fd uintptr) bool) error
		Control(func(fd uintptr)) error
	}
}

// SiteNotice is one that came.
type SiteNotice struct {
	ilnp.SiteNotice
	From netip.Addr
	Link roam.LinkID
}

// OpenSiteNotices opens the socket in the network namespace of the calling thread.
func OpenSiteNotices(port uint16) (*SiteNotices, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open socket for site notices: %w", err)
	}
	f := os.NewFile(uintptr(fd), "site notices")
	errs := []error{unix.Bind(fd, &unix.SockaddrInet6{Port: int(port)})}
	for _, o := range []struct{ name, value int }{
		{unix.IPV6_RECVHOPLIMIT, 1}, {unix.IPV6_UNICAST_HOPS, ilnp.SiteNoticeHops},
		{unix.IPV6_MULTICAST_HOPS, ilnp.SiteNoticeHops}, {unix.IPV6_MULTICAST_LOOP, 0},
	} {
		errs = append(errs, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, o.name, o.value))
	}
	if err := errors.Join(errs...); err != nil {
		f.Close()
		return nil, fmt.Errorf("prepare socket for site notices on port %d: %w", port, err)
	}
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("prepare socket for site notices: %w", err)
	}
	return &SiteNotices{file: f, port: port, conn: conn}, nil
}

// Close makes Run return.
func (s *SiteNotices) Close() error { return s.file.Close() }

// Send sends a notice out of a link, to a node or a group on it.
func (s *SiteNotices) Send(link roam.LinkID, to netip.Addr, n ilnp.SiteNotice) error {
	b, err := n.AppendTo(nil)
	if err != nil {
		return err
	}
	failure := s.conn.Control(func(fd uintptr) {
		err = unix.Sendto(int(fd), b, 0, &unix.SockaddrInet6{Port: int(s.port), ZoneId: uint32(link), Addr: to.As16()})
	})
	if err = errors.Join(failure, err); err != nil {
		return fmt.Errorf("send site notice on link %d: %w", link, err)
	}
	return nil
}

// Run calls take with each notice until the socket is closed.
func (s *SiteNotices) Run(take func(SiteNotice)) {
	buf, oob := make([]byte, 2048), make([]byte, 64)
	for {
		var n, oobn int
		var from unix.Sockaddr
		var failure error
		err := s.conn.Read(func(fd uintptr) bool {
			n, oobn, _, from, failure = unix.Recvmsg(int(fd), buf, oob, 0)
			return !errors.Is(failure, unix.EAGAIN)
		})
		if err != nil {
			return
		}
		src, ok := from.(*unix.SockaddrInet6)
		if failure != nil || !ok || !isNeighbour(src, oob[:oobn]) {
			continue
		}
		if m, err := ilnp.ParseSiteNotice(buf[:n]); err == nil {
			take(SiteNotice{m, netip.AddrFrom16(src.Addr), roam.LinkID(src.ZoneId)})
		}
	}
}

// isNeighbour reports whether the sender of a datagram with this ancillary data is on the link.
func isNeighbour(src *unix.SockaddrInet6, oob []byte) bool {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || !netip.AddrFrom16(src.Addr).IsLinkLocalUnicast() {
		return false
	}
	for _, m := range messages {
		if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT {
			return len(m.Data) > 0 && m.Data[0] == ilnp.SiteNoticeHops
		}
	}
	return false
}
