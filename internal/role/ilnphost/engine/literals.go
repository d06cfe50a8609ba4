package engine

import (
	"maps"
	"slices"

	"roam"
)

// literalPolicy is what policies of the host say of the real addresses of known peers. With many
// peers, a change of policies or of our locators is followed in turns, as for sessions.
type literalPolicy struct {
	obstructed map[roam.ILV]bool         // every path there is, as far as it was checked
	queue      []roam.ILV                // to be checked anew
	from       map[roam.LinkLocator]bool // our locators that all were checked from; nil: others as well
}

// OmitObstructed removes real addresses of peers to which a policy obstructs every path, so that nothing
// but an ordinary socket reaches them. One that could not be checked yet stays as it is listed; use it
// inside Do only, about once a second.
func (p *policy) OmitObstructed(literals map[roam.ILV]roam.NID, listed func(roam.ILV) bool) {
	if !p.armed || len(p.uplinks.locals) == 0 {
		return
	}
	v := &p.literals
	if v.obstructed == nil {
		v.obstructed = make(map[roam.ILV]bool)
	}
	maps.DeleteFunc(v.obstructed, func(at roam.ILV, _ bool) bool { _, known := literals[at]; return !known })
	left := policyBatch
	if from := p.sources(); !maps.Equal(from, v.from) {
		v.from = from
		p.recheckLiterals()
		left -= p.checkLiterals(policyBatch)
	}
	for at := range literals {
		obstructed, known := v.obstructed[at]
		switch {
		case known:
		case left > 0:
			obstructed = p.unreachable(at)
			left--
		default:
			obstructed = !listed(at)
			v.queue = append(v.queue, at)
		}
		v.obstructed[at] = obstructed
		if obstructed {
			delete(literals, at)
		}
	}
}

// recheckLiterals has every real address checked anew.
func (p *policy) recheckLiterals() {
	if !p.armed {
		p.literals = literalPolicy{}
		return
	}
	p.literals.queue = slices.Collect(maps.Keys(p.literals.obstructed))
}

// checkLiterals checks the next real addresses of the queue, at most so many, and returns how many.
func (p *policy) checkLiterals(most int) int {
	v := &p.literals
	n := min(len(v.queue), most)
	if n > 0 && !maps.Equal(v.from, p.sources()) {
		v.from = nil // all are checked again about a second from now
	}
	for _, at := range v.queue[:n] {
		if _, known := v.obstructed[at]; known && len(p.uplinks.locals) > 0 {
			v.obstructed[at] = p.unreachable(at)
		}
	}
	v.queue = v.queue[n:]
	return n
}

// unreachable reports whether a policy obstructs the paths from all of our locators.
func (p *policy) unreachable(at roam.ILV) bool {
	for l := range p.uplinks.locals {
		if p.ask(l.Link, roam.ILV{L64: l.L64, NID: p.cfg.NID}.Addr(), at.Addr()) == "" {
			return false
		}
	}
	return true
}

// sources returns our locators.
func (p *policy) sources() map[roam.LinkLocator]bool {
	from := make(map[roam.LinkLocator]bool, len(p.uplinks.locals))
	for l := range p.uplinks.locals {
		from[l] = true
	}
	return from
}
