package topo

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Macvlan connects a host to the network of an interface in the caller's namespace: the
// host gets an interface with its own hardware address there, which is up when Macvlan
// returns. The caller's interface must be up and does not change.
func (h *Host) Macvlan(ifname, parent string) error {
	there, err := netlink.LinkByName(parent)
	if err != nil {
		return fmt.Errorf("find %s: %w", parent, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = ifname
	attrs.HardwareAddr = macOf(h.name, ifname)
	attrs.ParentIndex = there.Attrs().Index
	attrs.Namespace = netlink.NsFd(int(h.netns.Fd()))
	if err := netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}); err != nil {
		return fmt.Errorf("put %s on %s: %w", h.name, parent, err)
	}
	return h.SetUp(ifname)
}

// DelLink removes an interface at once. The kernel removes the others with the namespace,
// some time after Close.
func (h *Host) DelLink(ifname string) error { return h.onLink(ifname, "remove", h.nl.LinkDel) }
