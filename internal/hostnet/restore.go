package hostnet

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/hostnet/desired"
)

// Restore takes back every change that the journal names, made by this or an
// earlier process, and removes the journal. It is called after Close, or
// without any Host, in the network namespace of the changes. A journal that
// does not exist is no error. What fails is named, the rest is done all the
// same, and the journal then keeps what is left.
func Restore(journalPath string) error {
	j, err := loadJournal(journalPath)
	if err != nil {
		return err
	}
	if len(j.entries) > 0 {
		k, err := openKernel()
		if err != nil {
			return err
		}
		defer k.close()
		if err := j.undo(k); err != nil {
			return err
		}
	}
	if err := os.Remove(journalPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove journal of host changes: %w", err)
	}
	return nil
}

// undo takes back every entry, in the order of desired.Undo. The journal is written once, since
// to write it durably takes some 20 ms, and there may be an entry for each of a thousand links:
// whoever is killed before leaves all entries to a successor, who takes back again what has been.
func (j *journal) undo(fx effects) error {
	list := slices.Clone(j.entries)
	items := make([]desired.Item, len(list))
	for i, e := range list {
		items[i] = e.item
	}
	var failed []error
	var done []entry
	for _, i := range desired.Undo(items) {
		if err := fx.take(list[i].item, list[i].old); err != nil {
			failed = append(failed, err)
			continue
		}
		done = append(done, list[i])
	}
	failed = append(failed, fx.settle(), j.edit(done, nil))
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("restore the host: %w", err)
	}
	return nil
}

// removeDevice deletes the session device, and with it its peer, addresses and
// routes.
func (k *kernel) removeDevice(name string) error {
	l, err := k.links.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err == nil && l.Type() != "veth" {
		return nil // somebody else's by now
	}
	if err == nil {
		err = k.links.LinkDel(l)
	}
	if err != nil {
		return fmt.Errorf("remove session device %s: %w", name, err)
	}
	return nil
}

// HadIdentifier reports whether the host has an address with its Node Identifier
// that Roam has not added: plain IPv6 uses it too. It is called before Start.
func (h *Host) HadIdentifier() (bool, error) {
	best, rest, err := GlobalAddresses(h.rules.session, func(string) bool { return true })
	if err != nil {
		return false, fmt.Errorf("look for addresses with the node identifier: %w", err)
	}
	addrs := slices.Concat(best, rest)
	for k := range h.ours {
		addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return a == k.addr })
	}
	return slices.ContainsFunc(addrs, func(a netip.Addr) bool { return roam.ILVFromAddr(a).NID == h.rules.nid }), nil
}

// GlobalAddresses returns the global unicast IPv6 addresses of this host on
// links that are up and whose name is allowed, those of the session prefix
// excepted. The best are permanent, preferred and past duplicate address
// detection; the rest lacks one of these.
func GlobalAddresses(session roam.L64, allowed func(link string) bool) (best, rest []netip.Addr, err error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, nil, fmt.Errorf("list links: %w", err)
	}
	k, err := openKernel()
	if err != nil {
		return nil, nil, err
	}
	defer k.close()
	for _, l := range links {
		if l.Flags&net.FlagUp == 0 || l.Flags&net.FlagLoopback != 0 || !allowed(l.Name) {
			continue
		}
		list, err := undisturbed(func() ([]netlink.Addr, error) {
			return k.links.AddrList(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: l.Index}}, unix.AF_INET6)
		})
		if err != nil {
			return nil, nil, fmt.Errorf("list addresses of %s: %w", l.Name, err)
		}
		for _, a := range list {
			ip, ok := netip.AddrFromSlice(a.IP)
			if v := roam.ILVFromAddr(ip); !ok || a.Scope != unix.RT_SCOPE_UNIVERSE || !v.L64.Usable() || v.L64 == session {
				continue
			}
			if a.Flags&(unix.IFA_F_TEMPORARY|unix.IFA_F_DEPRECATED|unix.IFA_F_TENTATIVE) == 0 {
				best = append(best, ip)
			} else {
				rest = append(rest, ip)
			}
		}
	}
	return best, rest, nil
}
