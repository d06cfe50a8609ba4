package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/desired"
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

// setup makes or adopts the devices, the session address and its route.
func (h *Host) setup() (Device, error) {
	segments, err := h.deviceLike(h.rules.device+segmentationSuffix, segmentationMTU)
	if err != nil {
		return Device{}, err
	}
	segments.Segments = true
	sessions, err := h.deviceLike(h.rules.device, defaultMTU)
	if err != nil {
		return Device{}, err
	}
	h.devices = []desired.Device{segments, sessions}
	if err := joined(h.state.set(ownerDevices, desired.State{Devices: h.devices})); err != nil {
		return Device{}, err
	}
	near, far, err := h.kernel.pair(segments)
	if err != nil {
		return Device{}, err
	}
	dev, peer, err := h.kernel.pair(sessions)
	if err != nil {
		return Device{}, err
	}
	a, b := dev.Attrs(), peer.Attrs()
	session := roam.ILV{NID: h.rules.nid, L64: h.rules.session}.Addr()
	own := append([]netip.Addr{session}, h.formerSession()...)
	if err := h.kernel.ownOnly(dev, own); err != nil {
		return Device{}, err
	}
	// Deprecated: the route names it as source, and for no other destination
	// may the kernel prefer it.
	h.session = desired.State{
		Addresses:  []desired.Address{{Link: a.Index, Addr: session, Bits: 128, Detection: desired.None}},
		Neighbours: []desired.Neighbour{{Link: a.Index, Addr: sessionGateway, MAC: b.HardwareAddr.String()}},
		Routes:     []desired.Route{sessionRouteTo(a.Index, h.rules.session, session)},
	}
	for _, former := range own[1:] {
		h.session.Addresses = append(h.session.Addresses,
			desired.Address{Link: a.Index, Addr: former, Bits: 128, Detection: desired.None})
	}
	if err := joined(h.state.set(ownerSession, h.session)); err != nil {
		return Device{}, err
	}
	if err := h.awaitLocal(h.session.Addresses[0]); err != nil {
		return Device{}, err
	}
	return Device{
		Name: a.Name, PeerName: b.Name, Index: a.Index, PeerIndex: b.Index,
		MAC: a.HardwareAddr, PeerMAC: b.HardwareAddr, MTU: sessions.MTU,
		Segmentation: near.Attrs().Index, SegmentationPeer: far.Attrs().Index,
	}, nil
}

// deviceLike returns the device that is wanted: with the MTU of the one that
// stands already, or else with this.
func (h *Host) deviceLike(name string, mtu int) (desired.Device, error) {
	d := desired.Device{Name: name, Peer: name + peerSuffix, MTU: mtu}
	have, err := h.kernel.findDevice(d)
	if x, ok := have.(desired.Device); ok {
		d.MTU = x.MTU
	}
	return d, err
}

// findDevice returns the device of that name. Another interface, which may be
// anybody's, is an error.
func (k *kernel) findDevice(d desired.Device) (desired.Item, error) {
	missing, err := k.missing(d.Name)
	if err != nil || missing {
		return nil, err
	}
	dev, _, err := k.pair(d)
	if err != nil {
		return nil, err
	}
	d.MTU = dev.Attrs().MTU
	return d, nil
}

// putDevice makes a device, or takes over one that stands, and brings it up.
func (k *kernel) putDevice(d desired.Device, fresh bool) error {
	if fresh {
		if err := k.newPair(d); err != nil {
			return err
		}
	}
	dev, peer, err := k.pair(d)
	if err != nil {
		return err
	}
	prepare := k.hush
	if d.Segments {
		prepare = k.noOffloads
	}
	if err := prepare(dev, peer); err != nil {
		return err
	}
	if dev.Attrs().MTU != d.MTU {
		if err := k.setMTU(d); err != nil {
			return err
		}
	}
	for _, l := range []netlink.Link{peer, dev} {
		if err := k.links.LinkSetUp(l); err != nil {
			return fmt.Errorf("set %s up: %w", l.Attrs().Name, err)
		}
	}
	for _, l := range []netlink.Link{peer, dev} {
		if err := k.awaitCarrier(l); err != nil {
			return err
		}
	}
	return nil
}

// setMTU changes the MTU of both ends.
func (k *kernel) setMTU(d desired.Device) error {
	dev, peer, err := k.pair(d)
	if err != nil {
		return err
	}
	for _, l := range []netlink.Link{peer, dev} {
		if err := k.links.LinkSetMTU(l, d.MTU); err != nil {
			return fmt.Errorf("set MTU of %s to %d: %w", l.Attrs().Name, d.MTU, err)
		}
	}
	return nil
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

func (k *kernel) newPair(d desired.Device) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = d.Name, d.MTU
	err := k.links.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: d.Peer, PeerMTU: uint32(d.MTU)})
	if err != nil {
		return fmt.Errorf("make session device %s: %w", d.Name, err)
	}
	return nil
}

// pair returns the two interfaces of a device, if they are such a pair.
func (k *kernel) pair(d desired.Device) (dev, peer netlink.Link, err error) {
	dev, err = k.links.LinkByName(d.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("look for session device %s: %w", d.Name, err)
	}
	peer, err = k.links.LinkByName(d.Peer)
	if err != nil {
		return nil, nil, fmt.Errorf("%s exists without its other end (remove it, or set another `device`): %w", d.Name, err)
	}
	if dev.Type() != "veth" || dev.Attrs().ParentIndex != peer.Attrs().Index {
		return nil, nil, fmt.Errorf("%s exists and is not Roam's pair of interfaces (set another `device`): %w", d.Name, unix.EEXIST)
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
func (h *Host) awaitLocal(a desired.Address) error {
	return await("local route of "+a.Addr.String(), func() (bool, error) {
		list, err := h.kernel.links.RouteGet(a.Addr.AsSlice())
		if err == nil && len(list) > 0 && list[0].Type == unix.RTN_LOCAL {
			return true, nil
		}
		if there, err := h.kernel.hasAddress(addrKey{a.Link, a.Addr}); err != nil || there {
			return false, err
		}
		h.state.lost(a)
		return false, joined(h.state.set(ownerSession, h.session))
	})
}

// ownOnly leaves the session addresses as the only ones of the device, whoever
// gave it others.
func (k *kernel) ownOnly(dev netlink.Link, sessions []netip.Addr) error {
	list, err := k.links.AddrList(dev, unix.AF_INET6)
	if err != nil {
		return fmt.Errorf("list addresses of %s: %w", dev.Attrs().Name, err)
	}
	for _, a := range list {
		bits, _ := a.Mask.Size()
		if ip, ok := netip.AddrFromSlice(a.IP); ok && !slices.Contains(sessions, ip) {
			if err := k.removeAddress(addrKey{dev.Attrs().Index, ip}, bits); err != nil {
				return err
			}
		}
	}
	return nil
}

// sessionGateway stands for the far end of the session device, which has no
// address. A route without gateway would give each correspondent an entry of its
// own in the neighbour table, which all network namespaces share: above
// net.ipv6.neigh.default.gc_thresh3 entries the kernel collects others, among them
// those of the uplinks' routers. The gateway's one entry is permanent, so it is
// never resolved, never collected, and outside that count.
var sessionGateway = netip.MustParseAddr("fe80::1")

// sessionRouteTo sends the whole session prefix through the device, from the
// session address. It stands in the table of local addresses, where the kernel
// looks first: no route of another table goes before it, however specific and
// whoever made it (a Router Advertisement, a manager of links, a VPN with rules of
// its own). With a table and a rule of ours, programs that add rules without a
// preference (wg-quick) would come first.
func sessionRouteTo(device int, prefix roam.L64, session netip.Addr) desired.Route {
	return desired.Route{
		Dst: prefix.Prefix(), Link: device, Gateway: sessionGateway, Source: session, Table: unix.RT_TABLE_LOCAL,
		Metric: 1, // where the kernel has one table only, this one is for all routes
	}
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
	for i, d := range h.devices {
		if d.Name == h.device.Name {
			h.devices[i].MTU = mtu
		}
	}
	return joined(h.state.set(ownerDevices, desired.State{Devices: h.devices}))
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
