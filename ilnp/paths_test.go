package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/multipath"
)

// TestCrossIsFair: for every number of sources and destinations each one
// stands equally often, no path twice, and few are left out.
func TestCrossIsFair(t *testing.T) {
	for n := 1; n <= 20; n++ {
		for m := 1; m <= 12; m++ {
			var sources []roam.LinkLocator
			var destinations []roam.L64
			for i := range n {
				sources = append(sources, roam.LinkLocator{Link: roam.LinkID(i + 1), L64: netA})
			}
			for i := range m {
				destinations = append(destinations, netP+roam.L64(i))
			}
			paths := cross(sources, destinations)
			if len(paths) > MaxPaths || len(paths) < min(n*m, 8) {
				t.Fatalf("%d sources, %d destinations: %d paths", n, m, len(paths))
			}
			from, to, seen := make(map[roam.LinkLocator]int), make(map[roam.L64]int), make(map[Path]bool)
			for _, p := range paths {
				from[p.Local]++
				to[p.Remote]++
				seen[p] = true
			}
			if len(seen) != len(paths) {
				t.Errorf("%d sources, %d destinations: a path stands twice", n, m)
			}
			for _, k := range from {
				if k*len(from) != len(paths) {
					t.Errorf("%d sources, %d destinations: sources stand %v times", n, m, from)
				}
			}
			for _, k := range to {
				if k*len(to) != len(paths) {
					t.Errorf("%d sources, %d destinations: destinations stand %v times", n, m, to)
				}
			}
		}
	}
	if cross(nil, []roam.L64{netP}) != nil || cross([]roam.LinkLocator{{Link: 1, L64: netA}}, nil) != nil {
		t.Error("paths from nothing or to nothing")
	}
}

func TestEntryAtReachesEverything(t *testing.T) {
	for n := 1; n <= 9; n++ {
		for m := 1; m <= 9; m++ {
			seen := make(map[[2]int]bool)
			for i := range n * m {
				s, d := entryAt(i, n, m)
				seen[[2]int{s, d}] = true
			}
			if len(seen) != n*m {
				t.Errorf("%d of %d combinations of %d and %d", len(seen), n*m, n, m)
			}
		}
	}
}

func TestRemotes(t *testing.T) {
	var rs remotes
	rs.put(netP, 20, time.Time{})
	rs.put(netQ, 10, epoch.Add(time.Minute))
	rs.put(netR, 10, time.Time{})
	rs.sort()
	if got := rs.targets(); !slices.Equal(got, []roam.L64{netQ, netR}) {
		t.Errorf("targets %v, want the two of the lowest value", got)
	}
	rs.find(netR).validated = true
	if got := rs.targets(); !slices.Equal(got, []roam.L64{netR}) {
		t.Errorf("targets %v, want the validated one of the two", got)
	}
	if got := rs.unvalidated(); !slices.Equal(got, []roam.L64{netQ}) {
		t.Errorf("unvalidated %v", got)
	}
	if got := rs.next(epoch); !got.Equal(epoch.Add(time.Minute)) {
		t.Errorf("next change at %v, want when the first lifetime ends", got)
	}
	rs.find(netR).drop(epoch, graceMin)
	rs.age(epoch, graceMin)
	if got := rs.all(); !slices.Equal(got, []roam.L64{netQ, netP, netR}) {
		t.Errorf("all %v, want the dropped one last", got)
	}
	rs.put(netR, 30, time.Time{})
	rs.sort()
	if r := rs.find(netR); !r.validated || r.standing != current {
		t.Error("a locator that is listed again within its grace has lost its proof")
	}
}

func TestLead(t *testing.T) {
	for _, c := range []struct{ p, q, wantP, wantQ uint16 }{
		{10, 10, 10, 9},
		{10, 20, 10, 9},
		{1, 5, 1, 0},
		{0, 5, 1, 0},
		{0xffff, 0, 0xffff, 0xfffe},
	} {
		var rs remotes
		rs.put(netP, c.p, time.Time{})
		rs.put(netQ, c.q, time.Time{})
		rs.lead(netQ)
		if p, q := rs.find(netP).preference, rs.find(netQ).preference; p != c.wantP || q != c.wantQ || rs[0].l64 != netQ {
			t.Errorf("%d and %d became %d and %d, want %d and %d", c.p, c.q, p, q, c.wantP, c.wantQ)
		}
	}
}

// TestAgenda compares the heap with a search, over random changes.
func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		Duality.String():        "duality",
		Any.String():            "any",
		RuleRFC6741.String():    "rfc6741",
		Plain.String():          "plain",
		Aged.String():           "AGED",
		SeenOtherNonce.String(): "other nonce",
		ModeChanged.String():    "mode changed",
		EventKind(200).String(): "200",
		roam.LinkLocator{Link: 2, L64: netA}.String(): "2001:0db8:000a:0000 on link 2",
		theKey.String(): "0200:0000:0000:0001 - 0200:0000:0000:0002",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOnlyLivingPair: five links on both sides have more pairs than an entry has places. All are held for dead but one,
// whichever it is: data take that one. Of several that are left, those that have answered of late. While one is not
// held for dead, that the correspondent drops a locator brings no dead path back.
func TestOnlyLivingPair(t *testing.T) {
	for _, mode := range []Mode{Soft, Duality} {
		level := func(string) multipath.Level { return multipath.Normal }
		b := newBench(t, inMode(mode), func(c *Config) { c.Liveness = level })
		for i := range 5 {
			b.prefix(roam.LinkID(i+1), netA+roam.L64(i)<<16, roam.Infinite)
		}
		b.open(netP)
		s := b.sessions[theKey]
		for i := range 5 {
			l := netP + roam.L64(i)<<16
			s.remotes.put(l, 10, time.Time{})
			s.remotes.find(l).validated = true
		}
		all := b.listedPaths(b.now, s)
		if len(all) != 25 {
			t.Fatalf("%v: %d pairs, want 25", mode, len(all))
		}
		for _, living := range all {
			s.bad = make(map[Path]bool)
			for _, p := range all {
				s.bad[p] = p != living
			}
			if got := b.pathsFor(b.now, s); !slices.Equal(got, []Path{living}) {
				t.Errorf("%v: data take %v, and %v alone is not dead", mode, got, living)
			}
			if trustLast(s, b.listedPaths(b.now, s)); len(s.bad) != 25 {
				t.Errorf("%v: %d paths are dead, want 24: %v lives", mode, len(s.bad)-1, living)
			}
			unknown := all[24]
			if unknown == living {
				unknown = all[23]
			}
			delete(s.bad, unknown)
			s.check.paths = []*checkedPath{{Path: living}}
			s.check.paths[0].Answer(b.now, b.now)
			if got := b.pathsFor(b.now, s); !slices.Equal(got, []Path{living}) {
				t.Errorf("%v: data take %v, and %v alone has answered", mode, got, living)
			}
		}
	}
}
