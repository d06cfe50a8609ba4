package sbr

import (
	"fmt"
	"slices"

	"roam"
)

// Idle is a line of a policy that can never act, wholly or in part.
type Idle struct {
	Line int // where its locator first stands
	L64  roam.L64
	Why  string // a clause whose subject is the locator or its column
}

// Idle lists what of a policy can never act, in the order of its lines. linked are the locators
// that leave by a link. A locator that waits for a more preferred one to fail can act.
func (p Policy) Idle(linked []roam.L64) (list []Idle) {
	for _, e := range p.entries {
		why := p.idleInside
		if !e.Internal() {
			why = p.idleSite
		}
		for _, text := range why(e, linked) {
			list = append(list, Idle{e.Line, e.L64, text})
		}
	}
	return list
}

// idleInside says why packets of an internal locator cannot leave.
func (p Policy) idleInside(e Entry, linked []roam.L64) []string {
	if slices.ContainsFunc(p.Group(e.Rewrite), func(g Entry) bool { return slices.Contains(linked, g.L64) }) {
		return nil
	}
	return []string{fmt.Sprintf("no locator with label %d, its Rewrite, has a link: its packets are dropped", e.Rewrite)}
}

// idleSite says what of a provider's locator is without effect.
func (p Policy) idleSite(e Entry, linked []roam.L64) (why []string) {
	if len(e.Labels) == 0 {
		why = append(why, "it has neither a Label nor a Rewrite")
	}
	used := false
	for _, label := range e.Labels {
		if p.rewritten(label) {
			used = true
		} else {
			why = append(why, fmt.Sprintf("no line has Rewrite %d, its Label", label))
		}
	}
	if !used {
		return why
	}
	if !slices.Contains(linked, e.L64) {
		return append(why, "no link has it")
	}
	for _, label := range e.Labels {
		if p.weightless(e, label) {
			why = append(why, fmt.Sprintf("its share of label %d is 0, as the others' Prec is 0: it has packets only while "+
				"all others are down", label))
		}
	}
	if e.Advice != AdviceNone {
		why = append(why, fmt.Sprintf("its Advice %v is without effect: that of the line with the Rewrite counts", e.Advice))
	}
	return why
}

// rewritten reports whether a line names a label as its Rewrite.
func (p Policy) rewritten(label int) bool {
	return slices.ContainsFunc(p.entries, func(e Entry) bool { return e.Rewrite == label })
}

// weightless reports whether a label divides packets, and leaves none to a locator.
func (p Policy) weightless(e Entry, label int) bool {
	if !slices.ContainsFunc(p.entries, func(i Entry) bool { return i.Rewrite == label && i.Advice == AdviceVLB }) {
		return false
	}
	return slices.ContainsFunc(Weights(p.Group(label)), func(m Member) bool { return m.L64 == e.L64 && m.Weight == 0 })
}
