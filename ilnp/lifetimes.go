package ilnp

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// A peer that answers no echo request still acknowledges Locator Updates, and repeats
// their content (RFC 6743 §2). So a pending peer that exchanges packets gets one in place
// of a probe: it lists the locator that the peer knows, with a lifetime whose low bits are
// drawn at random. The first nonce of a session is confirmed in the same way. Lifetimes
// are lowered by that, never raised, and by a quarter at most, so that one update has few
// bits; several make a proof. A wrong one ends it: a node that has received none may guess
// once, at one in 2^32.
const (
	updateBits   = 32          // drawn in all
	updateRounds = 4           // updates that it may take
	updateAgain  = time.Second // between updates that were not answered
	echoesFirst  = 2           // probes that go before the first one, the second at 0.3 s: Roam answers those
)

// lifetimeProof is the state of a proof by the acknowledgements of Locator Updates.
type lifetimeProof struct {
	sent         time.Time // of the last update; zero: none
	path         Path
	last, before []ilnpwire.LocatorEntry // of the last update and of the one before
	drawn, known int                     // bits: of the last update, and of those that came back right
	updates      int                     // that have left, but for those behind an acknowledgement
	overNIDs     bool                    // the last one was summed so
}

// noted records an update that has left.
func (f *lifetimeProof) noted(now time.Time, path Path, lu ilnpwire.LocatorUpdate, drawn int) {
	f.sent, f.path, f.before, f.last, f.drawn = now, path, f.last, lu.Locators, drawn
}

// acked judges an acknowledgement. It reports whether the proof is complete, or the next
// update is due at once, or why the acknowledgement is refused.
func (f *lifetimeProof) acked(lu ilnpwire.LocatorUpdate) (validated, next bool, refused string) {
	switch {
	case f.drawn == 0:
		return false, false, reasonUnexpected
	// The last one first: two in a row may be alike.
	case slices.Equal(lu.Locators, f.last):
		f.known, f.drawn = f.known+f.drawn, 0
		return f.known >= updateBits, f.known < updateBits, ""
	case slices.Equal(lu.Locators, f.before):
		return false, false, "" // that of the update before, which was late
	}
	f.known, f.drawn = 0, 0
	return false, false, reasonOlderAck
}

// drawUpdate makes an update of these locators with lifetimes whose low bits are drawn,
// of the locator only alone if it is not 0. It returns the number of bits; 0 if there are
// too few for a proof.
func (h *host) drawUpdate(now time.Time, draw func(time.Time, []byte) bool, list []listed, only roam.L64, form ilnpwire.Form) (lu ilnpwire.LocatorUpdate, drawn int) {
	lu = ilnpwire.LocatorUpdate{Operation: ilnpwire.Advertisement, Form: form}
	if form == ilnpwire.FormDraft {
		lu.Code = ilnpwire.CodeReplaceSoft
	}
	for _, e := range list[:min(len(list), ilnpwire.MaxLocators)] {
		end, ok := h.expiry(now, e.l64)
		var b [4]byte
		if !ok || !draw(now, b[:]) {
			return lu, 0
		}
		left := uint32(max(min(remaining(now, end)/time.Second, largestRFC), 1))
		n := bits.Len32(left/4+1) - 1
		if only != 0 && e.l64 != only {
			n = 0
		}
		lu.Locators = append(lu.Locators, ilnpwire.LocatorEntry{
			L64: e.l64, Preference: uint32(e.preference), Lifetime: left - binary.BigEndian.Uint32(b[:])&(1<<n-1),
		})
		drawn += n
	}
	if drawn*updateRounds < updateBits {
		return lu, 0
	}
	return lu, drawn
}

// wantsUpdate reports whether a pending peer is to get a Locator Update now: it exchanges
// packets, and has not answered the first probes.
func (k *pendingPeer) wantsUpdate(now time.Time) bool {
	return k.tries >= echoesFirst && !k.held && k.life.goesOn(now) && now.Sub(k.proof.sent) >= updateAgain
}

// sendUpdate sends a Locator Update in place of a probe. It reports whether it did.
func (ps *pendingPeers) sendUpdate(now time.Time, k *pendingPeer) bool {
	own, at := ps.ownTowards(k)
	path := Path{Local: at, Remote: k.key.Remote.L64}
	lu, drawn := ps.host.drawUpdate(now, ps.effects.draw, ps.listing(k, at.L64), at.L64, ps.formOf(k))
	// A peer with a key would refuse it; it answers probes.
	if drawn == 0 || ps.obstructed.has(k.key.Remote.NID, path) || ps.cache.isKeyed(k.key.Remote.NID) {
		return false
	}
	b, err := ilnpwire.BuildUpdate(roam.ILV{NID: k.key.Local, L64: at.L64}, k.key.Remote, own, lu)
	over := !k.encap && ps.updateOverNIDs(k)
	if err == nil && over {
		err = ilnpwire.FinishOverNIDs(b)
	}
	if err == nil && k.encap && ps.cfg.UDPPort != 0 {
		b, err = ilnpwire.Encapsulate(b, ps.cfg.UDPPort)
	}
	if err != nil || !ps.allows(now, k, len(b)) {
		return false
	}
	if k.proof.noted(now, path, lu, drawn); k.proof.known == 0 {
		k.proof.updates++
	}
	k.proof.overNIDs = over
	ps.effects.emit(Transmit{Link: at.Link, Packet: b})
	return true
}

// listing returns the locators that such an update lists. Where its nonce is that of a
// session, the correspondent of that may be the one that receives it: then it lists the
// session's whole set, or none if the locator is not in that.
func (ps *pendingPeers) listing(k *pendingPeer, l roam.L64) []listed {
	s := ps.cache.sharesNonce(k.key.Local, k.key.Remote)
	if s == nil || s.state != Established {
		return []listed{{l, ps.host.preferenceAt(l)}}
	}
	list := ps.effects.listingFor(s, s.entry.Paths)
	if !slices.ContainsFunc(list, func(e listed) bool { return e.l64 == l }) {
		return nil
	}
	return list
}

// updateOverNIDs reports whether the next such update is summed over NIDs: by the rule of
// the session whose nonce it carries, if that is known.
func (ps *pendingPeers) updateOverNIDs(k *pendingPeer) bool {
	if s := ps.cache.sharesNonce(k.key.Local, k.key.Remote); s != nil && (s.icmp != icmpSought || s.asks) {
		return s.overNIDs(1)
	}
	return profile{control: k.control}.overNIDs(k.proof.updates + 1) // by turns, as probes are
}

// formOf returns the form of Locator Updates to a pending peer: that of the session whose
// nonce they carry, as its correspondent may answer in kind; that of the peer's own, which
// any node may have sent; or the one that its record has.
func (ps *pendingPeers) formOf(k *pendingPeer) ilnpwire.Form {
	if s := ps.cache.sharesNonce(k.key.Local, k.key.Remote); s != nil {
		return s.form
	}
	if p, err := ilnpwire.ParseControl(k.early, ps.cfg.UDPPort); err == nil {
		if lu, err := ilnpwire.ParseLocatorUpdate(p.Payload); err == nil {
			return lu.Form
		}
	}
	if known := ps.cache.known[k.key.Remote.NID]; known != nil {
		return known.form
	}
	return formOf(ps.cfg.DraftLU)
}

// acked handles the acknowledgement of such an update, from the locator that it was sent
// to.
func (ps *pendingPeers) acked(now time.Time, k *pendingPeer, p ilnpwire.Packet, lu ilnpwire.LocatorUpdate) {
	if k.state != unvalidatedPeer {
		return
	}
	validated, next, refused := k.proof.acked(lu)
	if validated || next {
		k.sumAnswer(k.proof.overNIDs, p.OverNIDs) // the next one is by the rule that was accepted
	}
	switch {
	case refused != "":
		ps.effects.refuse(now, k.alias, refused)
	case validated:
		ps.validateOtherwise(now, k, now.Sub(k.proof.sent))
	case next:
		ps.sendUpdate(now, k)
	}
}
