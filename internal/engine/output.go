package engine

import (
	"time"

	"roam"
	"roam/ilnp"
)

// drain carries out everything that the core wants done, in its order; only
// people are told last, since packets wait for the rest.
func (e *Engine) drain() {
	e.drainInto(e.execute)
	e.writeObstructed()
}

func (e *Engine) drainInto(f func(ilnp.Output)) {
	var told []ilnp.Notify
	for o, ok := e.core.Poll(); ok; o, ok = e.core.Poll() {
		if n, is := o.(ilnp.Notify); is {
			told = append(told, n)
			continue
		}
		f(o)
	}
	for _, n := range told {
		f(n)
	}
}

func (e *Engine) execute(o ilnp.Output) {
	switch o := o.(type) {
	case ilnp.Transmit:
		if e.mayTransmit(o) {
			e.transmit(o)
		}
	case ilnp.Upsert:
		e.upsert(e.permitted(time.Now(), o.Entry))
	case ilnp.Delete:
		e.remove(o.Key)
	case ilnp.Release:
		e.release(o.Key)
	case ilnp.Copy:
		e.copy(o)
	case ilnp.Reject:
		e.reject(o.Key)
	case ilnp.Admit:
		e.admit(o)
	case ilnp.Dismiss:
		e.unsure.forget(o.Pending)
		e.report("forget pending peer", e.cfg.Plane.Dismiss(o.Key, o.Pending.Nonce))
	case ilnp.Abandon:
		e.abandon(o.Key)
	case ilnp.TooBig:
		e.tellTooBig(o)
	case ilnp.PathsChanged:
		e.pathsChanged(time.Now(), o)
	case ilnp.Notify:
		if e.cfg.OnEvent != nil {
			e.cfg.OnEvent(o.Event, e)
		}
	}
}

// noRoomEvery is how often the log tells of sessions without an entry.
const noRoomEvery = time.Minute

func (e *Engine) upsert(p ilnp.Entry) {
	e.want(p.Paths)
	err := e.cfg.Plane.Upsert(p)
	if _, made := e.entries[p.Key]; err != nil && !made {
		// It has no entry, and release must know. Each packet tries again.
		if time.Since(e.noRoomTold) >= noRoomEvery {
			e.noRoomTold = time.Now()
			e.report("write session", err)
		}
		return
	}
	e.report("write session", err)
	e.keep(p)
	if !p.RuleSought || p.State == ilnp.Plain {
		e.firsts.forget(p.Key)
	}
	e.sessionsChanged()
	if p.State == ilnp.Established && !p.Encap && !p.Preinstalled {
		e.held.forget(p.Key) // else they were lost with their option, and are released again
	}
}

func (e *Engine) remove(k ilnp.SessionKey) {
	e.forgetPolicy(time.Now(), k)
	e.report("remove session", e.cfg.Plane.Delete(k))
	e.drop(k)
	delete(e.tooBig, k)
	e.assist.HandleEnd(k)
	e.held.forget(k)
	e.firsts.forget(k)
	e.excess.forget(k)
	e.sessionsChanged()
}

// pmtuLife is how long the kernel remembers a path MTU (route.mtu_expires).
const pmtuLife = 10 * time.Minute

// narrowed reports whether the kernel may know a path MTU of the session: it
// learns of one from what is injected here, or was by a predecessor. To ask it
// for every session of a move would take longer than all the rest.
func (e *Engine) narrowed(now time.Time, k ilnp.SessionKey) bool {
	_, told := e.tooBig[k]
	return told || e.adopted && now.Sub(e.began) < pmtuLife
}

func (e *Engine) sessionAddr(n roam.NID) roam.ILV {
	return roam.ILV{L64: e.cfg.SessionPrefix, NID: n}
}

// Core gives commands access to the core; use it inside Do only.
func (e *Engine) Core() *ilnp.Core { return e.core }
