package ilnphost

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"roam/ilnp"
)

// changedSlots finds the sessions that have had packets, by their lines alone: one load of 8 bytes
// for each slot, in the order of memory, where the details of a session cost several
// look-ups. Programs write when a packet came or left before everything else that they note of it,
// in ticks. So what they note behind a reading, or again within one tick, is in the next one: a
// slot that has changed is read twice.
type changedSlots struct {
	keys  []ilnp.SessionKey // by slot; zero: no session
	seen  []uint64          // by slot: moments of the last packets out and in, as last read
	again []uint32          // changed at the last reading
}

// set notes whose slot it is.
func (c *changedSlots) set(slot uint32, k ilnp.SessionKey) {
	if more := int(slot) + 1 - len(c.keys); more > 0 {
		c.keys = append(c.keys, make([]ilnp.SessionKey, more)...)
		c.seen = append(c.seen, make([]uint64, more)...)
	}
	c.keys[slot] = k
}

// free notes that a slot has no session any more.
func (c *changedSlots) free(slot uint32) { c.keys[slot] = ilnp.SessionKey{} }

// take returns the slots whose sessions are to be read, each once.
func (c *changedSlots) take(t *lineTable) []uint32 {
	var changed []uint32
	for slot := range c.seen {
		now := atomic.LoadUint64((*uint64)(unsafe.Pointer(&t.lines[slot].LastTx)))
		if now != c.seen[slot] {
			c.seen[slot] = now
			changed = append(changed, uint32(slot))
		}
	}
	due := slices.Concat(changed, c.again)
	c.again = changed
	slices.Sort(due)
	return slices.DeleteFunc(slices.Compact(due), func(slot uint32) bool {
		return c.keys[slot] == ilnp.SessionKey{}
	})
}

// putBack has slots read again that could not be.
func (c *changedSlots) putBack(slots []uint32) { c.again = append(c.again, slots...) }
