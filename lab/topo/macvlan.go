package topo

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Macvlan puts a host on a network that this machine reaches by an interface of
// the caller's namespace: the host gets an interface with a hardware address of
// its own there, which is up when it returns. The interface of the caller stays
// as it is, but must be up.
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

// DelLink removes an interface at once. Those that are left go with the
// namespace, which the kernel takes down some time after Close.
func (h *Host) DelLink(ifname string) error { return h.onLink(ifname, "remove", h.nl.LinkDel) }
