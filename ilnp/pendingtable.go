package ilnp

import (
	"slices"
	"time"

	"roam"
)

// addPending takes a pending peer in.
func (c *Core) addPending(k *pendingPeer) {
	nids := SessionKey{k.key.Local, k.key.Remote.NID}
	k.Machine = k
	k.listed = c.known[k.key.Remote.NID] != nil && c.lists(k.key.Remote) || c.predecessor(k.key.Local, k.key.Remote) != nil
	c.pendingPeers[k.key] = k
	c.pending[nids] = append(c.pending[nids], k)
	c.queue = append(c.queue, k)
}

// makeRoom reports whether there is room for another pending peer. In a flood the
// oldest one makes room that has not answered its first probe in time. Of those
// that claim one NID, those make room first that do so where it is not known to be.
func (c *Core) makeRoom(now time.Time, key Pending) bool {
	if len(c.queue) > 2*len(c.pendingPeers)+queueSlack { // most are decided, and hold memory
		c.queue = slices.DeleteFunc(c.queue, func(k *pendingPeer) bool { return c.pendingPeers[k.key] != k })
	}
	if list := c.pending[SessionKey{key.Local, key.Remote.NID}]; len(list) >= maxOfOneNID {
		i := slices.IndexFunc(list, func(k *pendingPeer) bool { return k.state == unvalidatedPeer && !k.listed })
		if i < 0 || now.Sub(list[i].since) < pendingFirst && c.predecessor(key.Local, key.Remote) == nil && !c.lists(key.Remote) {
			return false
		}
		c.dropPending(now, list[i])
	}
	for len(c.pendingPeers) >= maxPending && len(c.queue) > 0 {
		k := c.queue[0]
		there := c.pendingPeers[k.key] == k && k.state == unvalidatedPeer
		if there && now.Sub(k.since) < pendingFirst {
			return false
		}
		c.queue = c.queue[1:]
		if there {
			c.dropPending(now, k)
		}
	}
	return len(c.pendingPeers) < maxPending
}

// isPending reports whether a node without a session is about to be validated under
// an alias.
func (c *Core) isPending(key SessionKey) bool {
	return slices.ContainsFunc(c.pending[key], func(k *pendingPeer) bool { return k.alias == key && !k.held })
}

// dropPending forgets a pending peer, and what was held of it.
func (c *Core) dropPending(now time.Time, k *pendingPeer) {
	if c.pendingPeers[k.key] != k {
		return
	}
	nids := SessionKey{k.key.Local, k.key.Remote.NID}
	c.retire(&k.schedule)
	c.forgetProbes(&k.sent, now)
	delete(c.pendingPeers, k.key)
	if c.pending[nids] = slices.DeleteFunc(c.pending[nids], func(o *pendingPeer) bool { return o == k }); len(c.pending[nids]) == 0 {
		delete(c.pending, nids)
	}
	if k.held {
		c.emit(Dismiss{Pending: k.key, Key: k.alias})
	}
	if k.bare {
		c.emit(Dismiss{Pending: k.bareOf(), Key: k.alias})
	}
}

// mayProbe lets one probe go for each packet that came, where another node has the NID
// or claims it: a forged packet costs no more than it is. Who is alone with its NID is
// asked once more, as a probe or its answer may be lost.
func (k *pendingPeer) mayProbe(c *Core, now time.Time, _ roam.L64, bytes int) bool {
	nids := SessionKey{k.key.Local, k.key.Remote.NID}
	contested := !k.listed && (len(c.pending[nids]) > 1 || len(c.byNIDs[nids]) > 0)
	a := c.accounts.of(now, k.key.Remote)
	if _, came := a.came(); contested && a.txPackets >= came {
		return false
	}
	return c.accounts.allows(now, k.key.Remote, bytes, k.listed)
}

// turn counts its tries, those under both checksum rules as one where nothing says yet
// that it runs Roam.
func (k *pendingPeer) turn() int {
	if k.tries > 0 && !k.encap && !k.asks && k.icmp == icmpSought {
		return k.tries - 1
	}
	return k.tries
}

func (k *pendingPeer) nids() SessionKey { return SessionKey{k.key.Local, k.key.Remote.NID} }

func (k *pendingPeer) probesOverNIDs(c *Core, now time.Time, l roam.L64) bool {
	return c.isSummedOverNIDs(now, profile{control: k.control, asks: k.asks}, k.sent, l)
}

// shownBy returns the pending peer that an answer with a nonce is of: one question asks all
// that claim to be at one locator. Where none has shown that nonce it is the one that was
// asked, of which nothing is known then: what its packets showed, with another nonce,
// anybody may have sent.
func (c *Core) shownBy(k *pendingPeer, n Nonce) *pendingPeer {
	if k.state != unvalidatedPeer || n == k.key.Nonce {
		return k
	}
	if o := c.pendingPeers[Pending{k.key.Local, k.key.Remote, n}]; o != nil && o.state == unvalidatedPeer {
		return o
	}
	k.control, k.found, k.asks, k.knowsMore, k.early = control{}, NotFound, false, false, nil
	return k
}
