package hostnet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"roam"
)

// XDP is what the driver of a link does with frames of XDP programs.
type XDP struct {
	Redirects bool // a program on the link may send its frames by other links
	Sends     bool // the link sends frames of programs on other links; of a veth only while its other end polls
}

// What linux/netdev.h has of the family netdev.
const (
	netdevFamily  = "netdev"
	netdevVersion = 1
	netdevGet     = 1
	netdevIndex   = 1
	netdevXDP     = 3
	xdpRedirects  = 1 << 1
	xdpSends      = 1 << 2
)

// genericHeader is struct genlmsghdr: a command, a version, and two bytes that have to be 0.
type genericHeader [nl.SizeofGenlmsg]byte

func (h genericHeader) Len() int          { return len(h) }
func (h genericHeader) Serialize() []byte { return h[:] }

// XDPOf asks the kernel what a link does with frames of XDP programs (Linux 6.3; before that,
// nobody knows, and the error says so).
func XDPOf(link roam.LinkID) (x XDP, err error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return x, fmt.Errorf("ask what drivers do with XDP (Linux 6.3): %w", err)
	}
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	req.AddData(genericHeader{netdevGet, netdevVersion})
	req.AddData(nl.NewRtAttr(netdevIndex, nl.Uint32Attr(uint32(link))))
	answers, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return x, fmt.Errorf("ask what the driver of link %d does with XDP: %w", link, err)
	}
	for _, a := range answers {
		if x, ok := parseXDP(a); ok {
			return x, nil
		}
	}
	return x, errors.New("the kernel does not say what the driver does with XDP")
}

// parseXDP reads the answer about one link.
func parseXDP(answer []byte) (x XDP, ok bool) {
	if len(answer) < nl.SizeofGenlmsg {
		return x, false
	}
	attrs, err := nl.ParseRouteAttr(answer[nl.SizeofGenlmsg:])
	if err != nil {
		return x, false
	}
	for _, a := range attrs {
		if a.Attr.Type == netdevXDP && len(a.Value) == 8 {
			v := binary.NativeEndian.Uint64(a.Value)
			return XDP{Redirects: v&xdpRedirects != 0, Sends: v&xdpSends != 0}, true
		}
	}
	return x, false
}
