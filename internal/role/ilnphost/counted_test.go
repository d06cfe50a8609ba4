package ilnphost

import (
	"errors"
	"slices"
	"testing"

	"roam/ilnp"
	"roam/internal/control"
	dataplane "roam/internal/dataplane/ilnphost"
)

// TestCountsThatCannotBeRead: such a session is shown, with the reason in place of counts.
func TestCountsThatCannotBeRead(t *testing.T) {
	traffic := dataplane.Traffic{TxPackets: 1, TxBytes: 2, RxPackets: 3, RxBytes: 4, Path: ilnp.Path{Remote: 5}}
	s := control.Session{NID: 7}
	counted(&s, traffic, nil, shownNames{})
	if got := []uint64{s.TxPackets, s.TxBytes, s.RxPackets, s.RxBytes}; !slices.Equal(got, []uint64{1, 2, 3, 4}) ||
		s.InUse == nil || s.CountsError != "" {
		t.Errorf("%+v", s)
	}
	s = control.Session{NID: 7}
	counted(&s, traffic, errors.New("no such slot"), shownNames{})
	if s.CountsError != "no such slot" || s.InUse != nil || s.TxPackets != 0 {
		t.Errorf("%+v", s)
	}
}
