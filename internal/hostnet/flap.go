package hostnet

import (
	"slices"
	"time"

	"roam"
)

const (
	// flapMost carriers lost within flapWindow make a link unsteady. A host
	// that walks between two networks on purpose does not lose one as often.
	flapMost   = 4
	flapWindow = 5 * time.Second
	// flapSteady is how long an unsteady link must then keep its carrier.
	flapSteady = time.Second
)

// dampFlaps holds back the Locators of a link whose carrier comes and goes, as
// at the edge of a cell, as long as another link works: each return would be a
// handoff there and back, a Locator Update each for every correspondent, and
// some packets. A link without alternative is used whenever it can be. It
// returns when to look again.
func (h *Host) dampFlaps(before picture, now time.Time) (wake time.Time) {
	for i, u := range h.picture.uplinks {
		if before.uplinks[i].Up && !u.Up {
			h.flaps[i] = append(h.flaps[i], now)
		}
	}
	unsteady := map[int]time.Time{} // until when
	for i, lost := range h.flaps {
		if _, still := h.picture.uplinks[i]; !still {
			delete(h.flaps, i)
			continue
		}
		last := lost[len(lost)-1].Add(flapSteady)
		lost = slices.DeleteFunc(lost, func(at time.Time) bool { return now.Sub(at) > flapWindow })
		if len(lost) == 0 {
			delete(h.flaps, i)
			continue
		}
		h.flaps[i] = lost
		if len(lost) >= flapMost && last.After(now) {
			unsteady[i] = last
		}
	}
	if len(unsteady) == 0 || !h.steadyElsewhere(now) {
		return time.Time{}
	}
	for l, x := range h.picture.locators {
		until, held := unsteady[int(l.Link)]
		if held && x.usable && !before.locators[l].usable {
			x.usable = false
			h.picture.locators[l] = x
			wake = sooner(wake, until)
		}
	}
	return wake
}

// steadyElsewhere reports whether a Locator can be used on a link that has not
// lost its carrier a moment ago: one that has may go again as soon.
func (h *Host) steadyElsewhere(now time.Time) bool {
	return slices.ContainsFunc(sortedLocals(h.picture.locators), func(l roam.LinkLocator) bool {
		lost := h.flaps[int(l.Link)]
		steady := len(lost) == 0 || now.Sub(lost[len(lost)-1]) >= flapSteady
		return steady && h.picture.locators[l].usable
	})
}
