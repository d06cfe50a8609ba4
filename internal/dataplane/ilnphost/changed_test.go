package ilnphost

import (
	"slices"
	"testing"

	"roam"
	"roam/ilnp"
)

// TestChangedSlots: sessions are read that have had packets since, twice, and no others.
func TestChangedSlots(t *testing.T) {
	const slots = 1000
	lines := &lineTable{lines: make([]bpfSessionLive, slots)}
	var c changedSlots
	for slot := range uint32(slots) {
		c.set(slot, ilnp.SessionKey{Local: 1, Remote: roam.NID(slot + 1)})
	}
	for _, step := range []struct {
		what   string
		before func()
		want   []uint32
	}{
		{"nothing", func() {}, nil},
		{"two sessions", func() { lines.lines[7].LastTx, lines.lines[999].LastRx = 5, 6 }, []uint32{7, 999}},
		{"perhaps more within the tick", func() { lines.lines[7].LastRx = 6 }, []uint32{7, 999}},
		{"one was late", func() {}, []uint32{7}},
		{"nothing again", func() {}, nil},
		{"one that has ended", func() { lines.lines[3].LastTx = 9; c.free(3) }, nil},
		{"its slot has another", func() {
			c.set(3, ilnp.SessionKey{Local: 1, Remote: 4})
			lines.lines[3].LastTx = 10
		}, []uint32{3}},
		{"could not be read", func() { c.putBack([]uint32{8}) }, []uint32{3, 8}},
		{"and that", func() {}, nil},
	} {
		step.before()
		if got := c.take(lines); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
}
