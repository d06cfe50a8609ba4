package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"roam/flowrule"
)

// RuleText returns a rule on one line, in the words of the file.
func RuleText(r flowrule.Rule) string {
	var parts []string
	for _, kv := range ruleLines(r) {
		parts = append(parts, kv[0]+" = "+kv[1])
	}
	return strings.Join(parts, ", ")
}

func ruleTexts(set flowrule.Set) []string {
	out := make([]string, len(set))
	for i, r := range set {
		out[i] = RuleText(r)
	}
	return out
}

// formatRules appends the rules as Parse reads them back.
func formatRules(b *strings.Builder, set flowrule.Set) {
	for _, r := range set {
		b.WriteString("\n[[" + sectionRule + "]]\n")
		for _, kv := range ruleLines(r) {
			fmt.Fprintf(b, "%s = %s\n", kv[0], kv[1])
		}
	}
}

// ruleLines returns the keys of a rule that are set, with their values as TOML.
func ruleLines(r flowrule.Rule) (out [][2]string) {
	add := func(set bool, name, value string) {
		if set {
			out = append(out, [2]string{name, value})
		}
	}
	add(r.Name != "", "name", quote(r.Name))
	out = append(out, MatchLines(r.Match)...)
	add(true, "policy", quote(r.Policy.String()))
	add(r.Links != nil, "links", quoteAll(r.Links))
	add(r.Shares != nil, "shares", sharesText(r.Shares))
	return out
}

// MatchLines returns what a match asks for, each as a key and its value as TOML.
func MatchLines(r flowrule.Match) (out [][2]string) {
	add := func(set bool, name, value string) {
		if set {
			out = append(out, [2]string{name, value})
		}
	}
	add(r.Peers != nil, "peer", quoteAll(r.Peers))
	add(r.Cgroup != "", "cgroup", quote(r.Cgroup))
	if i := slices.Index(protocolNumbers, r.Protocol); i >= 0 {
		add(true, "protocol", quote(protocolWords[i]))
	}
	add(r.Ports != nil, "ports", quoteAll(rangeTexts(r.Ports)))
	add(r.OwnPorts != nil, "own_ports", quoteAll(rangeTexts(r.OwnPorts)))
	add(r.DSCP != 0, "dscp", dscpText(r.DSCP))
	return out
}

func rangeTexts(list []flowrule.Range) []string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = strconv.Itoa(int(r.First))
		if r.Last != r.First {
			out[i] += "-" + strconv.Itoa(int(r.Last))
		}
	}
	return out
}

func dscpText(mask uint64) string {
	var out []string
	for i := range 64 {
		if mask>>i&1 != 0 {
			out = append(out, strconv.Itoa(i))
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func sharesText(list []flowrule.Share) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%s = %d", quote(s.Link), s.PerCent)
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

func preferenceText(table map[string]uint16) string {
	var out []string
	for _, link := range slices.Sorted(maps.Keys(table)) {
		out = append(out, fmt.Sprintf("%s = %d", quote(link), table[link]))
	}
	if out == nil {
		return "{}"
	}
	return "{ " + strings.Join(out, ", ") + " }"
}

// SameRule reports whether two rules are the same.
func SameRule(a, b flowrule.Rule) bool { return RuleText(a) == RuleText(b) }

// RuleTitle names rule i of a set, counted from 0, as people see it.
func RuleTitle(i int, r flowrule.Rule) string {
	if r.Name == "" {
		return fmt.Sprintf("rule %d", i+1)
	}
	return fmt.Sprintf("rule %d (%s)", i+1, r.Name)
}

// AbsentCgroups returns a fault for each rule of a file whose cgroup is not there; exists says
// which ones are.
func AbsentCgroups(file string, c Config, exists func(dir string) bool) (faults Errors) {
	for i, r := range c.Rules {
		if r.Cgroup == "" || exists(r.Cgroup) {
			continue
		}
		key := elementName(sectionRule, i+1) + ".cgroup"
		at := placeIn(file, key)
		faults = append(faults, &Error{
			File: file, Line: at.line, Column: at.column, Key: key,
			Message: fmt.Sprintf("there is no cgroup %s; a directory of a cgroup2 is wanted", quote(r.Cgroup)),
		})
	}
	return faults
}
