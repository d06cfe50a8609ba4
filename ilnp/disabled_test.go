package ilnp

import (
	"regexp"
	"slices"
	"testing"

	"roam"
)

// announce tells that netA is on link 1 under a name, or not any more.
func (b *bench) announce(name string, present bool) {
	at := roam.LinkLocator{Link: 1, L64: netA}
	b.HandleLocator(b.now,
		roam.PrefixEvent{LinkLocator: at, Present: present, Preferred: roam.Infinite, LinkName: name})
	b.drain()
}

// TestDisabledLinksAreKept: a successor gets what was kept, that of a build without names those that were disabled, and
// a host after a reboot nothing.
func TestDisabledLinksAreKept(t *testing.T) {
	b := newBench(t)
	b.announce("wlan0", true)
	b.SetLinkDisabled(b.now, 1, true)
	b.SetLinkDisabled(b.now, 2, true) // nobody has told its name
	old := regexp.MustCompile(`"links":\{[^}]*\},`).ReplaceAll(b.Export(), nil)
	b.DisabledLinks = DisabledLinks{Configured: []string{"eth0"}, Names: []string{"usb0"}}
	next := b.successor(t).DisabledLinks
	if !slices.Equal(next.Configured, []string{"eth0"}) || !slices.Equal(next.Names, []string{"usb0"}) {
		t.Errorf("a successor has %+v", next)
	}
	n := newBench(t)
	if err := n.Restore(b.now, old); err != nil {
		t.Fatal(err)
	}
	if got := n.DisabledLinks; len(got.Configured) > 0 || !slices.Equal(got.Names, []string{"wlan0"}) {
		t.Errorf("a successor of an older build has %+v", got)
	}
	if got := b.rebooted(t, 0).DisabledLinks; len(got.Configured)+len(got.Names) > 0 {
		t.Errorf("after a reboot: %+v", got)
	}
}
