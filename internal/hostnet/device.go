package hostnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam"
)

const (
	peerSuffix = "x"
	// segmentationSuffix makes the name of the segmentation device out of the session device's; it
	// has a peer of its own.
	segmentationSuffix = "d"
	// segmentationMTU is the most that a veth device takes: what passes there was fitted
	// to the session device, and has to fit only after it.
	segmentationMTU = 65535
	minMTU          = 1280 // RFC 8200 §5
	defaultMTU      = 1500
	forever         = 0xffff_ffff
)

// Offloads of the pair are left as veth has them, all on: sockets build
// GSO packets for the session device, the data plane redirects them before
// they would be cut, and the uplink cuts and sums them as it does for plain
// IPv6. Nothing is received here but what rawio injects, so GRO does not matter.

// quiet are the sysctls of the session device: no addresses but ours, nothing
// learned from and nothing said to anybody. They go with the device.
var quiet = []struct{ key, value string }{
	{"addr_gen_mode", "1"}, {"accept_ra", "0"}, {"autoconf", "0"}, {"accept_redirects", "0"},
	{"router_solicitations", "0"}, {"accept_dad", "0"}, {"use_tempaddr", "0"}, {"disable_ipv6", "0"},
}

// setup makes or adopts the device, its address and its route.
func (h *Host) setup() (Device, error) {
	near, far, err := h.makeOrAdopt(h.rules.device+segmentationSuffix, segmentationMTU, h.kernel.noOffloads)
	if err != nil {
		return Device{}, err
	}
	dev, peer, err := h.makeOrAdopt(h.rules.device, defaultMTU, h.kernel.hush)
	if err != nil {
		return Device{}, err
	}
	session := roam.ILV{NID: h.rules.nid, L64: h.rules.session}.Addr()
	if err := h.kernel.ownOnly(dev, session); err != nil {
		return Device{}, err
	}
	if err := h.kernel.sessionRoute(dev, h.rules.session, session); err != nil {
		return Device{}, err
	}
	if err := h.kernel.awaitLocal(addrKey{dev.Attrs().Index, session}); err != nil {
		return Device{}, err
	}
	a, b := dev.Attrs(), peer.Attrs()
	return Device{
		Name: a.Name, PeerName: b.Name, Index: a.Index, PeerIndex: b.Index,
		MAC: a.HardwareAddr, PeerMAC: b.HardwareAddr, MTU: a.MTU,
		Segmentation: near.Attrs().Index, SegmentationPeer: far.Attrs().Index,
	}, nil
}

// makeOrAdopt returns a pair of interfaces that is up; prepare is called before
// that.
func (h *Host) makeOrAdopt(name string, mtu int, prepare func(dev, peer netlink.Link) error) (dev, peer netlink.Link, err error) {
	missing, err := h.kernel.missing(name)
	if err != nil {
		return nil, nil, err
	}
	if missing {
		if err := h.journal.record(change{Kind: madeDevice, Link: name}); err != nil {
			return nil, nil, err
		}
		if err := h.kernel.newEntry(name, mtu); err != nil {
			return nil, nil, err
		}
	}
	if dev, peer, err = h.kernel.pair(name); err != nil {
		return nil, nil, err
	}
	// One that we adopt is ours as well, or it would have been refused.
	if err := h.journal.record(change{Kind: madeDevice, Link: name}); err != nil {
		return nil, nil, err
	}
	if err := prepare(dev, peer); err != nil {
		return nil, nil, err
	}
	for _, l := range []netlink.Link{peer, dev} {
		if err := h.kernel.links.LinkSetUp(l); err != nil {
			return nil, nil, fmt.Errorf("set %s up: %w", l.Attrs().Name, err)
		}
	}
	for _, l := range []netlink.Link{peer, dev} {
		if err := h.kernel.awaitCarrier(l); err != nil {
			return nil, nil, err
		}
	}
	return dev, peer, nil
}

// noOffloads makes a pair the segmentation device: the kernel cuts GSO packets and
// finishes checksums before it sends into a device that can do neither, and
// nothing puts the segments together again at the other end. No stack listens at
// either end.
func (k *kernel) noOffloads(dev, peer netlink.Link) error {
	if err := k.hush(dev, peer); err != nil {
		return err
	}
	if err := k.setSysctl(dev.Attrs().Name, "disable_ipv6", "1"); err != nil {
		return err
	}
	for _, l := range []netlink.Link{dev, peer} {
		name := l.Attrs().Name
		// Without checksums a device has no segmentation either, but for that
		// of UDP on kernels of the age of 6.1.
		if !k.setOffload(name, ethtoolSetTxChecksum, false) || !k.setOffload(name, ethtoolSetGRO, false) ||
			!k.turnOff(name, "tx-udp-segmentation") {
			return fmt.Errorf("turn off offloads of %s: %w", name, unix.EOPNOTSUPP)
		}
		on := k.features(name)
		if on["tx-tcp6-segmentation"] || on["tx-udp-segmentation"] || on["tx-checksum-ip-generic"] || on["rx-gro"] {
			return fmt.Errorf("turn off offloads of %s: some stay on", name)
		}
	}
	return nil
}

// checkDevice tells, once, that somebody took down or removed the session
// device or its address. To set it up again would fight whoever did it; one that
// is gone is made again by checkSession.
func (h *Host) checkDevice() {
	index := h.Device().Index
	if index == 0 {
		return
	}
	l, exists := h.table.links[index]
	session := addrKey{index, roam.ILV{NID: h.rules.nid, L64: h.rules.session}.Addr()}
	_, addressed := h.table.addrs[session]
	sound := exists && addressed && l.flags&unix.IFF_UP != 0
	if h.deviceSound && !sound {
		// The notifications of our own set-up come late and one by one.
		if h.kernel.sound(session) {
			return
		}
		h.trouble(roam.LinkLocator{}, locator{name: h.rules.device},
			"the session device was taken down, stripped of its address or deleted by somebody else; a deleted one is made again, else restart roamd")
	}
	h.deviceSound = sound
}

// sound reports whether a device is up and has its address at this moment.
func (k *kernel) sound(a addrKey) bool {
	l, err := k.links.LinkByIndex(a.link)
	if err != nil || l.Attrs().RawFlags&unix.IFF_UP == 0 {
		return false
	}
	_, err = k.addressFlags(a)
	return err == nil
}

// missing reports whether no interface of that name exists.
func (k *kernel) missing(name string) (bool, error) {
	_, err := k.links.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for session device %s: %w", name, err)
	}
	return false, nil
}

func (k *kernel) newEntry(name string, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	err := k.links.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name + peerSuffix, PeerMTU: uint32(mtu)})
	if err != nil {
		return fmt.Errorf("make session device %s: %w", name, err)
	}
	return nil
}

// pair returns the two interfaces, if they are such a pair.
func (k *kernel) pair(name string) (dev, peer netlink.Link, err error) {
	dev, err = k.links.LinkByName(name)
	if err != nil {
		return nil, nil, fmt.Errorf("look for session device %s: %w", name, err)
	}
	peer, err = k.links.LinkByName(name + peerSuffix)
	if err != nil {
		return nil, nil, fmt.Errorf("%s exists without its other end (remove it, or set another `device`): %w", name, err)
	}
	if dev.Type() != "veth" || dev.Attrs().ParentIndex != peer.Attrs().Index {
		return nil, nil, fmt.Errorf("%s exists and is not Roam's pair of interfaces (set another `device`): %w", name, unix.EEXIST)
	}
	return dev, peer, nil
}

// hush silences both ends before they come up. What reaches the far end was
// not taken by the data plane; without IPv6 there it goes nowhere.
func (k *kernel) hush(dev, peer netlink.Link) error {
	for _, s := range quiet {
		if err := k.setSysctl(dev.Attrs().Name, s.key, s.value); err != nil {
			return err
		}
	}
	if err := k.setSysctl(peer.Attrs().Name, "disable_ipv6", "1"); err != nil {
		return err
	}
	for _, l := range []netlink.Link{dev, peer} {
		if err := k.links.LinkSetARPOff(l); err != nil {
			return fmt.Errorf("turn off address resolution on %s: %w", l.Attrs().Name, err)
		}
		if err := k.links.LinkSetMulticastOff(l); err != nil {
			return fmt.Errorf("turn off multicast on %s: %w", l.Attrs().Name, err)
		}
	}
	return nil
}

// await waits for the kernel's workers, which finish what a request began.
func await(what string, done func() (bool, error)) error {
	deadline := time.Now().Add(workerWait)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for ; ; <-look.C {
		ok, err := done()
		if err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for %s: %w", what, os.ErrDeadlineExceeded)
		}
	}
}

// workerWait is far above what the kernel takes on a busy machine.
const workerWait = 5 * time.Second

// awaitCarrier waits until a link can send: of a veth pair, the end that came
// up first drops packets until a worker has made it ready.
func (k *kernel) awaitCarrier(l netlink.Link) error {
	return await("carrier of "+l.Attrs().Name, func() (bool, error) {
		now, err := k.links.LinkByIndex(l.Attrs().Index)
		return err == nil && now.Attrs().OperState == netlink.OperUp, err
	})
}

// awaitLocal waits until the kernel takes packets for the session address: also
// without duplicate detection a worker makes the local route. An address that
// somebody's flush takes meanwhile is added again.
func (k *kernel) awaitLocal(a addrKey) error {
	return await("local route of "+a.addr.String(), func() (bool, error) {
		list, err := k.links.RouteGet(a.addr.AsSlice())
		if err == nil && len(list) > 0 && list[0].Type == unix.RTN_LOCAL {
			return true, nil
		}
		if _, err := k.addressFlags(a); err != nil {
			return false, k.setAddress(a, unix.IFA_F_NODAD, forever)
		}
		return false, nil
	})
}

// ownOnly leaves the session address as the only one of the device. It is
// deprecated: the route names it as source, and for no other destination may
// the kernel prefer it.
func (k *kernel) ownOnly(dev netlink.Link, session netip.Addr) error {
	list, err := k.links.AddrList(dev, unix.AF_INET6)
	if err != nil {
		return fmt.Errorf("list addresses of %s: %w", dev.Attrs().Name, err)
	}
	index := dev.Attrs().Index
	for _, a := range list {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && ip != session {
			if err := k.removeAddress(addrKey{index, ip}); err != nil {
				return err
			}
		}
	}
	return k.setAddress(addrKey{index, session}, unix.IFA_F_NODAD, forever)
}

// sessionRoute sends the whole session prefix through the device, from the
// session address. It stands in the table of local addresses, where the kernel
// looks first: no route of another table goes before it, however specific and
// whoever made it (a Router Advertisement, a manager of links, a VPN with rules of
// its own). With a table and a rule of ours, programs that add rules without a
// preference (wg-quick) would come first.
func (k *kernel) sessionRoute(dev netlink.Link, prefix roam.L64, session netip.Addr) error {
	p := prefix.Prefix()
	err := k.links.RouteReplace(&netlink.Route{
		Family: unix.AF_INET6, LinkIndex: dev.Attrs().Index, Protocol: unix.RTPROT_STATIC,
		Dst: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 128)},
		Src: session.AsSlice(), Table: unix.RT_TABLE_LOCAL,
		Priority: 1, // where the kernel has one table only, this one is for all routes
	})
	if err != nil {
		return fmt.Errorf("route %s to %s: %w", p, dev.Attrs().Name, err)
	}
	return nil
}

// fitMTU keeps the device's MTU under that of every uplink in use.
func (h *Host) fitMTU() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.device.Index == 0 {
		return nil
	}
	mtu := deviceMTU(h.shown.Uplinks, h.option)
	if mtu == 0 || mtu == h.device.MTU {
		return nil
	}
	h.device.MTU = mtu // also if it fails: tried again when it is to change next, not at every event
	for _, index := range []int{h.device.PeerIndex, h.device.Index} {
		l := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
		if err := h.kernel.links.LinkSetMTU(l, mtu); err != nil {
			return fmt.Errorf("set MTU of link %d to %d: %w", index, mtu, err)
		}
	}
	return nil
}

// deviceMTU leaves room for the option under the least uplink MTU; zero keeps
// what is. It never goes under IPv6's minimum: on an uplink of exactly that,
// full-size packets go without option.
func deviceMTU(uplinks []Uplink, option int) int {
	least := 0
	for _, u := range uplinks {
		if u.Up && u.Routed && (least == 0 || u.MTU < least) {
			least = u.MTU
		}
	}
	if least == 0 {
		return 0
	}
	return max(minMTU, min(least-option, defaultMTU))
}
