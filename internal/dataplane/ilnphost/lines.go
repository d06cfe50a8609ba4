package ilnphost

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam/internal/dataplane"
	"roam/wire/xlate/decide"
)

// Where the parts of the words of a line are, as bpf/ilnp/types.h has them.
const (
	settledDelta = 16
	settledFirst = 32
	settledFlags = 48
	stateEdition = 16
	tallyPackets = 36
	tallyRated   = 1 << 63
	slow         = 1024
)

// Flags of sessions whose packets out, or in, need more than the line says.
const (
	unsettledOut = bpfEntryFlagsENTRY_INITIATED | bpfEntryFlagsENTRY_PLAIN | bpfEntryFlagsENTRY_DEAD |
		bpfEntryFlagsENTRY_NONCE_ALWAYS | bpfEntryFlagsENTRY_ENCAP | bpfEntryFlagsENTRY_PREINSTALLED |
		bpfEntryFlagsENTRY_RULED | bpfEntryFlagsENTRY_HELD
	unsettledIn = bpfEntryFlagsENTRY_INITIATED | bpfEntryFlagsENTRY_PLAIN | bpfEntryFlagsENTRY_DEAD |
		bpfEntryFlagsENTRY_RFC6741 | bpfEntryFlagsENTRY_BY_ALIAS
)

// lineTable is the map session_lives in this process's memory. This process writes the
// first half of a line, the programs the second.
type lineTable struct {
	memory []byte
	lines  []bpfSessionLive
}

func openLines(m *ebpf.Map) (*lineTable, error) {
	n := int(m.MaxEntries())
	size := n * int(unsafe.Sizeof(bpfSessionLive{}))
	memory, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map lines of sessions: %w", err)
	}
	return &lineTable{memory: memory, lines: unsafe.Slice((*bpfSessionLive)(unsafe.Pointer(&memory[0])), n)}, nil
}

func (t *lineTable) close() error {
	t.lines = nil
	return unix.Munmap(t.memory)
}

// word returns a half as a word that is read and written at once.
func (h *bpfHalf) word() *uint64 { return (*uint64)(unsafe.Pointer(h)) }

// shut has packets of the session in a slot take the full path.
func (t *lineTable) shut(slot uint32) { atomic.StoreUint64(&t.lines[slot].Settled, 0) }

// write makes a line that of an entry. A program that runs meanwhile sees by the last
// word that the others may change.
func (t *lineTable) write(row bpfSessionEntry) {
	if row.Flags&bpfEntryFlagsENTRY_HELD != 0 {
		t.prepare(row)
		return // it is shut, and programs count in it
	}
	t.shut(row.Slot)
	atomic.StoreUint64(&t.lines[row.Slot].Settled, t.prepare(row))
}

// prepare writes all of a line that is shut but its last word, which it returns.
func (t *lineTable) prepare(row bpfSessionEntry) uint64 {
	said, l := lineOf(row), &t.lines[row.Slot]
	atomic.StoreUint64(l.LocalNid.word(), *said.LocalNid.word())
	atomic.StoreUint64(l.RemoteNid.word(), *said.RemoteNid.word())
	atomic.StoreUint64(l.Remote.word(), *said.Remote.word())
	return said.Settled
}

// open writes the last word of a line of an entry with ENTRY_HELD, if so many packets have gone to the daemon since the
// entry was seen. It reports whether it has.
func (t *lineTable) open(slot uint32, packets int, word uint64) bool {
	return atomic.CompareAndSwapUint64(&t.lines[slot].Settled, uint64(packets), word)
}

// heldMost bounds how long packets of local programs go to the daemon, but for so many turns: this process may have
// waited for a processor all the time. One of the packets may not get there.
const (
	heldMost  = 5 * time.Millisecond
	heldTurns = 3
)

// endHeld has programs send by an entry with ENTRY_HELD once all that they have handed over has had its turn, as
// held counts it: then the line is that of the entry without the flag, and programs heed the line first. It reports
// whether that is all.
func (t *lineTable) endHeld(without bpfSessionEntry, held func() int) bool {
	word, n := t.prepare(without), 0
	began := time.Now()
	for turns := 0; turns < heldTurns || time.Since(began) < heldMost; turns++ {
		if n += held(); t.open(without.Slot, n, word) {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// isOf reports whether a line is that of an entry.
func (t *lineTable) isOf(row bpfSessionEntry) bool {
	said, l := lineOf(row), &t.lines[row.Slot]
	return l.LocalNid == said.LocalNid && l.RemoteNid == said.RemoteNid && l.Remote == said.Remote &&
		atomic.LoadUint64(&l.Settled) == said.Settled
}

// distinct returns the number of an entry such that no state counts for it that the
// programs have written for another entry in its slot.
func (t *lineTable) distinct(row bpfSessionEntry) uint32 {
	if state := atomic.LoadUint32(&t.lines[row.Slot].State); state != 0 && uint16(state>>stateEdition) == editionOf(row) {
		return row.Seq + 1
	}
	return row.Seq
}

// editionOf is edition_of of bpf/ilnp/live.h.
func editionOf(row bpfSessionEntry) uint16 { return uint16(row.Seq + row.Birth) }

// lineOf returns what a line says of an entry.
func lineOf(row bpfSessionEntry) bpfSessionLive {
	delta := uint64(binary.LittleEndian.Uint16(row.NidDelta[:])) // as it lies in memory
	return bpfSessionLive{
		LocalNid: row.LocalNid, RemoteNid: row.RemoteNid, Remote: row.Remote[int(row.First)%len(row.Remote)],
		Settled: uint64(editionOf(row)) | delta<<settledDelta | uint64(row.First)<<settledFirst |
			uint64(settledOf(row))<<settledFlags,
	}
}

// settledOf says which packets of a session need nothing but the line.
func settledOf(row bpfSessionEntry) bpfSettledFlags {
	f := bpfSettledFlagsSETTLED_WRITTEN
	for _, same := range []struct {
		entry bpfEntryFlags
		line  bpfSettledFlags
	}{
		{bpfEntryFlagsENTRY_RFC6741, bpfSettledFlagsSETTLED_RFC6741},
		{bpfEntryFlagsENTRY_REAL_SOCKETS, bpfSettledFlagsSETTLED_REAL_SOCKETS},
		{bpfEntryFlagsENTRY_BY_ALIAS, bpfSettledFlagsSETTLED_BY_ALIAS},
		{bpfEntryFlagsENTRY_NAMED, bpfSettledFlagsSETTLED_NAMED},
		{bpfEntryFlagsENTRY_PREINSTALLED, bpfSettledFlagsSETTLED_PREINSTALLED},
		{bpfEntryFlagsENTRY_COUNTED, bpfSettledFlagsSETTLED_COUNTED},
		{bpfEntryFlagsENTRY_ANSWERS, bpfSettledFlagsSETTLED_ANSWERS},
	} {
		if row.Flags&same.entry != 0 {
			f |= same.line
		}
	}
	if row.Flags&unsettledOut == 0 && row.Unvalidated == 0 {
		switch {
		case row.N_paths > 1:
			f |= bpfSettledFlagsSETTLED_OUT_PATHS
		case row.N_paths == 1 && row.Flags&bpfEntryFlagsENTRY_PLAIN_FLOWS != 0:
			f |= bpfSettledFlagsSETTLED_OUT_UDP
		case row.N_paths == 1:
			f |= bpfSettledFlagsSETTLED_OUT_UDP | bpfSettledFlagsSETTLED_OUT_TCP
		}
	}
	if row.Flags&unsettledIn != 0 {
		return f
	}
	f |= bpfSettledFlagsSETTLED_IN
	first := int(row.First) % len(row.Remote)
	if row.Remote[first] != (bpfHalf{}) && first < int(row.N_remote) && row.Unvalidated>>first&1 == 0 {
		f |= bpfSettledFlagsSETTLED_IN_FIRST
	}
	return f
}

// seen is what the programs have noted of a session.
type seen struct {
	bpfSessionDetails
	lastTx, lastRx uint32 // ticks
}

// live returns what was noted in a slot. The totals come first: what a program moves there
// meanwhile is missing, and counted the next time.
func (p *Plane) live(slot uint32) (s seen, err error) {
	if p.details == nil {
		if p.details, err = p.objs.SessionDetails.Memory(); err != nil {
			return s, err
		}
	}
	d := &s.bpfSessionDetails
	const size = int(unsafe.Sizeof(*d))
	if _, err = p.details.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(d)), size), int64(slot)*int64(size)); err != nil {
		return s, err
	}
	l := &p.lines.lines[slot]
	s.lastTx, s.lastRx = atomic.LoadUint32(&l.LastTx), atomic.LoadUint32(&l.LastRx)
	tx, rx := atomic.LoadUint64(&l.Tx)&^tallyRated, atomic.LoadUint64(&l.Rx)
	d.TxPackets, d.TxBytes = d.TxPackets+tx>>tallyPackets, d.TxBytes+tx&(1<<tallyPackets-1)
	d.RxPackets, d.RxBytes = d.RxPackets+rx>>tallyPackets, d.RxBytes+rx&(1<<tallyPackets-1)
	return s, nil
}

// momentOf returns the time of a tick of the programs, whose clock is now; zero: never.
func momentOf(tick uint32, now uint64) time.Time { return dataplane.Instant(decide.TimeOf(tick, now)) }
