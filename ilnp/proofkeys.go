package ilnp

import (
	"time"

	"roam/nidkey"
)

// An operation with a key takes some 50 us, and first packets wait meanwhile. So those that need nothing of the peer's
// message are done before it comes: a key for the next proof is drawn after this one, and an initiator computes a
// secret while the answer is under way.

// spareAfter is when the next key is drawn: what follows a proof comes first.
const spareAfter = 100 * time.Millisecond

// ephemeral returns a key for one proof, and has the next one drawn later.
func (c handshakes) ephemeral(now time.Time) (k nidkey.Ready, ok bool) {
	if k = c.prover.spare; k == (nidkey.Ready{}) {
		k, ok = c.drawKey(now)
	} else {
		c.prover.spare, ok = nidkey.Ready{}, true
	}
	c.arm(&c.host.schedule, timerSpare, now, spareAfter)
	return k, ok
}

// drawSpare draws the key for the next proof.
func (c handshakes) drawSpare(now time.Time) {
	if c.cache.proving && c.prover.spare == (nidkey.Ready{}) {
		c.prover.spare, _ = c.drawKey(now)
	}
}

func (c handshakes) drawKey(now time.Time) (nidkey.Ready, bool) {
	var random [nidkey.KeyLen]byte
	if !c.draw(now, random[:]) {
		return nidkey.Ready{}, false
	}
	k, err := nidkey.ReadyEphemeral(random)
	return k, err == nil
}

// shareAhead computes what an offer and its answer have in common with the peer's key, which does not depend on the
// answer.
func (c handshakes) shareAhead(s *session) {
	if k := c.known[s.remoteNID]; s.hs != nil && k != nil {
		_ = s.hs.share(k.public) // it fails again when the answer comes
	}
}

// share computes the secret of our ephemeral key and the peer's key, unless it is there.
func (h *handshake) share(peer nidkey.Public) (err error) {
	if h.esWith != peer || !h.es.Present() {
		h.esWith = peer
		h.es, err = h.ephemeral.Shared(peer)
	}
	return err
}
