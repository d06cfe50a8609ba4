package sbr

import (
	"bytes"
	"slices"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// A border speaks in a host's name only while the host is in the site: a correspondent without a
// key treats the host's nonce from a locator of the site as a move there. A host is there if a
// packet of the flow came from inside a moment ago, or if the host answers the border's own
// echo request.

const (
	// presence is how long a packet from inside, or an answer, shows that a host is there.
	presence = 250 * time.Millisecond
	// askEvery is the least time between two questions to one host.
	askEvery = 100 * time.Millisecond
	// fewHosts are kept whatever their age.
	fewHosts = 64
)

// host is a node inside that was asked, or answered.
type host struct {
	asked, heard time.Time
	waiting      map[FlowKey]bool // flows that wait for its answer
}

// HandleOwn takes the border's own address on each link to the inside, from which it asks hosts; zero: it has none
// there, and relies on the packets of flows.
func (c *Core) HandleOwn(own map[roam.LinkID]roam.ILV) { c.own = own }

// HandleSeen takes when the last packet of a flow came from inside: the answer to Look.
func (c *Core) HandleSeen(now time.Time, k FlowKey, at time.Time) {
	f := c.flows[k]
	if f == nil {
		return
	}
	if at.After(f.Sent) {
		f.Sent = at
	}
	if f.waits {
		c.considerUpdate(now, f)
	}
	if c.watch.candidate == f {
		c.considerProbes(now, f)
	}
}

// HandleSwept takes when the last packets of a flow came, from inside and from outside, as the data plane has it from
// time to time. An outside node that had acknowledged no repetition of an update, and sends packets again, is sent
// one more.
func (c *Core) HandleSwept(now time.Time, k FlowKey, sent, came time.Time) {
	c.HandleSeen(now, k, sent)
	f := c.flows[k]
	if f == nil || f.tries <= retries || now.Sub(f.tried) < firstRetry<<retries || !came.After(f.tried) {
		return
	}
	f.tries = retries
	c.repeat(now, f)
}

// look wants to know when the last packet of a flow came from inside.
func (c *Core) look(f *flow) { c.out = append(c.out, Look{f.FlowKey}) }

// node is the inside node of a flow.
func (f *flow) node() roam.ILV { return roam.ILV{L64: f.Internal, NID: f.Inside} }

// moves reports whether the outside node of a flow has other site locators, or other preferences of them, to learn once
// the inside node is at an internal locator.
func (c *Core) moves(f *flow, to roam.L64) bool {
	return f.Internal != to && !slices.Contains(f.listed, to) &&
		!slices.Equal(c.siteEntries(f.Internal, siteLifetime), c.siteEntries(to, siteLifetime))
}

// linkTo returns the link to the inside node of a flow: the one that its nonce came by or, once that is gone, one on
// which the border has an address of the same locator; 0: the host's routes know.
func (c *Core) linkTo(f *flow) roam.LinkID {
	if _, ok := c.own[f.Link]; ok {
		return f.Link
	}
	best := roam.LinkID(0)
	for l, own := range c.own {
		if own.L64 == f.Internal && (best == 0 || l < best) {
			best = l
		}
	}
	return best
}

// isPresent reports whether the inside node of a flow is in the site, as far as is known.
func (c *Core) isPresent(now time.Time, f *flow) bool {
	if now.Sub(f.Sent) <= presence {
		return true
	}
	h := c.hosts[f.node()]
	return h != nil && now.Sub(h.heard) <= presence
}

// considerUpdate sends the update of a flow that waits for one if its inside node is there, and
// asks that node otherwise. A node that does not answer is left alone until it sends a packet.
func (c *Core) considerUpdate(now time.Time, f *flow) {
	switch {
	case c.isPresent(now, f):
		f.waits, f.asks = false, 0
		c.update(now, f)
	case f.asks <= retries:
		c.askInside(now, f)
		c.arm(f, repeat, now, firstRetry<<f.asks)
		f.asks++
	case f.Sent.After(c.host(now, f).asked):
		f.asks = 0
		c.considerUpdate(now, f)
	}
}

// askInside sends the inside node of a flow an echo request of the border's own.
func (c *Core) askInside(now time.Time, f *flow) {
	h := c.host(now, f)
	h.waiting[f.FlowKey] = true
	link := c.linkTo(f)
	own := c.own[link]
	if own == (roam.ILV{}) || now.Sub(h.asked) < askEvery {
		return
	}
	h.asked = now
	c.asked++
	b, err := ilnp.BuildEcho(own, f.node(), ilnp.Nonce{}, true, c.probe.ID, c.asked, c.probe.data())
	if err == nil {
		c.out = append(c.out, Transmit{link, b})
	}
}

// host returns what is known of the inside node of a flow.
func (c *Core) host(now time.Time, f *flow) *host {
	h := c.hosts[f.node()]
	if h != nil {
		return h
	}
	if len(c.hosts) >= c.mostHosts {
		for k, h := range c.hosts {
			if now.Sub(h.heard) > presence && now.Sub(h.asked) > presence {
				delete(c.hosts, k)
			}
		}
		c.mostHosts = max(fewHosts, 2*len(c.hosts))
	}
	h = &host{waiting: make(map[FlowKey]bool)}
	c.hosts[f.node()] = h
	return h
}

// insideAnswered takes an inside node's answer to the border's question.
func (c *Core) insideAnswered(now time.Time, p Packet, m ilnp.Packet) {
	e, err := ilnp.ParseEcho(m.Payload)
	h := c.hosts[m.Src]
	if err != nil || h == nil || e.ID != c.probe.ID || !bytes.HasPrefix(e.Data, c.probe.Token[:]) {
		c.refuse(p, Malformed)
		return
	}
	h.heard = now
	waiting := h.waiting
	h.waiting = make(map[FlowKey]bool)
	for k := range waiting {
		c.HandleSeen(now, k, time.Time{})
	}
}
