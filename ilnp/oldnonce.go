package ilnp

import (
	"slices"
	"time"
)

// Where a node that was validated has a session already: is the old nonce in use?

const (
	silenceMin   = 200 * time.Millisecond // how long an old nonce must be silent, if 3 RTT are less
	silenceTries = 3                      // probes in that time; where two nodes may be, each doubles it: 1.4 s
	silencePaths = 8                      // along how many paths
)

// probeOld probes the session that a pending peer may continue: is the old nonce in use? A peer that has proven itself,
// or is where the session's peer was, waits for one such time in all, as its packets do.
func (ps *pendingPeers) probeOld(now time.Time, k *pendingPeer, old *session) {
	if len(ps.host.active) > 0 {
		ps.effects.probePaths(now, old, ps.pathsToOld(old))
	}
	wait := max(3*max(k.rtt, old.rtt), silenceMin)
	if k.offer != nil || old.remotes.find(k.key.Remote.L64) != nil {
		wait /= silenceTries
	} else {
		wait <<= k.oldProbes
	}
	ps.wake(now, k, wait)
	k.oldProbes++
}

// pathsToOld returns paths to every place where a session's correspondent was validated: those in use, and one to each
// other place.
func (ps *pendingPeers) pathsToOld(old *session) []Path {
	paths, from := slices.Clone(old.entry.Paths), ps.host.active[0]
	if len(paths) > 0 {
		from = paths[0].Local
	}
	for _, r := range old.remotes {
		is := func(p Path) bool { return p.Remote == r.l64 }
		if len(paths) < silencePaths && r.validated && r.standing == current && !slices.ContainsFunc(paths, is) {
			paths = append(paths, Path{Local: from, Remote: r.l64})
		}
	}
	return paths
}

// decide judges, up to 3 RTT after the validation, whether the old nonce has come since. If
// not, the node has come back without its state and replaces its session. If so, and from
// elsewhere, it is a second node with the same NID (RFC 6741 §5.4); there cannot be two on
// one link. The old nonce is probed several times before that, from elsewhere ever more
// patiently: one answer that is lost or late must not decide, as a session that is replaced
// takes its connections with it.
func (ps *pendingPeers) decide(now time.Time, k *pendingPeer) {
	old := ps.continued(k)
	known := old != nil && old.remotes.find(k.key.Remote.L64) != nil
	alive := old != nil && old.lastNonceRx.After(k.validated)
	same := ps.cache.byNonce(k.key.Local, k.key.Remote.NID, k.nonce)
	switch {
	case same != nil:
		ps.admit(now, k, same)
	case old == nil:
		ps.effects.startFrom(now, k, nil)
	case alive && known:
		ps.effects.refuse(now, old.key, reasonForged)
		ps.drop(now, k)
	case alive:
		ps.noteCopy(now, k, old)
		ps.effects.startFrom(now, k, nil)
	case !old.dead && k.oldProbes < silenceTries:
		ps.probeOld(now, k, old)
	case !ps.mayReplace(now, k, old):
		ps.noteCopy(now, k, old)
		ps.effects.startFrom(now, k, nil)
	default:
		ps.replace(now, k, old)
	}
}

// replace ends the session that a node has lost its half of, and makes it anew.
func (ps *pendingPeers) replace(now time.Time, k *pendingPeer, old *session) {
	k.own, _ = ps.ownTowards(k)
	ps.effects.startFrom(now, k, old)
}
