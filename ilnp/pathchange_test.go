package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// pathsChanged returns what was told of paths since the last call.
func (b *bench) pathsChanged() (why []roam.PathChange) {
	b.t.Helper()
	for _, o := range b.other {
		if x, ok := o.(PathsChanged); ok {
			if x.Key != theKey {
				b.t.Errorf("told of the paths of %v", x.Key)
			}
			why = append(why, x.Why)
		}
	}
	b.other = nil
	return why
}

// wantPaths compares what was told of paths with one change, and what followed it; 0: nothing was.
func (b *bench) wantPaths(when string, want ...roam.PathChange) {
	b.t.Helper()
	got := b.pathsChanged()
	if want[0] == 0 && len(got) == 0 || slices.Equal(got, want) {
		return
	}
	b.t.Errorf("%s: told of %v, want %v", when, got, want)
}

// TestPathsChangedAreTold: each change of a session's paths, after the entry that has
// them, with the round-trip time; and nothing when an entry changes otherwise.
func TestPathsChangedAreTold(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.wantPaths("a session begins", 0)
	b.prefix(2, netB, roam.Infinite)
	b.wantPaths("a handoff", roam.PathsAdded|roam.PathsLost)
	b.withdraw(2, netB)
	b.wantPaths("back again", roam.PathsAdded|roam.PathsLost, roam.LocatorsWithdrawn)
	b.withdraw(1, netA)
	b.wantPaths("no network", roam.PathsLost|roam.PathsDown)
	b.prefix(1, netA, roam.Infinite)
	b.wantPaths("a network", roam.PathsAdded|roam.PathsReturned)
	b.pass(time.Minute)
	b.wantPaths("time passes", 0)
	silence(b)
	b.pass(3 * time.Second)
	b.wantPaths("found dead", roam.PathsDown)
	b.reply(b.probesSent()[len(b.probesSent())-1], peerNonce)
	b.wantPaths("heard again", roam.PathsReturned)
}

// TestPathsOfAReplacedSession: the correspondent is there again, without its state. Its
// connections end as soon as it is sent to, so they are not to wait for that.
func TestPathsOfAReplacedSession(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	silence(b)
	b.pass(10 * time.Second)
	b.pathsChanged()
	b.reply(b.probesSent()[len(b.probesSent())-1], Nonce{Len: 4, Bytes: [12]byte{7, 7, 7, 7}})
	if b.count(SessionReplaced) != 1 {
		t.Fatal("not replaced")
	}
	b.wantPaths("another one at its place", roam.PathsReturned)
}

// TestPathsChangedFollowTheEntry: whoever acts on the change finds the paths in place.
func TestPathsChangedFollowTheEntry(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: 2, L64: netB}, Present: true, Preferred: roam.Infinite})
	var last Output
	for o, ok := b.Poll(); ok; o, ok = b.Poll() {
		if x, is := o.(PathsChanged); is {
			if e, is := last.(Upsert); !is || e.Entry.Key != x.Key || e.Entry.Paths[0].Local.L64 != netB {
				t.Errorf("told of the paths after %+v", last)
			}
			if x.RTT != b.entries[theKey].Grace/2 {
				t.Errorf("a round-trip time of %v", x.RTT)
			}
			return
		}
		last = o
	}
	t.Error("not told of a handoff")
}

// TestGatheredConnectionsAreTold: connections keep to one path each from now on, and are
// on other ones when the paths change.
func TestGatheredConnectionsAreTold(t *testing.T) {
	b := stallBench(t)
	b.pathsChanged()
	b.see(Observation{Trigger: SeenPerFlow, Key: theKey})
	b.wantPaths("the correspondent wants it", roam.FlowsGathered)
	b.withdraw(2, netB)
	b.wantPaths("a path goes", roam.PathsLost|roam.FlowsRehashed, roam.LocatorsWithdrawn)
}

// TestPathsOfARestoredSession: those that a predecessor left have not changed; what
// comes after does count.
func TestPathsOfARestoredSession(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.open(netP)
	o := b.successor(t)
	o.drain()
	o.wantPaths("restored", 0)
	o.prefix(1, netA, roam.Infinite)
	o.wantPaths("shown where it was", 0)
	o.prefix(2, netB, roam.Infinite)
	o.wantPaths("a handoff", roam.PathsAdded|roam.PathsLost)
}

func TestPathChange(t *testing.T) {
	a := Path{Local: roam.LinkLocator{Link: 1, L64: netA}, Remote: netP}
	c := Path{Local: roam.LinkLocator{Link: 2, L64: netB}, Remote: netP}
	both := []Path{a, c}
	known := func(ps []Path) Entry { return Entry{State: Established, Paths: ps} }
	foreign := func(ps []Path) Entry { return Entry{State: Established, Paths: ps, Unvalidated: []roam.L64{netP}} }
	with := func(e Entry, change func(*Entry)) Entry { change(&e); return e }
	given := func(ps []Path) Entry { return with(foreign(ps), func(e *Entry) { e.Given = e.Unvalidated }) }
	dead := func(ps []Path) Entry { return with(foreign(ps), func(e *Entry) { e.Dead = true }) }
	reserved := func(ps []Path) Entry {
		return with(foreign(ps), func(e *Entry) { e.Reserve = []Path{{Local: a.Local, Remote: netQ}} })
	}
	for name, x := range map[string]struct {
		old, now Entry
		want     roam.PathChange
	}{
		"nothing":          {Entry{Paths: both}, Entry{Paths: both, NonceAlways: true}, 0},
		"another order":    {Entry{Paths: both}, Entry{Paths: []Path{c, a}}, roam.PathsReordered},
		"one more":         {Entry{Paths: both[:1]}, Entry{Paths: both}, roam.PathsAdded},
		"one less":         {Entry{Paths: both}, Entry{Paths: both[:1]}, roam.PathsLost},
		"none before":      {Entry{}, Entry{Paths: both}, roam.PathsAdded | roam.PathsReturned},
		"none, still":      {Entry{}, Entry{Dead: true}, 0},
		"dead":             {Entry{Paths: both}, Entry{Paths: both, Dead: true}, roam.PathsDown},
		"dead, moves":      {Entry{Paths: both[:1], Dead: true}, Entry{Paths: both, Dead: true}, roam.PathsAdded | roam.PathsDown},
		"alive, elsewhere": {Entry{Paths: both[:1], Dead: true}, Entry{Paths: both[1:]}, roam.PathsAdded | roam.PathsLost | roam.PathsReturned},
		"per flow":         {Entry{Paths: both}, Entry{Paths: both, PerFlow: true}, roam.FlowsGathered},
		"per flow, moves":  {Entry{Paths: both, PerFlow: true}, Entry{Paths: both[:1], PerFlow: true}, roam.PathsLost | roam.FlowsRehashed},
		"spread again":     {Entry{Paths: both, PerFlow: true}, Entry{Paths: both}, 0},
		"a long one":       {Entry{State: Established, Paths: both}, Entry{Paths: both, Long: both[1:]}, roam.FlowsGathered},
		"a long one comes": {Entry{State: Established, Paths: both[:1]}, Entry{Paths: both, Long: both[1:]}, roam.PathsAdded | roam.FlowsRehashed},
		"moves to where it may not be": {
			known(both[:1]), foreign(both[1:]), roam.PathsAdded | roam.PathsLost | roam.PathsUnvalidated,
		},
		"moves to where a record has it": {known(both[:1]), given(both[1:]), roam.PathsAdded | roam.PathsLost},
		"a validated one in reserve":     {known(both[:1]), reserved(both[1:]), roam.PathsAdded | roam.PathsLost},
		"down, where it may not be":      {known(both), dead(both), roam.PathsDown},
		"the validated one goes":         {reserved(both), foreign(both), roam.PathsUnvalidated},
		"it is there":                    {foreign(both), known(both), roam.PathsValidated},
		"long as ever":                   {Entry{State: Established, Paths: both, Long: both[1:]}, Entry{Paths: both, Long: both[1:]}, 0},
	} {
		if got := pathChange(x.old, x.now); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}
