package ilnphost

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam"
	"roam/internal/dataplane"
)

// HostSettings are what the data plane knows of this host as a whole.
type HostSettings struct {
	SessionPrefix roam.L64
	NIDs          []roam.NID // at most 4
	AcceptAny     bool
	ProbeID       uint16
	NonceLength   uint8 // of answers to correspondents without a session: 4 or 12
	// RealNID says that the NIDs are those of addresses that the host has anyhow:
	// plain IPv6 uses them too, also towards correspondents.
	RealNID bool
	// Segmentation is the near end of an entry of interfaces that cuts GSO packets, and
	// SegmentationPeer the far end, which is given to AttachSegmentation. 0: there is none.
	Segmentation, SegmentationPeer roam.LinkID
	// Device is the session device: on other links the outbound program lets ordinary
	// packets pass.
	Device roam.LinkID
}

// SetHost writes the settings. The keys of the nonces of pending peers are drawn
// once and kept over restarts.
func (p *Plane) SetHost(s HostSettings) error {
	return p.changeHost(func(h *bpfHost) error {
		if len(s.NIDs) > len(h.Nids) {
			return fmt.Errorf("%d node identifiers, at most %d", len(s.NIDs), len(h.Nids))
		}
		if h.Secret == [4]uint64{} {
			for i := range h.Secret {
				h.Secret[i] = random64()
			}
		}
		h.SessionPrefix = half(uint64(s.SessionPrefix))
		h.Nids = [4]bpfHalf{}
		for i, n := range s.NIDs {
			h.Nids[i] = half(uint64(n))
		}
		h.Flags &= bpfHostFlagsHOST_NID_COLLISIONS | bpfHostFlagsHOST_OBSTRUCTED
		if s.AcceptAny {
			h.Flags |= bpfHostFlagsHOST_ACCEPT_ANY
		}
		if s.RealNID {
			h.Flags |= bpfHostFlagsHOST_REAL_NIDS
		}
		h.ProbeId = hostToNet16(s.ProbeID)
		h.NonceLen = s.NonceLength
		h.Segdev, h.SegdevEnd, h.Device = uint32(s.Segmentation), uint32(s.SegmentationPeer), uint32(s.Device)
		p.realNID = s.RealNID
		return nil
	})
}

// changeHost writes the settings anew, unless change returns an error or changes nothing.
func (p *Plane) changeHost(change func(*bpfHost) error) error {
	var was bpfHost
	if err := p.objs.Hosts.Lookup(uint32(0), &was); err != nil {
		return fmt.Errorf("read host map: %w", err)
	}
	now := was
	if err := change(&now); err != nil || now == was {
		return err
	}
	if err := p.objs.Hosts.Put(uint32(0), &now); err != nil {
		return fmt.Errorf("write host map: %w", err)
	}
	return nil
}

// SetServerAddrs tells which addresses of this host servers may be bound to: a
// connection of a session that nobody takes at the session address is offered
// to them in this order. More than 8 are refused, the first ones are kept.
func (p *Plane) SetServerAddrs(addrs []netip.Addr) error {
	const most = len(bpfHost{}.Reals)
	err := p.changeHost(func(h *bpfHost) error {
		h.Reals = [most]bpfAddr{}
		for i, a := range addrs[:min(len(addrs), most)] {
			at := roam.ILVFromAddr(a)
			h.Reals[i] = bpfAddr{L64: half(uint64(at.L64)), Nid: half(uint64(at.NID))}
		}
		return nil
	})
	if err == nil && len(addrs) > most {
		err = fmt.Errorf("%d addresses of this host, at most %d: servers that are bound to %s do not get sessions",
			len(addrs), most, addrs[most])
	}
	return err
}

// RotateSecret draws a new key for the nonces of pending peers to come. Those made
// under the key before last get another nonce, as if their peer were new.
func (p *Plane) RotateSecret() error {
	return p.changeHost(func(h *bpfHost) error {
		h.Epoch ^= 1
		h.Secret[2*h.Epoch], h.Secret[2*h.Epoch+1] = random64(), random64()
		return nil
	})
}

// Record is what the data plane knows of a correspondent that people or the DNS made
// known: it may open sessions, and where its NID is.
type Record struct {
	NID      roam.NID
	Locators []roam.L64
	Anywhere bool // its name is its wherever it is validated
}

// SetRecord makes a correspondent known, or replaces what is known of it. The error
// wraps ErrFull when there is no room for another one: as many are known as there may
// be sessions.
func (p *Plane) SetRecord(r Record) error {
	key, value := half(uint64(r.NID)), uint8(knownAtPlaces)
	if r.Anywhere {
		value = knownAnywhere
	}
	// Its places first: what it sends from there meanwhile need not wait.
	if err := p.setPlaces(r.NID, r.Locators); err != nil {
		return err
	}
	err := p.objs.KnownNids.Put(&key, value)
	if errors.Is(err, unix.E2BIG) {
		err = ErrFull
	}
	if err != nil {
		return fmt.Errorf("note known correspondent %s, who cannot open sessions now: %w", r.NID, err)
	}
	return nil
}

// KNOWN_AT_PLACES and KNOWN_ANYWHERE of types.h.
const (
	knownAtPlaces = 1
	knownAnywhere = 2
)

// setPlaces makes the locators of a record those that are listed for it. Where there
// is no room for one, what comes from there waits until its sender is validated.
func (p *Plane) setPlaces(nid roam.NID, locators []roam.L64) error {
	for _, l := range p.placed[nid] {
		key := bpfAddr{L64: half(uint64(l)), Nid: half(uint64(nid))}
		if slices.Contains(locators, l) {
			continue
		}
		if err := p.objs.Places.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget locator of a record: %w", err)
		}
	}
	delete(p.placed, nid)
	for _, l := range locators {
		key := bpfAddr{L64: half(uint64(l)), Nid: half(uint64(nid))}
		err := p.objs.Places.Put(&key, uint8(1))
		if errors.Is(err, unix.E2BIG) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("note locator of a record: %w", err)
		}
		p.placed[nid] = append(p.placed[nid], l)
	}
	return nil
}

// adoptPlaces reads the records of an earlier process.
func (p *Plane) adoptPlaces() error {
	var key bpfAddr
	var val uint8
	it := p.objs.Places.Iterate()
	for it.Next(&key, &val) {
		at := key.ilv()
		p.placed[at.NID] = append(p.placed[at.NID], at.L64)
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("read map of records: %w", err)
	}
	return nil
}

// Forget makes a correspondent unknown, so that it may not open sessions any more.
func (p *Plane) Forget(nid roam.NID) error {
	key := half(uint64(nid))
	if err := p.setPlaces(nid, nil); err != nil {
		return err
	}
	if err := p.objs.KnownNids.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget known correspondent: %w", err)
	}
	return nil
}

// SyncRecords makes these correspondents the ones that are known, and no others: those
// that an earlier process has left are forgotten first. Where there is no room for all,
// the last ones are left out and the error wraps ErrFull.
func (p *Plane) SyncRecords(records []Record) error {
	wanted := make(map[bpfHalf]bool, len(records))
	for _, r := range records {
		wanted[half(uint64(r.NID))] = true
	}
	var (
		key   bpfHalf
		value uint8
		old   []roam.NID
	)
	for nid := range p.placed {
		if !wanted[half(uint64(nid))] {
			old = append(old, nid)
		}
	}
	entries := p.objs.KnownNids.Iterate()
	for entries.Next(&key, &value) {
		if !wanted[key] {
			old = append(old, roam.NID(key.uint64())) // deleted later: a walk over a table that changes may miss some
		}
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("list known correspondents: %w", err)
	}
	for _, nid := range old {
		if err := p.Forget(nid); err != nil {
			return err
		}
	}
	var full error
	for _, r := range records {
		if err := p.SetRecord(r); errors.Is(err, ErrFull) {
			full = cmp.Or(full, err)
		} else if err != nil {
			return err
		}
	}
	return full
}

// UplinkEntry is one local locator and how to send from it.
type UplinkEntry struct {
	Local    roam.LinkLocator
	Usable   bool
	Physical bool // may sum segments itself, which it does by the rule of IPv6
	MTU      int
	NextHop  netip.Addr // only while the neighbour is known valid; else invalid
	// MAC and NextHopMAC are the source and destination of frames to NextHop, on a
	// link whose frames have an Ethernet header; else nil.
	MAC, NextHopMAC net.HardwareAddr
	// KnownAt is an instant since which the kernel has had these addresses, as far as it
	// has said so; zero: none. Neighbour discovery that contradicts them later ends
	// their use.
	KnownAt time.Time
}

// framed reports whether the programs may write the Ethernet header.
func (e UplinkEntry) framed() bool {
	return e.NextHop.Is6() && !e.KnownAt.IsZero() && len(e.MAC) == macLen && len(e.NextHopMAC) == macLen
}

const macLen = 6

// uplinkTable gives each local locator an index that is not used for another
// one as long as there is choice.
type uplinkTable struct {
	index map[roam.LinkLocator]uint8
	owner [16]roam.LinkLocator
	used  [16]uint64 // when last in use, as a count; 0: never
	clock uint64
}

func (t *uplinkTable) indexOf(l roam.LinkLocator) (uint8, bool) {
	i, ok := t.index[l]
	return i, ok
}

// assign returns the index of l, a new one if it has none: one never used, or
// else the one unused for the longest; false if all are in use.
func (t *uplinkTable) assign(l roam.LinkLocator, inUse map[roam.LinkLocator]bool) (uint8, bool) {
	t.clock++
	if i, ok := t.index[l]; ok {
		t.used[i] = t.clock
		return i, true
	}
	best := -1
	for i := range t.owner {
		if t.used[i] != 0 && inUse[t.owner[i]] {
			continue
		}
		if best < 0 || t.used[i] < t.used[best] {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	if t.index == nil {
		t.index = make(map[roam.LinkLocator]uint8)
	}
	delete(t.index, t.owner[best])
	t.owner[best], t.used[best] = l, t.clock
	t.index[l] = uint8(best)
	return uint8(best), true
}

// SetUplinks writes the whole table: locators that are not listed become
// unusable. More than 16 at once are refused, the first ones are kept.
func (p *Plane) SetUplinks(entries []UplinkEntry) error {
	inUse := make(map[roam.LinkLocator]bool, len(entries))
	for _, e := range entries {
		inUse[e.Local] = true
	}
	var rows [16]bpfUplink
	var err error
	for _, e := range entries {
		i, ok := p.uplinks.assign(e.Local, inUse)
		if !ok {
			err = fmt.Errorf("more than %d local locators: %s is not used", len(rows), e.Local.L64.Prefix())
			continue
		}
		rows[i] = uplinkRow(e)
	}
	for i := range rows {
		if e := p.objs.Uplinks.Put(uint32(i), &rows[i]); e != nil {
			return fmt.Errorf("write uplink map: %w", e)
		}
	}
	return err
}

func uplinkRow(e UplinkEntry) bpfUplink {
	r := bpfUplink{
		L64:     half(uint64(e.Local.L64)),
		Ifindex: uint32(e.Local.Link),
		Mtu:     uint32(e.MTU),
		NextHop: nextHop(e.NextHop),
	}
	if e.Usable {
		r.Flags |= bpfUplinkFlagsUPLINK_USABLE
	}
	if e.Physical {
		r.Flags |= bpfUplinkFlagsUPLINK_PHYSICAL
	}
	if e.NextHop.Is6() {
		r.Flags |= bpfUplinkFlagsUPLINK_NEXT_HOP
	}
	if e.framed() {
		r.Flags |= bpfUplinkFlagsUPLINK_MACS
		copy(r.Macs[:macLen], e.NextHopMAC)
		copy(r.Macs[macLen:], e.MAC)
		r.KnownAt = dataplane.Monotonic(e.KnownAt)
	}
	return r
}

func random64() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return binary.NativeEndian.Uint64(b[:])
}

func hostToNet16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
