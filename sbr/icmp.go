package sbr

import (
	"encoding/binary"
	"fmt"
	"slices"

	"roam"
	"roam/wire/ilnp"
	"roam/wire/ip6"
)

// RewriteError returns an ICMPv6 error with the locator at one end replaced, and in the
// packet that it quotes the one at the other end: a packet from inside is quoted with its
// source, one from outside with its destination. The quoted checksum changes as Rewrite
// would have changed it, so that it is that of the packet which its sender sent.
func RewriteError(packet []byte, at End, to roam.L64, rule Rule) ([]byte, error) {
	c, err := ip6.Walk(packet)
	if err != nil {
		return nil, err
	}
	if c.Upper != ip6.ICMPv6 || !c.Whole() {
		return nil, fmt.Errorf("rewrite error: no whole icmpv6 message: %w", ip6.ErrMalformed)
	}
	b := append([]byte(nil), packet[:c.End]...)
	m, err := ilnp.ParseError(b[c.UpperOffset:])
	if err != nil {
		return nil, err
	}
	quotedAt := Destination
	if at == Destination {
		quotedAt = Source
	}
	if err := rewriteQuoted(m.Quoted, quotedAt, to, rule); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint64(b[at:], uint64(to))
	if err := ip6.FinishL4(b); err != nil {
		return nil, err
	}
	return b, nil
}

// rewriteQuoted rewrites a quoted packet in place; it may be cut off.
func rewriteQuoted(b []byte, at End, to roam.L64, rule Rule) error {
	c, err := ip6.WalkQuoted(b)
	if err != nil {
		return fmt.Errorf("quoted packet: %w", err)
	}
	from := roam.L64(binary.BigEndian.Uint64(b[at:]))
	binary.BigEndian.PutUint64(b[at:], uint64(to))
	off, _, ok := ip6.ChecksumOffset(c.Upper)
	if ok && !c.Later() && c.UpperOffset+off+2 <= len(b) && (rule == RuleIPv6 || c.Upper == ip6.ICMPv6) {
		adjust(b[c.UpperOffset+off:], c.Upper, from, to)
	}
	return nil
}

// handleError passes an ICMPv6 error on: one about a packet that left the site to the
// inside node, one about a packet that came in to the outside node.
func (c *Core) handleError(p Packet, m ilnp.Packet) {
	e, err := ilnp.ParseError(m.Payload)
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	q, err := ilnp.ParseQuoted(e.Quoted)
	if err != nil || q.Proto == ip6.ICMPv6 && q.Type != 0 && q.Type < ilnp.TypeEchoRequest {
		c.refuse(p, Malformed) // no errors about errors (RFC 4443 §2.4)
		return
	}
	to, hairpin := c.table.Behind[m.Dst.L64]
	switch {
	case p.Inside && hairpin:
		c.errorBack(p, m, q, to)
	case p.Inside:
		c.errorOut(p, m, q)
	default:
		c.errorIn(p, m, q)
	}
}

// errorBack delivers an error about a packet between two inside nodes, whose sender had named the destination by a
// site locator: the data plane then replaced the locators at both ends, so both are put back. to is the internal
// locator behind the site locator.
func (c *Core) errorBack(p Packet, m, q ilnp.Packet, to roam.L64) {
	if _, inside := c.table.Inside[q.Dst.L64]; !inside || q.Src != m.Dst {
		c.refuse(p, UnknownLocators)
		return
	}
	b, err := RewriteError(p.Bytes, Source, m.Dst.L64, RuleIPv6)
	if err == nil {
		b, err = RewriteError(b, Destination, to, RuleIPv6)
	}
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	c.out = append(c.out, Transmit{Routed, b})
}

// HandleFallback takes what the data plane does with packets of no flow, and whether it translates those that
// have the bit of the flow label all the same.
func (c *Core) HandleFallback(f Fallback, flowLabel bool) { c.fallback, c.marked = f, flowLabel }

// labelBit is the highest bit of the flow label.
const labelBit = 1 << 19

// isPlain reports whether an error m is about a packet q that the data plane did not translate: it is of no flow,
// and nothing in it, or in m, says that it is of a session.
func (c *Core) isPlain(m, q ilnp.Packet, k FlowKey) bool {
	inUDP := c.port != 0 && q.Proto == ip6.UDP && !q.Later && len(q.Payload) >= ip6.UDPHeaderLen &&
		binary.BigEndian.Uint16(q.Payload[ip6.DstPortAt:]) == c.port
	return c.fallback != Translate && c.flows[k] == nil && !m.Nonce.Present() && !q.Nonce.Present() && !inUDP &&
		!(c.marked && q.FlowLabel&labelBit != 0)
}

// passPlain treats an error about a packet that was not translated as the data plane treats such packets. It leaves
// by a link, or Routed.
func (c *Core) passPlain(p Packet, link roam.LinkID) {
	if c.fallback == Drop {
		c.refuse(p, NoFlow)
		return
	}
	c.out = append(c.out, Transmit{link, p.Bytes})
}

// HandleTooBig answers a packet from inside that does not fit into the link of its site
// locator. own is the border's address; the packet quoted is the sender's own.
func (c *Core) HandleTooBig(p Packet, mtu uint32, own roam.ILV) {
	h, err := ip6.Parse(p.Bytes)
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	m := ilnp.ErrorMessage{Type: ilnp.TypePacketTooBig, Param: mtu, Quoted: p.Bytes}
	b, err := ilnp.BuildError(own, roam.ILVFromAddr(h.Src), ilnp.Nonce{}, m)
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	c.out = append(c.out, Transmit{p.Link, b})
}

// HandleOwnError takes an error of the border itself to an outside node, about a packet that
// came in and had its internal locator by then.
func (c *Core) HandleOwnError(p Packet) {
	m, err := ilnp.ParsePacket(p.Bytes)
	if err != nil || m.Proto != ip6.ICMPv6 || m.Fragmented {
		c.refuse(p, Malformed)
		return
	}
	e, err := ilnp.ParseError(m.Payload)
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	q, err := ilnp.ParseQuoted(e.Quoted)
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	from, rule, ok := c.cameTo(p, q)
	if !ok {
		c.refuse(p, NoLink)
		return
	}
	b, err := rewriteQuotedAlone(p.Bytes, from, rule)
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	c.out = append(c.out, Transmit{p.Link, b})
}

// cameTo returns the site locator to which a packet that was rewritten on its way in most likely
// came, and the checksum rule of its flow: the locator to which the flow's latest packet came, or
// the most preferred one that is up.
func (c *Core) cameTo(p Packet, q ilnp.Packet) (from roam.L64, rule Rule, ok bool) {
	live := c.table.Inside[q.Dst.L64].locators()
	if len(live) == 0 {
		return 0, RuleIPv6, false
	}
	if f := c.flows[FlowKey{q.Dst.NID, q.Src.NID}]; f != nil {
		rule = f.Rule
	}
	if slices.Contains(live, p.Came) {
		return p.Came, rule, true
	}
	return live[0], rule, true
}

// rewriteQuotedAlone replaces the destination of the quoted packet, and nothing in front.
func rewriteQuotedAlone(packet []byte, to roam.L64, rule Rule) ([]byte, error) {
	c, err := ip6.Walk(packet)
	if err != nil {
		return nil, err
	}
	b := append([]byte(nil), packet[:c.End]...)
	m, err := ilnp.ParseError(b[c.UpperOffset:])
	if err != nil {
		return nil, err
	}
	if err := rewriteQuoted(m.Quoted, Destination, to, rule); err != nil {
		return nil, err
	}
	return b, ip6.FinishL4(b)
}

// errorIn delivers an error about a packet that left the site.
func (c *Core) errorIn(p Packet, m, q ilnp.Packet) {
	to, known := c.table.Behind[q.Src.L64]
	link, rule, key := Routed, RuleIPv6, FlowKey{q.Src.NID, q.Dst.NID}
	if f := c.flows[key]; f != nil {
		to, link, rule = f.Internal, c.linkTo(f), f.Rule
	}
	if !known {
		c.refuse(p, UnknownLocators)
		return
	}
	if c.isPlain(m, q, key) {
		c.passPlain(p, Routed)
		return
	}
	b, err := RewriteError(p.Bytes, Destination, to, rule)
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	c.out = append(c.out, Transmit{link, b})
}

// errorOut sends an error of an inside node about a packet that came in, from the locator to which
// that came. One that came to a host with a provider's address, untranslated, is answered by that provider's link.
func (c *Core) errorOut(p Packet, m, q ilnp.Packet) {
	link, toSite := c.table.Link(q.Dst.L64)
	if c.isPlain(m, q, FlowKey{q.Dst.NID, q.Src.NID}) && (c.fallback == Drop || toSite && link != Routed) {
		c.passPlain(p, link)
		return
	}
	from, rule, ok := c.cameTo(p, q)
	if !ok {
		c.refuse(p, NoLink)
		return
	}
	b, err := RewriteError(p.Bytes, Source, from, rule)
	if err != nil {
		c.refuse(p, Malformed)
		return
	}
	link, _ = c.table.Link(from)
	c.out = append(c.out, Transmit{link, b})
}
