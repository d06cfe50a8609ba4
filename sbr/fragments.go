package sbr

import (
	"net/netip"
	"time"

	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// Bounds of the messages that wait for fragments. The longest Locator Update, of 255 locators,
// has four fragments of 1,280 bytes.
const (
	mostIncomplete  = 32 // from each side,
	mostUnvalidated = 16 // of them without the nonce of a flow, which anybody can send,
	mostOfFlow      = 4  // and of one flow
	mostFragments   = 8
	fragmentLife    = 5 * time.Second
	minMTU          = 1280 // of IPv6: fragments of that size pass every link
)

// fragmented names a message that arrives in fragments.
type fragmented struct {
	src, dst netip.Addr
	id       uint32
	inside   bool
}

// incomplete is a message with fragments missing.
type incomplete struct {
	packets []Packet // that have come
	until   time.Time
	owner
}

// owner is the flow whose nonce a message in fragments has.
type owner struct {
	flow      FlowKey
	validated bool // else it has none of a flow
}

// join returns a packet as it is, or the whole one of which it is the last fragment. Nothing is
// kept beyond the bounds; what they exclude is refused.
func (c *Core) join(now time.Time, p Packet) (whole Packet, ok bool) {
	chain, err := ip6.Walk(p.Bytes)
	if err != nil {
		c.refuse(p, Malformed)
		return p, false
	}
	id, isFragment := chain.FragmentID(p.Bytes)
	if !isFragment {
		return p, true
	}
	c.forgetFragments(now)
	key := fragmented{chain.Header.Src, chain.Header.Dst, id, p.Inside}
	m := c.incomplete[key]
	if m == nil {
		of := c.ownerOf(p)
		if !c.incomplete.hasSpace(p.Inside, of) {
			c.refuse(p, Incomplete)
			return p, false
		}
		m = &incomplete{until: now.Add(fragmentLife), owner: of}
		c.incomplete[key] = m
	}
	m.packets = append(m.packets, p)
	list := make([][]byte, len(m.packets))
	for i, p := range m.packets {
		list[i] = p.Bytes
	}
	b, ok, err := ip6.Join(list)
	switch {
	case err != nil:
		delete(c.incomplete, key)
		c.refuse(p, Malformed)
		return p, false
	case !ok && len(list) >= mostFragments:
		delete(c.incomplete, key)
		c.refuse(p, Incomplete)
		return p, false
	case !ok:
		return p, false
	}
	delete(c.incomplete, key)
	p.Bytes, p.pieces = b, pieces{true, id}
	return p, true
}

// ownerOf finds the flow of a fragment by its nonce.
func (c *Core) ownerOf(p Packet) (of owner) {
	m, err := ilnp.ParsePacket(p.Bytes)
	if err != nil || !m.Nonce.Present() {
		return of
	}
	if of.flow = (FlowKey{m.Src.NID, m.Dst.NID}); !p.Inside {
		of.flow = FlowKey{m.Dst.NID, m.Src.NID}
	}
	if f := c.flows[of.flow]; f != nil {
		of.validated = p.Inside && m.Nonce == f.Outward || !p.Inside && m.Nonce == f.Inward
	}
	return of
}

// incompletes are those of both sides.
type incompletes map[fragmented]*incomplete

// hasSpace reports whether one more message from a side may wait for fragments.
func (list incompletes) hasSpace(inside bool, of owner) bool {
	all, unvalidated, same := 0, 0, 0
	for k, m := range list {
		switch {
		case k.inside != inside:
			continue
		case !m.validated:
			unvalidated++
		case m.flow == of.flow:
			same++
		}
		all++
	}
	if of.validated {
		return all < mostIncomplete && same < mostOfFlow
	}
	return all < mostIncomplete && unvalidated < mostUnvalidated
}

// forgetFragments refuses the messages whose fragments have not come in time.
func (c *Core) forgetFragments(now time.Time) {
	for k, m := range c.incomplete {
		if !now.Before(m.until) {
			delete(c.incomplete, k)
			c.refuse(m.packets[0], Incomplete)
		}
	}
}

// due returns when forgetFragments has something to do next; false: never.
func (list incompletes) due() (due time.Time, ok bool) {
	for _, m := range list {
		if !ok || m.until.Before(due) {
			due, ok = m.until, true
		}
	}
	return due, ok
}

// transmitAs sends what became of a packet. In fragments goes what came in fragments.
func (c *Core) transmitAs(p Packet, t Transmit) {
	parts := [][]byte{t.Packet}
	if p.fragmented {
		var err error
		if parts, err = ip6.Split(t.Packet, minMTU, p.id); err != nil {
			c.refuse(p, Malformed)
			return
		}
	}
	for _, b := range parts {
		c.out = append(c.out, Transmit{t.Link, b})
	}
}
