package doctor

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// saved is the output of ip6tables-save, as it concerns Locator Updates.
type saved struct {
	chains outChains
	bases  []savedBase
}

// savedBase is a chain that the kernel calls.
type savedBase struct {
	table, name string
	dropping    bool // its policy
}

func (b savedBase) key() string { return savedKey(b.table, b.name) }

func savedKey(table, chain string) string { return table + " " + chain }

// savedTables returns the tables of ip6tables that `nft list ruleset` shows as well.
func savedTables(save string) map[string]bool {
	out := make(map[string]bool)
	if !strings.Contains(save, "(nf_tables)") {
		return out
	}
	for line := range strings.Lines(save) {
		if table, ok := strings.CutPrefix(strings.TrimSpace(line), "*"); ok {
			out[table] = true
		}
	}
	return out
}

// quoted is a word of ip6tables-save with blanks.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// parseSave reads the output of ip6tables-save.
func parseSave(save string, links []string) saved {
	out, table := saved{chains: make(outChains)}, "filter"
	for line := range strings.Lines(save) {
		line = strings.TrimSpace(line)
		w := strings.Fields(quoted.ReplaceAllString(line, `""`))
		switch {
		case len(w) == 0:
		case w[0][0] == '*':
			table = w[0][1:]
		case len(w) == 1:
		case w[0] == ":OUTPUT" || w[0] == ":POSTROUTING":
			out.bases = append(out.bases, savedBase{table, w[0][1:], w[1] == "DROP"})
		case w[0] == "-A":
			r := savedRule(table, w[2:], links)
			if r.text = line; !r.never {
				key := savedKey(table, w[1])
				out.chains[key] = append(out.chains[key], r)
			}
		}
	}
	return out
}

// savedRule reads the conditions and the target of a rule.
func savedRule(table string, w, links []string) outRule {
	r, not := outRule{sure: true}, false
	for i, option := range w {
		value := ""
		if i+1 < len(w) {
			value = w[i+1]
		}
		switch {
		case option == "-j" || option == "-g":
			r.verdict, r.target = savedTarget(option, value), savedKey(table, value)
			return r // what follows are options of the target
		case option == "!":
			not = true
			continue
		case strings.HasPrefix(option, "-"):
			r.option(option, value, not, links)
		}
		not = false
	}
	return r
}

// savedTarget returns the verdict of a target. Extensions such as LOG are chains without rules.
func savedTarget(option, target string) string {
	switch {
	case option == "-g":
		return verdictGoto
	case target == "ACCEPT":
		return verdictAccept
	case target == "DROP" || target == "REJECT":
		return verdictDrop
	case target == "RETURN":
		return verdictReturn
	}
	return verdictJump
}

// option adds an option of ip6tables-save to a rule.
func (r *outRule) option(option, value string, not bool, links []string) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(strings.Split(value, ","), func(v string) bool { return slices.Contains(words, v) })
	}
	switch option {
	case "-p":
		holds := has("ipv6-icmp", "icmpv6", "58")
		r.condition(holds != not)
		r.icmp = r.icmp || holds && !not
	case "--icmpv6-type":
		r.naming(namesUpdates, has("156", "156/0"), not)
	case "--state", "--ctstate":
		r.naming(namesInvalid, has("INVALID"), not)
	case "--header":
		r.naming(namesOptions, has("dst", "ipv6-opts", "60"), not)
	case "-o":
		begin, wild := strings.CutSuffix(value, "+")
		r.link(links, not, func(link string) bool { return link == value || wild && strings.HasPrefix(link, begin) })
	case "-m":
		switch {
		case value == "dst":
			r.naming(namesOptions, true, not)
		case !has("comment", "conntrack", "icmp6", "ipv6header", "state"): // the options of these say it all
			r.sure = false
		}
	case "--comment", "--soft":
	default:
		r.sure = false
	}
}

// judgeIPTables finds the same rules as nft.judge in the output of ip6tables-save.
func judgeIPTables(e *examination, save string, session netip.Prefix, links []string) {
	s := parseSave(save, links)
	for _, b := range s.bases {
		if b.table == "nat" {
			continue
		}
		insert := "ip6tables -I "
		if b.table != "filter" {
			insert = "ip6tables -t " + b.table + " -I "
		}
		r, ok := s.chains.decides(b.key())
		switch {
		case ok && r.verdict == verdictDrop:
			e.add(Fault, "firewall", "before it: "+insert+b.name+" -p icmpv6 --icmpv6-type 156 -j ACCEPT",
				"ip6tables %s drops outgoing Locator Updates", r.text)
		case !ok && b.dropping:
			e.add(Fault, "firewall", insert+b.name+" -p icmpv6 -j ACCEPT", "ip6tables drops in %s whatever no rule "+
				"accepts, and none accepts ICMPv6 type 156 (Locator Updates)", b.name)
		}
	}
	for line := range strings.Lines(save) {
		w := strings.Fields(line)
		target := after(w, "-j")
		if len(w) > 1 && w[0] == "-A" && w[1] == "PREROUTING" && (target == "DROP" || target == "REJECT") &&
			slices.Contains(w, "rpfilter") && slices.Contains(w, "--invert") && !slices.Contains(w, "--loose") {
			e.add(Fault, "firewall", fmt.Sprintf("before it: ip6tables -t raw -I PREROUTING -s %s -j ACCEPT", session),
				"ip6tables %s is a reverse-path check that drops all sessions", strings.TrimSpace(line))
		}
	}
}
