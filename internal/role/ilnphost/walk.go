package ilnphost

import (
	"cmp"
	"context"
	"slices"
	"time"

	"roam/ilnp"
	"roam/internal/loop"
)

// Who reads all correspondents holds up the engine for walkFor at a time, in which it looks at
// walkStep of them at least.
const (
	walkFor  = 5 * time.Millisecond
	walkStep = 16
)

// walk calls f for the keys of all correspondents, in their order, a few at a time in the
// engine's goroutine. Between these the engine goes on, so a correspondent may have gone when its key
// comes, and one that comes meanwhile is left out.
func walk(ctx context.Context, h *Host, f func(now time.Time, keys []ilnp.SessionKey)) error {
	return walkThen(ctx, h, f, func() error { return nil })
}

// walkThen is walk, and calls then after each few in the caller's goroutine: it may take its
// time. Its error ends the walk.
func walkThen(ctx context.Context, h *Host, f func(now time.Time, keys []ilnp.SessionKey), then func() error) error {
	var keys []ilnp.SessionKey
	if err := h.do(ctx, func(time.Time) { keys = h.engine.Core().Correspondents() }); err != nil {
		return err
	}
	slices.SortFunc(keys, func(a, b ilnp.SessionKey) int {
		return cmp.Or(cmp.Compare(a.Local, b.Local), cmp.Compare(a.Remote, b.Remote))
	})
	return inSteps(keys, time.Now, f, func(step func(time.Time)) error {
		if err := h.do(ctx, step); err != nil {
			return err
		}
		return then()
	})
}

// inSteps gives f all keys by as many calls of do as they take.
func inSteps(keys []ilnp.SessionKey, clock loop.Clock, f func(time.Time, []ilnp.SessionKey),
	do func(func(time.Time)) error,
) error {
	for len(keys) > 0 {
		err := do(func(now time.Time) {
			for began := clock(); len(keys) > 0 && clock().Sub(began) < walkFor; {
				n := min(walkStep, len(keys))
				f(now, keys[:n])
				keys = keys[n:]
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
