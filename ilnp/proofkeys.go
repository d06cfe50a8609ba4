package ilnp

import (
	"time"

	"roam/nidkey"
)

// An operation with a key takes some 50 us, and first packets wait meanwhile. So those that need nothing of the peer's
// message are done before it comes: after a proof, keys for the next one are drawn, one of them for a proof with the
// same peer. Its secret with the peer's key is es of an initiator and se of a responder.

// spareAfter is when the next key is drawn: what follows a proof comes first.
const spareAfter = 100 * time.Millisecond

// ephemeral is a key for one proof.
type ephemeral struct {
	nidkey.Ready
	secret nidkey.Secret // with the key of the peer that follows, once it was computed
	with   nidkey.Public
}

// share returns the secret of this key and the peer's key, which it computes unless it is there.
func (e *ephemeral) share(peer nidkey.Public) (s nidkey.Secret, err error) {
	if e.with != peer || !e.secret.Present() {
		e.with = peer
		e.secret, err = e.Shared(peer)
	}
	return e.secret, err
}

// ephemeral returns a key for one proof with a peer, and has the next ones drawn later.
func (c handshakes) ephemeral(now time.Time, k *correspondent) (e ephemeral, ok bool) {
	for _, spare := range []*ephemeral{&k.spare, &c.prover.spare} {
		if !ok && *spare != (ephemeral{}) {
			e, *spare, ok = *spare, ephemeral{}, true
		}
	}
	if !ok {
		e, ok = c.drawKey(now)
	}
	if !k.wantsSpare {
		k.wantsSpare, c.prover.wanted = true, append(c.prover.wanted, k.nid)
	}
	if !c.host.schedule.Armed(timerSpare) { // proofs that follow each other sooner must not put it off for ever
		c.arm(&c.host.schedule, timerSpare, now, spareAfter)
	}
	return e, ok
}

// drawSpare draws the key for the next proof with any peer, or else the one for the next with a certain peer. More are
// drawn later: packets of sessions may wait.
func (c handshakes) drawSpare(now time.Time) {
	if !c.cache.proving {
		return
	}
	if c.prover.spare == (ephemeral{}) {
		c.prover.spare, _ = c.drawKey(now)
	} else if list := c.prover.wanted; len(list) > 0 {
		c.prover.wanted = list[1:]
		if k := c.known[list[0]]; k != nil {
			c.drawSpareFor(now, k)
		}
	}
	if len(c.prover.wanted) > 0 {
		c.arm(&c.host.schedule, timerSpare, now, spareAfter)
	}
}

func (c handshakes) drawSpareFor(now time.Time, k *correspondent) {
	k.wantsSpare = false
	if k.spare != (ephemeral{}) || !c.proves(k.nid) || k.retired {
		return
	}
	if e, ok := c.drawKey(now); ok {
		_, _ = e.share(k.public) // it fails again when it is needed
		k.spare = e
	}
}

func (c handshakes) drawKey(now time.Time) (ephemeral, bool) {
	var random [nidkey.KeyLen]byte
	if !c.draw(now, random[:]) {
		return ephemeral{}, false
	}
	k, err := nidkey.ReadyEphemeral(random)
	return ephemeral{Ready: k}, err == nil
}

// shareAhead computes what an offer and its answer have in common with the peer's key, which does not depend on the
// answer.
func (c handshakes) shareAhead(s *session) {
	if k := c.known[s.remoteNID]; s.hs != nil && k != nil {
		_, _ = s.hs.ephemeral.share(k.public) // it fails again when the answer comes
	}
}
