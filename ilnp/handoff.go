package ilnp

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"roam"
)

// A host with very many correspondents tells them of its move at a pace that no
// queue on the way need overflow: so many at once, then a batch every so often,
// 12,800 a second. Where a timer was late, up to maxCatchUp batches go together.
const (
	moveFirst  = 256
	moveBatch  = 64
	moveEvery  = 5 * time.Millisecond
	maxCatchUp = 4
)

// round is a change of the host's own locators on its way to the sessions.
type round struct {
	queue []*session // still to be told, those in use first
	moved bool       // a handoff waits for them
	last  time.Time  // when the last batch was told
}

// localsChanged tells every session that the active set, or what a Locator
// Update lists, has changed.
func (c *Core) localsChanged(now time.Time, before []roam.LinkLocator, why string) {
	if moved := !slices.Equal(before, c.host.active); moved {
		c.round.moved = true
		c.beginHandoff(now, before, c.host.active, why)
	}
	c.round.queue, c.round.last = c.byUse(), now
	c.tellSome(now, moveFirst)
	c.preinstalled.updateAll(now)
}

// Announcing reports whether some peers have not been sent a change of this host's locators yet.
func (c *updates) Announcing() bool { return len(c.round.queue) > 0 }

// byUse returns the sessions, those used last first.
func (c *node) byUse() []*session {
	ss := slices.Collect(maps.Values(c.sessions))
	slices.SortFunc(ss, compareUse)
	return ss
}

func compareUse(a, b *session) int {
	return cmp.Or(b.used.Compare(a.used), compareKey(a.key, b.key))
}

// nextBatch goes on with the round.
func (c *liveness) nextBatch(now time.Time) {
	late := int(now.Sub(c.round.last) / moveEvery)
	c.round.last = now
	c.tellSome(now, moveBatch*min(max(late, 1), maxCatchUp))
}

// tellSome tells the next sessions of the round.
func (c *liveness) tellSome(now time.Time, n int) {
	r := &c.round
	for ; n > 0 && len(r.queue) > 0; n-- {
		s := r.queue[0]
		r.queue = r.queue[1:]
		if c.sessions[s.key] == s { // it may have ended meanwhile
			c.followLocals(now, s)
		}
	}
	if len(r.queue) > 0 {
		c.arm(&c.host.schedule, timerMove, now, moveEvery)
		return
	}
	c.disarm(&c.host.schedule, timerMove)
	moved := r.moved
	*r = round{}
	if moved {
		c.concludeHandoff(now)
	}
}

// followLocals brings one session in line with the host's locators.
func (c *liveness) followLocals(now time.Time, s *session) {
	for p := range maps.Keys(s.bad) {
		if _, there := c.host.find(p.Local); !there {
			delete(s.bad, p)
		}
	}
	c.refresh(now, s)
	if c.round.moved && s.update.state == awaiting {
		c.handoff.waiting[s.key] = struct{}{}
	}
	if len(c.host.active) == 0 {
		c.suspendProbes(s)
	} else {
		c.restartProbes(now, s)
	}
}
