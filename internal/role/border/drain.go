package border

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	"roam/sbr"
)

var _ control.Border = (*Role)(nil)

// sites returns the state of each configured site locator.
func (r *Role) sites(cfg config.Config) []sbr.Site {
	list := make([]sbr.Site, 0, len(cfg.Border.Links))
	for _, l := range cfg.Border.Links {
		s := sbr.Site{L64: l.L64}
		for _, u := range r.links {
			if u.Name == l.Name {
				s.Link, s.Up = u.Link, u.Up && u.Routed && r.drainedBy(cfg, u.Name) == ""
			}
		}
		list = append(list, s)
	}
	return list
}

// drainedBy says by what a link is drained; "": it is not.
func (r *Role) drainedBy(cfg config.Config, link string) string {
	switch {
	case slices.Contains(cfg.Border.Drained, link):
		return control.DrainedByConfig
	case r.drained[link]:
		return control.DrainedByCommand
	}
	return ""
}

// reconfigure takes the links and the fallback of another configuration over. What a command has drained stays
// drained, as long as border.links has it.
func (r *Role) reconfigure(now time.Time, next config.Config) {
	r.Config = next
	maps.DeleteFunc(r.drained, func(link string, _ bool) bool { return len(next.Border.Locators(link)) == 0 })
	r.core.HandleFallback(sbr.Fallback(next.Border.Fallback), next.Border.FlowLabel)
	r.core.HandleSites(now, r.sites(next))
}

// SetDrained stops sending by a link, or uses it again.
func (r *Role) SetDrained(ctx context.Context, link string, drained bool) error {
	var refusal error
	err := r.loop.Do(ctx, func(now time.Time) { refusal = r.setDrained(now, link, drained) })
	return cmp.Or(err, refusal)
}

// setDrained is called in the loop's goroutine. What it refuses stays as it was.
func (r *Role) setDrained(now time.Time, link string, drained bool) error {
	if len(r.Config.Border.Locators(link)) == 0 {
		return r.unknown(link)
	}
	if !drained && r.drainedBy(r.Config, link) == control.DrainedByConfig {
		return control.Errorf(control.CodeConflict, "undrain %s: border.drained lists it", link).
			WithHint("take it out there (%s), then `roam config reload`", r.Place("border.drained"))
	}
	was, before := r.drained[link], r.sites(r.Config)
	r.drained[link] = drained
	sites, silent := r.sites(r.Config), ""
	cut := cutOff(r.core.Table(), sbr.NewTable(r.core.Policy(), sites))
	if len(cut) == 0 { // a silent provider is one to which nothing can move
		cut, silent = r.cutOffButSilent(before, sites)
	}
	if len(cut) > 0 {
		r.drained[link] = was
		return control.Errorf(control.CodeConflict, "drain %s: no other link is left for packets from %s", link,
			strings.Join(cut, ", ")).
			WithHint("%shave another link up and in use first (`roam border show`); to cut the site off, set the link down: "+
				"ip link set %s down", silent, link)
	}
	r.core.HandleSites(now, sites)
	if was != drained {
		r.Log.Info("link drained or used again, by command", "link", link, "drained", drained)
	}
	return nil
}

// unknown refuses a link that no provider's locator leaves by.
func (r *Role) unknown(link string) error {
	var names []string
	for _, l := range r.Config.Border.Links {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return control.Errorf(control.CodeNotFound, "no link to a provider is called %q", link).
		WithHint("border.links (%s) has: %s", r.Place("border.links"),
			cmp.Or(strings.Join(slices.Compact(names), ", "), "none"))
}

// cutOffButSilent is cutOff where silent providers count as down, and names their links.
func (r *Role) cutOffButSilent(now, then []sbr.Site) (cut []string, silent string) {
	links := make(map[string]bool)
	isSilent := func(s sbr.Site) bool {
		if !s.Up || !r.core.IsSilent(s.L64) {
			return false
		}
		for _, u := range r.links {
			if u.Link == s.Link {
				links[u.Name] = true
			}
		}
		return true
	}
	table := func(sites []sbr.Site) sbr.Table {
		return sbr.NewTable(r.core.Policy(), slices.DeleteFunc(slices.Clone(sites), isSilent))
	}
	cut = cutOff(table(now), table(then))
	for _, name := range slices.Sorted(maps.Keys(links)) {
		silent += name + " is silent; "
	}
	return cut, silent
}

// cutOff lists the internal locators that can send by a link now, and could not any more.
func cutOff(now, then sbr.Table) (list []string) {
	for l, g := range then.Inside {
		if len(g.Members) == 0 && len(now.Inside[l].Members) > 0 {
			list = append(list, roam.L64.Prefix(l).String())
		}
	}
	slices.Sort(list)
	return list
}
