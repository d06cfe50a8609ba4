package engine

import (
	"time"

	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/tcpassist"
	ilnpwire "roam/wire/ilnp"
)

// drain carries out everything that the core wants done, in its order; only
// people are told last, since packets wait for the rest.
func (e *Engine) drain(now time.Time) {
	e.drainInto(func(o ilnp.Output) { e.execute(now, o) })
	e.writeObstructed(now)
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

func (e *Engine) execute(now time.Time, o ilnp.Output) {
	switch o := o.(type) {
	case ilnp.Transmit:
		if e.mayTransmit(o) {
			left := e.clock() // before: an answer on a short path may be there when the call returns
			e.transmit(o)
			e.core.HandleSent(left, o.Probe)
		}
	case ilnp.Upsert:
		e.upsert(now, e.permitted(now, o.Entry))
	case ilnp.Delete:
		e.remove(now, o.Key)
	case ilnp.Release:
		e.release(now, o.Key)
	case ilnp.Copy:
		e.copy(o)
	case ilnp.Reject:
		e.reject(o.Key)
	case ilnp.Admit:
		e.admit(o)
	case ilnp.Dismiss:
		e.pending.Forget(o.Pending)
		e.report("forget pending peer", e.cfg.Plane.Dismiss(o.Key, o.Pending.Nonce))
	case ilnp.Abandon:
		e.abandon(o.Key)
	case ilnp.Succession:
		if e.cfg.OnSuccession != nil {
			e.cfg.OnSuccession(o)
		}
	case ilnp.TooBig:
		e.tellTooBig(o)
	case ilnp.PathsChanged:
		e.pathsChanged(now, o)
	case ilnp.Stretch:
		e.assist.HandleStretch(now, tcpassist.Stretch[ilnp.SessionKey]{
			Key: o.Key, Phase: tcpassist.Phase(o.Phase), Buckets: o.Buckets, Most: ilnpwire.CrossMost,
			RTT: o.RTT, Gap: o.Gap, Gain: o.Gain, Rate: o.Rate, Paced: o.Paced,
		})
	case ilnp.Notify:
		if e.cfg.OnEvent != nil {
			e.cfg.OnEvent(o.Event, e)
		}
	}
}

// noRoomEvery is how often the log tells of sessions without an entry.
const noRoomEvery = time.Minute

func (e *Engine) upsert(now time.Time, p ilnp.Entry) {
	e.want(pathsOf(p))
	err := e.cfg.Plane.Upsert(p, dataplane.Turn{
		Before: func() { e.lastLook(p.Key) },
		Held:   func() int { return e.sendHeld(now, p.Key) },
	})
	if _, made := e.entries[p.Key]; err != nil && !made {
		// It has no entry, and release must know. Each packet tries again.
		if now.Sub(e.noRoomTold) >= noRoomEvery {
			e.noRoomTold = now
			e.report("write session", err)
		}
		return
	}
	e.report("write session", err)
	e.keep(p)
	if !p.RuleSought || p.State == ilnp.Plain {
		e.copies.Forget(p.Key)
	}
	e.sessionsChanged(now, p.Key)
	if p.State == ilnp.Established && !p.Encap && !p.Preinstalled {
		e.held.Forget(p.Key) // else they were lost with their option, and are released again
	}
}

func (e *Engine) remove(now time.Time, k ilnp.SessionKey) {
	e.forgetPolicy(now, k)
	e.report("remove session", e.cfg.Plane.Delete(k))
	e.drop(k)
	e.pathMTUs.Forget(k)
	e.assist.HandleEnd(k)
	e.held.Forget(k)
	e.copies.Forget(k)
	e.excess.Forget(k)
	e.sessionsChanged(now, k)
}

// Core gives commands access to the core; use it inside Do only.
func (e *Engine) Core() *ilnp.Core { return e.core }
