package topo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waitEvery is the pause between two looks at a condition, and the first one of
// WaitSparing, whose last is waitAtMost.
const (
	waitEvery  = 5 * time.Millisecond
	waitAtMost = 100 * time.Millisecond
)

// errTimeout is what wait returns when the condition did not come true.
var errTimeout = errors.New("timed out")

// Wait looks at ok every few milliseconds until it returns true or ctx ends,
// and then returns an error that names what was waited for. Experiments use
// it in place of sleeping.
func Wait(ctx context.Context, what string, ok func() bool) error {
	return waitPausing(ctx, what, ok, func(time.Duration) time.Duration { return waitEvery })
}

// WaitSparing is Wait for a look that costs processor time, as one that starts a
// program does: the pause is a tenth of the wait so far, up to a tenth of a second,
// so that what is waited for is not held up by the waiting.
func WaitSparing(ctx context.Context, what string, ok func() bool) error {
	return waitPausing(ctx, what, ok, func(waited time.Duration) time.Duration {
		return min(max(waited/10, waitEvery), waitAtMost)
	})
}

func waitPausing(ctx context.Context, what string, ok func() bool,
	next func(waited time.Duration) time.Duration) error {
	began := time.Now()
	pause := time.NewTimer(next(0))
	defer pause.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-pause.C:
			pause.Reset(next(time.Since(began)))
		}
	}
	return nil
}

// wait is Wait with a span of time and no name.
func wait(within time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if Wait(ctx, "", ok) != nil {
		return errTimeout
	}
	return nil
}
