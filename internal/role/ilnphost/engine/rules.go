package engine

import (
	"fmt"
	"slices"
	"time"

	"roam"
	"roam/flowrule"
	dataplane "roam/internal/dataplane/ilnphost"
)

// rules has the data plane follow the user's rules for flows: links that come and go, and
// cgroups that are made again under the same name.
type rules struct {
	*base
	uplinks *uplinks
	set     flowrule.Set
	number  uint32
	cgroups []uint64
	// preference returns that of the locators on a link; nil: all are equal.
	preference func(link string) uint16
}

func newRules(b *base, u *uplinks) rules {
	return rules{base: b, uplinks: u, preference: b.cfg.Preference}
}

// begin hands the first rules over, before any session is there.
func (e *Engine) begin(now time.Time) {
	e.uplinks.onRows = e.rules.rewrite
	if len(e.cfg.Rules) > 0 {
		e.report("write rules", e.SetRules(now, e.cfg.Rules))
	}
}

// SetRules replaces the rules: the new ones first, then sessions change over to them one by
// one. After an error the old ones are in force. Use it inside Do only.
func (e *Engine) SetRules(now time.Time, set flowrule.Set) error {
	r := &e.rules
	next := rules{base: r.base, uplinks: r.uplinks, set: set, preference: r.preference}
	next.cgroups = next.find()
	if err := next.write(); err != nil {
		return err
	}
	*r = next
	e.uplinks.onRows = r.rewrite
	e.core.SetRules(now, r.number, set)
	return nil
}

// SetPreferences changes the preferences of links, of which shares may be made. Use it inside
// Do only.
func (e *Engine) SetPreferences(now time.Time, preference func(link string) uint16) {
	e.rules.preference = preference
	e.core.SetPreferences(now, preference)
	e.rules.rewrite()
}

// find looks for the cgroups of the rules.
func (r *rules) find() []uint64 {
	ids := make([]uint64, len(r.set))
	for i, rule := range r.set {
		if rule.Cgroup != "" && r.cfg.CgroupID != nil {
			ids[i] = r.cfg.CgroupID(rule.Cgroup)
		}
	}
	return ids
}

// write hands the rules to the data plane.
func (r *rules) write() error {
	number, err := r.cfg.Plane.WriteRules(r.number, dataplane.FlowRules{Set: r.set, Cgroups: r.cgroups, Link: r.link})
	if err != nil {
		return fmt.Errorf("hand rules to the data plane: %w", err)
	}
	r.number = number
	return nil
}

// rewrite follows a change of links or of their preferences.
func (r *rules) rewrite() {
	if r.number != 0 {
		r.report("follow links with rules", r.write())
	}
}

// lookAgain follows cgroups that have come or gone.
func (r *rules) lookAgain() {
	if ids := r.find(); !slices.Equal(ids, r.cgroups) {
		r.cgroups = ids
		r.rewrite()
	}
}

// RuleLink says how rules see the link of a locator; use it inside Do only.
func (e *Engine) RuleLink(l roam.LinkLocator) flowrule.Link {
	link, _ := e.rules.link(l)
	return link
}

// link says how rules see the link of a locator.
func (r *rules) link(l roam.LinkLocator) (flowrule.Link, bool) {
	u, there := r.uplinks.links[l.Link]
	if !there || !u.Up || !u.Routed || r.uplinks.disabled[u.Name] {
		return flowrule.Link{}, false
	}
	out := flowrule.Link{Name: u.Name}
	if r.preference != nil {
		out.Preference = r.preference(u.Name)
	}
	return out, true
}

// Cgroups returns for each rule the cgroup that it names, 0 where it names none, or none that
// is there. Use it inside Do only.
func (e *Engine) Cgroups() []uint64 { return e.rules.cgroups }
