package ilnphost

import (
	"testing"

	"roam/ilnp"

	"roam"
)

func TestPathInUse(t *testing.T) {
	wifi, mobile := roam.LinkLocator{Link: 2, L64: 0x2001_0db8_0001_0001}, roam.LinkLocator{Link: 3, L64: 0x2001_0db8_0002_0001}
	p := &Plane{}
	p.uplinks.owner[0], p.uplinks.owner[1] = wifi, mobile
	row := bpfSessionEntry{Seq: 7, Birth: 1, N_paths: 2, N_remote: 1}
	row.Remote[0] = half(0x2001_0db8_00ff_0001)
	row.Paths[0], row.Paths[1] = 0<<4, 1<<4
	key := ilnp.SessionKey{Local: 1, Remote: 2}
	live := func(seq uint32, bytes ...uint32) (l seen) {
		l.Birth, l.Seq = 1, seq
		copy(l.Turns.Bytes[:], bytes)
		return l
	}
	for _, step := range []struct {
		name string
		live seen
		want roam.LinkLocator // zero: none
	}{
		{"nothing was sent", seen{}, roam.LinkLocator{}},
		{"sent on the second", live(7, 0, 100), mobile},
		{"more on the first since", live(7, 90, 150), wifi},
		{"idle since", live(7, 90, 150), wifi},
		{"a counter wrapped", live(7, 90, 10), mobile},
		{"counters of an older entry", live(6, 500, 0), mobile},
	} {
		if got := p.inUse(key, row, step.live); got.Local != step.want {
			t.Errorf("%s: %v, want %v", step.name, got.Local, step.want)
		}
	}
	row.Seq, row.N_paths = 8, 1
	if got := p.inUse(key, row, live(7, 500, 600)); got != (ilnp.Path{}) {
		t.Errorf("the entry has lost the path: %v", got)
	}
}
