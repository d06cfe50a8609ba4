package ilnp

import "time"

// demand has a session end unless its peer proves its new key: who had the old one, and may have stolen it, has the
// session, and would keep the peer out of it.
func (c handshakes) demand(now time.Time, s *session) {
	if s.state != Established {
		return
	}
	if c.renew(now, s); s.hs != nil {
		s.hs.insists, s.hs.must = true, true
	}
}

// demands reports whether the session ends without an answer.
func (h *handshake) demands() bool { return h != nil && h.must }

// demandAgain repeats what demand has sent, and ends a session whose peer is there and has not proven its new key. As
// long as nobody is there, or no offer has left, it waits.
func (c handshakes) demandAgain(now time.Time, s *session) {
	h := s.hs
	if !h.offered.IsZero() && s.lastNonceRx.After(h.offered) {
		h.ignored, h.offered = h.ignored+1, time.Time{}
	}
	if h.ignored >= proofTries {
		c.endUnproven(now, s, reasonUnproven)
		return
	}
	c.offer(now, s)
}

// endUnproven ends a session whose peer has not shown that it has its key.
func (c handshakes) endUnproven(now time.Time, s *session, reason string) {
	c.refuse(now, s.key, reason)
	c.names.abandon(s)
	c.endSession(now, s, reason)
}
