package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
)

// A policy of the host, of IPsec or of routing, may take packets from one of its
// locators to a correspondent elsewhere than out of that locator's link. Such a
// path is obstructed: nothing is sent along it, neither data nor control. The core
// does not know policies; the effects above ask the kernel and call HandleObstructed.

// HandleObstructed tells all paths to the node with NID remote that are obstructed
// now; none: no path is. Sessions leave paths that became obstructed at once, and
// take up those that no longer are. Without any other path a session has none, so
// that its packets are dropped until the policy is gone.
func (c *Core) HandleObstructed(now time.Time, remote roam.NID, paths []Path) {
	set := make(map[Path]bool, len(paths))
	for _, p := range paths {
		set[p] = true
	}
	if maps.Equal(set, c.obstructed[remote]) {
		return
	}
	if len(set) == 0 {
		delete(c.obstructed, remote)
	} else {
		c.obstructed[remote] = set
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
	if s := c.preinstalled[SessionKey{c.cfg.NIDs[0], remote}]; s != nil {
		c.stand(now, s)
	}
}

// Obstructed returns the obstructed paths to a node, in no order.
func (c *node) Obstructed(remote roam.NID) []Path {
	return slices.Collect(maps.Keys(c.obstructed[remote]))
}

// isObstructed reports whether a path to the node with NID remote is obstructed.
func (c *node) isObstructed(remote roam.NID, p Path) bool {
	return len(c.obstructed) > 0 && c.obstructed[remote][p]
}

// unobstructed returns those of paths to a node that are not obstructed.
func (c *node) unobstructed(remote roam.NID, paths []Path) []Path {
	if len(c.obstructed) == 0 || len(c.obstructed[remote]) == 0 {
		return paths
	}
	return slices.DeleteFunc(slices.Clone(paths), func(p Path) bool { return c.isObstructed(remote, p) })
}

// nextEnds returns the source and destination of the try-th transmission in the
// order of entryAt, in which obstructed paths are left out; false: all are.
func (c *node) nextEnds(remote roam.NID, try int, sources []roam.LinkLocator, destinations []roam.L64) (Path, bool) {
	n, m := len(sources), len(destinations)
	for k := range n * m {
		i, j := entryAt((try+k)%(n*m), n, m)
		if p := (Path{Local: sources[i], Remote: destinations[j]}); !c.isObstructed(remote, p) {
			return p, true
		}
	}
	return Path{}, false
}

// reachable leaves out of a list of our locators those from which every path to
// the session's correspondent is obstructed: it would get no answer from there.
func (c *node) reachable(s *session, list []listed) []listed {
	if len(c.obstructed) == 0 || len(c.obstructed[s.remoteNID]) == 0 {
		return list
	}
	remotes := s.remotes.all()
	return slices.DeleteFunc(list, func(e listed) bool {
		return !slices.ContainsFunc(c.host.locals, func(l *local) bool {
			return l.L64 == e.l64 && slices.ContainsFunc(remotes, func(r roam.L64) bool {
				return !c.isObstructed(s.remoteNID, Path{Local: l.LinkLocator, Remote: r})
			})
		})
	})
}
