package ilnphost

import (
	"errors"
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
)

// TestWalkLetsTheEngineGoOn: all keys come, in their order, and the engine waits for no more of them
// than fit in walkFor.
func TestWalkLetsTheEngineGoOn(t *testing.T) {
	const each = 100 * time.Microsecond
	var keys, got []ilnp.SessionKey
	for i := range 1000 {
		keys = append(keys, ilnp.SessionKey{Local: 1, Remote: roam.NID(i)})
	}
	now := time.Unix(1_900_000_000, 0)
	worst := time.Duration(0)
	look := func(_ time.Time, some []ilnp.SessionKey) {
		now = now.Add(time.Duration(len(some)) * each)
		got = append(got, some...)
	}
	do := func(step func(time.Time)) error {
		began := now
		step(now)
		worst = max(worst, now.Sub(began))
		return nil
	}
	err := inSteps(keys, func() time.Time { return now }, look, do)
	if err != nil || !slices.Equal(got, keys) {
		t.Errorf("%d keys of %d, %v", len(got), len(keys), err)
	}
	if limit := walkFor + walkStep*each; worst > limit {
		t.Errorf("the engine stands still for %v, want %v at most", worst, limit)
	}
	failure := errors.New("the engine has stopped")
	err = inSteps(keys, time.Now, look, func(func(time.Time)) error { return failure })
	if !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
}
