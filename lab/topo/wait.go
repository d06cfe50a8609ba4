package topo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waitEvery is the pause between two looks at a condition.
const waitEvery = 5 * time.Millisecond

// errTimeout is what wait returns when the condition did not come true.
var errTimeout = errors.New("timed out")

// Wait looks at ok every few milliseconds until it returns true or ctx ends,
// and then returns an error that names what was waited for. Experiments use
// it in place of sleeping.
func Wait(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for {
		if ok() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
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
