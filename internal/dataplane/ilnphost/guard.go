package ilnphost

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
)

// loopbackLink is the index of the loopback device in every network namespace.
const loopbackLink = roam.LinkID(1)

// guard drops packets with session addresses that arrive on links which may not
// deliver them.
type guard struct {
	links *ebpf.Map // session_links; nil: single links are guarded
	all   bool      // one program covers all links
	why   error     // why none does
	// For single links, where all is false: with a MAC header, and without.
	framed, raw *ebpf.Program
}

// AttachGuard has packets with addresses of the session prefix dropped wherever
// they arrive but on the session device, on the loopback and on uplinks. One
// program does so for all links of the network namespace of the calling thread,
// in place of that of an earlier process, if the kernel has programs on the hooks
// of netfilter (Linux 6.4); else GuardLink is to be called for each link. It may be
// called again for another session device.
func (p *Plane) AttachGuard(prefix roam.L64, device roam.LinkID) error {
	switch { // the session device is another one
	case p.guard.all:
		return p.admit(device)
	case p.guard.framed != nil:
		return nil
	}
	spec, err := loadGuard()
	if err != nil {
		return fmt.Errorf("read embedded eBPF object: %w", err)
	}
	if err := spec.Variables["session_prefix"].Set(prefixOf(prefix)); err != nil {
		return fmt.Errorf("set session prefix of the guard: %w", err)
	}
	dataplane.Shorten(spec)
	opts := &ebpf.CollectionOptions{
		Maps:            ebpf.MapOptions{PinPath: p.set.Dir()},
		MapReplacements: map[string]*ebpf.Map{"counters": p.objs.Counters, "refusals": p.objs.Refusals},
	}
	err = p.guardAll(spec, opts, device)
	if err == nil {
		return nil
	}
	p.guard = guard{why: err}
	var each struct {
		Framed *ebpf.Program `ebpf:"ilnp_link_guard"`
		Raw    *ebpf.Program `ebpf:"ilnp_rawlink_guard"`
	}
	if err := spec.LoadAndAssign(&each, opts); err != nil {
		return fmt.Errorf("load the guard of single links: %w", err)
	}
	p.guard.framed, p.guard.raw = each.Framed, each.Raw
	return p.set.DropDeadPins()
}

// guardAll loads and attaches the guard of all links.
func (p *Plane) guardAll(spec *ebpf.CollectionSpec, opts *ebpf.CollectionOptions, device roam.LinkID) error {
	if p.opts.NoNetfilter {
		return fmt.Errorf("guard all links at once: %w", errors.ErrUnsupported)
	}
	var all struct {
		Program *ebpf.Program `ebpf:"ilnp_guard"`
		Links   *ebpf.Map     `ebpf:"session_links"`
	}
	if err := spec.LoadAndAssign(&all, opts); err != nil {
		return fmt.Errorf("load the guard of all links: %w", err)
	}
	defer all.Program.Close()
	p.guard.links = all.Links
	err := p.admit(device)
	if err == nil {
		err = p.set.AttachPrerouting("guard", all.Program)
	}
	if err != nil {
		return errors.Join(err, all.Links.Close())
	}
	p.guard.all = true
	return nil
}

// admit lists the links that may deliver packets with session addresses, and no
// others: those that an earlier process attached the programs of uplinks to, the
// session device and the loopback.
func (p *Plane) admit(device roam.LinkID) error {
	uplinks, err := p.AttachedUplinks()
	if err != nil {
		return err
	}
	wanted := map[roam.LinkID]bool{loopbackLink: true, device: true}
	for _, l := range uplinks {
		wanted[l] = true
	}
	for l := range wanted {
		if err := p.guard.admit(l); err != nil {
			return err
		}
	}
	list, err := p.guard.list()
	if err != nil {
		return err
	}
	for _, l := range list.Ifindex {
		if l != 0 && !wanted[roam.LinkID(l)] {
			if err := p.guard.expel(roam.LinkID(l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// list reads the links that may deliver packets with session addresses.
func (g *guard) list() (guardLinkList, error) {
	var list guardLinkList
	if err := g.links.Lookup(uint32(0), &list); err != nil {
		return list, fmt.Errorf("read links of sessions: %w", err)
	}
	return list, nil
}

// admit lets a link deliver packets with session addresses: its own program has
// to be attached by then. Each change is one of one place, so that a program that
// reads meanwhile misses no other link.
func (g *guard) admit(l roam.LinkID) error {
	if g.links == nil {
		return nil
	}
	list, err := g.list()
	if err != nil || slices.Contains(list.Ifindex[:], uint32(l)) {
		return err
	}
	free := slices.Index(list.Ifindex[:], 0)
	if free < 0 {
		return fmt.Errorf("let link %d deliver sessions: %d others do: %w", l, len(list.Ifindex), ErrFull)
	}
	list.Ifindex[free], list.Used = uint32(l), max(list.Used, uint32(free+1))
	if err := g.links.Put(uint32(0), &list); err != nil {
		return fmt.Errorf("let link %d deliver sessions: %w", l, err)
	}
	return nil
}

// expel takes that back, before the link's own program is detached.
func (g *guard) expel(l roam.LinkID) error {
	if g.links == nil {
		return nil
	}
	list, err := g.list()
	if err != nil {
		return err
	}
	i := slices.Index(list.Ifindex[:], uint32(l))
	if i < 0 {
		return nil
	}
	list.Ifindex[i] = 0
	if err := g.links.Put(uint32(0), &list); err != nil {
		return fmt.Errorf("keep link %d from delivering sessions: %w", l, err)
	}
	return nil
}

// GuardsEachLink reports whether GuardLink has to be called for each link that is
// there or appears, and why. Packets that arrive on it before that are not looked
// at.
func (p *Plane) GuardsEachLink() (bool, error) { return p.guard.framed != nil, p.guard.why }

// GuardLink attaches the guard to one link that is neither an uplink nor the
// session device nor the loopback, where no program covers all links.
func (p *Plane) GuardLink(l roam.LinkID, hasMAC bool) error {
	if p.guard.framed == nil {
		return nil
	}
	prog := p.guard.framed
	if !hasMAC {
		prog = p.guard.raw
	}
	if err := p.set.AttachLink(l, true, prog); err != nil {
		return fmt.Errorf("guard link %d: %w", l, err)
	}
	return nil
}

// close lets go of the guard; what is attached stays.
func (g *guard) close() error {
	var errs []error
	for _, c := range []*ebpf.Program{g.framed, g.raw} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if g.links != nil {
		errs = append(errs, g.links.Close())
	}
	*g = guard{}
	return errors.Join(errs...)
}
