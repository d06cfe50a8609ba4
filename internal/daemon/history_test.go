package daemon

import (
	"fmt"
	"testing"

	"roam"
	"roam/internal/control"
)

func TestHistoryKeepsTheLatestOfEach(t *testing.T) {
	var h history
	h.add(control.Event{Kind: "first", Peer: 1})
	for i := range hostEvents + 10 {
		h.add(control.Event{Kind: fmt.Sprint("host ", i)})
	}
	for i := range peerEvents + 5 {
		h.add(control.Event{Kind: fmt.Sprint("two ", i), Peer: 2})
	}
	got := h.all()
	if want := 1 + hostEvents + peerEvents; len(got) != want {
		t.Fatalf("%d events, want %d", len(got), want)
	}
	if got[0].Kind != "first" || got[1].Kind != "host 10" || got[len(got)-1].Kind != fmt.Sprint("two ", peerEvents+4) {
		t.Errorf("begins with %q, %q, ends with %q", got[0].Kind, got[1].Kind, got[len(got)-1].Kind)
	}
}

func TestHistoryForgetsWhoWasNotHeard(t *testing.T) {
	var h history
	for nid := range roam.NID(maxHeard) {
		h.add(control.Event{Peer: nid + 1})
	}
	h.add(control.Event{Peer: 1}) // heard again
	h.add(control.Event{Peer: maxHeard + 1})
	peers := make(map[roam.NID]bool)
	for _, e := range h.all() {
		peers[e.Peer] = true
	}
	if len(peers) != maxHeard || !peers[1] || peers[2] || !peers[maxHeard+1] {
		t.Errorf("%d correspondents; 1: %v, 2: %v", len(peers), peers[1], peers[2])
	}
}

func TestCountStart(t *testing.T) {
	dir := t.TempDir()
	for want := uint64(1); want <= 3; want++ {
		if n, err := countStart(dir); n != want || err != nil {
			t.Errorf("start %d counts as %d, %v", want, n, err)
		}
	}
}
