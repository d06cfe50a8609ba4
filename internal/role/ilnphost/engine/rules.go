package engine

import (
	"fmt"
	"slices"
	"time"

	"roam/flowrule"
	dataplane "roam/internal/dataplane/ilnphost"
)

// rules has the data plane follow the user's rules for flows, and cgroups that are made again under the
// same name.
type rules struct {
	*base
	set     flowrule.Set
	number  uint32
	cgroups []uint64
}

// begin hands the first rules over, before any session is there.
func (e *Engine) begin(now time.Time) {
	if len(e.cfg.Rules) > 0 {
		e.report("write rules", e.SetRules(now, e.cfg.Rules))
	}
}

// SetRules replaces the rules: the new ones first, then sessions change over to them one by
// one. After an error the old ones are in force. Use it inside Do only.
func (e *Engine) SetRules(now time.Time, set flowrule.Set) error {
	r := &e.rules
	next := rules{base: r.base, set: set}
	next.cgroups = next.find()
	if err := next.write(); err != nil {
		return err
	}
	*r = next
	e.core.SetRules(now, r.number, set)
	return nil
}

// SetPreferences changes the preferences of links, of which shares may be made. Use it inside
// Do only.
func (e *Engine) SetPreferences(now time.Time, preference func(link string) uint16) {
	e.core.SetPreferences(now, preference)
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
	number, err := r.cfg.Plane.WriteRules(r.number, dataplane.FlowRules{Set: r.set, Cgroups: r.cgroups})
	if err != nil {
		return fmt.Errorf("hand rules to the data plane: %w", err)
	}
	r.number = number
	return nil
}

// lookAgain follows cgroups that have come or gone.
func (r *rules) lookAgain() {
	ids, old := r.find(), r.cgroups
	if slices.Equal(ids, old) {
		return
	}
	if r.cgroups = ids; r.number == 0 {
		return
	}
	if err := r.write(); err != nil {
		r.cgroups = old // the next look tries again
		r.report("follow cgroups with rules", err)
	}
}

// Cgroups returns for each rule the cgroup that it names, 0 where it names none, or none that
// is there. Use it inside Do only.
func (e *Engine) Cgroups() []uint64 { return e.rules.cgroups }
