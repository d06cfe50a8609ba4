package ilnp

import (
	"time"

	"roam"
)

// A key that was copied is one that two nodes prove. The one that has the session and the name
// keeps both while its nonce is in use. The other one gets an alias, and people are told where
// both are: the programs and this host cannot know which one is the copy.
const (
	replaceEvery = time.Minute // a proven node replaces a living session of another one at most so often
	copyShown    = time.Hour
)

// keyCopy is what a host knows of a second node with the key of a correspondent.
type keyCopy struct {
	replaced time.Time  // when a node that has proven itself last replaced a session that was not dead
	seen     time.Time  // when two nodes last had the key; zero: never
	at       []roam.L64 // where the second one was, and the first one
}

// mayReplace reports whether a node that has proven itself may take the place of a session whose
// nonce was silent, and notes that it does. Two nodes with one key would take it from each other
// all the time.
func (ps *pendingPeers) mayReplace(now time.Time, k *pendingPeer, old *session) bool {
	r := ps.cache.known[k.key.Remote.NID]
	if k.offer == nil || old.agreed == nil || old.dead || r == nil {
		return true
	}
	if !r.copy.replaced.IsZero() && now.Sub(r.copy.replaced) < replaceEvery {
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
}

// copiedAt returns where two nodes with the key of a correspondent were lately; nil: there are none.
func (k *correspondent) copiedAt(now time.Time) []roam.L64 {
	if k.copy.seen.IsZero() || now.Sub(k.copy.seen) > copyShown {
		return nil
	}
	return k.copy.at
}
