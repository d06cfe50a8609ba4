package sbr

import (
	"slices"
	"time"

	"roam"
	"roam/wire/ilnp"
)

// A node that has lost its state has another nonce, and its correspondent, which remembers the session, keeps its own
// (docs/design/lost-state.md). So the data plane never sees two new nonces, which would begin the flow anew. Updates
// with another nonce than the flow's therefore pass: their receiver verifies that nonce. An acknowledgement with the
// nonce that the flow has of the receiver shows that it did, and the flow takes the new nonce over.

const (
	// settled is the time that an acknowledgement takes at most. An update with another nonce counts for as long,
	// and only if none with the flow's own passed before it for as long: else it could have the same body, and the
	// acknowledgement would be about that one.
	settled = 3 * time.Second
	// mostClaims bounds the updates that are remembered, one of a flow and direction.
	mostClaims = 256
)

// claim is an update with another nonce than that of its flow.
type claim struct {
	exchange
	flow   FlowKey
	inside bool // it came from inside
	nonce  ilnp.Nonce
	at     time.Time
}

// directionOf is the index of the direction of packets from inside, or from outside.
func directionOf(inside bool) int {
	if inside {
		return 1
	}
	return 0
}

// claim remembers an update with another nonce, in place of the one before of the same flow and direction, or of the
// oldest of all.
func (c *Core) claim(now time.Time, f *flow, inside bool, n ilnp.Nonce, e exchange) {
	c.claims = without(c.claims, f, inside)
	if now.Sub(f.updated[directionOf(inside)]) < settled {
		return
	}
	if len(c.claims) >= mostClaims {
		c.claims = slices.Delete(c.claims, 0, 1)
	}
	c.claims = append(c.claims, claim{e, f.FlowKey, inside, n, now})
}

// without removes what is claimed of a flow in a direction.
func without(claims []claim, f *flow, inside bool) []claim {
	return slices.DeleteFunc(claims, func(l claim) bool { return l.flow == f.FlowKey && l.inside == inside })
}

// noteUpdate notes that an update with the nonce of its flow passes, which ends what was claimed.
func (c *Core) noteUpdate(now time.Time, f *flow, inside bool) {
	f.updated[directionOf(inside)] = now
	c.claims = without(c.claims, f, inside)
}

// accepted has a flow take over the nonce of an update that an acknowledgement with the receiver's nonce is about.
// inside: that update came from inside. false: there is none.
func (c *Core) accepted(now time.Time, f *flow, inside bool, u ilnp.LocatorUpdate) (about exchange, ok bool) {
	i := slices.IndexFunc(c.claims, func(l claim) bool {
		return l.flow == f.FlowKey && l.inside == inside && now.Sub(l.at) <= settled && l.is(u)
	})
	if i < 0 {
		return about, false
	}
	l := c.claims[i]
	c.claims = without(c.claims, f, inside)
	if inside {
		f.Outward = l.nonce
	} else {
		f.Inward = l.nonce
	}
	f.announced, f.confirmed, f.sent, f.remotes, f.listed, f.Sealed = nil, false, nil, nil, nil, false
	c.out = append(c.out, Renewed{f.FlowKey, f.Inward, f.Outward})
	if inside { // its outside node knows these
		f.listed = c.policy.internalOf(l.original.Locators)
		c.knows(f, u)
	} else {
		f.remotes = remotesOf(u)
	}
	if !f.confirmed {
		c.queue(now, f)
	}
	return l.exchange, true
}

// remotesOf returns the locators that an update from outside lists first.
func remotesOf(u ilnp.LocatorUpdate) []roam.L64 {
	return locatorsOf(u.Locators[:min(len(u.Locators), MaxGroup)])
}
