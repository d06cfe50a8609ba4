package engine

import (
	"slices"
	"time"

	"roam"
	"roam/ilnp"
)

// drain carries out everything that the core wants done.
func (e *Engine) drain() { e.drainInto(e.carryOut) }

func (e *Engine) drainInto(f func(ilnp.Output)) {
	for {
		o, ok := e.core.Poll()
		if !ok {
			return
		}
		f(o)
	}
}

func (e *Engine) carryOut(o ilnp.Output) {
	switch o := o.(type) {
	case ilnp.Transmit:
		e.transmit(o)
	case ilnp.Upsert:
		e.upsert(o.Pair)
	case ilnp.Delete:
		e.remove(o.Key)
	case ilnp.Release:
		e.release(o.Key)
	case ilnp.Reject:
		e.reject(o.Key)
	case ilnp.Notify:
		if e.cfg.OnEvent != nil {
			e.cfg.OnEvent(o.Event, e)
		}
	}
}

func (e *Engine) upsert(p ilnp.Pair) {
	e.want(p.Paths)
	e.report("write session", e.cfg.Plane.Upsert(p))
	old := e.pairs[p.Key]
	e.pairs[p.Key] = p
	e.saveSoon()
	if p.State == ilnp.Established && !p.Carry {
		e.held.forget(p.Key) // else they were lost with their option, and are released again
	}
	if len(old.Paths) > 0 && !slices.Equal(old.Paths, p.Paths) {
		delete(e.tooBig, p.Key)
		e.report("forget path MTU", e.cfg.Network.FlushPMTU(e.sessionAddr(p.Key.Remote).Addr()))
	}
}

func (e *Engine) remove(k ilnp.PairKey) {
	e.report("remove session", e.cfg.Plane.Delete(k))
	delete(e.pairs, k)
	delete(e.tooBig, k)
	e.held.forget(k)
	e.saveSoon()
}

func (e *Engine) saveSoon() {
	if e.saveAt.IsZero() {
		e.saveAt = time.Now().Add(saveAfter)
	}
}

func (e *Engine) sessionAddr(n roam.NID) roam.ILV {
	return roam.ILV{L64: e.cfg.SessionPrefix, NID: n}
}

// Core gives commands access to the core; use it inside Do only.
func (e *Engine) Core() *ilnp.Core { return e.core }
