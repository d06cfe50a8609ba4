package hostnet

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"roam"
)

// Classic attaches eBPF programs through the clsact queueing discipline, for
// kernels without tcx links (before Linux 6.6). What it attaches outlives the
// process, as pinned links do elsewhere. It acts in the network namespace of
// the thread that calls it.
type Classic struct{}

const (
	// filterHandle and filterPriority name our filters among others on a link; attaching
	// again at the same rank replaces the program in place. The kernel runs filters in the
	// order of their priorities.
	filterHandle   = 0x726f
	filterPriority = 0x4e1d // of rank 0
	// mostRank bounds the ranks of our programs on one hook, of either sign.
	mostRank = 64
)

func filterParent(ingress bool) uint32 {
	if ingress {
		return netlink.HANDLE_MIN_INGRESS
	}
	return netlink.HANDLE_MIN_EGRESS
}

func clsactOf(link roam.LinkID) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: int(link), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

func filterOf(link roam.LinkID, ingress bool, rank int) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: int(link), Parent: filterParent(ingress), Handle: filterHandle,
			Priority: uint16(filterPriority + rank), Protocol: unix.ETH_P_ALL,
		},
		DirectAction: true,
	}
}

// AttachClassic makes a program the filter of one direction of a link at a rank. Filters
// of a lower rank run before it.
func (Classic) AttachClassic(link roam.LinkID, ingress bool, rank, program int, name string) error {
	if rank < -mostRank || rank > mostRank {
		return fmt.Errorf("attach %s to link %d: rank %d is beyond %d", name, link, rank, mostRank)
	}
	if err := netlink.QdiscAdd(clsactOf(link)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact to link %d: %w", link, err)
	}
	f := filterOf(link, ingress, rank)
	f.Fd, f.Name = program, name
	if err := netlink.FilterReplace(f); err != nil {
		return fmt.Errorf("attach %s to link %d: %w", name, link, err)
	}
	return nil
}

// DetachClassic removes our filter of a rank; that there is none, or no link, is no
// error.
func (Classic) DetachClassic(link roam.LinkID, ingress bool, rank int) error {
	err := netlink.FilterDel(filterOf(link, ingress, rank))
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("detach from link %d: %w", link, err)
	}
	return nil
}

// Attached returns the links that have filters of ours at these ranks in both
// directions, as uplinks have.
func (Classic) Attached(ingressRank, egressRank int) ([]roam.LinkID, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var list []roam.LinkID
	for _, l := range links {
		if hasFilter(l, true, ingressRank) && hasFilter(l, false, egressRank) {
			list = append(list, roam.LinkID(l.Attrs().Index))
		}
	}
	return list, nil
}

// hasFilter reports whether there is a filter of ours at a rank; one without clsact is
// none.
func hasFilter(l netlink.Link, ingress bool, rank int) bool {
	filters, err := netlink.FilterList(l, filterParent(ingress))
	return err == nil && slices.ContainsFunc(filters, func(f netlink.Filter) bool {
		at, ours := rankOf(f)
		return ours && at == rank
	})
}

// rankOf returns the rank of a filter that AttachClassic made; false: it is another one.
func rankOf(f netlink.Filter) (rank int, ours bool) {
	b, ok := f.(*netlink.BpfFilter)
	if !ok {
		return 0, false
	}
	rank = int(b.Priority) - filterPriority
	return rank, b.Handle == filterHandle && -mostRank <= rank && rank <= mostRank
}

// DetachAllClassic removes our filters from all links, and the clsact of those
// on which nothing else needs it.
func DetachAllClassic() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	var errs []error
	for _, l := range links {
		errs = append(errs, detachClassicFrom(l))
	}
	return errors.Join(errs...)
}

func detachClassicFrom(l netlink.Link) error {
	ours, others := 0, 0
	for _, ingress := range []bool{true, false} {
		filters, err := netlink.FilterList(l, filterParent(ingress))
		if err != nil {
			return nil // no clsact here
		}
		for _, f := range filters {
			if rank, is := rankOf(f); is {
				ours++
				if err := (Classic{}).DetachClassic(roam.LinkID(l.Attrs().Index), ingress, rank); err != nil {
					return err
				}
				continue
			}
			others++
		}
	}
	if ours == 0 || others > 0 {
		return nil
	}
	if err := netlink.QdiscDel(clsactOf(roam.LinkID(l.Attrs().Index))); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove clsact from %s: %w", l.Attrs().Name, err)
	}
	return nil
}
