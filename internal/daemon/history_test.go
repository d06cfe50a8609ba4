package daemon

import (
	"fmt"
	"slices"
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

// TestHistoryFoldsRefreshes: a week of refreshes leaves what happened before them, and says
// how many there were.
func TestHistoryFoldsRefreshes(t *testing.T) {
	var h history
	at := []roam.L64{1}
	h.add(control.Event{Kind: "session-started", Peer: 1})
	refresh := func(n int, l ...roam.L64) {
		for range n {
			h.add(control.Event{Kind: control.KindUpdateSent, Peer: 1, Locators: l})
			h.add(control.Event{Kind: control.KindUpdateAcked, Peer: 1, Locators: l})
		}
	}
	refresh(1000, at...)
	h.add(control.Event{Kind: "path-answered", Peer: 1})
	refresh(3, at...)
	refresh(2, 2)
	refresh(1, at...) // it came back: no refresh of what was before
	var got []string
	for _, e := range h.all() {
		got = append(got, fmt.Sprint(e.Kind, " ", len(e.Locators), " ", e.Omitted))
	}
	want := []string{
		"session-started 0 0", "update-sent 1 0", "update-acked 1 0", "update-sent 1 998", "update-acked 1 998", "path-answered 0 0",
		"update-sent 1 0", "update-acked 1 0", "update-sent 1 1", "update-acked 1 1",
		"update-sent 1 0", "update-acked 1 0", "update-sent 1 0", "update-acked 1 0", "update-sent 1 0", "update-acked 1 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("remembered %q", got)
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
