package topo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam/lab/linkem"
)

// Veth connects two hosts by a veth pair, without delay and at the kernel's full speed.
// Both ends are up when it returns.
func (l *Lab) Veth(a *Host, ifA string, b *Host, ifB string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = ifA
	attrs.HardwareAddr = macOf(a.name, ifA)
	v := netlink.NewVeth(attrs)
	v.PeerName = ifB
	v.PeerHardwareAddr = macOf(b.name, ifB)
	v.PeerNamespace = netlink.NsFd(int(b.netns.Fd()))
	if err := a.nl.LinkAdd(v); err != nil {
		return fmt.Errorf("add veth %s/%s to %s/%s: %w", a.name, ifA, b.name, ifB, err)
	}
	return errors.Join(a.SetUp(ifA), b.SetUp(ifB))
}

// Link connects two hosts by an emulated link with the given properties in both directions;
// the returned link can change them. Both ends are up when it returns. Lab.Close closes it.
func (l *Lab) Link(a *Host, ifA string, b *Host, ifB string, p linkem.Params) (*linkem.Link, error) {
	tapA, err := a.tap(ifA)
	if err != nil {
		return nil, err
	}
	tapB, err := b.tap(ifB)
	if err != nil {
		return nil, errors.Join(err, tapA.Close())
	}
	k, err := linkem.New(tapA, tapB, p, p)
	if err != nil {
		return nil, errors.Join(err, tapA.Close(), tapB.Close())
	}
	if err := l.keep(k); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, errors.Join(a.SetUp(ifA), b.SetUp(ifB))
}

// keep registers a link for Close, or fails after Close.
func (l *Lab) keep(k *linkem.Link) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("add link: %w", errClosed)
	}
	l.links = append(l.links, k)
	return nil
}

// tap creates a TAP device inside the host.
func (h *Host) tap(ifname string) (t *linkem.Tap, err error) {
	err = h.Do(func() (err error) {
		t, err = linkem.OpenTap(ifname)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("add %s/%s: %w", h.name, ifname, err)
	}
	dev, err := h.link(ifname)
	if err == nil {
		err = h.nl.LinkSetHardwareAddr(dev, macOf(h.name, ifname))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set hardware address: %w", err), t.Close())
	}
	return t, nil
}

// macOf makes a locally administered address from the names, so that a run
// has the same link-local and SLAAC addresses as the one before.
func macOf(host, ifname string) net.HardwareAddr {
	f := fnv.New64a()
	fmt.Fprintf(f, "%s/%s", host, ifname)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], f.Sum64())
	return net.HardwareAddr{0x02, b[1], b[2], b[3], b[4], b[5]}
}

// link finds an interface by name.
func (h *Host) link(ifname string) (netlink.Link, error) {
	dev, err := h.nl.LinkByName(ifname)
	if err != nil {
		return nil, fmt.Errorf("find %s on %s: %w", ifname, h.name, err)
	}
	return dev, nil
}

// onLink calls f with an interface; what names the attempt in an error.
func (h *Host) onLink(ifname, what string, f func(netlink.Link) error) error {
	dev, err := h.link(ifname)
	if err != nil {
		return err
	}
	if err := f(dev); err != nil {
		return fmt.Errorf("%s %s on %s: %w", what, ifname, h.name, err)
	}
	return nil
}

// SetUp brings an interface up.
func (h *Host) SetUp(ifname string) error { return h.onLink(ifname, "bring up", h.nl.LinkSetUp) }

// SetDown takes an interface down.
func (h *Host) SetDown(ifname string) error {
	return h.onLink(ifname, "take down", h.nl.LinkSetDown)
}

// Carrier reports whether an interface is up and has carrier.
func (h *Host) Carrier(ifname string) (bool, error) {
	dev, err := h.link(ifname)
	return err == nil && dev.Attrs().RawFlags&unix.IFF_LOWER_UP != 0, err
}

// Stats are the kernel's counts for an interface.
type Stats struct {
	RxPackets, RxBytes uint64
	TxPackets, TxBytes uint64
	// RxDropped and TxDropped are packets that the device lost. TxDropped other than zero
	// on an emulated link that was never down means that the emulator was too slow, which
	// invalidates the figures of the run.
	RxDropped, TxDropped uint64
}

// Stats reads the counts of an interface.
func (h *Host) Stats(ifname string) (Stats, error) {
	dev, err := h.link(ifname)
	if err != nil {
		return Stats{}, err
	}
	s := dev.Attrs().Statistics
	if s == nil {
		return Stats{}, fmt.Errorf("count packets of %s on %s: the kernel reports none", ifname, h.name)
	}
	return Stats{
		RxPackets: s.RxPackets, RxBytes: s.RxBytes, TxPackets: s.TxPackets, TxBytes: s.TxBytes,
		RxDropped: s.RxDropped, TxDropped: s.TxDropped,
	}, nil
}

// SetMTU sets the MTU of an interface, in bytes.
func (h *Host) SetMTU(ifname string, mtu int) error {
	return h.onLink(ifname, "set mtu of", func(dev netlink.Link) error { return h.nl.LinkSetMTU(dev, mtu) })
}

// AddAddr adds an address with its prefix length. It is usable at once, without the
// duplicate address detection that SLAAC addresses undergo.
func (h *Host) AddAddr(ifname string, p netip.Prefix) error {
	return h.onLink(ifname, fmt.Sprintf("add %s to", p), func(dev netlink.Link) error {
		return h.nl.AddrAdd(dev, &netlink.Addr{IPNet: ipNet(p), Flags: unix.IFA_F_NODAD})
	})
}

// DelAddr removes an address.
func (h *Host) DelAddr(ifname string, p netip.Prefix) error {
	return h.onLink(ifname, fmt.Sprintf("remove %s from", p), func(dev netlink.Link) error {
		return h.nl.AddrDel(dev, &netlink.Addr{IPNet: ipNet(p)})
	})
}

// AddRoute adds or replaces a route: to dst through the router via out of an
// interface. The default route is ::/0; an invalid via means that dst is on
// the link.
func (h *Host) AddRoute(dst netip.Prefix, via netip.Addr, ifname string) error {
	return h.onLink(ifname, fmt.Sprintf("add route to %s over", dst), func(dev netlink.Link) error {
		r := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: ipNet(dst)}
		if via.IsValid() {
			r.Gw = via.AsSlice()
		}
		return h.nl.RouteReplace(r)
	})
}

// Addrs lists the usable global addresses of an interface, without tentative, duplicate and
// link-local ones.
func (h *Host) Addrs(ifname string) ([]netip.Prefix, error) {
	var ps []netip.Prefix
	err := h.onLink(ifname, "list addresses of", func(dev netlink.Link) error {
		list, err := h.nl.AddrList(dev, netlink.FAMILY_V6)
		for _, a := range list {
			if a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 || a.Scope != unix.RT_SCOPE_UNIVERSE {
				continue
			}
			ip, _ := netip.AddrFromSlice(a.IP)
			bits, _ := a.Mask.Size()
			ps = append(ps, netip.PrefixFrom(ip, bits))
		}
		return err
	})
	return ps, err
}

// LinkLocal returns the link-local address of an interface. It fails if there is none yet.
func (h *Host) LinkLocal(ifname string) (addr netip.Addr, err error) {
	err = h.onLink(ifname, "find link-local address of", func(dev netlink.Link) error {
		list, err := h.nl.AddrList(dev, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		for _, a := range list {
			if a.Scope == unix.RT_SCOPE_LINK && a.Flags&unix.IFA_F_TENTATIVE == 0 {
				addr, _ = netip.AddrFromSlice(a.IP)
				return nil
			}
		}
		return errors.New("there is none")
	})
	return addr, err
}

// WaitAddr waits until the interface has a usable global address in prefix,
// and returns it.
func (h *Host) WaitAddr(ctx context.Context, ifname string, prefix netip.Prefix) (addr netip.Addr, err error) {
	what := fmt.Sprintf("address in %s on %s/%s", prefix, h.name, ifname)
	err = Wait(ctx, what, func() bool {
		ps, _ := h.Addrs(ifname) // an interface may come later
		for _, p := range ps {
			if prefix.Contains(p.Addr()) {
				addr = p.Addr()
				return true
			}
		}
		return false
	})
	return addr, err
}

// ipNet converts to the type of the netlink module.
func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
