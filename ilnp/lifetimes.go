package ilnp

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// A peer that answers no echo request still acknowledges Locator Updates, which bring
// back what was told (RFC 6743 §2). So a pending peer that talks is asked by one, in
// place of a probe: it lists the locator that the peer knows, with a lifetime whose low
// bits are drawn. Lifetimes are lowered by that, never raised, and by a quarter at most,
// so that one update has few bits; several make a proof. A wrong one ends it: who has
// received none may guess once, at one in 2^32.
const (
	updateBits   = 32          // drawn in all
	updateRounds = 4           // updates that it may take
	updateAgain  = time.Second // between updates that were not answered
	echoesFirst  = 2           // probes that go before the first one: Roam answers those
)

// lifetimeProof is what Locator Updates have shown of a pending peer.
type lifetimeProof struct {
	sent         time.Time // of the last update; zero: none
	at           Local
	told, before uint32                  // lifetimes of the last update and of the one before
	list         []ilnpwire.LocatorEntry // of the last update
	drawn, known int                     // bits: of the last update, and of those that came back right
	turn         bool                    // a probe has gone since
}

// lowered returns a lifetime of which low bits are drawn, and how many; 0 if there are
// too few for a proof. left is what there is, in seconds.
func (c *Core) lowered(now time.Time, left uint32) (told uint32, drawn int) {
	drawn = bits.Len32(left/4+1) - 1
	var b [4]byte
	if drawn*updateRounds < updateBits || !c.draw(now, b[:]) {
		return 0, 0
	}
	return left - binary.BigEndian.Uint32(b[:])&(1<<drawn-1), drawn
}

// asksByUpdate reports whether a pending peer is to be asked by a Locator Update now.
func (k *candidate) asksByUpdate(now time.Time) bool {
	f := &k.proof
	f.turn = !f.turn
	return k.tries >= echoesFirst && !k.held && k.life.goesOn(now) && f.turn && now.Sub(f.sent) >= updateAgain
}

// askByUpdate sends a Locator Update in place of a probe. It reports whether it did.
func (c *Core) askByUpdate(now time.Time, k *candidate) bool {
	own, at := c.ownTowards(k)
	end, ok := c.host.expiry(now, at.L64)
	if !ok || c.isObstructed(k.key.Remote.NID, Path{Local: at, Remote: k.key.Remote.L64}) {
		return false
	}
	told, drawn := c.lowered(now, uint32(min(remaining(now, end)/time.Second, largestRFC)))
	if drawn == 0 {
		return false
	}
	lu := ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Form: c.formOf(k)}
	if lu.Form == ilnpwire.FormDraft {
		lu.Code = ilnpwire.CodeReplaceSoft
	}
	if lu.Locators = c.askedList(now, k, lu.Form, ilnpwire.LocatorEntry{L64: at.L64, Preference: uint32(preferActive), Lifetime: told}); lu.Locators == nil {
		return false
	}
	b, err := ilnpwire.BuildUpdate(roam.ILV{NID: k.key.Local, L64: at.L64}, k.key.Remote, own, lu)
	if err == nil && !k.carried && c.asksOverNIDs(k) {
		err = ilnpwire.FinishOverNIDs(b)
	}
	if err == nil && k.carried && c.cfg.UDPPort != 0 {
		b, err = ilnpwire.Carry(b, c.cfg.UDPPort)
	}
	if err != nil || !k.mayProbe(c, now, k.key.Remote.L64, len(b)) {
		return false
	}
	f := &k.proof
	f.sent, f.at, f.before, f.told, f.drawn, f.list = now, at, f.told, told, drawn, lu.Locators
	c.emit(Transmit{Link: at.Link, Packet: b})
	return true
}

// askedList returns what such an update lists: the locator of which the lifetime is
// drawn. Where the nonce is that of a session, the correspondent of that may be the one
// who takes it: the list is the session's whole set then. nil: the locator is not in it.
func (c *Core) askedList(now time.Time, k *candidate, form ilnpwire.Form, asked ilnpwire.LocatorEntry) []ilnpwire.LocatorEntry {
	s := c.sharesNonce(k)
	if s == nil || s.state != Established {
		return []ilnpwire.LocatorEntry{asked}
	}
	var list []ilnpwire.LocatorEntry
	has := false
	for _, e := range c.listingFor(s, s.entry.Paths) {
		end, ok := c.host.expiry(now, e.l64)
		if !ok {
			continue
		}
		v := ilnpwire.LocatorEntry{L64: e.l64, Preference: uint32(e.preference), Lifetime: wireLifetime(remaining(now, end), form)}
		if e.l64 == asked.L64 {
			has, v.Lifetime = true, asked.Lifetime
		}
		list = append(list, v)
	}
	if !has {
		return nil
	}
	return list
}

// asksOverNIDs reports whether the next such update is summed over NIDs: by the rule of
// the session whose nonce it bears, if that is known.
func (c *Core) asksOverNIDs(k *candidate) bool {
	if s := c.sharesNonce(k); s != nil && (s.icmp != icmpSought || s.asks) {
		return s.overNIDs(1)
	}
	return profile{control: k.control}.overNIDs(k.tries)
}

// sharesNonce returns the session whose nonce of ours a pending peer is shown; nil: none.
func (c *Core) sharesNonce(k *candidate) *session {
	s := c.predecessor(k.key.Local, k.key.Remote)
	if s == nil || s.remotes.find(k.key.Remote.L64) == nil {
		return nil
	}
	return s
}

// formOf returns the form of Locator Updates to a pending peer: that of the session whose
// nonce it is shown, if its correspondent has shown one, that of its own, or what is known
// of it.
func (c *Core) formOf(k *candidate) ilnpwire.Form {
	if s := c.sharesNonce(k); s != nil && s.shown {
		return s.form
	}
	if p, err := ilnpwire.ParseControl(k.early, c.cfg.UDPPort); err == nil {
		if lu, err := ilnpwire.ParseLocatorUpdate(p.Payload); err == nil {
			return lu.Form
		}
	}
	if known := c.known[k.key.Remote.NID]; known != nil {
		return known.form
	}
	return formOf(c.cfg.DraftLU)
}

// returns reports whether an acknowledgement has what was sent, with such a lifetime of
// the locator in question.
func (f *lifetimeProof) returns(lu ilnpwire.LocatorUpdate, lifetime uint32) bool {
	return slices.EqualFunc(lu.Locators, f.list, func(got, sent ilnpwire.LocatorEntry) bool {
		if sent.L64 == f.at.L64 {
			sent.Lifetime = lifetime
		}
		return got == sent
	})
}

// pendingAcked takes the acknowledgement of such an update, from where it went.
func (c *Core) pendingAcked(now time.Time, k *candidate, lu ilnpwire.LocatorUpdate) {
	f := &k.proof
	switch {
	case k.state != unprovenNode || f.sent.IsZero() || f.drawn == 0:
		c.refuse(now, k.handles, reasonUnexpected)
	case f.before != f.told && f.returns(lu, f.before):
		// that of the update before, which was late
	case !f.returns(lu, f.told):
		f.known, f.drawn = 0, 0
		c.refuse(now, k.handles, reasonOlderAck)
	case f.known+f.drawn >= updateBits:
		c.provenOtherwise(now, k, now.Sub(f.sent))
	default:
		f.known, f.drawn = f.known+f.drawn, 0
		c.askByUpdate(now, k)
	}
}
