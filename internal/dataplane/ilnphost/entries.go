package ilnphost

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// adoptEntries opens the index and reads the sessions that an earlier process left
// there. What that one did not finish is put right: an entry that names a place
// without its session, and the second one of a session that was being moved.
func (p *Plane) adoptEntries() error {
	key, err := p.indexKey()
	if err != nil {
		return err
	}
	if p.index, err = openIndex(p.objs.SessionIndex, key); err != nil {
		return err
	}
	if p.lines, err = openLines(p.objs.SessionLives); err != nil {
		return err
	}
	if p.pause, err = newPause(); err != nil {
		return err
	}
	if p.rows, err = p.objs.Sessions.Memory(); err != nil {
		return fmt.Errorf("map table of sessions: %w", err)
	}
	slots := int(p.objs.SessionLives.MaxEntries())
	p.places.limit, p.places.enough, p.places.wait = p.objs.Sessions.MaxEntries(), sparePlaces(slots)/2, p.pause.wait
	p.slots.limit, p.slots.enough, p.slots.wait = uint32(slots), sparePlaces(slots)/2, p.pause.wait
	usedSlots, usedPlaces := make(map[uint32]bool), make(map[uint32]bool)
	for i := range p.index.buckets {
		b := &p.index.buckets[i]
		for j, entry := range b.Entry {
			if entry == 0 {
				continue
			}
			var row bpfSessionEntry
			if place := placeOf(entry); place < p.places.limit {
				if row, err = p.rowAt(place); err != nil {
					return err
				}
			}
			if row.Flags&bpfEntryFlagsENTRY_NAMED != 0 && p.leads(b, entry, row, nidsOf(row)) {
				continue
			}
			if !p.leads(b, entry, row, row.Alias) || usedSlots[row.Slot] {
				atomic.StoreUint64(&b.Entry[j], 0)
				continue
			}
			p.known[row.Alias.key()] = row
			p.changed.set(row.Slot, row.Alias.key())
			if !p.lines.isOf(row) {
				p.lines.write(row)
			}
			usedSlots[row.Slot], usedPlaces[placeOf(entry)] = true, true
		}
	}
	p.slots.without(usedSlots)
	p.places.without(usedPlaces)
	if len(p.known) == 0 {
		return nil
	}
	return p.pause.wait() // for what that process had just taken out of use
}

// leads reports whether an entry of a bucket is that of a session under an alias.
func (p *Plane) leads(b *bpfBucket, entry uint64, row bpfSessionEntry, alias bpfSessionKey) bool {
	hash := p.index.hash(alias)
	both := p.index.both(hash)
	return entry == entryOf(hash, placeOf(entry), row.Slot) && (both[0] == b || both[1] == b)
}

// nidsOf returns the NIDs of a session on the wire.
func nidsOf(row bpfSessionEntry) bpfSessionKey {
	return bpfSessionKey{Local: row.LocalNid, Remote: row.RemoteNid}
}

// indexKey returns the key of the index, which is drawn once: it has to last as
// long as the maps.
func (p *Plane) indexKey() ([2]uint64, error) {
	var h bpfHost
	if err := p.objs.Hosts.Lookup(uint32(0), &h); err != nil {
		return h.IndexKey, fmt.Errorf("read host map: %w", err)
	}
	if h.IndexKey != [2]uint64{} {
		return h.IndexKey, nil
	}
	h.IndexKey = [2]uint64{random64(), random64()}
	if err := p.objs.Hosts.Put(uint32(0), &h); err != nil {
		return h.IndexKey, fmt.Errorf("write host map: %w", err)
	}
	return h.IndexKey, nil
}

// publish writes a session where no program looks, and then has the index name
// that place, by one store: programs see the session as it was or as it is.
func (p *Plane) publish(row bpfSessionEntry, before func()) error {
	place, err := p.places.take()
	if err != nil {
		return err
	}
	hash := p.index.hash(row.Alias)
	_, err = p.rows.WriteAt(nbytes(&row), int64(place)*rowSize)
	entry := p.index.find(hash, row.Slot)
	if err == nil && entry == nil {
		entry, err = p.index.free(hash, p.aliasesAt, p.pause.wait)
	}
	if err != nil {
		p.places.free = append(p.places.free, place)
		return err
	}
	old := *entry
	if before != nil {
		before()
	}
	p.lines.shut(row.Slot) // an entry and the line of another one are never taken for one
	atomic.StoreUint64(entry, entryOf(hash, place, row.Slot))
	err = p.publishName(row, place)
	p.lines.write(row)
	if old != 0 {
		p.places.leave(placeOf(old))
	}
	return err
}

// publishName has the index name a place by the NIDs of its session too, or not any
// more.
func (p *Plane) publishName(row bpfSessionEntry, place uint32) error {
	if !byAlias(row) {
		return nil
	}
	hash := p.index.hash(nidsOf(row))
	entry := p.index.find(hash, row.Slot)
	if row.Flags&bpfEntryFlagsENTRY_NAMED == 0 {
		if entry != nil {
			atomic.StoreUint64(entry, 0)
		}
		return nil
	}
	if entry == nil {
		var err error
		if entry, err = p.index.free(hash, p.aliasesAt, p.pause.wait); err != nil {
			return err
		}
	}
	atomic.StoreUint64(entry, entryOf(hash, place, row.Slot))
	return nil
}

// publishFlags writes the flags of a session where it stands: they are one word, so
// programs see either. It reports whether it could. hasLine: its line is written already.
func (p *Plane) publishFlags(row bpfSessionEntry, hasLine bool) bool {
	entry := p.index.find(p.index.hash(row.Alias), row.Slot)
	if entry == nil {
		return false
	}
	if !hasLine {
		p.lines.shut(row.Slot)
	}
	flags := nbytes(&row)[:unsafe.Sizeof(row.Flags)] // the first field
	if _, err := p.rows.WriteAt(flags, int64(placeOf(*entry))*rowSize); err != nil {
		return false // packets take the full path until the entry is written anew
	}
	if !hasLine {
		p.lines.write(row)
	}
	return true
}

// withdraw takes a session out of the index.
func (p *Plane) withdraw(row bpfSessionEntry) {
	entry := p.index.find(p.index.hash(row.Alias), row.Slot)
	if entry == nil {
		return
	}
	old := *entry
	atomic.StoreUint64(entry, 0)
	p.lines.shut(row.Slot)
	if byAlias(row) {
		if name := p.index.find(p.index.hash(nidsOf(row)), row.Slot); name != nil {
			atomic.StoreUint64(name, 0)
		}
	}
	p.places.leave(placeOf(old))
}

// aliasesAt reads whose session is in a place.
func (p *Plane) aliasesAt(place uint32) (bpfSessionKey, error) {
	row, err := p.rowAt(place)
	return row.Alias, err
}

const rowSize = int64(unsafe.Sizeof(bpfSessionEntry{}))

// nbytes returns a row as it lies in memory, which is how the programs see it.
func nbytes(row *bpfSessionEntry) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(row)), rowSize) }

// rowAt reads what is in a place.
func (p *Plane) rowAt(place uint32) (row bpfSessionEntry, err error) {
	if _, err = p.rows.ReadAt(nbytes(&row), int64(place)*rowSize); err != nil {
		return row, fmt.Errorf("read session map: %w", err)
	}
	return row, nil
}

// closeEntries lets go of the index. A wait for programs ends first.
func (p *Plane) closeEntries() error {
	var errs []error
	errs = append(errs, p.places.collect(true), p.slots.collect(true))
	if p.pause != nil {
		errs = append(errs, p.pause.close())
	}
	if p.index != nil {
		errs = append(errs, p.index.close())
	}
	if p.lines != nil {
		errs = append(errs, p.lines.close())
	}
	return errors.Join(append(errs, p.marks.close())...)
}
