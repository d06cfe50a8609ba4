package ilnp

import (
	"crypto/hmac"
	"time"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// A key that was copied is one that two nodes prove. The one that has the session and the name
// keeps both while its nonce is in use. The other one gets an alias, and people are told where
// both are: the programs and this host cannot know which one is the copy. So are both nodes, each in
// its own session: one of them is the rightful one.
const (
	replaceEvery = time.Minute // a proven node replaces a living session of another one at most so often
	copyShown    = time.Hour
	noticeEvery  = time.Minute // that a peer tells of a copy of our own key
)

// keyCopy is what a host knows of a second node with the key of a correspondent.
type keyCopy struct {
	replaced time.Time  // when a node that has proven itself last replaced a session that was not dead
	seen     time.Time  // when two nodes last had the key; zero: never
	at       []roam.L64 // where the second one was, and the first one
	noticed  time.Time  // when the correspondent last told of two nodes with our key
	ours     []roam.L64 // where these were
}

// mayReplace reports whether a node that has proven itself may take the place of a session whose
// nonce was silent, and notes that it does. Two nodes with one key would take it from each other
// all the time.
func (ps *pendingPeers) mayReplace(now time.Time, k *pendingPeer, old *session) bool {
	r := ps.cache.known[k.key.Remote.NID]
	if k.offer == nil || old.agreed == nil || !old.agreed.confirmed || old.dead || r == nil {
		return true
	}
	if now.Sub(r.copy.replaced) < replaceEvery {
		return false
	}
	r.copy.replaced = now
	return true
}

// noteCopy notes that a second node has proven the key of a session's peer.
func (ps *pendingPeers) noteCopy(now time.Time, k *pendingPeer, old *session) {
	r := ps.cache.known[k.key.Remote.NID]
	if k.offer == nil || r == nil {
		return
	}
	at := append([]roam.L64{k.key.Remote.L64}, old.remotes.targets()...)
	r.copy.seen, r.copy.at = now, at
	ps.effects.emit(Notify{Event: Event{Time: now, Kind: KeyCopied, Key: old.key, Locators: at,
		Reason: "two nodes have proven the same key"}})
	ps.effects.tellCopied(now, old, at)
}

// tellCopied tells the peer of a session that two nodes have its key, and where.
func (c *Core) tellCopied(now time.Time, s *session, at []roam.L64) {
	k, a := c.known[s.remoteNID], s.agreed
	if k == nil || a == nil || len(at) == 0 || len(s.entry.Paths) == 0 {
		return
	}
	p := ilnpwire.Proof{Step: ilnpwire.ProofNotice, Ephemeral: a.theirs}
	copy(p.Locators[:], at)
	p.Token = tokenOf(a.root, p)
	p = sealProof(k.proofKey(s.localNID, s.remoteNID), p, s.localNonce, s.remoteNonce)
	path := s.entry.Paths[0]
	handshakes{c}.sendProof(now, s, path, s.encaps(path) && c.hasUDP(s), p)
}

// handleNotice takes what the peer of a session tells of a copy of our key. A copy of that message
// says nothing in another session.
func (c handshakes) handleNotice(now time.Time, key []byte, p ilnpwire.Packet) string {
	s := c.byNonce(p.Dst.NID, p.Src.NID, p.Nonce)
	if s == nil || s.agreed == nil {
		return reasonProofOld
	}
	token := tokenOf(s.agreed.root, *p.Proof)
	if !isProof(key, *p.Proof, p.Nonce, s.localNonce) || !hmac.Equal(token[:], p.Proof.Token[:]) {
		return reasonProofForged
	}
	if k := c.known[s.remoteNID]; now.Sub(k.copy.noticed) >= noticeEvery {
		var at []roam.L64
		for _, l := range p.Proof.Locators {
			if l != 0 {
				at = append(at, l)
			}
		}
		k.copy.noticed, k.copy.ours = now, at
		c.notify(Event{Time: now, Kind: KeyCopied, Key: s.key, Locators: at,
			Reason: "the peer says that two nodes have proven this host's key"})
	}
	return ""
}

// copiedAt returns where two nodes with the key of a correspondent were lately; nil: there are none.
func (k *correspondent) copiedAt(now time.Time) []roam.L64 {
	if now.Sub(k.copy.seen) > copyShown {
		return nil
	}
	return k.copy.at
}

// oursAt returns where two nodes with this host's key were lately, as a correspondent says; nil: it has
// said nothing of that.
func (k *correspondent) oursAt(now time.Time) []roam.L64 {
	if now.Sub(k.copy.noticed) > copyShown {
		return nil
	}
	return k.copy.ours
}
