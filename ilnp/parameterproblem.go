package ilnp

import (
	"time"

	ilnpwire "roam/wire/ilnp"
)

// handleParameterProblem handles an ICMPv6 Parameter Problem. It proves that the peer has no
// ILNP only while the session is unconfirmed, and only if it quotes our nonce, which an
// off-path attacker does not know (RFC 6744 §6). If the session is dead, its peer no longer has
// ILNP: the session ends, and the next packet sets up another one, which falls back.
func (c *Core) handleParameterProblem(now time.Time, p ilnpwire.Packet) {
	m, err := ilnpwire.ParseError(p.Payload)
	key := SessionKey{p.Dst.NID, p.Src.NID}
	if err != nil || m.Code > ilnpwire.CodeUnknownOption || m.Code == 0 {
		c.refuse(now, key, reasonUnexpected)
		return
	}
	q, err := ilnpwire.ParseQuoted(m.Quoted)
	if err != nil {
		c.refuse(now, key, reasonQuote)
		return
	}
	for _, s := range c.between(q.Src.NID, q.Dst.NID) {
		if q.Nonce.Present() && q.Nonce == s.localNonce && p.Src == q.Dst {
			if s.state == Established && s.dead {
				c.endSession(now, s, "no ILNP there any more")
				return
			}
			c.nonceRefused(now, s)
			return
		}
	}
	c.refuse(now, SessionKey{q.Src.NID, q.Dst.NID}, reasonQuote)
}

// nonceRefused falls back to plain IPv6: the peer does not know the Nonce option.
func (c *Core) nonceRefused(now time.Time, s *session) {
	s.refused = s.state != Established
	c.fallBack(now, s, withoutILNP)
}
