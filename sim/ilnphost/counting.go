package ilnphost

import (
	"slices"

	"roam/ilnp"
)

// readHeard reports to the core when each peer was last heard, before its locators change.
func (h *Node) readHeard() {
	keys := h.core.Unacquainted()
	h.core.HandleHeard(slices.DeleteFunc(h.plane.activity(), func(a ilnp.Activity) bool {
		return !slices.Contains(keys, a.Key)
	}))
}

// tick reports the counts of the data plane to the core.
func (h *Node) tick() {
	if as := h.plane.changes(h.core.Watched()); len(as) > 0 {
		h.core.HandleActivity(h.net.Now(), as)
		h.Settle()
	}
	h.net.After(h.net.Counting, h.tick)
}

// observe reports an observation of the data plane to the core.
func (h *Node) observe(o ilnp.Observation) {
	h.net.Note(h.name, "sees %v", o.Trigger)
	h.core.HandleObservation(h.net.Now(), o)
	h.Settle()
}
