package ilnp

import (
	"cmp"
	"crypto/hmac"
	"encoding/binary"
	"slices"
	"time"

	"roam"
	"roam/nidkey"
	ilnpwire "roam/wire/ilnp"
)

// A node that has replaced its key has another Node Identifier, which none of its peers knows. So
// the old key vouches for the new one: a message in the name of the old identifier goes ahead of
// the offers of a session, until the peer has shown that it knows the new one. Peers that cannot ask for it,
// as the node is under its old identifier nowhere, are contacted. DEVIATION from RFC 6743: see
// docs/rfc/rfc6743.md and docs/design/keys.md.
const (
	vouchApart  = 100 * time.Millisecond // between two peers that are contacted
	vouchFirst  = 10 * time.Second       // to the next round, doubled each time
	vouchMost   = 10 * time.Minute
	vouchRepeat = time.Minute // a vouch that was told of is not told of again for so long
)

// OldKey is the key that a rotation has replaced.
type OldKey struct {
	Key   nidkey.Key
	NID   roam.NID // that the node had with it
	Until time.Time
}

// Succession says that a correspondent has a new key, and the Node Identifier that is claimed to
// be its hash: its old key vouches for that, and the new one was there. The record of the old one
// is to be changed to this, if the claim is right.
type Succession struct {
	Old, NID roam.NID
	Claim    nidkey.Claim
}

func (Succession) output() {}

// inheritance is what a node has of its old key.
type inheritance struct {
	old    *OldKey
	queue  []roam.NID // correspondents to be contacted in this round
	rounds int
}

// SetOldKey gives this node the key that it had before, to vouch for the present one; nil: it has
// none any more.
func (c *Core) SetOldKey(now time.Time, old *OldKey) {
	c.inheritance = inheritance{}
	c.disarm(&c.host.schedule, timerVouch)
	if c.formerKey = nil; old != nil && c.cfg.isFormer(old.NID) {
		c.formerKey = &old.Key
		for _, s := range c.sorted() { // those of it that began without a proof had no keys
			c.rekeySession(now, s)
		}
	}
	if old != nil && c.cfg.Key != nil && c.cfg.Key.NID == c.cfg.NIDs[0] && old.NID != c.cfg.NIDs[0] {
		c.inheritance.old = old
		c.arm(&c.host.schedule, timerVouch, now, vouchApart)
	}
}

// mayVouch reports whether the old key is to vouch towards a correspondent.
func (c handshakes) mayVouch(now time.Time, k *correspondent) bool {
	old := c.inheritance.old
	return old != nil && now.Before(old.Until) && k != nil && !k.follows && !k.retired &&
		c.proves(k.nid) && k.secret.Present()
}

// followed returns our key, if a correspondent has shown that it knows it.
func (c *node) followed(k *correspondent) nidkey.Public {
	if !k.follows || c.cfg.Key == nil {
		return nidkey.Public{}
	}
	return c.cfg.Key.Public
}

// announce contacts the next correspondent that may not know of the new key.
func (c handshakes) announce(now time.Time) {
	h := &c.inheritance
	if len(h.queue) == 0 {
		h.queue = c.unaware(now)
		if len(h.queue) == 0 {
			return
		}
	}
	if len(c.host.usable(now)) == 0 {
		c.arm(&c.host.schedule, timerVouch, now, vouchFirst)
		return
	}
	key := SessionKey{c.cfg.NIDs[0], h.queue[0]}
	h.queue = h.queue[1:]
	if k := c.known[key.Remote]; c.mayVouch(now, k) && c.sessionOf(key) == nil && !k.guard.until.After(now) {
		c.handleMiss(now, key)
	}
	again := vouchApart
	if len(h.queue) == 0 {
		again = min(vouchFirst<<min(h.rounds, 6), vouchMost)
		h.rounds++
	}
	c.arm(&c.host.schedule, timerVouch, now, again)
}

// unaware returns the correspondents that may not know of the new key, in the order of their NIDs.
func (c handshakes) unaware(now time.Time) (list []roam.NID) {
	for nid, k := range c.known {
		if c.mayVouch(now, k) && len(k.locators) > 0 {
			list = append(list, nid)
		}
	}
	slices.SortFunc(list, cmp.Compare[roam.NID])
	return list
}

// vouch has the old key vouch for the new one, ahead of the offers of a session, and reports
// whether it does: in the form of options and in UDP by turns. The programs of the peer hand it
// over only behind a packet with the same nonce, so a probe goes ahead; its answer goes to nobody.
func (c handshakes) vouch(now time.Time, s *session, path Path) bool {
	k, old := c.known[s.remoteNID], c.inheritance.old
	var t token
	if !c.mayVouch(now, k) || !c.draw(now, t[:]) {
		return false
	}
	src, dst := roam.ILV{NID: old.NID, L64: path.Local.L64}, roam.ILV{NID: s.remoteNID, L64: path.Remote}
	encap, form := s.encaps(path) || k.vouches%2 == 1 && c.hasUDP(s), FormOption
	if encap {
		form = FormUDP
	}
	k.vouches++
	probe, err := c.buildProbe(src, dst, s.localNonce, t, probe{path: path, form: form})
	if err != nil {
		return false
	}
	b, ok := c.buildVouch(src, dst, s.localNonce, k)
	return ok && c.transmitControl(now, s, path, probe, false) && c.transmitControl(now, s, path, b, encap)
}

// buildVouch has the old key vouch for the new one towards a correspondent.
func (c handshakes) buildVouch(src, dst roam.ILV, nonce Nonce, k *correspondent) ([]byte, bool) {
	old := c.inheritance.old
	secret, err := old.Key.Shared(k.public)
	if err != nil {
		return nil, false
	}
	v := ilnpwire.Vouch{
		Until: old.Until, Public: c.cfg.Key.Public, Modifier: c.cfg.Key.Modifier, NID: c.cfg.Key.NID,
	}
	body := vouchBody(v, old.NID)
	v.ByOld = secret.Vouches(old.NID, dst.NID, body)
	v.ByNew = k.secret.Vouches(v.NID, dst.NID, body)
	lu := ilnpwire.LocatorUpdate{
		Operation: ilnpwire.Advertisement, Locators: []ilnpwire.LocatorEntry{{L64: src.L64, Lifetime: 1}},
	}
	b, err := ilnpwire.BuildVouch(src, dst, nonce, lu, v)
	return b, err == nil
}

// handleFormerProof answers an offer to the identifier that this host had: by the old key, whose owner
// the peer means, and with a vouch. The peer takes the new key over, and offers anew. A forged one
// costs one HMAC.
func (c handshakes) handleFormerProof(now time.Time, by Path, p ilnpwire.Packet) {
	nids, k, old := SessionKey{p.Dst.NID, p.Src.NID}, c.known[p.Src.NID], c.inheritance.old
	if old == nil || old.NID != p.Dst.NID || !now.Before(old.Until) || p.Proof.Step != ilnpwire.ProofOffer {
		c.refuse(now, nids, reasonFormer)
		return
	}
	if k.formerProofs == nil {
		secret, err := old.Key.Shared(k.public)
		if err != nil {
			c.refuse(now, nids, reasonProofForged)
			return
		}
		k.formerProofs = proofKey(secret, p.Src.NID, p.Dst.NID)
	}
	s := c.byNonce(p.Dst.NID, p.Src.NID, p.Nonce)
	pending := c.pending.byKey[Pending{Local: p.Dst.NID, Remote: p.Src, Nonce: p.Nonce}]
	switch {
	case !isProof(k.formerProofs, *p.Proof, p.Nonce, Nonce{}):
		c.refuse(now, nids, reasonProofForged)
		return
	case !c.isListedIn(p):
		c.refuse(now, nids, reasonProofPlace)
		return
	case c.prover.exceeds(now): // what follows is an operation with a public key, for a copy too
		c.refuse(now, nids, reasonFormer)
		return
	case s == nil && pending == nil:
		c.refuse(now, nids, reasonNoSession)
		return
	case s == nil:
		own, _ := c.pending.ownTowards(pending)
		s = &session{localNID: nids.Local, remoteNID: nids.Remote, localNonce: own} // for its ends only
	}
	if b, ok := c.buildVouch(p.Dst, p.Src, s.localNonce, k); ok {
		c.transmitControl(now, s, by, b, p.Encapsulated)
	}
}

// vouchBody returns what both MACs of a vouch cover. That of a pairing line is text.
func vouchBody(v ilnpwire.Vouch, old roam.NID) string {
	return string(binary.BigEndian.AppendUint64(v.Covered(), uint64(old)))
}

// handleVouch handles a vouch. The first check costs a few HMACs; the one operation with a
// public key is for those that the old key vouches for.
func (c handshakes) handleVouch(now time.Time, p ilnpwire.Packet, bytes int) {
	nids, v := SessionKey{p.Dst.NID, p.Src.NID}, *p.Vouch
	k, next := c.known[p.Src.NID], c.known[v.NID]
	if !p.Nonce.Present() {
		c.refuse(now, nids, reasonNoNonce)
		return
	}
	if k == nil || !k.secret.Present() || k.retired || c.cfg.Key == nil {
		c.refuse(now, nids, reasonVouchNoKey)
		return
	}
	c.accounts.received(now, p.Src, bytes, 1)
	body := vouchBody(v, p.Src.NID)
	byOld := k.secret.Vouches(p.Src.NID, p.Dst.NID, body)
	switch {
	case !hmac.Equal(byOld[:], v.ByOld[:]):
		c.refuse(now, nids, reasonVouchForged)
		return
	case !now.Before(v.Until):
		c.refuse(now, nids, reasonVouchOld)
		return
	case slices.Contains(c.cfg.NIDs, v.NID) || next != nil && next.keyed:
		c.refuse(now, nids, reasonVouchTaken)
		return
	case now.Sub(k.vouched) < vouchRepeat:
		return
	}
	secret, err := c.cfg.Key.Shared(v.Public)
	byNew := secret.Vouches(v.NID, p.Dst.NID, body)
	if err != nil || !hmac.Equal(byNew[:], v.ByNew[:]) {
		c.refuse(now, nids, reasonVouchForged)
		return
	}
	k.vouched = now
	c.emit(Succession{
		Old: p.Src.NID, NID: v.NID, Claim: nidkey.Claim{Public: v.Public, Modifier: v.Modifier, Hashed: true},
	})
}
