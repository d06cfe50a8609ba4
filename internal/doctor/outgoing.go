package doctor

import (
	"cmp"
	"slices"
)

// The control messages that a condition of a rule names.
const (
	namesOptions = "destination options"
	namesUpdates = "ICMPv6 type 156 (Locator Updates)"
	// Connection tracking has no entry for a type that it does not know.
	namesInvalid = "what connection tracking considers invalid, as it does ICMPv6 type 156 (Locator Updates)"
	namesAll     = "whatever comes to it, Locator Updates too"
)

// Verdicts of rules, by their names in nft.
const (
	verdictAccept = "accept"
	verdictDrop   = "drop" // or reject
	verdictReturn = "return"
	verdictJump   = "jump"
	verdictGoto   = "goto"
)

// outRule is a rule of nft or ip6tables as it concerns Locator Updates of this host.
type outRule struct {
	text    string // names it for a person
	never   bool   // no Locator Update to a correspondent satisfies its conditions
	sure    bool   // all do
	names   string // the control messages that its conditions name; "": none
	icmp    bool   // its conditions name ICMPv6, or cannot be read
	verdict string // "": the next rule follows
	target  string // the chain of a jump or goto
}

// condition adds a condition that Locator Updates satisfy, or do not.
func (r *outRule) condition(holds bool) { r.never = r.never || !holds }

// naming adds a condition that names control messages, or all others.
func (r *outRule) naming(names string, holds, negated bool) {
	r.condition(holds != negated)
	if holds && !negated {
		r.names = names
	}
}

// link adds a condition on the link by which a packet leaves; links are those that Locator
// Updates leave by, and nil if they are not known.
func (r *outRule) link(links []string, negated bool, named func(link string) bool) {
	if len(links) == 0 {
		r.sure = false
		return
	}
	r.condition(slices.ContainsFunc(links, func(l string) bool { return named(l) != negated }))
}

// drops reports whether a rule drops Locator Updates. Conditions on anything but control messages, such as
// addresses, make it no exception.
func (r *outRule) drops() bool { return r.verdict == verdictDrop && (r.sure || r.names != "") }

// takes reports whether a rule with another verdict takes Locator Updates.
func (r *outRule) takes() bool { return r.sure || r.names != "" || r.icmp }

// outChains are the rules of chains, by the chain's table and name. It omits rules that never
// match.
type outChains map[string][]outRule

// outWalk follows Locator Updates through chains.
type outWalk struct {
	chains outChains
	seen   map[outRule]bool // jumps: passed once already, so passing again decides nothing either
}

// decides returns the rule that accepts or drops Locator Updates in a base chain; false: its
// policy does.
func (c outChains) decides(chain string) (outRule, bool) {
	return outWalk{c, make(map[outRule]bool)}.pass(outRule{sure: true, target: chain})
}

// pass follows a jump.
func (w outWalk) pass(jump outRule) (outRule, bool) {
	jump.text, jump.verdict = "", ""
	if w.seen[jump] {
		return outRule{}, false
	}
	w.seen[jump] = true
	for _, r := range w.chains[jump.target] {
		r.sure, r.icmp = r.sure && jump.sure, r.icmp || jump.icmp
		r.names = cmp.Or(r.names, jump.names)
		switch r.verdict {
		case verdictAccept:
			if r.takes() {
				return r, true
			}
		case verdictDrop:
			if r.drops() {
				return r, true
			}
		case verdictReturn:
			if r.takes() {
				return outRule{}, false
			}
		case verdictJump, verdictGoto:
			if end, ok := w.pass(r); ok {
				return end, true
			}
			if r.verdict == verdictGoto && r.takes() {
				return outRule{}, false
			}
		}
	}
	return outRule{}, false
}
