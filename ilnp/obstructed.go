package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
)

// A policy of the host, of IPsec or of routing, may route packets from one of its
// locators to a correspondent elsewhere than out of that locator's link. Such a
// path is obstructed: the core sends nothing along it, neither data nor control. The
// core does not know policies; the effects above query the kernel and call
// HandleObstructed.

// obstructions holds the obstructed paths to each node; no set in it is empty.
type obstructions map[roam.NID]map[Path]bool

// set replaces the obstructed paths to a node. It reports whether that changes any.
func (o obstructions) set(remote roam.NID, paths []Path) bool {
	set := make(map[Path]bool, len(paths))
	for _, p := range paths {
		set[p] = true
	}
	switch {
	case maps.Equal(set, o[remote]):
		return false
	case len(set) == 0:
		delete(o, remote)
	default:
		o[remote] = set
	}
	return true
}

// has reports whether a path to a node is obstructed.
func (o obstructions) has(remote roam.NID, p Path) bool { return len(o) > 0 && o[remote][p] }

// without returns those of paths to a node that are not obstructed.
func (o obstructions) without(remote roam.NID, paths []Path) []Path {
	if len(o) == 0 || len(o[remote]) == 0 {
		return paths
	}
	return slices.DeleteFunc(slices.Clone(paths), func(p Path) bool { return o.has(remote, p) })
}

// nextEnds returns the source and destination of the try-th transmission in the
// order of entryAt, in which obstructed paths are left out; false: all are.
func (o obstructions) nextEnds(remote roam.NID, try int, sources []roam.LinkLocator, destinations []roam.L64) (Path, bool) {
	n, m := len(sources), len(destinations)
	for k := range n * m {
		i, j := entryAt((try+k)%(n*m), n, m)
		if p := (Path{Local: sources[i], Remote: destinations[j]}); !o.has(remote, p) {
			return p, true
		}
	}
	return Path{}, false
}

// reachable leaves out of a list of our locators those from which every path to the
// session's correspondent is obstructed: no answer would come from there. locals are
// all locators of this host.
func (o obstructions) reachable(s *session, list []listed, locals []*local) []listed {
	if len(o) == 0 || len(o[s.remoteNID]) == 0 {
		return list
	}
	remotes := s.remotes.all()
	return slices.DeleteFunc(list, func(e listed) bool {
		return !slices.ContainsFunc(locals, func(l *local) bool {
			return l.L64 == e.l64 && slices.ContainsFunc(remotes, func(r roam.L64) bool {
				return !o.has(s.remoteNID, Path{Local: l.LinkLocator, Remote: r})
			})
		})
	})
}

// HandleObstructed replaces the obstructed paths to the node with NID remote; none: no
// path is obstructed. Sessions leave paths that became obstructed at once, and use
// again those that no longer are. A session that has no other path has none, so that
// its packets are dropped until the policy is gone.
func (c *Core) HandleObstructed(now time.Time, remote roam.NID, paths []Path) {
	if !c.obstructed.set(remote, paths) {
		return
	}
	for _, local := range c.cfg.NIDs {
		for _, s := range slices.Clone(c.between(local, remote)) {
			c.refresh(now, s)
			if len(s.entry.Paths) == 0 {
				c.suspendProbes(s)
			} else {
				c.restartProbes(now, s)
			}
		}
	}
	c.preinstalled.updateOf(now, remote)
}

// Obstructed returns the obstructed paths to a node, in no order.
func (c *Core) Obstructed(remote roam.NID) []Path {
	return slices.Collect(maps.Keys(c.obstructed[remote]))
}
