package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"roam"
	"roam/ilnp"
	dataplane "roam/internal/dataplane/ilnphost"
	"roam/internal/hostnet"
)

// adoptWithin is how long a successor waits for the locators of the sessions that it
// found before it believes that they are gone.
const adoptWithin = 2 * time.Second

// start brings the core to the present state of the host before the data plane
// is touched, so that sessions of an earlier process are not interrupted.
func (e *Engine) start(ctx context.Context) error {
	now := e.clock()
	e.begin(now)
	if err := e.restore(now); err != nil {
		// Sessions that cannot be restored end; the host still comes up.
		e.cfg.Log.Warn("sessions of the last run are lost", "err", err)
	}
	e.inheritDisabled(now)
	if e.cfg.OnRestored != nil {
		e.cfg.OnRestored(now)
	}
	missing := make(map[roam.LinkLocator]bool)
	for _, l := range e.inUse() {
		missing[l] = true
	}
	e.adopting = true
	if len(missing) > 0 {
		e.pathMTUs.Inherit(now)
	}
	deadline := time.NewTimer(adoptWithin)
	defer deadline.Stop()
	for len(missing) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			clear(missing)
		case ev, ok := <-e.cfg.Network.Events():
			if !ok {
				return errNetworkEnded // before the rows of locators that nobody has seen go
			}
			now = e.clock()
			e.handleNetwork(now, ev)
			switch ev := ev.(type) {
			case hostnet.LocatorChanged:
				if ev.Present {
					delete(missing, ev.LinkLocator)
				}
			case hostnet.LinkGone:
				maps.DeleteFunc(missing, func(l roam.LinkLocator, _ bool) bool { return l.Link == ev.Link })
			}
		}
	}
	e.adopting, now = false, e.clock()
	e.writeUplinks()
	for _, p := range e.core.Snapshot() {
		e.permitted(now, p) // the core leaves its obstructed paths
	}
	e.drainInto(func(o ilnp.Output) {
		switch o.(type) {
		case ilnp.Upsert, ilnp.Delete: // all at once, below
		case ilnp.PathsChanged: // its connections have not been there to see it
		default:
			e.execute(now, o)
		}
	})
	return e.takeOver(now)
}

// takeOver writes all sessions, and has the programs of this build translate from then on.
func (e *Engine) takeOver(now time.Time) error {
	all := e.core.Snapshot()
	for i, p := range all {
		all[i] = e.permitted(now, p)
	}
	e.writeObstructed(now)
	hints, err := e.cfg.Plane.Hints()
	e.report("read where peers have moved meanwhile", err)
	if err := e.sync(all); err != nil {
		return err
	}
	if err := e.cfg.Plane.TakeOver(); err != nil {
		return fmt.Errorf("take over from the last run: %w", err)
	}
	for _, ev := range hints {
		e.handlePlane(now, ev)
	}
	e.drain(now)
	return nil
}

// inUse returns the locators that sessions of an earlier process send from: as its
// programs do, or, where these go on with maps of their own, as it has left word.
func (e *Engine) inUse() []roam.LinkLocator {
	if !e.cfg.Plane.Behind() {
		return e.cfg.Plane.UplinksInUse()
	}
	var list []roam.LinkLocator
	for _, p := range e.core.Snapshot() {
		for _, path := range p.Paths {
			list = append(list, path.Local)
		}
	}
	return list
}

// sync brings the data plane up to date. There may be more sessions than room, as less
// is configured than was: those without an entry are not among pairs (see upsert).
func (e *Engine) sync(all []ilnp.Entry) error {
	err := e.cfg.Plane.Sync(all)
	full := errors.Is(err, dataplane.ErrFull)
	if err != nil && !full {
		return fmt.Errorf("bring the data plane up to date: %w", err)
	}
	for _, p := range all {
		if !full || e.cfg.Plane.Upsert(p, dataplane.Turn{}) == nil {
			e.keep(p)
		}
	}
	if n := len(all) - len(e.entries); n > 0 {
		e.report("keep all sessions of the last run", fmt.Errorf("%d of %d: %w", n, len(all), dataplane.ErrFull))
	}
	return nil
}

// restore takes the sessions of the last run. Where the data plane was removed
// since, by command or by a reboot, so was the file for a successor.
func (e *Engine) restore(now time.Time) error {
	take := e.core.Restore
	b, err := os.ReadFile(e.cfg.StateFile)
	if errors.Is(err, os.ErrNotExist) && e.cfg.RecordFile != "" {
		take = e.core.Recall
		b, err = os.ReadFile(e.cfg.RecordFile)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read sessions of the last run: %w", err)
	}
	if err := take(now, b); err != nil {
		return fmt.Errorf("restore sessions of the last run: %w", err)
	}
	return nil
}
