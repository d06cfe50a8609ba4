package ilnp

import (
	"slices"
	"testing"
	"time"

	"roam"
)

// hostBench is a host without a core.
type hostBench struct {
	host
	cfg    Config
	agenda agenda
	out    outbox
	now    time.Time
}

func newHostBench(mode Mode) *hostBench {
	b := &hostBench{cfg: Config{Mode: mode}, now: epoch}
	b.host = newHost(&b.cfg, &b.out, &b.agenda)
	return b
}

func (b *hostBench) add(link roam.LinkID, l roam.L64, preferred time.Duration) (changed bool) {
	b.present(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: link, L64: l}, Present: true, Preferred: preferred})
	_, changed = b.reselect(b.now)
	return changed
}

func (b *hostBench) events() (kinds []EventKind) {
	for o, ok := b.out.Poll(); ok; o, ok = b.out.Poll() {
		kinds = append(kinds, o.(Notify).Event.Kind)
	}
	return kinds
}

func (b *hostBench) uses() (ls []roam.L64) {
	for _, l := range b.active {
		ls = append(ls, l.L64)
	}
	return ls
}

// The mode says which locators are in use, and which ones a Locator Update lists.
func TestHostModes(t *testing.T) {
	for mode, want := range map[Mode]struct {
		uses []roam.L64
		told []listed
	}{
		Soft:    {[]roam.L64{netB}, []listed{{netB, preferActive}, {netA, preferValid}}},
		Hard:    {[]roam.L64{netB}, []listed{{netB, preferActive}}},
		Duality: {[]roam.L64{netB, netA}, []listed{{netB, preferActive}, {netA, preferActive}}},
	} {
		b := newHostBench(mode)
		b.add(1, netA, roam.Infinite)
		b.add(2, netB, roam.Infinite)
		if !slices.Equal(b.uses(), want.uses) || !slices.Equal(b.told, want.told) {
			t.Errorf("%v: uses %v and lists %v", mode, b.uses(), b.told)
		}
	}
}

// A lifetime that is renewed, or cut on a locator in reserve, changes nothing to follow.
func TestHostReportsChangesOnly(t *testing.T) {
	b := newHostBench(Soft)
	steps := []struct {
		name string
		do   func() bool
		want bool
	}{
		{"first", func() bool { return b.add(1, netA, time.Hour) }, true},
		{"renewed", func() bool { return b.add(1, netA, 2*time.Hour) }, false},
		{"second link", func() bool { return b.add(2, netB, roam.Infinite) }, true},
		{"the old one renewed", func() bool { return b.add(1, netA, time.Hour) }, false},
		{"the old one ends", func() bool { b.now = b.now.Add(time.Hour); _, c := b.reselect(b.now); return c }, true},
		{"and is withdrawn", func() bool {
			_, c := b.reselect(b.now)
			return b.withdraw(b.now, roam.LinkLocator{Link: 1, L64: netA}) && c
		}, false},
		{"withdrawn twice", func() bool { return b.withdraw(b.now, roam.LinkLocator{Link: 1, L64: netA}) }, false},
		{"link lost", func() bool { b.lose(b.now, 2); _, c := b.reselect(b.now); return c }, true},
	}
	for _, s := range steps {
		if got := s.do(); got != s.want {
			t.Errorf("%s: changed %v", s.name, got)
		}
	}
	want := []EventKind{LocatorAdded, LocatorAdded, LocatorRemoved, LocatorRemoved}
	if got := b.events(); !slices.Equal(got, want) || len(b.locals) != 0 || len(b.names) != 0 {
		t.Errorf("told %v, holds %d locators", got, len(b.locals))
	}
}

// The agenda wakes the host when the next lifetime ends.
func TestHostTimer(t *testing.T) {
	b := newHostBench(Soft)
	b.host.schedule.Machine = &b.host
	b.add(1, netA, time.Hour)
	b.add(2, netB, 2*time.Hour)
	for _, want := range []time.Duration{time.Hour, 2 * time.Hour} {
		at, ok := b.agenda.deadlines.Next()
		if !ok || at.Sub(epoch) != want {
			t.Fatalf("wakes after %v, %v; want %v", at.Sub(epoch), ok, want)
		}
		if m, k, due := b.agenda.deadlines.Due(at); !due || m != &b.host || k != timerLocal {
			t.Fatalf("timer %v of %v is due", k, m)
		}
		b.reselect(at)
	}
	if _, ok := b.agenda.deadlines.Next(); ok {
		t.Error("wakes though no lifetime is left")
	}
	if b.locals[1].state != Expired || b.locals[0].state != Aged {
		t.Errorf("states %v and %v", b.locals[0].state, b.locals[1].state)
	}
}

// What a host saves, another one restores, and drops it unless the system shows it.
func TestHostRestore(t *testing.T) {
	b := newHostBench(Duality)
	b.add(1, netA, roam.Infinite)
	b.add(2, netB, roam.Infinite)
	b.disabled[1] = true
	b.reselect(b.now)
	disabled, locals := b.save()
	if len(disabled) != 1 || len(locals) != 2 {
		t.Fatalf("saves %v, %v", disabled, locals)
	}
	next := newHostBench(Duality)
	next.restore(next.now, locals)
	if !slices.Equal(next.uses(), []roam.L64{netB, netA}) || len(next.events()) != 0 {
		t.Errorf("uses %v", next.uses())
	}
	next.add(2, netB, roam.Infinite)
	next.dropUnconfirmed(next.now.Add(confirmWithin))
	if next.reselect(next.now.Add(confirmWithin)); !slices.Equal(next.uses(), []roam.L64{netB}) {
		t.Errorf("uses %v that the system has not shown", next.uses())
	}
}

// A link that is taken back into use counts as new; its name goes with its last locator.
func TestHostEnable(t *testing.T) {
	b := newHostBench(Soft)
	b.add(1, netA, roam.Infinite)
	b.add(2, netB, roam.Infinite)
	b.disabled[1] = true
	b.reselect(b.now)
	b.enable(1)
	if b.reselect(b.now); !slices.Equal(b.uses(), []roam.L64{netA}) {
		t.Errorf("uses %v", b.uses())
	}
	b.cfg.Place = func(link string) int { return len(link) }
	b.names[1] = "last"
	if b.reselect(b.now); !slices.Equal(b.uses(), []roam.L64{netB}) {
		t.Errorf("uses %v against the user's places", b.uses())
	}
}
