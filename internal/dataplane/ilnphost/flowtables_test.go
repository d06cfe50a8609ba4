package ilnphost

import (
	"testing"

	"roam"
	"roam/ilnp"
	"roam/multipath"
)

// A bucket whose paths have gone joins those that take several, and leaves these as they are; where
// there are none, it takes one path.
func TestBucketsWithoutPaths(t *testing.T) {
	const peer roam.L64 = 9
	var u uplinkTable
	var paths []ilnp.Path
	row := bpfSessionEntry{N_paths: 3}
	row.Remote[0] = half(uint64(peer))
	for i := range 4 {
		at := roam.LinkLocator{Link: roam.LinkID(i + 1), L64: roam.L64(i + 1)}
		paths = append(paths, ilnp.Path{Local: at, Remote: peer})
		if i < 3 { // the last one is in no entry any more
			u.owner[i], row.Paths[i] = at, uint8(i<<4)
		}
	}
	const gone, alone = 5, 6
	for _, spread := range []bool{true, false} {
		table := &ilnp.Table{Paths: paths, Costs: []uint16{1, 1, 1, 1}}
		for b := range multipath.Buckets {
			table.Sets[b] = 1 << 2
			if spread {
				table.Sets[b] = 1<<0 | 1<<1
			}
		}
		table.Sets[gone], table.Sets[alone] = 1<<3, 1<<2
		s, ok := u.tableSets(table, &row)
		several := uint16(0)
		if spread {
			several = 1<<0 | 1<<1
		}
		if isAlone := s.alone>>gone&1 == 1; !ok || s.several != several || isAlone == spread || s.alone>>alone&1 != 1 {
			t.Errorf("spread %v: %v, several %b, alone %b", spread, ok, s.several, s.alone)
		}
	}
}
