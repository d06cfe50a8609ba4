package ilnphost

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// An entry of the index, as index.h has it: bits of the hash, the place in
// pairs plus one, the slot in session_lives.
const (
	indexTag    = 42
	indexEntry  = 21
	indexSecond = 20
	indexSlot   = 1<<indexEntry - 1
)

// errIndexFull is wrapped when a session finds no entry in the index although there
// are slots: hundreds with one hash, which chance does not bring about.
var errIndexFull = errors.New("index of sessions has no space for these identifiers")

// buckets returns how many the index of so many sessions has: a power of two,
// at most half of the entries in use. 64 are a page, the least that can be
// mapped.
func buckets(sessions int) uint32 {
	return uint32(max(1<<bits.Len(uint(sessions-1)/4), 64))
}

// index is the map session_index in this process's memory: the programs see an
// entry as it was before a store or as it is after.
type index struct {
	memory  []byte
	buckets []bpfBucket
	key     [2]uint64
}

// openIndex maps the index of a plane.
func openIndex(m *ebpf.Map, key [2]uint64) (*index, error) {
	n := int(m.MaxEntries())
	memory, err := unix.Mmap(m.FD(), 0, n*int(unsafe.Sizeof(bpfBucket{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map index of sessions: %w", err)
	}
	return &index{memory: memory, buckets: unsafe.Slice((*bpfBucket)(unsafe.Pointer(&memory[0])), n), key: key}, nil
}

func (x *index) close() error {
	x.buckets = nil
	return unix.Munmap(x.memory)
}

// hash is index_hash of index.h.
func (x *index) hash(k bpfSessionKey) uint64 {
	product := func(h bpfHalf, key uint64) uint64 {
		v := *(*uint64)(unsafe.Pointer(&h)) // as it lies in memory
		return uint64(uint32(v)+uint32(key)) * uint64(uint32(v>>32)+uint32(key>>32))
	}
	v := product(k.Local, x.key[0]) + product(k.Remote, x.key[1])
	v = (v ^ v>>32) * 0xd6e8feb86659fd93
	return v ^ v>>32
}

// both returns the two buckets that a session may be in, the first one
// preferred: most searches end there.
func (x *index) both(hash uint64) [2]*bpfBucket {
	mask := uint64(len(x.buckets) - 1)
	return [2]*bpfBucket{&x.buckets[hash&mask], &x.buckets[hash>>indexSecond&mask]}
}

func entryOf(hash uint64, place, slot uint32) uint64 {
	return hash>>indexTag<<indexTag | uint64(place+1)<<indexEntry | uint64(slot)
}

func placeOf(entry uint64) uint32 { return uint32(entry>>indexEntry&indexSlot) - 1 }

// find returns the entry of the session in a slot of session_lives; nil: none.
func (x *index) find(hash uint64, slot uint32) *uint64 {
	for _, b := range x.both(hash) {
		for i, e := range b.Entry {
			if e != 0 && e>>indexTag == hash>>indexTag && uint32(e&indexSlot) == slot {
				return &b.Entry[i]
			}
		}
	}
	return nil
}

// room returns the first free entry of a bucket for a session with this hash, as the programs
// search the first half of a bucket first; nil if there is none, or if they could not tell it
// from another one's.
func room(b *bpfBucket, hash uint64) (free *uint64) {
	for i, e := range b.Entry {
		switch {
		case e == 0 && free != nil:
		case e == 0:
			free = &b.Entry[i]
		case e>>indexTag == hash>>indexTag:
			return nil
		}
	}
	return free
}

// free returns an entry for a new session, from where another one is moved to
// its other bucket if need be: aliasesOf reads whose entry one is, and wait
// returns when no program is under way that began before it was called.
func (x *index) free(hash uint64, aliasesOf func(place uint32) (bpfSessionKey, error), wait func() error) (*uint64, error) {
	both := x.both(hash)
	for _, b := range both {
		if e := room(b, hash); e != nil {
			return e, nil
		}
	}
	for _, b := range both {
		for i, entry := range b.Entry {
			if entry == 0 {
				continue
			}
			k, err := aliasesOf(placeOf(entry))
			if err != nil {
				return nil, err
			}
			if x.hash(k)>>indexTag != entry>>indexTag {
				continue // by its session's NIDs, besides its aliases
			}
			other := x.both(x.hash(k))
			to := other[0]
			if to == b {
				to = other[1]
			}
			e := room(to, x.hash(k))
			if e == nil || to == b {
				continue
			}
			// A program that has searched the one bucket before and gets to the
			// other one after would find it in neither.
			atomic.StoreUint64(e, entry)
			if err := wait(); err != nil {
				atomic.StoreUint64(e, 0)
				return nil, err
			}
			atomic.StoreUint64(&b.Entry[i], 0)
			if e = room(b, hash); e != nil {
				return e, nil
			}
		}
	}
	return nil, errIndexFull
}
