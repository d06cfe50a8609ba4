package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/control/controltest"
)

// TestExplainTheLink: what made the host, or the session, use the link that it uses.
func TestExplainTheLink(t *testing.T) {
	other := control.Path{Link: "wwan0", Local: 0x2001_0db8_0002_0001, Remote: 0x2001_0db8_00ff_0001}
	moved := func(w *world) {
		s := &w.daemon.SessionList[0]
		s.Paths, s.Views = []control.SessionPath{{Path: other}}, nil
	}
	for name, c := range map[string]struct {
		uplinks string // of roam.conf
		do      func(w *world)
		want    string
	}{
		"neither preferred": {"", func(*world) {}, "because in mode soft the newest link that works carries everything"},
		"preferred":         {`prefer = ["wlan*"]`, func(*world) {}, "the first link of uplinks.prefer that works carries"},
		"both preferred":    {`prefer = ["w*"]`, func(*world) {}, "the newest link that works carries"},
		"lower preference": {`preference = { wwan0 = 80 }`, func(*world) {},
			"the link with the lowest uplinks.preference that works carries"},
		"one of the best": {`preference = { eth0 = 80 }`, func(w *world) {
			w.daemon.LocatorList = append(w.daemon.LocatorList, control.Locator{Link: "eth0", L64: 7, State: "valid"})
		}, "the newest of the links that uplinks.preference and uplinks.prefer put first carries"},
		"the other is avoided": {"", func(w *world) {
			moved(w)
			first := other
			first.Link, first.Local = "wlan0", 0x2001_0db8_0001_0001
			w.daemon.SessionList[0].Views = []control.PathView{
				{Path: other, InUse: true, Why: "in use"}, {Path: first, Why: "avoided: no answers"},
			}
		}, "although the host prefers wlan0, as wlan0 2001:db8:1:1::/64 > 2001:db8:ff:1::/64 is avoided: no answers, tow"},
		"not acknowledged": {"", func(w *world) {
			moved(w)
			w.daemon.EventList = append(w.daemon.EventList, control.Event{
				Time: controltest.Now.Add(-time.Second), Kind: "handoff-returned", Peer: w.daemon.SessionList[0].RemoteAlias,
			})
		}, "although the host prefers wlan0, as the correspondent has acknowledged no Locator Update with its locator"},
		"not known": {"", moved, "although the host prefers wlan0, towards"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ruled(w)
			c.do(w)
			w.usual = filepath.Join(t.TempDir(), "roam.conf")
			if err := os.WriteFile(w.usual, []byte("[uplinks]\n"+c.uplinks+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			status, out, errs := w.try("explain", "server")
			flat := strings.Join(strings.Fields(out), " ")
			if status != cli.StatusOK || errs != "" || !strings.Contains(flat, c.want) {
				t.Errorf("status %d, %q, want %q: %s", status, errs, c.want, out)
			}
		})
	}
}
