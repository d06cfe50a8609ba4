package main

import (
	"strings"
	"testing"
	"time"

	"roam/internal/control"
	"roam/internal/control/controltest"
)

// TestCostOfAMove: `roam explain` says what the last move cost in packets, or that it is unknown.
func TestCostOfAMove(t *testing.T) {
	path := &control.Path{Link: "wwan0", Local: 0x2001_0db8_0002_0001, Remote: 0x2001_0db8_00ff_0001}
	at := func(before time.Duration, kind string, lost *control.LostPackets) control.Event {
		return control.Event{
			Time: controltest.Now.Add(-before), Kind: kind, Peer: 0x0211_22ff_0000_0002, PeerName: "server.example",
			Path: path, Lost: lost,
		}
	}
	const unknown = "How many packets that cost is unknown"
	lost := at(41*time.Second, control.KindPacketsLost, &control.LostPackets{Sent: 12, Received: 3})
	for _, c := range []struct {
		name string
		add  []control.Event
		want string
	}{
		{"no report", nil, unknown},
		{"a report", []control.Event{lost}, "left wwan0 2001:db8:2:1::/64 > 2001:db8:ff:1::/64, 41 s ago, it lost 12 of the " +
			"packets sent and 3 of those that the correspondent sent"},
		{"of an older move", []control.Event{at(time.Minute, control.KindPacketsLost, lost.Lost)}, unknown},
		{"a path avoided since", []control.Event{lost, at(10*time.Second, "path-avoided", nil)}, unknown},
	} {
		w := newWorld(t)
		w.daemon.EventList = append(w.daemon.EventList, c.add...)
		_, out, _ := w.try("explain", "server.example")
		if text := strings.Join(strings.Fields(out), " "); !strings.Contains(text, c.want) {
			t.Errorf("%s: lacks %q:\n%s", c.name, c.want, out)
		}
		if strings.Contains(out, "packets-lost") != (len(c.add) > 0 && c.add[0].Kind == control.KindPacketsLost) {
			t.Errorf("%s: the list of events is wrong:\n%s", c.name, out)
		}
	}
	w := newWorld(t)
	line := w.eventLine(lost)
	if want := "11:59:19.000  packets-lost         server.example  wwan0 2001:db8:2:1::/64 > 2001:db8:ff:1::/64  " +
		"lost 12 sent, 3 received"; line != want {
		t.Errorf("the line of the event is %q, want %q", line, want)
	}
}
