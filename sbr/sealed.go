package sbr

import (
	"slices"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// internalOf returns the internal locators of a body.
func (p Policy) internalOf(list []ilnp.LocatorEntry) (internal []roam.L64) {
	for _, e := range list {
		if _, is := p.Inside(e.L64); is && !slices.Contains(internal, e.L64) {
			internal = append(internal, e.L64)
		}
	}
	return internal
}

// sealOut decides about an update or acknowledgement from inside with a MAC. Its body is covered
// by the MAC, so only its addresses change: an update passes if its sender lists no internal
// locator. The flow's own node announces the site's locators from then on, and the border none.
// deny: it does not pass.
func (c *Core) sealOut(f *flow, own bool, u ilnp.LocatorUpdate) (why Refusal, deny bool) {
	if own {
		c.seal(f)
	}
	if u.Operation == ilnp.Advertisement && len(c.policy.internalOf(u.Locators)) > 0 {
		return SealedInternal, true
	}
	return 0, false
}

// seal notes that the updates of a flow have MACs.
func (c *Core) seal(f *flow) {
	if !f.Sealed {
		f.Sealed = true
		c.out = append(c.out, Sealed{f.FlowKey, true})
	}
}

// sealIn takes an acknowledgement with a MAC from outside, which passes as it is. What it
// acknowledges, the outside node knows.
func (c *Core) sealIn(now time.Time, f *flow, u ilnp.LocatorUpdate) {
	renewed := false
	if u.Operation == ilnp.Acknowledgement {
		_, renewed = c.accepted(now, f, true, u)
	}
	c.seal(f)
	if u.Operation != ilnp.Acknowledgement || renewed {
		return
	}
	if n := len(f.sent); n == 0 || !f.sent[n-1].is(u) {
		return // an older body, or none that passed
	}
	f.sent = nil
	c.knows(f, u)
}

// build makes the packet of a message with its addresses changed, and with the option that it came
// with: a MAC, a proof, a vouch or none.
func build(src, dst roam.ILV, m ilnp.Packet, u ilnp.LocatorUpdate) ([]byte, error) {
	switch {
	case m.Seal != nil:
		return ilnp.BuildSealed(src, dst, m.Nonce, u, *m.Seal)
	case m.Proof != nil:
		return ilnp.BuildProof(src, dst, m.Nonce, u, *m.Proof)
	case m.Vouch != nil:
		return ilnp.BuildVouch(src, dst, m.Nonce, u, *m.Vouch)
	}
	return ilnp.BuildUpdate(src, dst, m.Nonce, u)
}
