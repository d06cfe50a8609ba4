package ilnp

import (
	"maps"
	"slices"
	"time"

	"roam"
	"roam/multipath"
	"roam/sched"
)

// tellPaths tells what has become of the paths of a session, after the Upsert of its
// entry, to whoever helps its connections over that. Nothing has become of a session
// that has just begun, or that a predecessor left; and one that is only preinstalled
// has no connections.
func (c *steering) tellPaths(s *session, old, now Entry) {
	if old.Key != now.Key || now.Preinstalled {
		return
	}
	why := pathChange(old, now)
	if s.hasLeftDead(old) {
		why |= roam.PathsDied
	}
	if why != 0 {
		c.emit(PathsChanged{Key: now.Key, Why: why, RTT: now.Grace / 2})
	}
}

// pathChange returns what a new entry changes for the connections of its session.
func pathChange(old, now Entry) (why roam.PathChange) {
	add := func(is bool, what roam.PathChange) {
		if is {
			why |= what
		}
	}
	moved := !slices.Equal(old.Paths, now.Paths)
	add(anyNew(old.Paths, now.Paths), roam.PathsAdded)
	add(anyNew(now.Paths, old.Paths), roam.PathsLost)
	add(moved && why == 0, roam.PathsReordered)
	add(now.PerFlow && !old.PerFlow || leavesLong(old, now), roam.FlowsGathered)
	add(moved && (now.PerFlow || len(now.Long) > 0) || movesWhole(old, now), roam.FlowsRehashed)
	wasDown, isDown := old.Dead || len(old.Paths) == 0, now.Dead || len(now.Paths) == 0
	add(wasDown && !isDown, roam.PathsReturned)
	add(isDown && (why != 0 || !wasDown), roam.PathsDown)
	wasUnvalidated, isUnvalidated := old.isUnvalidated(), now.isUnvalidated()
	add(!isDown && isUnvalidated && (why != 0 || !wasUnvalidated), roam.PathsUnvalidated)
	add(!isDown && wasUnvalidated && !isUnvalidated, roam.PathsValidated)
	return why
}

// hasLeftDead reports whether a path of an old entry is not taken any more as it was found dead:
// segments and acknowledgements were lost on it.
func (s *session) hasLeftDead(old Entry) bool {
	taken := s.carriers()
	return slices.ContainsFunc(old.carriers(), func(p Path) bool {
		return !slices.Contains(taken, p) && (s.bad[p] || s.avoids(p))
	})
}

// isUnvalidated reports whether all that is sent keeps to the allowances of unvalidated
// locators which only the correspondent named.
func (e Entry) isUnvalidated() bool {
	isFree := func(p Path) bool {
		return !slices.Contains(e.Unvalidated, p.Remote) || slices.Contains(e.Given, p.Remote)
	}
	return e.State == Established && len(e.Paths) > 0 &&
		!slices.ContainsFunc(e.Paths, isFree) && !slices.ContainsFunc(e.Reserve, isFree)
}

// movesWhole reports whether connections that keep to one path each have another one than before.
func movesWhole(old, now Entry) bool {
	return !maps.Equal(old.placed(), now.placed()) || old.PerFlow && now.PerFlow && !old.sameHomes(now)
}

// sameHomes reports whether each connection has the same path in two entries in which it keeps to one.
func (e Entry) sameHomes(o Entry) bool {
	if e.Table == nil || o.Table == nil {
		return e.Table == o.Table
	}
	for b := range multipath.Buckets {
		p, _ := e.Table.Home(b)
		if q, _ := o.Table.Home(b); p != q {
			return false
		}
	}
	return true
}

// anyNew reports whether there is a path that was not there before.
func anyNew(before, now []Path) bool {
	return slices.ContainsFunc(now, func(p Path) bool { return !slices.Contains(before, p) })
}

// leavesLong reports whether connections leave a path, as it turned out to be a long one.
func leavesLong(old, now Entry) bool {
	return old.State == Established && slices.ContainsFunc(now.Long, func(p Path) bool {
		return slices.Contains(old.Paths, p) && !slices.Contains(old.Long, p)
	})
}

// hope takes an entry that is held for dead as alive on a locator that it has
// not been sent to from yet: data need not wait for the answer to a probe.
func (c *steering) hope(now time.Time, s *session) {
	if !s.dead {
		return
	}
	s.dead, s.watch = false, watch{state: suspect, since: now}
	c.notify(Event{Time: now, Kind: PeerAlive, Key: s.key, Reason: "tried from a new locator"})
	c.arm(&s.schedule, timerProbe, now, sched.Tick) // behind the Locator Update
}
