package rawio

import (
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"roam"
)

// message is the kernel's struct mmsghdr.
type message struct {
	unix.Msghdr
	sent uint32
}

// SendTrain sends whole IPv6 packets to one node out of a link as Send does, by one call of
// the kernel, so that this host leaves no gaps between them.
func (s *Sender) SendTrain(link roam.LinkID, packets [][]byte) error {
	if link <= 0 || len(packets) == 0 {
		return fmt.Errorf("send %d packets on link %d: no link or no packet named", len(packets), link)
	}
	first, err := destination(packets[0])
	if err != nil {
		return fmt.Errorf("send on link %d: %w", link, err)
	}
	var info [unix.SizeofInet6Pktinfo]byte
	binary.NativeEndian.PutUint32(info[16:], uint32(link))
	oob := controlMessage(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, info[:])
	to := unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: first, Scope_id: uint32(link)}
	data, messages := make([]unix.Iovec, len(packets)), make([]message, len(packets))
	for i, p := range packets {
		if dst, err := destination(p); err != nil || dst != first {
			return fmt.Errorf("send packet %d of a train to another node than the first: %w", i, ErrPacket)
		}
		data[i].Base = &p[0]
		data[i].SetLen(len(p))
		m := &messages[i]
		m.Name, m.Namelen = (*byte)(unsafe.Pointer(&to)), unix.SizeofSockaddrInet6
		m.Iov, m.Control = &data[i], &oob[0]
		m.SetIovlen(1)
		m.SetControllen(len(oob))
	}
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.raw), uintptr(unsafe.Pointer(&messages[0])),
		uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	runtime.KeepAlive(data)
	runtime.KeepAlive(oob)
	runtime.KeepAlive(&to)
	switch {
	case errno != 0:
		return fmt.Errorf("send to %s on link %d: %w", net.IP(first[:]), link, sorted(errno))
	case int(n) < len(packets):
		return fmt.Errorf("send %d packets to %s on link %d: %d left: %w", len(packets), net.IP(first[:]), link, n, ErrBusy)
	}
	return nil
}
