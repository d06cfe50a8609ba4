package hostnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/rawio"
)

// kernel is our line to one network namespace: that of the thread that opened
// it. Every socket and the folder of sysctls stay in that namespace, whichever
// thread uses them later.
type kernel struct {
	socket *nl.NetlinkSocket
	shared map[int]*nl.SocketHandle
	links  *netlink.Handle
	// Sockets of the host are listed and destroyed by these two.
	diag     *netlink.Handle
	inetDiag *nl.NetlinkSocket
	conf     *os.Root // /proc/sys/net/ipv6/conf
	ioctl    int      // a datagram socket for ethtool's ioctl
	sender   *rawio.Sender
	// session is the prefix whose routes are watched; 0: none.
	session roam.L64
	// deaf are the links whose accept_ra was taken back, until settle.
	deaf []int
}

func openKernel() (k *kernel, err error) {
	k = &kernel{ioctl: -1}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	// A subscription to no group is a plain request socket.
	if k.socket, err = nl.Subscribe(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	if err = k.socket.SetReceiveTimeout(&unix.Timeval{Sec: 10}); err != nil {
		return nil, fmt.Errorf("set time-out of netlink socket: %w", err)
	}
	k.shared = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: k.socket}}
	if k.links, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, fmt.Errorf("open netlink handle: %w", err)
	}
	if k.diag, err = netlink.NewHandle(unix.NETLINK_INET_DIAG); err != nil {
		return nil, fmt.Errorf("open netlink handle for sockets: %w", err)
	}
	if k.inetDiag, err = nl.Subscribe(unix.NETLINK_INET_DIAG); err != nil {
		return nil, fmt.Errorf("open netlink socket for sockets: %w", err)
	}
	if k.conf, err = os.OpenRoot("/proc/sys/net/ipv6/conf"); err != nil {
		return nil, fmt.Errorf("open IPv6 sysctls (is IPv6 enabled?): %w", err)
	}
	if k.ioctl, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open socket for ethtool: %w", err)
	}
	if k.sender, err = rawio.Open(); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *kernel) close() {
	if k.sender != nil {
		k.sender.Close()
	}
	if k.socket != nil {
		k.socket.Close()
	}
	if k.links != nil {
		k.links.Close()
	}
	if k.diag != nil {
		k.diag.Close()
	}
	if k.inetDiag != nil {
		k.inetDiag.Close()
	}
	if k.conf != nil {
		k.conf.Close()
	}
	if k.ioctl >= 0 {
		unix.Close(k.ioctl)
	}
}

func (k *kernel) request(kind, flags int) *nl.NetlinkRequest {
	r := nl.NewNetlinkRequest(kind, flags)
	r.Sockets = k.shared
	return r
}

// dump asks for all objects of one kind; a dump that was disturbed by a change
// is asked for again.
func (k *kernel) dump(get int, answer uint16, body nl.NetlinkRequestData) ([][]byte, error) {
	return undisturbed(func() ([][]byte, error) {
		r := k.request(get, unix.NLM_F_DUMP)
		r.AddData(body)
		return r.Execute(unix.NETLINK_ROUTE, answer)
	})
}

// undisturbed asks for a dump again when a change has disturbed it.
func undisturbed[T any](ask func() ([]T, error)) ([]T, error) {
	for range 5 {
		list, err := ask()
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			return list, err
		}
	}
	return nil, fmt.Errorf("dump was disturbed five times: %w", nl.ErrDumpInterrupted)
}

// cacheInfo is struct ifa_cacheinfo: lifetimes in seconds and two stamps.
func cacheInfo(preferred, valid uint32) []byte {
	b := make([]byte, 16)
	binary.NativeEndian.PutUint32(b, preferred)
	binary.NativeEndian.PutUint32(b[4:], valid)
	return b
}

// seconds turns what is left until a deadline into netlink's form. A lifetime
// of zero would be refused, so the least is one second.
func seconds(deadline, now time.Time) uint32 {
	if deadline.IsZero() {
		return 0xffff_ffff
	}
	return uint32(min(max(1, (deadline.Sub(now)+time.Second-1)/time.Second), 0xffff_fffe))
}

// addressForm is an address as the kernel is asked for it.
type addressForm struct {
	addrKey
	bits             int
	flags            uint32
	preferred, valid uint32 // seconds; 0 as valid: not told
}

func addressRequest(r *nl.NetlinkRequest, a addressForm) {
	msg := nl.NewIfAddrmsg(unix.AF_INET6)
	msg.Index, msg.Prefixlen = uint32(a.link), uint8(a.bits)
	r.AddData(msg)
	ip := a.addr.As16()
	r.AddData(nl.NewRtAttr(unix.IFA_LOCAL, ip[:]))
	r.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, ip[:]))
	if a.valid > 0 {
		r.AddData(nl.NewRtAttr(unix.IFA_FLAGS, nl.Uint32Attr(a.flags)))
		// With a preferred lifetime of zero it is deprecated from the start: the
		// kernel takes it as a source only if it is asked to by name.
		r.AddData(nl.NewRtAttr(unix.IFA_CACHEINFO, cacheInfo(a.preferred, a.valid)))
	}
}

// setAddress adds or changes an address.
func (k *kernel) setAddress(a addressForm) error {
	r := k.request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	addressRequest(r, a)
	if _, err := r.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("add address %s to link %d: %w", a.addr, a.link, err)
	}
	return nil
}

// removeAddress removes an address with its prefix length; one that is gone
// already is no error.
func (k *kernel) removeAddress(a addrKey, bits int) error {
	r := k.request(unix.RTM_DELADDR, unix.NLM_F_ACK)
	addressRequest(r, addressForm{addrKey: a, bits: bits})
	_, err := r.Execute(unix.NETLINK_ROUTE, 0)
	if err == nil || errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		return nil
	}
	return fmt.Errorf("remove address %s from link %d: %w", a.addr, a.link, err)
}

// hasAddress reports whether a link has an address.
func (k *kernel) hasAddress(a addrKey) (bool, error) {
	b, err := k.addressMessage(a)
	return b != nil, err
}

// addressFlags asks the kernel for the state of one address, which must be there.
func (k *kernel) addressFlags(a addrKey) (uint32, error) {
	b, err := k.addressMessage(a)
	if err == nil && b == nil {
		err = fmt.Errorf("read back address %s of link %d: %w", a.addr, a.link, unix.EADDRNOTAVAIL)
	}
	if err != nil {
		return 0, err
	}
	if f, ok := attrs(b, sizeIfAddr)[unix.IFA_FLAGS]; ok {
		return u32(f), nil
	}
	return uint32(b[2]), nil
}

// addressMessage returns what the kernel says of an address of a link; nil if
// the link has no such address.
func (k *kernel) addressMessage(a addrKey) ([]byte, error) {
	r := k.request(unix.RTM_GETADDR, 0)
	addressRequest(r, addressForm{addrKey: a, bits: 128})
	list, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil, nil
	}
	if err == nil && (len(list) == 0 || len(list[0]) < sizeIfAddr) {
		err = unix.EBADMSG
	}
	if err != nil {
		return nil, fmt.Errorf("read back address %s of link %d: %w", a.addr, a.link, err)
	}
	if int(u32(list[0][4:])) != a.link {
		return nil, nil // the link is gone, and the kernel has looked at others
	}
	return list[0], nil
}

// flushPMTU deletes the cached clone that holds the path MTU of dst, a session
// address: it stands in the table of the session route.
func (k *kernel) flushPMTU(link int, dst netip.Addr) error {
	r := k.request(unix.RTM_DELROUTE, unix.NLM_F_ACK)
	r.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{
		Family: unix.AF_INET6, Dst_len: 128, Table: unix.RT_TABLE_LOCAL,
		Scope: unix.RT_SCOPE_UNIVERSE, Flags: unix.RTM_F_CLONED,
	}})
	ip := dst.As16()
	r.AddData(nl.NewRtAttr(unix.RTA_DST, ip[:]))
	r.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(link))))
	_, err := r.Execute(unix.NETLINK_ROUTE, 0)
	if err == nil || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("flush path MTU of %s: %w", dst, err)
}

// sysctl reads net.ipv6.conf.LINK.KEY.
func (k *kernel) sysctl(link, key string) (string, error) {
	b, err := k.conf.ReadFile(link + "/" + key)
	if err != nil {
		return "", fmt.Errorf("read sysctl %s of %s: %w", key, link, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// setSysctl writes net.ipv6.conf.LINK.KEY.
func (k *kernel) setSysctl(link, key, value string) error {
	f, err := k.conf.OpenFile(link+"/"+key, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set sysctl %s of %s: %w", key, link, err)
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set sysctl %s of %s to %s: %w", key, link, value, err)
	}
	return nil
}

// facts asks what netlink does not tell. What cannot be learned is absent.
func (k *kernel) facts(name string) facts {
	var f facts
	if s, err := k.sysctl(name, "mtu"); err == nil {
		f.mtu6, _ = strconv.Atoi(s)
	}
	if s, err := k.sysctl(name, "forwarding"); err == nil {
		f.forwards = s != "0"
	}
	if s, err := k.sysctl(name, acceptRA); err == nil {
		f.acceptRA = s
	}
	f.physical = k.physical(name)
	return f
}
