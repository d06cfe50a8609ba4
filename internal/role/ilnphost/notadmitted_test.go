package ilnphost

import (
	"testing"
	"time"

	"roam"
	dataplane "roam/internal/dataplane/ilnphost"
)

// TestUnlisted: who was refused is told once, counted by seconds, and forgotten when
// there are too many or when it is made known.
func TestUnlisted(t *testing.T) {
	var s refusedNodes
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	from := func(nid roam.NID, second int) dataplane.Refusal {
		return dataplane.Refusal{At: at.Add(time.Duration(second) * time.Second), Remote: roam.ILV{NID: nid, L64: 0x2001_0db8 << 32}}
	}
	if !s.see(from(1, 1)) || s.see(from(1, 1)) || s.see(from(1, 2)) || !s.see(from(2, 3)) || s.see(from(2, 2)) {
		t.Error("told of a node more than once, or not at all")
	}
	list := s.sorted()
	if len(list) != 2 || list[0].NID != 2 || list[1].Seconds != 2 {
		t.Errorf("refused %+v", list)
	}
	s.forget(2)
	for i := range mostRefused {
		s.see(from(roam.NID(100+i), 10+i))
	}
	if list := s.sorted(); len(list) != mostRefused || list[0].NID != 100+mostRefused-1 || list[len(list)-1].NID != 100 {
		t.Errorf("%d pending peers, from %v to %v", len(list), list[0].NID, list[len(list)-1].NID)
	}
}
