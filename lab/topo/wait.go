package topo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waitEvery is the pause between two checks of a condition, and the first pause of
// WaitSparing, whose longest is waitAtMost.
const (
	waitEvery  = 5 * time.Millisecond
	waitAtMost = 100 * time.Millisecond
)

// errTimeout is the error of wait if the condition did not become true.
var errTimeout = errors.New("timed out")

// Wait calls ok every few milliseconds until it returns true or ctx ends; then its error
// names what. Experiments use it in place of sleeping.
func Wait(ctx context.Context, what string, ok func() bool) error {
	return waitPausing(ctx, what, ok, func(time.Duration) time.Duration { return waitEvery })
}

// WaitSparing is Wait for an expensive check, such as one that starts a program. The pause
// is a tenth of the wait so far, up to 0.1 s, so that the checks do not slow down the event
// itself.
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
