package hostnet

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam"
)

// Routes asks the kernel's routing tables, in the network namespace of the thread that called OpenRoutes. It
// belongs to one goroutine.
type Routes struct{ kernel *netlink.Handle }

// OpenRoutes opens the line to the kernel.
func OpenRoutes() (*Routes, error) {
	k, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket for routes: %w", err)
	}
	return &Routes{k}, nil
}

// Close closes it.
func (r *Routes) Close() { r.kernel.Close() }

// Toward returns the link by which packets to an address leave this host; an error: there is none.
func (r *Routes) Toward(dst netip.Addr) (roam.LinkID, error) {
	list, err := r.kernel.RouteGet(dst.AsSlice())
	if err != nil {
		return 0, fmt.Errorf("route to %v: %w", dst, err)
	}
	if len(list) == 0 || list[0].LinkIndex <= 0 {
		return 0, fmt.Errorf("route to %v: %w", dst, unix.ENETUNREACH)
	}
	return roam.LinkID(list[0].LinkIndex), nil
}
