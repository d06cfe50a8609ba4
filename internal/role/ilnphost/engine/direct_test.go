package engine

import (
	"slices"
	"testing"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/hostnet"
)

// TestChoiceOfTheDirectRoute: session packets leave at once by the uplink that most of
// them use, where its program translates them, and where nobody expects them on the session
// device.
func TestChoiceOfTheDirectRoute(t *testing.T) {
	usable := hostnet.Uplink{Up: true, Routed: true, HasMAC: true, NextHopValid: true}
	other := func(change func(*hostnet.Uplink)) map[roam.LinkID]hostnet.Uplink {
		u := usable
		change(&u)
		return map[roam.LinkID]hostnet.Uplink{7: u}
	}
	raw := usable
	raw.HasMAC = false
	both := map[roam.LinkID]hostnet.Uplink{7: usable, 3: usable}
	for name, c := range map[string]struct {
		links         map[roam.LinkID]hostnet.Uplink
		armed, hooked bool
		chosen, want  roam.LinkID
	}{
		"the one in use":            {links: both, want: 7},
		"the one in use by now":     {links: both, chosen: 3, want: 7},
		"the only one":              {links: map[roam.LinkID]hostnet.Uplink{3: usable}, want: 3},
		"one without MAC header":    {links: map[roam.LinkID]hostnet.Uplink{7: raw, 3: usable}, want: 3},
		"policies":                  {links: both, armed: true},
		"rules for what leaves":     {links: both, hooked: true, chosen: 7},
		"down":                      {links: other(func(u *hostnet.Uplink) { u.Up = false })},
		"without router":            {links: other(func(u *hostnet.Uplink) { u.Routed = false })},
		"without a valid neighbour": {links: other(func(u *hostnet.Uplink) { u.NextHopValid = false })},
		"without MAC header":        {links: other(func(u *hostnet.Uplink) { u.HasMAC = false })},
	} {
		e, o := withSession(t, ilnp.Established)
		e.cfg.Plane = &table{entries: make(map[ilnp.SessionKey]ilnp.Entry)}
		e.cfg.Translates = func() (bool, error) { return !c.hooked, nil }
		e.chosen = c.chosen
		for link, u := range c.links {
			u.Link = link
			e.handleNetwork(time.Now(), hostnet.UplinkChanged{Uplink: u})
		}
		e.policy.armed = c.armed
		e.chooseDirect()
		e.chooseDirect()
		if e.chosen != c.want {
			t.Errorf("%s: chose %d, want %d", name, e.chosen, c.want)
		}
		if want := []roam.LinkID{c.want}; c.want != c.chosen && !slices.Equal(o.direct, want) {
			t.Errorf("%s: told %v, want %v", name, o.direct, want)
		}
	}
}

// TestDirectRouteGoesWithItsPrograms: a link without programs is not used, also if it
// comes back.
func TestDirectRouteGoesWithItsPrograms(t *testing.T) {
	e, o := withSession(t, ilnp.Established)
	e.noteAttached(7, true)
	e.chosen = 7
	e.noteAttached(3, false)
	if len(o.direct) != 0 {
		t.Error("another link took the route away")
	}
	e.noteAttached(7, false)
	if !slices.Equal(o.direct, []roam.LinkID{0}) || e.chosen != 0 || len(e.attached) != 0 {
		t.Errorf("told %v, chosen %d, attached %v", o.direct, e.chosen, e.attached)
	}
}
