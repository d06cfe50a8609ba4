package flowrule

import (
	"slices"
	"strings"

	"roam"
)

// Max is how many rules a set may have: a session notes those of its peer in one word.
const Max = 32

// MaxRanges is how many ranges of ports a rule may name at either end.
const MaxRanges = 4

// Policy is how a rule chooses the path of a packet.
type Policy uint8

// The policies.
const (
	Adaptive Policy = iota // as the session does by itself, as if no rule matched
	Equal                  // packets by turns, each link the same number of bytes
	Weighted               // packets by turns, each link its share of the bytes
	Failover               // the first link that works
	Flow                   // each flow keeps to one link; flows are spread
	LowDelay               // the path with the shortest round trip
)

// OnePath reports whether each flow of such a rule takes one path at a time.
func (p Policy) OnePath() bool { return p == Failover || p == Flow || p == LowDelay }

// The protocols that a rule may name, by their IP protocol numbers.
const (
	TCP    = 6
	UDP    = 17
	ICMPv6 = 58
)

// Range is a range of ports, both ends included.
type Range struct{ First, Last uint16 }

func (r Range) covers(o Range) bool { return r.First <= o.First && o.Last <= r.Last }

// Match is what a rule matches. The zero value of each field matches anything.
type Match struct {
	Peers    []string // names in lower case, or NIDs as they are printed
	Cgroup   string   // cleaned path of its directory: programs there and below
	Protocol uint8    // of IP
	Ports    []Range  // of the peer
	OwnPorts []Range
	DSCP     uint64 // bit i: code point i
}

// Share is what a link gets of the bytes of a rule.
type Share struct {
	Link    string
	PerCent int
}

// Rule is one rule of the user.
type Rule struct {
	Name string // as the user called it, or ""
	Match
	Policy Policy
	Links  []string // that it may use, the best first; nil: all
	Shares []Share  // of Weighted; nil: by the preferences of the links
}

// Uses returns the links that the rule names.
func (r Rule) Uses() []string {
	links := slices.Clone(r.Links)
	for _, s := range r.Shares {
		links = append(links, s.Link)
	}
	return links
}

// Set is the rules of a host in their order.
type Set []Rule

// For returns which rules can match flows to a peer, as bits.
func (s Set) For(nid roam.NID, names []string) (mask uint64) {
	for i, r := range s {
		if r.isFor(nid, names) {
			mask |= 1 << i
		}
	}
	return mask
}

func (m Match) isFor(nid roam.NID, names []string) bool {
	return m.Peers == nil || slices.ContainsFunc(m.Peers, func(p string) bool {
		return p == nid.String() || slices.Contains(names, p)
	})
}

// Known is what is known of a flow. A negative number, and an unknown cgroup, may be any.
type Known struct {
	Protocol, Port, OwnPort, DSCP int
	Cgroup                        string // "": unknown
}

// Answer is what a match says of a flow.
type Answer uint8

// The answers.
const (
	No    Answer = iota
	Maybe        // it depends on what is not known
	Yes
)

// Says returns whether a flow to one of its peers matches.
func (m Match) Says(k Known) Answer {
	out := Yes
	for _, a := range []Answer{
		says(m.Protocol == 0, k.Protocol, func(v int) bool { return v == int(m.Protocol) }),
		says(m.Ports == nil, k.Port, func(v int) bool { return within(m.Ports, v) }),
		says(m.OwnPorts == nil, k.OwnPort, func(v int) bool { return within(m.OwnPorts, v) }),
		says(m.DSCP == 0, k.DSCP, func(v int) bool { return m.DSCP>>v&1 != 0 }),
		says(!m.needsPorts(), k.Protocol, hasPorts),
	} {
		out = min(out, a)
	}
	switch {
	case m.Cgroup == "":
	case k.Cgroup == "":
		out = min(out, Maybe)
	case !below(k.Cgroup, m.Cgroup):
		return No
	}
	return out
}

func says(all bool, v int, match func(int) bool) Answer {
	switch {
	case all, v >= 0 && match(v):
		return Yes
	case v < 0:
		return Maybe
	}
	return No
}

func within(ports []Range, v int) bool {
	return slices.ContainsFunc(ports, func(r Range) bool { return int(r.First) <= v && v <= int(r.Last) })
}

func (m Match) needsPorts() bool { return m.Ports != nil || m.OwnPorts != nil }

func hasPorts(protocol int) bool { return protocol == TCP || protocol == UDP }

// below reports whether a directory is dir or below it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// Candidates returns the rules of mask that may match a flow, in their order, up to the
// first one that does.
func (s Set) Candidates(mask uint64, k Known) (list []int) {
	for i, r := range s {
		if mask>>i&1 == 0 {
			continue
		}
		switch r.Says(k) {
		case Maybe:
			list = append(list, i)
		case Yes:
			return append(list, i)
		}
	}
	return list
}
