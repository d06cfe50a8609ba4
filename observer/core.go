// Package observer is the core of a host that counts what its links carry, and changes
// nothing: packets and bytes by upper-layer protocol, Nonce option (RFC 6744 §2), Locator
// Update (RFC 6743) and state of the checksum, in both directions. The programs in
// bpf/observer count; a Core decides when to read them, makes rates of two readings, and
// reports the first Locator Update of each link and direction.
//
// Its methods are those of any core: Handle... report what happened, Poll returns what
// to do, PollTimeout and HandleTimeout its time.
//
// Omitted: addresses and ports; Locator Updates in UDP, which are counted as UDP; whether
// a checksum is valid. It is driven by internal/role/observer and by tests in sim.
package observer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"roam"
)

// Every is the time between two readings.
const Every = time.Second

// Flags are what a class of packets has in common, as bpf/observer/types.h numbers them.
type Flags uint8

// The flags.
const (
	Egress        Flags = 1 << iota // leaves by the link
	Nonce                           // has a Nonce option
	LocatorUpdate                   // is one, or its acknowledgement
	Unreadable                      // has headers that a host refuses; Next is that of the IPv6 header
)

// Class are the packets that are counted together. Link 0: those of all classes for which
// there was no space, on any link.
type Class struct {
	Link  roam.LinkID
	Flags Flags
	// Next is the upper-layer protocol, behind extension headers; Checksum is what the
	// kernel knows of the checksum: ip_summed of its sk_buff.
	Next, Checksum uint8
}

// Traffic is how many packets there were, and their bytes from the IPv6 header on.
type Traffic struct{ Packets, Bytes uint64 }

// Count is the traffic of a class since its link is observed, across restarts, and its
// rate between the last two readings.
type Count struct {
	Class
	Traffic
	PacketsPerSecond float64
}

// Output is one thing to do: Read or Seen.
type Output interface{ output() }

// Read wants HandleReading with what the programs have counted.
type Read struct{}

// Seen reports the first Locator Update of a class: on a link, in one direction.
type Seen struct {
	At    time.Time
	Class Class
}

func (Read) output() {}
func (Seen) output() {}

// Core decides what to do with the counts of one host. It is not safe for concurrent use.
type Core struct {
	counts map[Class]Count
	list   []Count   // the same in order
	read   time.Time // of the last reading; zero: none yet
	due    time.Time // of the next one
	out    []Output
}

// New makes a core, which reads at once: what an earlier process counted is no news.
func New(now time.Time) *Core { return &Core{due: now.Add(Every), out: []Output{Read{}}} }

// HandleReading takes all counts of one time.
func (c *Core) HandleReading(now time.Time, counts map[Class]Traffic) {
	next, list := make(map[Class]Count, len(counts)), make([]Count, 0, len(counts))
	span, begun := now.Sub(c.read).Seconds(), !c.read.IsZero()
	for _, k := range slices.SortedFunc(maps.Keys(counts), compare) {
		n, was := Count{Class: k, Traffic: counts[k]}, c.counts[k]
		if begun && span > 0 && n.Packets >= was.Packets {
			n.PacketsPerSecond = float64(n.Packets-was.Packets) / span
		}
		if begun && k.Flags&LocatorUpdate != 0 && n.Packets > 0 && was.Packets == 0 {
			c.out = append(c.out, Seen{At: now, Class: k})
		}
		next[k], list = n, append(list, n)
	}
	c.counts, c.list, c.read = next, list, now
}

// HandleTimeout wants the next reading, if its time has come.
func (c *Core) HandleTimeout(now time.Time) {
	if !now.Before(c.due) {
		c.due, c.out = now.Add(Every), append(c.out, Read{})
	}
}

// Poll returns what to do next; false: nothing for now.
func (c *Core) Poll() (o Output, ok bool) {
	if len(c.out) > 0 {
		o, c.out, ok = c.out[0], c.out[1:], true
	}
	return o, ok
}

// PollTimeout returns when HandleTimeout is to be called.
func (c *Core) PollTimeout() (time.Time, bool) { return c.due, true }

// Counts returns the last reading, by link and flags.
func (c *Core) Counts() []Count { return c.list }

// compare orders classes, so that the same counts always give the same outputs.
func compare(a, b Class) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.Flags, b.Flags),
		cmp.Compare(a.Next, b.Next), cmp.Compare(a.Checksum, b.Checksum))
}
