package ilnphost

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/config"
	"roam/naming"
	"roam/nidkey"
)

// Names are looked up again while somebody is sought: at once, and rarely after a while.
func TestRendezvous(t *testing.T) {
	var r rendezvous
	now := time.Unix(1000, 0)
	want := func(what string, sought, is bool) {
		t.Helper()
		if r.due(now, sought) != is {
			t.Errorf("%s: due is %t", what, !is)
		}
		now = now.Add(time.Second)
	}
	want("nobody is sought", false, false)
	for range int(lookSoon/time.Second) + 1 {
		want("a first minute", true, true)
	}
	looks := 0
	for range 60 {
		if r.due(now, true) {
			looks++
		}
		now = now.Add(time.Second)
	}
	if looks != int(time.Minute/lookEvery) {
		t.Errorf("%d looks in the second minute, want one every %v", looks, lookEvery)
	}
	want("found", false, false)
	want("sought once more", true, true)
}

// Each sought correspondent gets what a file says by now, also those that are sought only after
// the file was read for another one.
func TestNameFiles(t *testing.T) {
	cfg := config.Default()
	cfg.Host.Hosts = filepath.Join(t.TempDir(), "hosts")
	f := nameFiles{cfg: cfg}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(cfg.Host.Hosts, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(nid roam.NID) (at []roam.L64) {
		list, _ := f.look([]roam.NID{nid})
		for _, r := range list {
			for _, l := range r.Locators {
				at = append(at, l.L64)
			}
		}
		return at
	}
	const one, two roam.NID = 0x1000_0000_0000_00a1, 0x1000_0000_0000_00a2
	write("1000-0-0-a1.2001+db8+1+0 one\n1000-0-0-a2.2001+db8+2+0 two\n")
	if len(at(one)) != 1 || len(at(two)) != 1 || len(at(3)) != 0 {
		t.Fatalf("one at %v, two at %v", at(one), at(two))
	}
	was := [2]roam.L64{at(one)[0], at(two)[0]}
	write("1000-0-0-a1.2001+db8+11+0 one\n1000-0-0-a2.2001+db8+12+0 two\n")
	for i, nid := range []roam.NID{one, two} {
		if got := at(nid); len(got) != 1 || got[0] == was[i] {
			t.Errorf("node %d at %v after it has moved from %v", i, got, was[i])
		}
	}
	if err := os.Remove(cfg.Host.Hosts); err != nil {
		t.Fatal(err)
	}
	if got := at(one); len(got) != 0 {
		t.Errorf("one at %v, and there is no file", got)
	}
}

// A look at the names brings a sought peer's new locators and nothing else: a line that has a fault since, or
// that somebody is writing, takes away neither key nor names. A record that is as before costs no key agreement.
func TestLookUpTakesLocatorsOnly(t *testing.T) {
	const here, there = "nid=1:2:3:4 l64=2001:db8:1:0 ", "nid=1:2:3:4 l64=2001:db8:2:0 "
	key := "key=" + nidkey.Public{9}.String() + " "
	for name, c := range map[string]struct {
		hosts, peers string
		moved, warns bool
	}{
		"as before":                  {here + "old-a\n", here + key + "a\n", false, false},
		"as before, another name":    {here + "old-a\n", here + key + "b\n", false, false},
		"a new locator":              {here + "old-a\n", there + key + "a\n", true, false},
		"and another name":           {"", there + key + "b\n", true, false},
		"its name is another node's": {there + "old-a\nnid=1:2:3:5 a\n", here + key + "a\n", false, true},
		"a fault in another line":    {there + "old-a\nwhat\n", "", false, true},
		"its key is gone":            {there + "old-a\n", there + "a\n", false, false},
		"it is gone":                 {"", "", false, false},
	} {
		h := newKeeper(t, here+"old-a\n", here+key+"a\n")
		var log said
		h.log, h.records = slog.New(slog.NewTextHandler(&log, nil)), make(map[roam.NID]naming.Record)
		before := readHosts(h.cfg)
		h.skipped = before.Faults
		for _, r := range before.Records {
			h.records[r.NID] = r
		}
		was := h.records[nodeA]
		if !was.Key.Present() || len(was.Locators) != 1 {
			t.Fatalf("%s: before: %+v", name, was)
		}
		for file, text := range map[string]string{h.cfg.Host.Hosts: c.hosts, h.cfg.Peers(): c.peers} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := rendezvous{whereabouts: &nameFiles{cfg: h.cfg}}
		moved := r.moved(h, []roam.NID{nodeA})
		r.moved(h, []roam.NID{nodeA})
		if lines := strings.Count(log.text.String(), "not looked up again"); lines != 0 != c.warns || lines > 1 {
			t.Errorf("%s: of two looks the log says %q", name, log.text.String())
		}
		if !c.moved {
			if len(moved) > 0 {
				t.Errorf("%s: takes over %+v", name, moved)
			}
			continue
		}
		if len(moved) != 1 || moved[0].Key != was.Key || !slices.Equal(moved[0].Names, was.Names) ||
			slices.Equal(moved[0].Locators, was.Locators) {
			t.Errorf("%s: takes over %+v, was %+v", name, moved, was)
		}
	}
}

// A peer of which no file told when its session began, as with `host.accept = "any"`, becomes known as a file
// describes it.
func TestLookUpOfAnUnlistedPeer(t *testing.T) {
	h := newKeeper(t, "nid=1:2:3:4 l64=2001:db8:1:0 a\n", "")
	h.records, h.nid = make(map[roam.NID]naming.Record), nodeB
	r := rendezvous{whereabouts: &nameFiles{cfg: h.cfg}}
	if moved := r.moved(h, []roam.NID{nodeA, nodeB, nodeC}); len(moved) != 1 || moved[0].NID != nodeA {
		t.Errorf("takes over %+v", moved)
	}
}
