package ilnp

import (
	"slices"
	"time"

	"roam"
)

// Limits of pending peers.
const (
	maxPending  = 8192
	maxOfOneNID = 256 // of them
	queueSlack  = 64  // decided pending peers that may be left in the queue
)

// pendingPeers validates the nodes that have sent a nonce and have no session: it holds
// them, probes them, and says which session each becomes, or that there is none. It reads
// the configuration, the cache and our locators; all else is its own, or an effect.
type pendingPeers struct {
	cfg          *Config
	cache        *cache
	host         *host
	obstructed   obstructions
	preinstalled *preinstalled
	accounts     *accounts
	probes       probes // of sessions too
	effects      pendingEffects

	byKey  map[Pending]*pendingPeer
	byNIDs map[SessionKey][]*pendingPeer // by the NIDs on the wire
	queue  []*pendingPeer                // in the order of their first packets; some are decided
}

// keyOf returns the key of the peer that a packet comes from.
func (ps *pendingPeers) keyOf(o Observation) Pending {
	return Pending{Local: ps.cfg.ownNID(o.LocalNID), Remote: o.Remote, Nonce: o.Nonce}
}

// add adds a pending peer.
func (ps *pendingPeers) add(k *pendingPeer) {
	k.Machine = k
	k.listed = ps.isListed(k.key)
	ps.byKey[k.key] = k
	ps.byNIDs[k.nids()] = append(ps.byNIDs[k.nids()], k)
	ps.queue = append(ps.queue, k)
}

// isListed reports whether a record or a session has the NID of a peer at its locator.
func (ps *pendingPeers) isListed(key Pending) bool {
	return ps.cache.lists(key.Remote) || ps.cache.predecessor(key.Local, key.Remote) != nil
}

// makeRoom reports whether there is room for another pending peer. In a flood it drops the
// oldest one that has not answered its first probe in time. Of those that claim one NID it
// drops first those at a locator where that is not listed.
func (ps *pendingPeers) makeRoom(now time.Time, key Pending) bool {
	if len(ps.queue) > 2*len(ps.byKey)+queueSlack { // most are decided, and hold memory
		ps.queue = slices.DeleteFunc(ps.queue, func(k *pendingPeer) bool { return ps.byKey[k.key] != k })
	}
	if list := ps.byNIDs[SessionKey{key.Local, key.Remote.NID}]; len(list) >= maxOfOneNID {
		i := slices.IndexFunc(list, func(k *pendingPeer) bool { return k.state == unvalidatedPeer && !k.listed })
		if i < 0 || now.Sub(list[i].since) < pendingFirst && !ps.isListed(key) {
			return false
		}
		ps.drop(now, list[i])
	}
	for len(ps.byKey) >= maxPending && len(ps.queue) > 0 {
		k := ps.queue[0]
		there := ps.byKey[k.key] == k && k.state == unvalidatedPeer
		if there && now.Sub(k.since) < pendingFirst {
			return false
		}
		ps.queue = ps.queue[1:]
		if there {
			ps.drop(now, k)
		}
	}
	return len(ps.byKey) < maxPending
}

// isPending reports whether a node without a session is about to be validated under
// an alias.
func (ps *pendingPeers) isPending(key SessionKey) bool {
	return slices.ContainsFunc(ps.byNIDs[key], func(k *pendingPeer) bool { return k.alias == key && !k.held })
}

// drop forgets a pending peer, its held packets, and answers to it that wait here.
func (ps *pendingPeers) drop(now time.Time, k *pendingPeer) {
	if ps.byKey[k.key] != k {
		return
	}
	ps.remove(now, k)
	if k.excess && len(ps.byNIDs[k.nids()]) == 0 && ps.cache.sessionOf(k.alias) == nil {
		ps.effects.emit(Dismiss{Pending: k.key, Key: k.alias}) // or the programs would hand them over again
		ps.letGo(k)
	}
}

// letGo ends the wait of packets of local programs for the last pending peer under an alias: they go
// to a known node by its preinstalled entry, and to nobody else.
func (ps *pendingPeers) letGo(k *pendingPeer) {
	if ps.preinstalled.entries[k.alias] != nil {
		ps.effects.emit(Release{Key: k.alias})
	} else {
		ps.effects.emit(Reject{Key: k.alias})
	}
}

// remove takes a pending peer out of the table, and drops its held packets.
func (ps *pendingPeers) remove(now time.Time, k *pendingPeer) {
	nids := k.nids()
	ps.effects.retire(&k.schedule)
	ps.probes.forget(&k.sent, now)
	delete(ps.byKey, k.key)
	if ps.byNIDs[nids] = slices.DeleteFunc(ps.byNIDs[nids], func(o *pendingPeer) bool { return o == k }); len(ps.byNIDs[nids]) == 0 {
		delete(ps.byNIDs, nids)
	}
	if k.held {
		ps.effects.emit(Dismiss{Pending: k.key, Key: k.alias})
	}
	if k.bare {
		ps.effects.emit(Dismiss{Pending: k.bareKey(), Key: k.alias})
	}
}

// dropAll forgets all pending peers with an NID.
func (ps *pendingPeers) dropAll(now time.Time, local, nid roam.NID) {
	for _, k := range slices.Clone(ps.byNIDs[SessionKey{local, nid}]) {
		ps.drop(now, k)
	}
}

// allows allows one probe for each packet that came, where another node has the NID or
// claims it: a forged packet causes no more than itself. A peer that is alone with its NID
// is probed once more, as a probe or its answer may be lost.
func (ps *pendingPeers) allows(now time.Time, k *pendingPeer, bytes int) bool {
	sessions := ps.cache.between(k.key.Local, k.key.Remote.NID)
	contested := !k.listed && (len(ps.byNIDs[k.nids()]) > 1 || len(sessions) > 0)
	a := ps.accounts.of(now, k.key.Remote)
	if _, came := a.came(); contested && a.txPackets >= came {
		return false
	}
	return ps.accounts.allows(now, k.key.Remote, bytes, k.listed)
}

// question returns what the probes of a pending peer have in common; own: the nonce that
// they carry.
func (ps *pendingPeers) question(now time.Time, k *pendingPeer, own Nonce) question {
	shown := profile{control: k.control, asks: k.runsRoam}
	return question{k, &k.sent, own, shown, func(_ roam.L64, bytes int) bool { return ps.allows(now, k, bytes) }}
}

func (k *pendingPeer) nids() SessionKey { return SessionKey{k.key.Local, k.key.Remote.NID} }

// cameTo notes the locator of ours at which a further packet of the peer came in: the
// network of the one so far may be gone, and the peer may know more than one.
func (k *pendingPeer) cameTo(at roam.LinkLocator, usable bool) {
	k.knowsMore = k.knowsMore || at.L64 != k.at.L64
	switch {
	case !usable:
		k.at = at
	case at != k.at:
		k.other = at
	}
}

// probeFrom returns the locator of ours that the next probe leaves from: by turns the one of the peer's first
// packet and another one that it has sent to, as nothing may get out from one of the two.
func (ps *pendingPeers) probeFrom(now time.Time, k *pendingPeer) roam.LinkLocator {
	if k.tries%2 == 1 && ps.isUsable(now, k.other) {
		return k.other
	}
	return k.at
}
