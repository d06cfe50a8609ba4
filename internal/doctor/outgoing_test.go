package doctor

import (
	"fmt"
	"strings"
	"testing"
)

// match is a condition of a rule, as nft 1.0.6 prints it.
func match(left, op, right string) string {
	return `{"match": {"op": "` + op + `", "left": {` + left + `}, "right": ` + right + `}}, `
}

const (
	dropAll    = `{"drop": null}`
	acceptAll  = `{"accept": null}`
	jumpIn     = `{"jump": {"target": "in"}}`
	counterAll = `{"counter": {"packets": 1, "bytes": 2}}`
	ctState    = `"ct": {"key": "state"}`
	oifname    = `"meta": {"key": "oifname"}`
	l4proto    = `"meta": {"key": "l4proto"}`
	limit      = `{"limit": {"rate": 5, "burst": 5, "per": "second", "inv": true}}, `
	// Verdict maps and named sets.
	stateMap = `{"vmap": {"key": {` + ctState + `},
		"data": {"set": [["established", {"accept": null}], ["invalid", {"drop": null}]]}}}`
	protoMap = `{"vmap": {"key": {` + l4proto + `}, "data": "@protocols"}}`
	named    = `{"map": {"family": "inet", "name": "protocols", "table": "f", "type": "inet_proto", "map": "verdict",
		"elem": [["tcp", {"accept": null}], ["ipv6-icmp", {"goto": {"target": "in"}}]]}},
		{"set": {"family": "inet", "name": "types", "table": "f", "type": "icmpv6_type",
		"elem": ["echo-request", {"elem": {"val": 156, "comment": "x"}}]}}, `
)

var (
	icmpv6   = match(l4proto, "==", `"ipv6-icmp"`)
	invalid  = match(ctState, "in", `["invalid", "untracked"]`)
	valid    = match(ctState, "==", `{"set": ["new", "established"]}`)
	ipv6     = match(`"meta": {"key": "nfproto"}`, "==", `"ipv6"`)
	uplink   = match(oifname, "==", `{"set": ["lo", "wl*"]}`)
	notLo    = match(`"meta": {"key": "oif"}`, "!=", `"lo"`)
	toSome   = match(`"payload": {"protocol": "ip6", "field": "daddr"}`, "==", `{"prefix": {"addr": "fe80::", "len": 10}}`)
	smtp     = match(`"payload": {"protocol": "tcp", "field": "dport"}`, "==", "25")
	typeSet  = match(`"payload": {"protocol": "icmpv6", "field": "type"}`, "==", `"@types"`)
	notTypes = match(`"payload": {"protocol": "icmpv6", "field": "type"}`, "!=", `{"set": [1, 156]}`)
)

// withChain adds a chain with the expressions of rules, and the named sets.
func withChain(ruleset, name string, rules ...string) string {
	more := fmt.Sprintf(`, {"chain": {"family": "inet", "table": "f", "name": %q}}`, name)
	for i, r := range rules {
		more += fmt.Sprintf(`, {"rule": {"family": "inet", "table": "f", "chain": %q, "handle": %d, "expr": [%s]}}`,
			name, i+1, r)
	}
	return strings.Replace(strings.TrimSuffix(ruleset, "]}")+more+"]}", "[", "["+named, 1)
}

// TestOutgoingNft: what happens to Locator Updates at the hook output.
func TestOutgoingNft(t *testing.T) {
	const byAll = "drops whatever comes to it, Locator Updates too"
	const byState = "drops what connection tracking considers invalid"
	for name, c := range map[string]struct {
		policy string
		rules  []string
		in     []string // rules of a further chain
		want   string
	}{
		"all dropped":       {"accept", []string{smtp + acceptAll, counterAll, dropAll}, nil, "handle 3 " + byAll},
		"all of IPv6":       {"accept", []string{ipv6 + counterAll + ", " + dropAll}, nil, byAll},
		"all of ICMPv6":     {"accept", []string{icmpv6 + dropAll}, nil, byAll},
		"other types":       {"accept", []string{notTypes + dropAll}, nil, ""},
		"too many":          {"accept", []string{limit + dropAll}, nil, ""},
		"to some hosts":     {"accept", []string{toSome + dropAll}, nil, ""},
		"invalid":           {"accept", []string{invalid + dropAll}, nil, byState},
		"invalid, by map":   {"accept", []string{stateMap}, nil, byState},
		"valid accepted":    {"drop", []string{valid + acceptAll}, nil, "chain inet f c drops whatever no rule"},
		"invalid accepted":  {"drop", []string{invalid + acceptAll}, nil, ""},
		"by an uplink":      {"accept", []string{uplink + dropAll}, nil, byAll},
		"by another link":   {"accept", []string{match(oifname, "==", `"eth7"`) + dropAll}, nil, ""},
		"uplinks accepted":  {"drop", []string{uplink + acceptAll}, nil, ""},
		"some accepted":     {"drop", []string{toSome + acceptAll}, nil, "chain inet f c drops whatever no rule"},
		"not readable":      {"drop", []string{`{"xt": {"type": "match", "name": "x"}}, ` + acceptAll}, nil, ""},
		"a set":             {"drop", []string{typeSet + acceptAll}, nil, ""},
		"a chain elsewhere": {"drop", []string{smtp + acceptAll}, []string{icmpv6 + acceptAll}, "chain inet f c"},
		"a chain accepts":   {"drop", []string{notLo + jumpIn}, []string{limit + icmpv6 + acceptAll}, ""},
		"a chain for TCP":   {"accept", []string{smtp + jumpIn}, []string{dropAll}, ""},
		"a chain for some":  {"accept", []string{toSome + jumpIn}, []string{dropAll}, ""},
		"a chain by map":    {"accept", []string{protoMap}, []string{counterAll, dropAll}, "nft inet f in handle 2 " + byAll},
		"a chain by state":  {"accept", []string{invalid + jumpIn}, []string{`{"reject": null}`}, "in handle 1 " + byState},
		"a chain returns":   {"drop", []string{jumpIn, acceptAll}, []string{icmpv6 + `{"return": null}`, dropAll}, ""},
		"a chain is left": {"drop", []string{`{"goto": {"target": "in"}}`, acceptAll}, []string{counterAll},
			"chain inet f c"},
		"a circle": {"drop", []string{jumpIn}, []string{jumpIn, `{"jump": {"target": "c"}}`}, "chain inet f c"},
	} {
		t.Run(name, func(t *testing.T) {
			f := well()
			f.NFT = withChain(chained("output", c.policy, c.rules...), "in", c.in...)
			checkOne(t, bad(f), c.want)
		})
	}
}

// TestOtherHooks: connection tracking keeps Locator Updates from address translation, and drops of invalid
// packets of others are too common to be named.
func TestOtherHooks(t *testing.T) {
	f := well()
	f.NFT = strings.Replace(chained("output", "accept", dropAll), `"hook"`, `"type": "nat", "hook"`, 1)
	checkOne(t, bad(f), "")
	f.NFT = chained("forward", "accept", invalid+dropAll)
	checkOne(t, bad(f), "")
}

// TestFirewallOfBoth: rules of ip6tables that nft shows as well are judged once.
func TestFirewallOfBoth(t *testing.T) {
	f := well()
	f.NFT = strings.NewReplacer(`"inet"`, `"ip6"`, `"f"`, `"filter"`, `"c"`, `"OUTPUT"`).Replace(
		chained("output", "drop", `{"xt": {"type": "match", "name": "rt"}}, {"drop": null}`, dropAll))
	f.IPTables = "# Generated by ip6tables-save v1.8.9 (nf_tables)\n" + closedOutput + "-A OUTPUT -j DROP\n"
	checkOne(t, bad(f), "fault firewall: ip6tables -A OUTPUT -j DROP drops outgoing")
}

// How the output of ip6tables-save begins.
const (
	openOutput   = "*filter\n:OUTPUT ACCEPT [0:0]\n"
	closedOutput = "*filter\n:OUTPUT DROP [0:0]\n"
	ufwOutput    = closedOutput + ":ufw6-before-output - [0:0]\n-A OUTPUT -j ufw6-before-logging-output\n" +
		"-A OUTPUT -j ufw6-before-output\n-A ufw6-before-output -o lo -j ACCEPT\n" +
		"-A ufw6-before-output -m rt --rt-type 0 -j DROP\n" +
		"-A ufw6-before-output -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
	ufwICMP = ufwOutput + "-A ufw6-before-output -p ipv6-icmp -m icmp6 --icmpv6-type "
)

// TestOutgoingIPTables is TestOutgoingNft for the output of ip6tables-save.
func TestOutgoingIPTables(t *testing.T) {
	const byPolicy, byRule = "ip6tables drops in OUTPUT whatever no rule accepts", " drops outgoing Locator Updates"
	for name, c := range map[string]struct{ begins, rules, want string }{
		"all dropped":      {openOutput, "-A OUTPUT -p tcp -j ACCEPT\n-A OUTPUT -j DROP\n", "OUTPUT -j DROP" + byRule},
		"all but TCP":      {openOutput, "-A OUTPUT ! -p tcp -j REJECT --reject-with icmp6-adm-prohibited\n", byRule},
		"by uplinks":       {openOutput, "-A OUTPUT ! -o lo+ -j DROP\n", byRule},
		"by another link":  {openOutput, "-A OUTPUT -o eth7 -j DROP\n", ""},
		"to some hosts":    {openOutput, "-A OUTPUT -d fe80::/10 -j DROP\n", ""},
		"too many":         {openOutput, "-A OUTPUT -m limit --limit 9/sec -j DROP\n", ""},
		"invalid":          {openOutput, "-A OUTPUT -m conntrack --ctstate INVALID,UNTRACKED -j DROP\n", byRule},
		"valid accepted":   {closedOutput, "-A OUTPUT -m state --state NEW,ESTABLISHED -j ACCEPT\n", byPolicy},
		"invalid accepted": {closedOutput, "-A OUTPUT -m state ! --state NEW -j ACCEPT\n", ""},
		"ufw":              {ufwICMP, "156 -m hl --hl-eq 255 -j ACCEPT\n", ""},
		"ufw, other types": {ufwICMP, "128 -j ACCEPT\n", byPolicy},
		"another table": {openOutput + "*mangle\n:POSTROUTING ACCEPT [0:0]\n",
			"-A POSTROUTING -m dst --dst-opts 139 -j DROP\n", "-t mangle -I"},
		"accepted there": {closedOutput, "*mangle\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -j ACCEPT\n", byPolicy},
		"translation":    {"*nat\n:OUTPUT ACCEPT [0:0]\n", "-A OUTPUT -j DROP\n", ""},
		"a chain": {openOutput, "-A OUTPUT -g a\n-A a -j LOG --log-prefix \"[x] \"\n-A a -j DROP\n",
			"-A a -j DROP" + byRule},
		"a chain, left":     {openOutput, "-A OUTPUT -j a\n-A a -p ipv6-icmp -j RETURN\n-A a -j DROP\n", ""},
		"a chain elsewhere": {closedOutput, "-A a -j ACCEPT\n", byPolicy},
		"a circle":          {closedOutput, "-A OUTPUT -j a\n-A a -j a\n", byPolicy},
		"a comment":         {openOutput, `-A OUTPUT -m comment --comment "as \"x\" -j ACCEPT" -j DROP` + "\n", byRule},
	} {
		t.Run(name, func(t *testing.T) {
			f := well()
			f.IPTables = c.begins + c.rules
			checkOne(t, bad(f), c.want)
		})
	}
}
