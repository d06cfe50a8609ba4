package ilnphost

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"roam"
	"roam/internal/config"
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
	at := func(nid roam.NID) (list []roam.L64) {
		for _, r := range f.look([]roam.NID{nid}) {
			for _, l := range r.Locators {
				list = append(list, l.L64)
			}
		}
		return list
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
