package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"roam"
)

// loopbackLink is the index of the loopback device in every network namespace.
const loopbackLink = roam.LinkID(1)

const (
	// guardPrefix begins the names of the pins of the guard of all links. There are
	// several, since the kernel cannot replace the program of such a link: the new
	// one is attached beside its predecessor.
	guardPrefix = linkPrefix + "guard_"
	guardPins   = 3
	// guardPriority is the first of the places that a guard may have among the
	// hooks: before connection tracking and everybody's rules. No two programs may
	// have the same one.
	guardPriority = -1500
	guardPlaces   = 16
)

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
	opts := &ebpf.CollectionOptions{
		Maps:            ebpf.MapOptions{PinPath: p.opts.PinDir},
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
	return p.dropDeadPins()
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
		err = p.attachGuard(all.Program)
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

// attachGuard attaches and pins the guard of all links, and only then removes
// that of an earlier process.
func (p *Plane) attachGuard(prog *ebpf.Program) error {
	var l link.Link
	err := error(unix.EBUSY)
	for i := 0; i < guardPlaces && errors.Is(err, unix.EBUSY); i++ {
		l, err = link.AttachNetfilter(link.NetfilterOptions{
			Program: prog, ProtocolFamily: unix.NFPROTO_IPV6, Hook: unix.NF_INET_PRE_ROUTING, Priority: int32(guardPriority + i),
		})
	}
	if err != nil {
		return fmt.Errorf("attach the guard of all links: %w", err)
	}
	defer l.Close()
	old, err := p.guardPins()
	if err != nil {
		return err
	}
	taken := make(map[string]bool, len(old))
	for _, name := range old {
		taken[name] = true
	}
	for i := range guardPins {
		name := fmt.Sprint(guardPrefix, i)
		if taken[name] {
			continue
		}
		if err := l.Pin(filepath.Join(p.opts.PinDir, name)); err != nil {
			return fmt.Errorf("pin the guard of all links: %w", err)
		}
		break
	}
	for _, name := range old {
		if err := os.Remove(filepath.Join(p.opts.PinDir, name)); err != nil {
			return fmt.Errorf("remove the earlier guard of all links: %w", err)
		}
	}
	return nil
}

// guardPins lists the pins of guards of all links. More than one there is only
// where a process was killed between two steps; the last name is kept free.
func (p *Plane) guardPins() ([]string, error) {
	entries, err := os.ReadDir(p.opts.PinDir)
	if err != nil {
		return nil, fmt.Errorf("list pins: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), guardPrefix) {
			names = append(names, e.Name())
		}
	}
	for len(names) >= guardPins {
		if err := os.Remove(filepath.Join(p.opts.PinDir, names[0])); err != nil {
			return nil, fmt.Errorf("remove the earlier guard of all links: %w", err)
		}
		names = names[1:]
	}
	return names, nil
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
	if err := p.attach(l, true, prog); err != nil {
		return fmt.Errorf("guard link %d: %w", l, err)
	}
	return nil
}

// dropDeadPins removes the pins of guards whose link is gone.
func (p *Plane) dropDeadPins() error {
	if !p.tcx {
		return nil
	}
	entries, err := os.ReadDir(p.opts.PinDir)
	if err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	var errs []error
	for _, e := range entries {
		var dev roam.LinkID
		if n, _ := fmt.Sscanf(e.Name(), linkPrefix+"%d_ingress", &dev); n != 1 {
			continue
		}
		if pin := p.linkPin(dev, true); e.Name() == filepath.Base(pin) && attachedTo(pin) == 0 {
			errs = append(errs, os.Remove(pin))
		}
	}
	return errors.Join(errs...)
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
