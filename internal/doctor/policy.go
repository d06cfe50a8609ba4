package doctor

import (
	"fmt"
	"slices"
	"strings"

	"roam/internal/control"
)

// DoPolicy is the advice about a policy that obstructs a link.
const DoPolicy = "nothing, if that is meant; else let the policy leave these addresses out, or set " +
	"uplinks.ignore_policy = true: docs/howto/vpn.md"

// Obstacle describes the packets that a policy of this host keeps off a link.
func Obstacle(o control.Obstructed) string {
	whom := "anybody"
	if !o.All {
		whom = strings.Join(o.Peers, ", ")
		if more := o.Count - len(o.Peers); more > 0 {
			whom += fmt.Sprintf(" and %d more", more)
		}
	}
	return fmt.Sprintf("%s (%s) is not used for sessions with %s: %s", o.Link, o.L64.Prefix(), whom, o.By)
}

// lookPolicies lists the policies that keep sessions off links.
func lookPolicies(e *examination, f Facts) {
	if f.Daemon == nil {
		return
	}
	level := Warning
	if noneLeft(f) {
		level = Fault
	}
	for _, o := range f.Daemon.Obstructed {
		e.add(level, "policy", DoPolicy, "%s", Obstacle(o))
	}
	switch {
	case !e.clean("policy"):
	case f.Config.Uplinks.IgnorePolicy:
		e.add(Note, "policy", "", "uplinks.ignore_policy is set: sessions leave by their links whatever policies of IPsec "+
			"and routing say")
	case f.Daemon.Policies:
		e.ok("policy", "the policies of IPsec and routing, and the tunnels, of this host leave sessions alone")
	default:
		e.ok("policy", "no policy of IPsec or routing concerns sessions")
	}
}

// noneLeft reports whether policies obstruct every locator.
func noneLeft(f Facts) bool {
	for _, l := range f.Locators {
		free := !slices.ContainsFunc(f.Daemon.Obstructed, func(o control.Obstructed) bool {
			return o.All && o.Link == l.Link && o.L64 == l.L64
		})
		if free {
			return false
		}
	}
	return len(f.Locators) > 0
}

// lookObstructed says which paths of a session are missing because of policies. It reports
// whether none is left.
func lookObstructed(e *examination, p *PeerFacts) bool {
	s := p.Session
	if len(s.Obstructed) == 0 {
		return false
	}
	level := Warning
	if len(s.Paths) == 0 {
		level = Fault
	}
	for _, o := range s.Obstructed {
		e.add(level, "policy", DoPolicy, "%s is not used for %s: %s", pathText(o.Path), p.Word, o.By)
	}
	return len(s.Paths) == 0
}
