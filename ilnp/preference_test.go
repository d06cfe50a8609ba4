package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// preferring gives links numbers in place of names; links that are not named have the usual
// preference.
func preferring(table map[string]uint16) func(string) uint16 {
	return func(link string) uint16 {
		if p, ok := table[link]; ok {
			return p
		}
		return preferActive
	}
}

// link adds a locator on a link with a name.
func (b *bench) link(id roam.LinkID, name string, l roam.L64) {
	at := roam.LinkLocator{Link: id, L64: l}
	b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: at, LinkName: name, Present: true, Preferred: roam.Infinite})
	b.drain()
}

// announced returns the preferences that the last Locator Update announces.
func (b *bench) announced() map[roam.L64]uint32 {
	b.t.Helper()
	list := b.updates()
	if len(list) == 0 {
		return nil
	}
	m := make(map[roam.L64]uint32)
	for _, e := range list[len(list)-1].Locators {
		m[e.L64] = e.Preference
	}
	return m
}

// The user's preferences say on which link a host stays, in place of the newest one, and
// travel in Locator Updates. A locator in reserve never has the number of one in use.
func TestPreferencesOfOurLocators(t *testing.T) {
	for name, c := range map[string]struct {
		mode  Mode
		table map[string]uint16
		uses  []roam.L64
		want  map[roam.L64]uint32
	}{
		"none": {
			Soft, nil,
			[]roam.L64{netB}, map[roam.L64]uint32{netA: 20, netB: 10},
		},
		"the older one": {
			Soft, map[string]uint16{"a": 5},
			[]roam.L64{netA}, map[roam.L64]uint32{netA: 5, netB: 10},
		},
		"far apart": {
			Soft, map[string]uint16{"a": 5, "b": 700},
			[]roam.L64{netA}, map[roam.L64]uint32{netA: 5, netB: 700},
		},
		"equal": {
			Soft, map[string]uint16{"a": 30, "b": 30},
			[]roam.L64{netB}, map[roam.L64]uint32{netA: 40, netB: 30},
		},
		"all links in use": {
			Duality, map[string]uint16{"a": 30, "b": 70},
			[]roam.L64{netA, netB}, map[roam.L64]uint32{netA: 30, netB: 70},
		},
	} {
		b := newBench(t, inMode(c.mode), func(cfg *Config) { cfg.Preference = preferring(c.table) })
		b.link(1, "a", netA)
		b.open(netP)
		b.pass(time.Second)
		b.link(2, "b", netB)
		b.pass(time.Second)
		var uses []roam.L64
		for _, p := range b.entries[theKey].Paths {
			uses = append(uses, p.Local.L64)
		}
		got := b.announced()
		same := len(got) == len(c.want)
		for l, p := range c.want {
			same = same && got[l] == p
		}
		if !slices.Equal(uses, c.uses) || !same {
			t.Errorf("%s: uses %v and announces %v, want %v and %v", name, uses, got, c.uses, c.want)
		}
		for _, l := range b.Locals(b.now) {
			if uint32(l.Preference) != c.want[l.L64] {
				t.Errorf("%s: shows preference %d of %v, want %d", name, l.Preference, l.L64, c.want[l.L64])
			}
		}
	}
}

// Preferences that change at run time move the host and reach the peer at once; the same
// ones again do nothing.
func TestPreferencesChange(t *testing.T) {
	b := newBench(t)
	b.link(1, "a", netA)
	b.open(netP)
	b.pass(time.Second)
	b.link(2, "b", netB)
	b.pass(time.Second)
	b.forget()
	for range 2 {
		b.SetPreferences(b.now, preferring(map[string]uint16{"a": 3}))
		b.drain()
	}
	if list := b.updates(); len(list) != 1 {
		t.Fatalf("%d updates, want 1", len(list))
	}
	if got := b.announced(); got[netA] != 3 || got[netB] != 10 || b.entries[theKey].Paths[0].Local.L64 != netA {
		t.Errorf("announces %v and uses %v", got, b.entries[theKey].Paths)
	}
}

// What the user prefers is announced no better than what works: a path that was found dead
// makes the locator behind it one in reserve.
func TestPreferenceOfADeadPath(t *testing.T) {
	b := newBench(t, inMode(Duality), func(cfg *Config) {
		cfg.Preference = preferring(map[string]uint16{"a": 5, "b": 50})
	})
	b.link(1, "a", netA)
	b.link(2, "b", netB)
	b.open(netP)
	s := b.sessions[theKey]
	s.bad[Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}] = true
	list := b.listingFor(s, b.pathsKept(b.now, s))
	if want := []listed{{netB, 50}, {netA, 60}}; !slices.Equal(list, want) {
		t.Errorf("lists %v, want %v", list, want)
	}
}
