package hostnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// DestroySockets destroys the TCP and UDP sockets that are connected to an address, as
// ss -K does: what they send would reach another node from now on. TCP's reset does not
// leave the host, since the address has no session. The error wraps
// unix.EOPNOTSUPP where the kernel was built without CONFIG_INET_DIAG_DESTROY, or the
// modules tcp_diag and udp_diag are missing; packets
// to an address without a session are answered with Unreachable there.
func (h *Host) DestroySockets(remote netip.Addr) error {
	var errs []error
	for _, proto := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		ids, err := h.kernel.socketsTo(proto, remote)
		errs = append(errs, err)
		for _, id := range ids {
			err := h.kernel.destroySocket(proto, id)
			if errors.Is(err, unix.ENOENT) {
				continue // it has ended by itself
			}
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("destroy sockets to %s: %w", remote, err)
	}
	return nil
}

// socketsTo lists the sockets that are connected to an address.
func (k *kernel) socketsTo(proto uint8, remote netip.Addr) ([]netlink.SocketID, error) {
	list := k.diag.SocketDiagTCP
	if proto == unix.IPPROTO_UDP {
		list = k.diag.SocketDiagUDP
	}
	sockets, err := undisturbed(func() ([]*netlink.Socket, error) { return list(unix.AF_INET6) })
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("the kernel has no tcp_diag or udp_diag: %w", unix.EOPNOTSUPP)
	}
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	var ids []netlink.SocketID
	for _, s := range sockets {
		if a, ok := netip.AddrFromSlice(s.ID.Destination); ok && a == remote {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}

// diagRequest is struct inet_diag_req_v2.
type diagRequest struct {
	proto uint8
	id    netlink.SocketID
}

// Len returns the bytes of the request.
func (r diagRequest) Len() int { return 56 }

// Serialize writes the request as the kernel reads it.
func (r diagRequest) Serialize() []byte {
	const allStates = 0xffffffff
	b := []byte{unix.AF_INET6, r.proto, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, allStates)
	b = binary.BigEndian.AppendUint16(b, r.id.SourcePort)
	b = binary.BigEndian.AppendUint16(b, r.id.DestinationPort)
	b = slices.Concat(b, r.id.Source.To16(), r.id.Destination.To16())
	b = binary.NativeEndian.AppendUint32(b, r.id.Interface)
	for _, half := range r.id.Cookie {
		b = binary.NativeEndian.AppendUint32(b, half)
	}
	return b
}

func (k *kernel) destroySocket(proto uint8, id netlink.SocketID) error {
	req := nl.NewNetlinkRequest(nl.SOCK_DESTROY, unix.NLM_F_ACK)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_INET_DIAG: {Socket: k.inetDiag}}
	req.AddData(diagRequest{proto, id})
	_, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
	return err
}
