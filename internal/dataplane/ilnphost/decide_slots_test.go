package ilnphost

import "math/rand/v2"

// chooseSlots takes a key of the index by which the first two sessions of a world are in their own
// slots, where the compact path looks first; others are by chance. One session only is if there is
// no such key, as where both have the same aliases.
func (r *decideRig) chooseSlots(w *world) {
	draw := rand.New(rand.NewPCG(1, 1)) // one world has one key
	for wanted := min(2, len(w.sessions)); wanted > 0; wanted-- {
		for range 4096 {
			r.index.key = [2]uint64{draw.Uint64(), draw.Uint64()}
			own := 0
			for i, p := range w.sessions[:wanted] {
				if ownSlot(r.index.hash(p.Alias), r.slots.limit) == uint32(i) {
					own++
				}
			}
			if w.host.IndexKey = r.index.key; own == wanted {
				return
			}
		}
	}
}
