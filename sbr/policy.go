package sbr

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"roam"
)

// Limits of a policy. The number of entries bounds the tables of the data plane.
const (
	MaxLabel   = 8  // labels are 0 to 8
	MaxLabels  = 8  // of one locator
	MaxGroup   = 8  // locators with one label
	MaxEntries = 16 // locators of a policy
	none       = -1 // no label, no rewriting
)

// Advice is how packets are divided among the locators that an entry is rewritten to.
type Advice uint8

// The kinds of advice. Other words are reserved.
const (
	AdviceNone Advice = iota // all packets to the most preferred locator that is up
	AdviceVLB                // "volume load balancing": packets by weight, over all that are up
)

var advices = []string{"none", "vlb"}

// String returns the advice as it stands in a policy.
func (a Advice) String() string { return advices[a] }

// FlagPeer marks a locator of another border of the site.
const FlagPeer uint8 = 1

// Entry is the policy of one locator, which may stand in several lines with a label each.
type Entry struct {
	L64     roam.L64
	Prec    uint16 // lower is preferred; the more preferred, the larger its share
	Advice  Advice
	Labels  []int // in the order of the lines
	Rewrite int   // label of the group that this locator is rewritten to; -1: it is not
	Flags   uint8
	Line    int // of the policy where the locator first stands
}

// Internal reports whether the locator is one of the site's own, which nobody outside sees.
func (e Entry) Internal() bool { return e.Rewrite != none }

// Policy is a valid policy table. The zero value is empty.
type Policy struct{ entries []Entry }

// PolicyError says what is wrong with a line of a policy.
type PolicyError struct {
	Line    int
	Message string
}

// Error returns the line and what is wrong there.
func (e *PolicyError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// ParsePolicy reads a policy: one locator a line, columns Locator, Prec, Scope, Advice,
// Label, Rewrite and Flags, of which the last two may be missing; "#" begins a comment. A
// faulty line refuses the whole policy with a *PolicyError.
func ParsePolicy(text []byte) (Policy, error) {
	var p Policy
	for i, text := range strings.Split(string(text), "\n") {
		line := i + 1
		content, _, _ := strings.Cut(text, "#")
		fields := strings.Fields(content)
		if len(fields) == 0 {
			continue
		}
		e, err := parseEntry(fields)
		if err == nil {
			e.Line = line
			err = p.add(e)
		}
		if err != nil {
			return Policy{}, &PolicyError{line, err.Error()}
		}
	}
	if err := p.check(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// parseEntry reads the columns of one line.
func parseEntry(f []string) (e Entry, err error) {
	if len(f) < 5 || len(f) > 7 {
		return e, fmt.Errorf("%d columns; want Locator Prec Scope Advice Label [Rewrite [Flags]]", len(f))
	}
	f = append(f[:len(f):len(f)], []string{"-1", "0"}[len(f)-5:]...)
	if e.L64, err = parseLocator(f[0]); err != nil {
		return e, err
	}
	prec, err := strconv.ParseUint(f[1], 10, 16)
	if err != nil {
		return e, fmt.Errorf("Prec %q; want 0 to 65535", f[1])
	}
	if f[2] != "0" {
		return e, fmt.Errorf("Scope %q; want 0, other values are reserved", f[2])
	}
	advice := slices.Index(advices, f[3])
	if advice < 0 {
		return e, fmt.Errorf("Advice %q; want none or vlb", f[3])
	}
	label, err := parseLabel("Label", f[4])
	if err != nil {
		return e, err
	}
	if e.Rewrite, err = parseLabel("Rewrite", f[5]); err != nil {
		return e, err
	}
	flags, err := strconv.ParseUint(f[6], 10, 8)
	if err != nil || uint8(flags)&^FlagPeer != 0 {
		return e, fmt.Errorf("Flags %q; want 0, or 1 for a locator of another border", f[6])
	}
	if label != none {
		e.Labels = []int{label}
	}
	e.Prec, e.Advice, e.Flags = uint16(prec), Advice(advice), uint8(flags)
	return e, nil
}

func parseLabel(column, s string) (int, error) {
	v, err := strconv.Atoi(s)
	if err != nil || v < none || v > MaxLabel {
		return 0, fmt.Errorf("%s %q; want %d to %d", column, s, none, MaxLabel)
	}
	return v, nil
}

// parseLocator reads a prefix of 64 bits; "/64" may be missing.
func parseLocator(s string) (roam.L64, error) {
	prefix, err := netip.ParsePrefix(s)
	if !strings.Contains(s, "/") {
		prefix, err = netip.ParsePrefix(s + "/64")
	}
	if err != nil || !prefix.Addr().Is6() || prefix.Bits() != 64 || prefix.Masked() != prefix {
		return 0, fmt.Errorf("Locator %q; want a prefix of 64 bits, such as 2001:db8:1::", s)
	}
	l := roam.ILVFromAddr(prefix.Addr()).L64
	if !l.Usable() {
		return 0, fmt.Errorf("Locator %q is no global unicast prefix", s)
	}
	return l, nil
}

// add adds the entry of a line, or its label to that of an earlier line.
func (p *Policy) add(e Entry) error {
	i := slices.IndexFunc(p.entries, func(o Entry) bool { return o.L64 == e.L64 })
	if i < 0 {
		if len(p.entries) == MaxEntries {
			return fmt.Errorf("more than %d locators", MaxEntries)
		}
		p.entries = append(p.entries, e)
		return nil
	}
	o := &p.entries[i]
	switch {
	case o.Prec != e.Prec:
		return fmt.Errorf("%v has Prec %d, and %d in line %d; a locator has one preference",
			e.L64.Prefix(), e.Prec, o.Prec, o.Line)
	case o.Advice != e.Advice || o.Rewrite != e.Rewrite || o.Flags != e.Flags:
		return fmt.Errorf("%v differs from line %d in more than its label", e.L64.Prefix(), o.Line)
	case len(e.Labels) == 0 || slices.Contains(o.Labels, e.Labels[0]):
		return fmt.Errorf("%v has this label in line %d already", e.L64.Prefix(), o.Line)
	case len(o.Labels) == MaxLabels:
		return fmt.Errorf("%v has more than %d labels", e.L64.Prefix(), MaxLabels)
	}
	o.Labels = append(o.Labels, e.Labels...)
	return nil
}

// check looks at what lines say of each other.
func (p Policy) check() error {
	for _, e := range p.entries {
		if e.Rewrite == none {
			continue
		}
		group := p.Group(e.Rewrite)
		switch {
		case len(group) == 0:
			return &PolicyError{e.Line, fmt.Sprintf("Rewrite %d, but no locator has that label", e.Rewrite)}
		case len(group) > MaxGroup:
			return &PolicyError{e.Line, fmt.Sprintf("Rewrite %d has %d locators, at most %d", e.Rewrite, len(group), MaxGroup)}
		}
		for _, g := range group {
			if g.Rewrite != none {
				return &PolicyError{e.Line, fmt.Sprintf(
					"Rewrite %d has %v, which line %d rewrites to %d: a loop, or a chain; the locators of a group are not rewritten",
					e.Rewrite, g.L64.Prefix(), g.Line, g.Rewrite)}
			}
		}
	}
	return nil
}

// Entries returns the entries in the order of their first lines.
func (p Policy) Entries() []Entry { return slices.Clone(p.entries) }

// Group returns the entries with a label, the most preferred first.
func (p Policy) Group(label int) []Entry {
	var group []Entry
	for _, e := range p.entries {
		if slices.Contains(e.Labels, label) {
			group = append(group, e)
		}
	}
	slices.SortStableFunc(group, func(a, b Entry) int { return cmp.Compare(a.Prec, b.Prec) })
	return group
}

// Entry returns the entry of a locator.
func (p Policy) Entry(l roam.L64) (Entry, bool) {
	for _, e := range p.entries {
		if e.L64 == l {
			return e, true
		}
	}
	return Entry{}, false
}

// Inside returns the entry of an internal locator.
func (p Policy) Inside(l roam.L64) (Entry, bool) {
	e, ok := p.Entry(l)
	return e, ok && e.Internal()
}

// Behind returns the internal locator that stands behind a site locator where no flow says
// which: the most preferred one that is rewritten to it.
func (p Policy) Behind(site roam.L64) (roam.L64, bool) {
	var best *Entry
	for i, e := range p.entries {
		if !e.Internal() || best != nil && best.Prec <= e.Prec {
			continue
		}
		if p.rewrites(e, site) {
			best = &p.entries[i]
		}
	}
	if best == nil {
		return 0, false
	}
	return best.L64, true
}

// Site returns the locators that internal ones are rewritten to, in the order of the policy.
func (p Policy) Site() []roam.L64 {
	var list []roam.L64
	for _, e := range p.entries {
		if _, ok := p.Behind(e.L64); ok {
			list = append(list, e.L64)
		}
	}
	return list
}

// networks returns the internal locators of a node that is at one of them and at others, by the site locators that
// were announced for it: some of these are of other networks only. Of several networks with one of these it is that
// whose others were announced, too. nil: it is at that one alone.
func (p Policy) networks(at roam.L64, announced []roam.L64) (list []roam.L64) {
	here, known := p.Inside(at)
	rest := slices.DeleteFunc(slices.Clone(announced), func(l roam.L64) bool { return known && p.rewrites(here, l) })
	for len(rest) > 0 {
		var best *Entry
		least := 0 // members of its group that were not announced
		for i, e := range p.entries {
			if !e.Internal() || !p.rewrites(e, rest[0]) {
				continue
			}
			missing := 0
			for _, g := range p.Group(e.Rewrite) {
				if !slices.Contains(announced, g.L64) {
					missing++
				}
			}
			if best == nil || missing < least {
				best, least = &p.entries[i], missing
			}
		}
		if best == nil {
			rest = rest[1:]
			continue
		}
		list = append(list, best.L64)
		rest = slices.DeleteFunc(rest, func(l roam.L64) bool { return p.rewrites(*best, l) })
	}
	if len(list) > 0 {
		list = append(list, at)
	}
	return list
}

// rewrites reports whether a locator is rewritten to that of the site.
func (p Policy) rewrites(e Entry, site roam.L64) bool {
	return e.Internal() && slices.ContainsFunc(p.Group(e.Rewrite), func(g Entry) bool { return g.L64 == site })
}

// AppendTo appends the policy in the syntax that ParsePolicy reads, a label a line.
func (p Policy) AppendTo(b []byte) []byte {
	b = append(b, "#Locator Prec Scope Advice Label Rewrite Flags\n"...)
	for _, e := range p.entries {
		labels := e.Labels
		if len(labels) == 0 {
			labels = []int{none}
		}
		for _, label := range labels {
			b = fmt.Appendf(b, "%s %d 0 %s %d %d %d\n", e.L64.Prefix().Addr(), e.Prec, e.Advice, label, e.Rewrite, e.Flags)
		}
	}
	return b
}
