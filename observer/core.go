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

// Checksum is what the kernel knows of a packet's checksum (ip_summed of its sk_buff), as
// it counts there.
type Checksum uint8

// The states of a checksum.
const (
	None        Checksum = iota // in: not verified; out: final
	Unnecessary                 // verified by the device, or by a host on the same machine
	Complete                    // the device summed the whole packet
	Partial                     // a device is to finish it
)

// Class are the packets that are counted together.
type Class struct {
	Link          roam.LinkID
	Egress        bool  // leaves by the link
	Next          uint8 // upper-layer protocol, behind extension headers
	Nonce         bool
	LocatorUpdate bool
	Unreadable    bool // headers that a host refuses; Next is that of the IPv6 header
	Checksum      Checksum
}

// Traffic is how many packets there were, and their bytes from the IPv6 header on.
type Traffic struct{ Packets, Bytes uint64 }

// Count is the traffic of a class since its link is observed, across restarts, and its rate.
type Count struct {
	Class
	Traffic
	PacketsPerSecond, BytesPerSecond float64 // between the last two readings
}

// Output is one thing to do: Read, Forget or Seen.
type Output interface{ output() }

type (
	// Read wants HandleReading with what the programs have counted.
	Read struct{}
	// Forget wants the counts of a link removed that is not there any more.
	Forget struct{ Link roam.LinkID }
	// Seen reports the first Locator Update on a link in one direction.
	Seen struct {
		At     time.Time
		Link   roam.LinkID
		Egress bool
	}
)

func (Read) output()   {}
func (Forget) output() {}
func (Seen) output()   {}

// side is one direction of a link.
type side struct {
	link   roam.LinkID
	egress bool
}

// Core decides what to do with the counts of the links of one host. It is not safe for
// concurrent use.
type Core struct {
	links   map[roam.LinkID]bool
	counts  map[Class]Count
	updated map[side]bool // has had a Locator Update
	read    time.Time     // of the last reading; zero: none yet
	due     time.Time     // of the next one
	out     []Output
}

// New makes a core, which reads at once: what an earlier process counted is no news.
func New(now time.Time) *Core {
	return &Core{
		links: make(map[roam.LinkID]bool), updated: make(map[side]bool),
		due: now.Add(Every), out: []Output{Read{}},
	}
}

// HandleLink reports that a link is observed, or that it is gone.
func (c *Core) HandleLink(link roam.LinkID, present bool) {
	if present {
		c.links[link] = true
		return
	}
	delete(c.links, link)
	maps.DeleteFunc(c.counts, func(k Class, _ Count) bool { return k.Link == link })
	maps.DeleteFunc(c.updated, func(s side, _ bool) bool { return s.link == link })
	c.out = append(c.out, Forget{Link: link})
}

// HandleReading takes all counts at one time.
func (c *Core) HandleReading(now time.Time, counts map[Class]Traffic) {
	first, span := c.read.IsZero(), now.Sub(c.read).Seconds()
	news := make(map[Class]Count, len(counts))
	for _, k := range sorted(counts) {
		if !first && !c.links[k.Link] {
			if f := (Forget{Link: k.Link}); !slices.Contains(c.out, Output(f)) {
				c.out = append(c.out, f)
			}
			continue
		}
		n := Count{Class: k, Traffic: counts[k]}
		if was := c.counts[k].Traffic; !first && span > 0 && n.Packets >= was.Packets && n.Bytes >= was.Bytes {
			n.PacketsPerSecond = float64(n.Packets-was.Packets) / span
			n.BytesPerSecond = float64(n.Bytes-was.Bytes) / span
		}
		news[k] = n
		if at := (side{k.Link, k.Egress}); k.LocatorUpdate && n.Packets > 0 && !c.updated[at] {
			c.updated[at] = true
			if !first {
				c.out = append(c.out, Seen{At: now, Link: k.Link, Egress: k.Egress})
			}
		}
	}
	c.counts, c.read = news, now
}

// HandleTimeout wants the next reading, if its time has come.
func (c *Core) HandleTimeout(now time.Time) {
	if now.Before(c.due) {
		return
	}
	c.due = now.Add(Every)
	c.out = append(c.out, Read{})
}

// Poll returns what to do next; false: nothing for now.
func (c *Core) Poll() (Output, bool) {
	if len(c.out) == 0 {
		return nil, false
	}
	o := c.out[0]
	c.out = c.out[1:]
	return o, true
}

// PollTimeout returns when HandleTimeout is to be called.
func (c *Core) PollTimeout() (time.Time, bool) { return c.due, true }

// Counts returns the last reading, links in order, the busiest class of each first.
func (c *Core) Counts() []Count {
	list := slices.Collect(maps.Values(c.counts))
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(b.Packets, a.Packets), compare(a.Class, b.Class))
	})
	return list
}

func sorted(counts map[Class]Traffic) []Class { return slices.SortedFunc(maps.Keys(counts), compare) }

// compare orders classes, so that the same counts give the same outputs.
func compare(a, b Class) int {
	number := func(k Class) (n int) {
		for _, f := range []bool{k.Egress, k.Nonce, k.LocatorUpdate, k.Unreadable} {
			n <<= 1
			if f {
				n++
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(number(a), number(b)), cmp.Compare(a.Next, b.Next),
		cmp.Compare(a.Checksum, b.Checksum))
}
