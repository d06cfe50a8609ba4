package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"roam"
	"roam/flowrule"
	"roam/naming"
)

// sectionRule is the array of tables with the rules, which have no defaults and therefore do
// not stand in the table of keys.
const sectionRule = "rule"

// rawRule is one [[rule]] as TOML sees it. A port is a number or a word.
type rawRule struct {
	Name     string         `toml:"name"`
	Peer     []string       `toml:"peer"`
	Cgroup   string         `toml:"cgroup"`
	Protocol string         `toml:"protocol"`
	Ports    []any          `toml:"ports"`
	OwnPorts []any          `toml:"own_ports"`
	DSCP     []int          `toml:"dscp"`
	Policy   string         `toml:"policy"`
	Links    []string       `toml:"links"`
	Shares   map[string]int `toml:"shares"`
}

var protocolWords = []string{"tcp", "udp", "icmpv6"}
var protocolNumbers = []uint8{flowrule.TCP, flowrule.UDP, flowrule.ICMPv6}

// ruleTable describes the keys of a rule.
var ruleTable = []struct{ name, allowed string }{
	{"name", "1 to 40 printable characters"},
	{"peer", `a list of names or Node Identifiers of peers, such as ["server"]`},
	{"cgroup", allowedDir + " of a cgroup2"},
	{"protocol", words(protocolWords)},
	{"ports", `a list of at most 4 ports or ranges, such as [443, "5000-5099"]`},
	{"own_ports", `a list of at most 4 ports or ranges, such as [443, "5000-5099"]`},
	{"dscp", "a list of numbers from 0 to 63"},
	{"policy", words(flowrule.Policies())},
	{"links", allowedNames + `, such as ["eth0", "wlan0"]`},
	{"shares", "a table of link names, no globs, with per cent that sum to 100, such as { eth0 = 80, wlan0 = 20 }"},
}

// RuleKeys lists the keys of a rule in the order of the manual.
func RuleKeys() (names []string) {
	for _, k := range ruleTable {
		names = append(names, k.name)
	}
	return names
}

// ruleChecker checks one rule.
type ruleChecker struct {
	*checker
	at     string // "rule[2]"
	up     Uplinks
	device string
}

func (c ruleChecker) key(name string) string { return c.at + "." + name }

// has reports whether a key stands in the file, where that shows.
func (c ruleChecker) has(name string) bool {
	_, there := c.places[c.key(name)]
	return there
}

// refuse is the fault of a value of a rule, with what is allowed.
func (c ruleChecker) refuse(name, got string) {
	c.fault(c.key(name), "%s is not allowed; allowed: %s", got, allowed(sectionRule+"."+name))
}

// rules checks all rules. Of too many the first one beyond is the only fault.
func (c *checker) rules(list []rawRule, up Uplinks, device string) (set flowrule.Set) {
	if len(list) > flowrule.Max {
		beyond := elementName(sectionRule, flowrule.Max+1)
		c.fault(beyond, "there are %d rules; at most %d are allowed", len(list), flowrule.Max)
		return nil
	}
	for name := range c.places {
		if strings.HasPrefix(name, sectionRule+".") {
			c.fault(sectionRule, "a rule begins with [[rule]], in two brackets")
			return nil
		}
	}
	for i, r := range list {
		rc := ruleChecker{c, elementName(sectionRule, i+1), up, device}
		found := len(c.errs)
		rule := rc.rule(r)
		set = append(set, rule)
		if len(c.errs) > found {
			continue // of a rule with faults nobody knows what it matches
		}
		if why := rule.Contradicts(); why != "" {
			c.fault(rc.at, "this rule can never match: %s", why)
		} else if by := set.Hides(i); by >= 0 {
			c.fault(rc.at, "this rule can never match: rule %d in line %d takes all that it matches",
				by+1, c.placeOf(elementName(sectionRule, by+1)).line)
		}
	}
	return set
}

func (c ruleChecker) rule(r rawRule) flowrule.Rule {
	out := flowrule.Rule{
		Name: r.Name, Match: c.match(r), Policy: c.policy(r.Policy), Links: c.links(r.Links), Shares: c.shares(r.Shares),
	}
	unprintable := strings.ContainsFunc(r.Name, func(r rune) bool { return !unicode.IsPrint(r) })
	if c.has("name") && r.Name == "" || len(r.Name) > 40 || unprintable {
		c.refuse("name", strconv.Quote(r.Name))
	}
	switch {
	case r.Shares != nil && out.Policy != flowrule.Weighted:
		c.fault(c.key("shares"), "the policy %q has no shares; only \"weighted\" has", out.Policy)
	case r.Shares != nil && r.Links != nil:
		c.fault(c.key("links"), "shares name the links already; remove one of the two")
	case r.Links != nil && out.Policy == flowrule.Adaptive:
		c.fault(c.key("links"), "the policy \"adaptive\" chooses among all links; remove the list, or choose another policy")
	}
	return out
}

func (c ruleChecker) match(r rawRule) flowrule.Match {
	m := flowrule.Match{
		Peers: c.peers(r.Peer), DSCP: c.dscp(r.DSCP),
		Ports: c.ranges("ports", r.Ports), OwnPorts: c.ranges("own_ports", r.OwnPorts),
	}
	if c.has("cgroup") || r.Cgroup != "" {
		if !filepath.IsAbs(r.Cgroup) || len(r.Cgroup) > 4000 || strings.ContainsFunc(r.Cgroup, unicode.IsControl) {
			c.refuse("cgroup", strconv.Quote(r.Cgroup))
		}
		m.Cgroup = filepath.Clean(r.Cgroup)
	}
	if c.has("protocol") || r.Protocol != "" {
		if i := slices.Index(protocolWords, r.Protocol); i >= 0 {
			m.Protocol = protocolNumbers[i]
		} else {
			c.refuse("protocol", strconv.Quote(r.Protocol))
		}
	}
	return m
}

// notEmpty refuses a list that stands there and has nothing in it.
func (c ruleChecker) notEmpty(name string, n int, there bool) {
	if there && n == 0 {
		c.fault(c.key(name), "an empty list matches nothing; remove it to match anything")
	}
}

func (c ruleChecker) peers(list []string) (out []string) {
	c.notEmpty("peer", len(list), list != nil)
	for _, s := range list {
		name, err := naming.CleanName(s)
		if nid, e := roam.ParseNID(s); e == nil {
			name, err = nid.String(), nil
		}
		if err != nil {
			c.refuse("peer", strconv.Quote(s))
			continue
		}
		out = append(out, name)
	}
	return out
}

func (c ruleChecker) ranges(name string, list []any) (out []flowrule.Range) {
	c.notEmpty(name, len(list), list != nil)
	if len(list) > flowrule.MaxRanges {
		c.refuse(name, fmt.Sprintf("a list of %d", len(list)))
		return nil
	}
	for _, v := range list {
		first, last := fmt.Sprint(v), fmt.Sprint(v)
		if s, ok := v.(string); ok {
			if a, b, isRange := strings.Cut(s, "-"); isRange {
				first, last = a, b
			}
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a == 0 || a > b {
			c.refuse(name, strconv.Quote(fmt.Sprint(v)))
			continue
		}
		out = append(out, flowrule.Range{First: uint16(a), Last: uint16(b)})
	}
	return out
}

func (c ruleChecker) dscp(list []int) (mask uint64) {
	c.notEmpty("dscp", len(list), list != nil)
	for _, v := range list {
		if v < 0 || v > 63 {
			c.refuse("dscp", strconv.Itoa(v))
			continue
		}
		mask |= 1 << v
	}
	return mask
}

func (c ruleChecker) policy(word string) flowrule.Policy {
	i := slices.Index(flowrule.Policies(), word)
	if i < 0 && (c.has("policy") || word != "") {
		c.refuse("policy", strconv.Quote(word))
	}
	return flowrule.Policy(max(i, 0))
}

func (c ruleChecker) links(list []string) []string {
	if list != nil && len(list) == 0 {
		c.fault(c.key("links"), "an empty list leaves no link; remove it to use all")
	}
	for i, s := range list {
		if c.link("links", s) && slices.Contains(list[:i], s) {
			c.fault(c.key("links"), "%q is listed twice", s)
		}
	}
	return list
}

// link refuses a link that cannot be an uplink. One that is merely not there may come.
func (c ruleChecker) link(name, link string) bool {
	switch {
	case !linkName(link):
		c.refuse(name, strconv.Quote(link))
	case link == "lo", link == c.device, !c.up.Allows(link):
		c.fault(c.key(name), "%q is no uplink: [uplinks] includes and excludes links", link)
	default:
		return true
	}
	return false
}

func (c ruleChecker) shares(table map[string]int) (out []flowrule.Share) {
	sum := 0
	for _, link := range slices.Sorted(maps.Keys(table)) {
		n := table[link]
		c.link("shares", link)
		if n < 1 || n > 100 {
			c.fault(c.key("shares"), "%q gets %d per cent; a share is from 1 to 100", link, n)
		}
		sum += n
		out = append(out, flowrule.Share{Link: link, PerCent: n})
	}
	if table != nil && sum != 100 {
		c.fault(c.key("shares"), "the shares sum to %d per cent; they must sum to 100", sum)
	}
	return out
}

// maxPreference leaves numbers for locators in reserve.
const maxPreference = 65000

// preferences checks the table of preferences of locators.
func (c *checker) preferences(key string, table map[string]int) map[string]uint16 {
	if len(table) == 0 {
		return nil
	}
	out := make(map[string]uint16, len(table))
	for _, link := range slices.Sorted(maps.Keys(table)) {
		n := table[link]
		if !linkName(link) || n < 0 || n > maxPreference {
			c.refuse(key, fmt.Sprintf("%q = %d", link, n))
		}
		out[link] = uint16(n)
	}
	return out
}
