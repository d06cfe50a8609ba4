package hostnet

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"roam"
)

// flapper is a host with two links, of which one comes and goes.
type flapper struct {
	h   *Host
	now time.Time
}

// step lets time pass and tells whether the first link has carrier and whether
// the second one is usable; it reports whether the first one's Locator is.
func (f *flapper) step(d time.Duration, up, other bool) bool {
	f.now = f.now.Add(d)
	before := f.h.picture
	f.h.picture = picture{
		uplinks: map[int]Uplink{2: {Link: 2, Up: up}, 3: {Link: 3, Up: other}},
		locators: map[roam.LinkLocator]locator{
			localA: {complete: up, usable: up}, localB: {complete: other, usable: other},
		},
	}
	f.h.dampFlaps(before, f.now)
	return f.h.picture.locators[localA].usable
}

func TestFlappingLinkIsHeldBack(t *testing.T) {
	f := &flapper{h: &Host{flaps: map[int][]time.Time{}}, now: epoch}
	const half = 75 * time.Millisecond
	for i := range 20 {
		if up := f.step(half, true, true); up != (i < flapMost) {
			t.Errorf("after %d flaps: usable %t", i, up)
		}
		f.step(half, false, true)
	}
	if f.step(half, true, true) {
		t.Error("usable at once after the last flap")
	}
	if !f.step(half, true, false) {
		t.Error("held back without an alternative")
	}
	if !f.step(half, true, true) {
		t.Error("held back after it was in use")
	}
	f.step(flapSteady, true, true)
	f.step(half, false, true)
	if f.step(half, true, true) || !f.step(flapSteady, true, true) {
		t.Error("want it held back until it is steady")
	}
}

// A link that flaps is no alternative to another one that does.
func TestLinksThatFlapInTurn(t *testing.T) {
	f := &flapper{h: &Host{flaps: map[int][]time.Time{}}, now: epoch}
	f.step(time.Second, true, true)
	for i := range 20 {
		f.step(100*time.Millisecond, false, true)
		if !f.step(200*time.Millisecond, true, true) {
			t.Errorf("held back at turn %d", i)
		}
		f.step(100*time.Millisecond, true, false)
		f.step(200*time.Millisecond, true, true)
	}
}

func TestSlowMovesAreNoFlaps(t *testing.T) {
	f := &flapper{h: &Host{flaps: map[int][]time.Time{}}, now: epoch}
	for i := range 20 {
		if !f.step(time.Second, true, true) {
			t.Fatalf("held back after move %d", i)
		}
		f.step(time.Second, false, true)
	}
	if n := len(f.h.flaps[2]); n > flapMost {
		t.Errorf("%d losses are remembered", n)
	}
}

func TestAddressOnAnotherLink(t *testing.T) {
	const other = 3
	k := testRules.own(localA)
	there := addrKey{other, k.addr}
	for _, c := range []struct {
		name          string
		flags         uint32
		up            bool
		sure, pending bool
	}{
		{"past detection", unix.IFA_F_DEPRECATED, true, true, false},
		{"under detection", unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC, true, false, true},
		{"a duplicate", unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED, true, false, false},
		{"on a link without carrier", unix.IFA_F_TENTATIVE, false, false, false},
	} {
		tab := oneUplink()
		tab.links[other] = ethernet("wlan0")
		if !c.up {
			tab.links[other] = link{name: "wlan0", flags: unix.IFF_UP}
		}
		tab.addrs[there] = address{flags: c.flags}
		if sure, pending := tab.elsewhere(k); sure != c.sure || pending != c.pending {
			t.Errorf("%s: sure %t, pending %t", c.name, sure, pending)
		}
		if sure, pending := tab.elsewhere(testRules.own(roam.LinkLocator{Link: 2, L64: roam.L64(1) << 61})); sure || pending {
			t.Errorf("%s: another address counts too", c.name)
		}
	}
}
