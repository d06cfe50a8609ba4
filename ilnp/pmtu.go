package ilnp

import (
	"time"

	"roam"
)

// Some paths take less than their links do, and drop the Packet Too Big that
// would say so: a black hole, in which bulk transfers stand still while all else
// goes on. So the path in use is asked once whether it takes a full packet; if
// twice only the small ones came back, and nobody said Packet Too Big, our own
// stack is told in place of the router that did not (RFC 8201 §4).
const (
	sizeAsked  = 2               // full packets, and small ones beside them
	sizeAtOnce = 16              // sessions that ask at a time, once a second
	sizeAgain  = 5 * time.Minute // the stack forgets after ten (RFC 8201 §5.3)
	sizeActive = 2 * time.Second // only who sends is asked for
	leastMTU   = 1280            // of every path (RFC 8200 §5)
)

// sizeCheck is what is known of the size that the path in use takes.
type sizeCheck struct {
	path        Path
	asked       bool
	small, full bool      // what came back
	told        bool      // a router said Packet Too Big
	least       bool      // the path may take leastMTU, and no nonce besides
	narrow      time.Time // when our stack was told; zero: it was not
}

// TooBig tells our own stack, on behalf of the network, that packets of a
// session may have at most MTU bytes.
type TooBig struct {
	Key SessionKey
	MTU int
}

func (TooBig) output() {}

// SetLinkMTU notes how many bytes a packet on a link may have.
func (c *node) SetLinkMTU(link roam.LinkID, mtu int) { c.host.mtus[link] = mtu }

// HandleTooBig notes that a router said Packet Too Big about a session: the path
// is no black hole. mtu: what the packet may have on the wire.
func (c *steering) HandleTooBig(now time.Time, key SessionKey, mtu int) {
	s := c.sessionOf(key)
	if s == nil {
		return
	}
	s.size.told = true
	s.size.least = s.size.least || mtu < leastMTU+s.localNonce.HeaderLen()
	c.narrow(now, s)
}

// narrow has the data plane leave the nonce out of packets that fill a path of leastMTU. Our
// own stack sends no smaller ones on account of a path (RFC 8201 §4), so with the nonce none
// would arrive.
func (c *steering) narrow(now time.Time, s *session) {
	if s.size.least && s.entry.Seq != 0 && !s.entry.Narrow {
		c.upsert(now, s, s.entry.Paths)
	}
}

// checkSize asks for the size of the path in use, judges the answers a second
// later, and keeps our stack reminded. It returns whether it asked, which it does
// only if it may.
func (c *sender) checkSize(now time.Time, s *session, mayAsk bool) bool {
	if s.state != Established || !s.asks || !c.hasUDP(s) || len(s.entry.Paths) == 0 || now.Sub(s.lastTx) > sizeActive {
		return false
	}
	p, v := s.entry.Paths[0], &s.size
	if v.path != p {
		*v = sizeCheck{path: p}
	}
	switch r := s.remotes.find(p.Remote); {
	case !v.asked && !mayAsk:
		return false
	case !v.asked && r != nil && r.validated && c.host.mtus[p.Local.Link] > leastMTU:
		v.asked = true
		c.probes.forget(&s.sent, now.Add(-tokenLife))
		for range sizeAsked { // the small one last: on a path that keeps the order its answer is the later one
			c.sendProbe(now, c.ask(now, s), probe{path: p, form: FormFull, size: c.host.mtus[p.Local.Link], sizing: true})
			c.sendProbe(now, c.ask(now, s), probe{path: p, form: FormUDP, sizing: true})
		}
		return true
	case v.full, v.told, !v.small:
		return false
	case v.narrow.IsZero():
		c.notify(Event{Time: now, Kind: PathNarrowed, Key: s.key, Path: p, Size: c.host.mtus[p.Local.Link]})
	case now.Sub(v.narrow) < sizeAgain:
		return false
	}
	v.narrow, v.least = now, true
	c.emit(TooBig{Key: s.key, MTU: leastMTU})
	return false
}

// noteSize takes the answer to a probe that asked for the size, from whichever locator it came: a
// correspondent that spreads its packets spreads the long answers too. Only who received the probe
// knows its token.
func (s *session) noteSize(pr probe) {
	if pr.path == s.size.path {
		s.size.small = s.size.small || pr.form == FormUDP
		s.size.full = s.size.full || pr.form == FormFull
	}
}
