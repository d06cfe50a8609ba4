package ilnp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"roam"
)

// TestLocatorLifeCycle walks every row of the table at type local.
func TestLocatorLifeCycle(t *testing.T) {
	const life = 9 * time.Second
	type step struct {
		do   func(b *bench)
		want map[roam.L64]LocatorState
	}
	up := func(link roam.LinkID, l roam.L64, d time.Duration) func(*bench) {
		return func(b *bench) { b.prefix(link, l, d) }
	}
	wait := func(d time.Duration) func(*bench) { return func(b *bench) { b.pass(d) } }
	states := func(entries ...any) map[roam.L64]LocatorState {
		m := make(map[roam.L64]LocatorState)
		for i := 0; i < len(entries); i += 2 {
			m[entries[i].(roam.L64)] = entries[i+1].(LocatorState)
		}
		return m
	}
	for _, c := range []struct {
		name  string
		mode  Mode
		steps []step
	}{
		{"the first one becomes active", Soft, []step{
			{up(1, netA, life), states(netA, Active)},
		}},
		{"a newer one on another link takes over", Soft, []step{
			{up(1, netA, life), states(netA, Active)},
			{up(2, netB, life), states(netA, Valid, netB, Active)},
		}},
		{"a refresh changes nothing", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), nil},
			{up(1, netA, life), states(netA, Valid, netB, Active)},
		}},
		{"a valid one ages", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, roam.Infinite), nil},
			{wait(life), states(netA, Aged, netB, Active)},
		}},
		{"an aged one that comes back is new", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, roam.Infinite), nil},
			{wait(life), nil},
			{up(1, netA, life), states(netA, Active, netB, Valid)},
		}},
		{"an active one with a replacement ages", Soft, []step{
			{up(1, netA, roam.Infinite), nil},
			{up(2, netB, life), states(netA, Valid, netB, Active)},
			{wait(life), states(netA, Active, netB, Aged)},
		}},
		{"an active one without replacement stays in use", Soft, []step{
			{up(1, netA, life), nil},
			{wait(time.Minute), states(netA, Expired)},
		}},
		{"an expired one that is refreshed is active, not new", Soft, []step{
			{up(1, netA, life), nil},
			{wait(time.Minute), nil},
			{up(1, netA, life), states(netA, Active)},
		}},
		{"an expired one gives way to a replacement", Soft, []step{
			{up(1, netA, life), nil},
			{wait(time.Minute), nil},
			{up(2, netB, life), states(netA, Aged, netB, Active)},
		}},
		{"of several past their lifetime, the newest stays in use", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), nil},
			{wait(time.Minute), states(netA, Aged, netB, Expired)},
		}},
		{"link down and up is new", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), nil},
			{func(b *bench) { b.Detach(b.now, 1) }, states(netB, Active)},
			{up(1, netA, life), states(netA, Active, netB, Valid)},
		}},
		{"a command is new", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), nil},
			{func(b *bench) { b.SetLinkDisabled(b.now, 1, true) }, states(netA, Valid, netB, Active)},
			{func(b *bench) { b.SetLinkDisabled(b.now, 1, false) }, states(netA, Active, netB, Valid)},
		}},
		{"a disabled link gives way", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), nil},
			{func(b *bench) { b.SetLinkDisabled(b.now, 2, true) }, states(netA, Active, netB, Valid)},
		}},
		{"withdrawn", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), nil},
			{func(b *bench) { b.withdraw(2, netB) }, states(netA, Active)},
			{func(b *bench) { b.withdraw(1, netA) }, states()},
		}},
		{"deprecated by its router", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), nil},
			{up(2, netB, 0), states(netA, Active, netB, Aged)},
		}},
		{"deprecated from the start", Soft, []step{
			{up(1, netA, life), nil},
			{up(2, netB, 0), states(netA, Active, netB, Aged)},
		}},
		{"a second prefix on the same link waits", Soft, []step{
			{up(1, netA, life), nil},
			{up(1, netB, roam.Infinite), states(netA, Active, netB, Valid)},
			{wait(life), states(netA, Aged, netB, Active)},
		}},
		{"renumbering stays on its link", Soft, []step{
			{up(2, netC, roam.Infinite), nil},
			{up(1, netA, life), nil},
			{up(1, netB, roam.Infinite), nil},
			{wait(life), states(netA, Aged, netB, Active, netC, Valid)},
		}},
		{"hard mode", Hard, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), states(netA, Valid, netB, Active)},
		}},
		{"duality", Duality, []step{
			{up(1, netA, life), nil},
			{up(2, netB, life), states(netA, Active, netB, Active)},
			{up(3, netC, 2*life), states(netA, Active, netB, Active, netC, Active)},
			{wait(life), states(netA, Aged, netB, Aged, netC, Active)},
			{wait(2 * life), states(netA, Aged, netB, Aged, netC, Expired)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, inMode(c.mode))
			for i, s := range c.steps {
				s.do(b)
				b.drain()
				if s.want != nil && fmt.Sprint(b.states()) != fmt.Sprint(s.want) {
					t.Fatalf("after step %d: %v, want %v", i+1, b.states(), s.want)
				}
			}
		})
	}
}

func TestUnusableLocalLocators(t *testing.T) {
	b := newBench(t)
	for _, l := range []roam.L64{0, 0xfe80_0000_0000_0000, 0xff02_0000_0000_0000, roam.DefaultSessionPrefix} {
		b.prefix(1, l, roam.Infinite)
	}
	b.prefix(0, netA, roam.Infinite)
	if len(b.states()) != 0 || b.RejectedInput()[reasonLocator] != 5 {
		t.Errorf("locators %v and %d refusals, want none and 5", b.states(), b.RejectedInput()[reasonLocator])
	}
}

func TestListing(t *testing.T) {
	for _, c := range []struct {
		mode     Mode
		disabled roam.LinkID
		want     []listed
	}{
		{Soft, 0, []listed{{netC, 10}, {netB, 20}, {netA, 20}}},
		{Soft, 3, []listed{{netB, 10}, {netA, 20}}},
		{Hard, 0, []listed{{netC, 10}}},
		{Duality, 0, []listed{{netC, 10}, {netB, 10}, {netA, 10}}},
		{Duality, 2, []listed{{netC, 10}, {netA, 10}}},
	} {
		b := newBench(t, inMode(c.mode))
		b.prefix(1, netA, roam.Infinite)
		b.prefix(2, netB, roam.Infinite)
		b.prefix(3, netC, roam.Infinite)
		b.prefix(4, netC, 0) // deprecated, and the same prefix
		b.SetLinkDisabled(b.now, c.disabled, true)
		if got := b.host.listing(b.now); !slices.Equal(got, c.want) {
			t.Errorf("%v without link %d: %v, want %v", c.mode, c.disabled, got, c.want)
		}
	}
}

func TestOnePrefixOnTwoLinksIsListedOnce(t *testing.T) {
	b := newBench(t, inMode(Duality))
	b.prefix(1, netA, 9*time.Second)
	b.prefix(2, netA, time.Minute)
	if got, want := b.host.listing(b.now), []listed{{netA, 10}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if end, ok := b.host.expiry(b.now, netA); !ok || remaining(b.now, end) != time.Minute {
		t.Errorf("lifetime %v, want the longer one", remaining(b.now, end))
	}
	if len(b.host.active) != 2 {
		t.Errorf("%d active, want both links", len(b.host.active))
	}
}

func TestLocatorEvents(t *testing.T) {
	b := newBench(t)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(1, netA, roam.Infinite)
	b.prefix(2, netB, 9*time.Second)
	b.pass(time.Minute)
	b.withdraw(2, netB)
	b.withdraw(2, netB)
	b.Detach(b.now, 1)
	b.drain()
	if a, r := b.count(LocatorAdded), b.count(LocatorRemoved); a != 2 || r != 2 {
		t.Errorf("%d added and %d removed, want 2 and 2", a, r)
	}
	if s, d := b.count(HandoffStarted), b.count(HandoffDone); s != 4 || d != 4 {
		t.Errorf("%d handoffs started and %d done, want 4 and 4: A, B, back to A, none", s, d)
	}
}

func TestModeIsToldOnce(t *testing.T) {
	b := newBench(t)
	b.SetMode(b.now, Soft)
	b.SetMode(b.now, Mode(9))
	b.SetMode(b.now, Duality)
	b.drain()
	if b.count(ModeChanged) != 1 || b.Mode() != Duality {
		t.Errorf("%d changes to %v, want 1 to duality", b.count(ModeChanged), b.Mode())
	}
}

// TestNamesOfLinksAreForgotten: a modem that is plugged in again and again has
// another index each time. Found by the soak.
func TestNamesOfLinksAreForgotten(t *testing.T) {
	b := newBench(t)
	for i := range roam.LinkID(100) {
		b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: i + 1, L64: netA}, Present: true, Preferred: roam.Infinite, LinkName: "wwan0"})
		if i%2 == 0 {
			b.Detach(b.now, i+1)
		} else {
			b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: i + 1, L64: netA}, LinkName: "wwan0"})
		}
		b.drain()
	}
	b.SetLinkDisabled(b.now, 200, true)
	if n := b.Stats().Links; n != 0 {
		t.Errorf("the names of %d links are remembered, and none is there", n)
	}
}

// TestPreferredLinkIsKept: a new link does not take the host away from one that
// the user puts first; when that goes, the best of the rest is used, and when
// it comes back, it is used again.
func TestPreferredLinkIsKept(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Place = func(link string) int { return map[string]int{"eth7": 0, "wlan0": 1, "wwan0": 2}[link] }
	})
	name := func(link roam.LinkID, name string, l roam.L64, gone bool) {
		b.HandleLocator(b.now, roam.PrefixEvent{LinkLocator: roam.LinkLocator{Link: link, L64: l}, Present: !gone, LinkName: name, Preferred: roam.Infinite})
		b.drain()
	}
	want := func(l roam.L64) {
		t.Helper()
		var active []roam.L64
		for at, state := range b.states() {
			if state == Active {
				active = append(active, at)
			}
		}
		if len(active) != 1 || active[0] != l {
			t.Errorf("active %v, want %v", active, l)
		}
	}
	name(1, "eth7", netA, false)
	name(2, "wwan0", netB, false)
	want(netA)
	name(3, "wlan0", netC, false)
	want(netA)
	name(1, "eth7", netA, true)
	want(netC)
	name(3, "wlan0", netC, true)
	want(netB)
	name(1, "eth7", netA, false)
	want(netA)
}
