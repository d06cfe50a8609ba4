// Package border is the data plane of a site border router: its programs (bpf/sbr) on the
// links to the inside and to providers, the tables that they rewrite locators by, and what
// they hand over. internal/dataplane loads, pins and attaches them. docs/maps.md describes
// each map. Driven by internal/role/border.
package border

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"roam"
	"roam/internal/dataplane"
	"roam/sbr"
	"roam/wire/ilnp"
)

// Name is that of the set of programs and maps.
const Name = "border"

// Fallback is what happens to a packet of no flow.
type Fallback uint8

// The fallbacks, in the order of enum fallback.
const (
	Translate Fallback = iota // to and from the most preferred locator
	Forward                   // as it is
	Drop
)

// Settings are what an operator chooses beside the policy.
type Settings struct {
	Fallback   Fallback
	TCPPackets bool   // TCP is divided by packets, not by connections
	ProbeID    uint16 // of the border's own echo requests; 0: none
	FlowLabel  bool   // packets whose flow label has its highest bit are of a session
	Direct     bool   // packets that come in need not pass the stack, see Plane.ForwardsUnseen
}

// Hop is how packets leave a link.
type Hop struct {
	MTU     uint32
	MACs    [12]byte   // of the next hop, then of the link; zero: the kernel looks them up
	NextHop netip.Addr // invalid: the kernel looks it up
}

// Share is what passed one site locator.
type Share struct{ TxPackets, TxBytes, RxPackets, RxBytes uint64 }

// Plane is the loaded data plane. Its methods may be called from one goroutine.
type Plane struct {
	*dataplane.Set
	objs bpfObjects
	ring *dataplane.Ring

	closing chan struct{} // ends what Follow has begun
}

// Open loads the programs and opens their maps, those that an earlier process pinned where
// they fit. Options.Name is set here; port is that of control messages in UDP, 0 for none.
// There is space for maxFlows flows. Close is called also if it fails.
func Open(opts dataplane.Options, port uint16, maxFlows int) (p *Plane, err error) {
	p, opts.Name = &Plane{}, Name
	read := func() (*ebpf.CollectionSpec, error) { return spec(port, maxFlows) }
	p.Set, err = dataplane.OpenSet(opts, read, uint32(bpfAbiNumberABI), &p.objs)
	return p, err
}

// spec returns maps and programs with their constants.
func spec(port uint16, maxFlows int) (*ebpf.CollectionSpec, error) {
	spec, err := loadBpf()
	if err != nil {
		return nil, err
	}
	sets := setCount(maxFlows)
	spec.Maps[bpfMapFlows].MaxEntries = uint32(maxFlows)
	spec.Maps[bpfMapFlowSets].MaxEntries, spec.Maps[bpfMapNonceSets].MaxEntries = sets, sets
	return spec, errors.Join(spec.Variables["set_count"].Set(sets),
		spec.Variables["max_flows"].Set(uint32(maxFlows)),
		spec.Variables["loads_in_order"].Set(runtime.GOARCH == "amd64"),
		spec.Variables["csum_flags"].Set(dataplane.ChecksumFlags()),
		spec.Variables["encap_port"].Set(port<<8|port>>8)) // the bytes as on the wire
}

// AttachInside puts the programs on a link to the inside.
func (p *Plane) AttachInside(dev roam.LinkID) error {
	return p.AttachBoth(dev, p.objs.SbrInsideIngress, p.objs.SbrInsideEgress)
}

// AttachUplink puts the programs on a link to a provider.
func (p *Plane) AttachUplink(dev roam.LinkID) error {
	return p.AttachBoth(dev, p.objs.SbrUplinkIngress, p.objs.SbrUplinkEgress)
}

// Configure writes the settings. The programs use hardware addresses until that time.
func (p *Plane) Configure(s Settings, until time.Time) error {
	return p.change(func(b *bpfBorder) {
		b.Fallback, b.MacsUntil, b.TcpPackets = bpfFallback(s.Fallback), dataplane.Monotonic(until), 0
		b.ProbeId = s.ProbeID<<8 | s.ProbeID>>8 // the bytes as on the wire
		if b.Direct = 0; s.Direct {
			b.Direct = 1
		}
		if s.TCPPackets {
			b.TcpPackets = 1
		}
		if b.FlowLabel = 0; s.FlowLabel {
			b.FlowLabel = 1
		}
	})
}

// change changes a part of the settings; the others stay, also those of an earlier process.
func (p *Plane) change(what func(*bpfBorder)) error {
	var b bpfBorder
	err := p.objs.Borders.Lookup(uint32(0), &b)
	if err == nil {
		what(&b)
		err = p.objs.Borders.Put(uint32(0), b)
	}
	if err != nil {
		return fmt.Errorf("write settings of the border: %w", err)
	}
	return nil
}

// bitOf is the number of the bit that stands for a locator or NID.
func bitOf(h bpfHalf) uint64 {
	const odd = 0x9e37_79b9_7f4a_7c15
	return binary.NativeEndian.Uint64(h.B[:]) * odd >> 58
}

// Install writes a table. What was announced by the indices that have a bit in renamed is removed from all flows
// first: they name other site locators now.
func (p *Plane) Install(t sbr.Table, renamed uint16, hops map[roam.LinkID]Hop) error {
	if renamed != 0 {
		a := bpfAnnouncement{What: bpfAnnouncingWITHDRAWN_FROM_ALL, Value: uint32(renamed)}
		if err := p.announce(a); err != nil {
			return err
		}
	}
	wanted := make(map[bpfHalf]bpfLocator)
	var siteHints, groupHints [64]uint8
	groups := make(map[uint32]bpfLocator)
	for i, s := range t.Sites {
		if s.L64 == 0 {
			continue // cleared below
		}
		if err := p.objs.Sites.Put(uint32(i), siteEntry(s, t.Behind[s.L64], hops[s.Link])); err != nil {
			return fmt.Errorf("write site locator %v: %w", s.L64, err)
		}
		wanted[half(s.L64)] = bpfLocator{Kind: bpfLocatorKindLOCATOR_SITE, Site: [8]uint8{uint8(i)}}
		siteHints[bitOf(half(s.L64))] = uint8(i) + 1
	}
	for _, l := range slices.Sorted(maps.Keys(t.Inside)) { // in order, so that an entry changes with the policy only
		wanted[half(l)] = groupEntry(t, t.Inside[l])
		index := uint32(len(groups))
		groups[index] = hintedGroup(l, wanted[half(l)])
		groupHints[bitOf(half(l))] = uint8(index) + 1
	}
	bits := uint64(0)
	for key := range wanted {
		bits |= 1 << bitOf(key)
	}
	// A locator without its bit would not be found. While groups change, no hint names them.
	err := p.change(func(b *bpfBorder) {
		b.LocatorBits |= bits
		b.GroupHint = [64]uint8{}
	})
	for key, value := range wanted {
		if err == nil {
			err = p.objs.Locators.Put(key, value)
		}
	}
	for index, value := range groups {
		if err == nil {
			err = p.objs.Groups.Put(index, value)
		}
	}
	if err != nil {
		return fmt.Errorf("write locators: %w", err)
	}
	return errors.Join(removeOthers(p.objs.Locators, wanted), p.change(func(b *bpfBorder) {
		b.LocatorBits, b.SiteHint, b.GroupHint = bits, siteHints, groupHints
	}), p.freeSites(t))
}

// freeSites clears the places of sites that no locator has, once no entry names them: the next process reads from
// sites which are free.
func (p *Plane) freeSites(t sbr.Table) error {
	for i := range p.objs.Sites.MaxEntries() {
		if int(i) < len(t.Sites) && t.Sites[i].L64 != 0 {
			continue
		}
		if err := p.objs.Sites.Put(i, bpfSite{}); err != nil {
			return fmt.Errorf("clear a site locator: %w", err)
		}
	}
	return nil
}

// siteEntry is what the programs know of a site locator.
func siteEntry(s sbr.Site, behind roam.L64, hop Hop) bpfSite {
	e := bpfSite{L64: half(s.L64), Behind: half(behind), Ifindex: uint32(s.Link), Mtu: hop.MTU, Macs: hop.MACs}
	if s.Up {
		e.Flags |= bpfSiteFlagsSITE_UP
	}
	if hop.MACs != [12]byte{} {
		e.Flags |= bpfSiteFlagsSITE_MACS
	}
	if hop.NextHop.Is6() {
		e.Flags |= bpfSiteFlagsSITE_NEXT_HOP
		e.NextHop = hop.NextHop.As16()
	}
	return e
}

// groupEntry is what the programs know of an internal locator. Its generation follows from
// its members, so that a process that starts anew does not disturb their shares.
func groupEntry(t sbr.Table, g sbr.Group) bpfLocator {
	e := bpfLocator{Kind: bpfLocatorKindLOCATOR_INTERNAL, N: uint8(len(g.Members)), Label: uint8(g.Label)}
	if g.Advice == sbr.AdviceVLB {
		e.Spread = 1
	}
	hash := fnv.New32a()
	for i, m := range g.Members {
		for at, s := range t.Sites {
			if s.L64 == m.L64 {
				e.Site[i] = uint8(at)
			}
		}
		e.Sites |= 1 << e.Site[i]
		e.Weight[i] = m.Weight
		e.Total += m.Weight
		hash.Write(binary.BigEndian.AppendUint32([]byte{e.Site[i]}, m.Weight)) // never fails
	}
	e.Generation = hash.Sum32()
	return e
}

// hintedGroup is an internal locator's entry where a hint names it.
func hintedGroup(l roam.L64, e bpfLocator) bpfLocator {
	e.L64 = half(l)
	return e
}

// SetOwn writes the addresses of the border itself; packets to them are no site's.
func (p *Plane) SetOwn(list []roam.ILV) error {
	wanted := make(map[bpfAddr]uint8)
	bits := uint64(0)
	for _, a := range list {
		bits |= 1 << bitOf(halfNID(a.NID))
	}
	// An address without the bit of its NID would not be found.
	if err := p.change(func(b *bpfBorder) { b.OwnBits |= bits }); err != nil {
		return err
	}
	for _, a := range list {
		key := bpfAddr{L64: half(a.L64), Nid: halfNID(a.NID)}
		if wanted[key] = 1; p.objs.OwnAddresses.Put(key, uint8(1)) != nil {
			return fmt.Errorf("write own address %v: no space", a)
		}
	}
	return errors.Join(removeOthers(p.objs.OwnAddresses, wanted), p.change(func(b *bpfBorder) { b.OwnBits = bits }))
}

// Announce writes from which site locators, by their index in the table, the packets of a
// flow may come.
func (p *Plane) Announce(k sbr.FlowKey, t sbr.Table, list []roam.L64) error {
	a := bpfAnnouncement{Flow: keyOf(k)}
	for i, s := range t.Sites {
		for _, l := range list {
			if l == s.L64 {
				a.Value |= 1 << i
			}
		}
	}
	return p.announce(a)
}

// Seal writes whether the Locator Updates of a flow have MACs: the next daemon has to know.
func (p *Plane) Seal(k sbr.FlowKey, sealed bool) error {
	a := bpfAnnouncement{Flow: keyOf(k), What: bpfAnnouncingSEALED}
	if sealed {
		a.Value = 1
	}
	return p.announce(a)
}

// Renew writes the nonces of a flow of which one node has lost its state. Nothing is announced to it, and its updates
// have no MACs, until Announce and Seal.
func (p *Plane) Renew(k sbr.FlowKey, inward, outward ilnp.Nonce) error {
	a := bpfAnnouncement{Flow: keyOf(k), What: bpfAnnouncingRENEWED}
	a.Inward.Len, a.Inward.B = inward.Len, inward.Bytes
	a.Outward.Len, a.Outward.B = outward.Len, outward.Bytes
	for range lockTries {
		done, err := p.objs.SbrAnnounce.Run(&ebpf.RunOptions{Context: &a})
		if err != nil {
			return fmt.Errorf("write nonces of a flow: %w", err)
		}
		if int32(done) >= 0 {
			return nil
		}
	}
	return errors.New("write nonces of a flow: its set stays locked")
}

// Indices returns the site locators by their index, as an earlier process has written them; 0: the index is free.
func (p *Plane) Indices() ([]roam.L64, error) {
	list := make([]roam.L64, p.objs.Sites.MaxEntries())
	for i := range list {
		var s bpfSite
		if err := p.objs.Sites.Lookup(uint32(i), &s); err != nil {
			return nil, fmt.Errorf("read site locators: %w", err)
		}
		list[i] = locator(s.L64)
	}
	return list, nil
}

// announce writes what is announced into a flow, or all. A program does so: this process would
// overwrite what other programs write into the flow meanwhile.
func (p *Plane) announce(a bpfAnnouncement) error {
	if _, err := p.objs.SbrAnnounce.Run(&ebpf.RunOptions{Context: &a}); err != nil {
		return fmt.Errorf("write announced locators: %w", err)
	}
	return nil
}

// Shares returns what passed each site locator of a table, in its order.
func (p *Plane) Shares(t sbr.Table) ([]Share, error) {
	list := make([]Share, len(t.Sites))
	for i := range list {
		var perCPU []bpfShare
		if err := p.objs.Shares.Lookup(uint32(i), &perCPU); err != nil {
			return nil, fmt.Errorf("read shares: %w", err)
		}
		for _, s := range perCPU {
			list[i].TxPackets += s.TxPackets
			list[i].TxBytes += s.TxBytes
			list[i].RxPackets += s.RxPackets
			list[i].RxBytes += s.RxBytes
		}
	}
	return list, nil
}

// Close lets go of the plane; what is pinned and attached stays.
func (p *Plane) Close() error {
	var err error
	if p.closing != nil {
		close(p.closing)
		p.closing = nil
	}
	if p.ring != nil {
		err = p.ring.Close()
	}
	return errors.Join(err, p.objs.Close())
}
