package doctor

import (
	"fmt"
	"strings"
	"testing"
)

// chained makes a rule set of one base chain with the expressions of rules.
func chained(hook, policy string, rules ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"nftables": [{"chain": {"family": "inet", "table": "f", "name": "c", "hook": %q, "policy": %q}}`,
		hook, policy)
	for i, r := range rules {
		fmt.Fprintf(&b, `, {"rule": {"family": "inet", "table": "f", "chain": "c", "handle": %d, "expr": [%s]}}`, i+1, r)
	}
	return b.String() + "]}"
}

// The expressions are what nft 1.0.6 prints.
const (
	optionsDrop = `{"match": {"op": "==", "left": {"exthdr": {"name": "dst"}}, "right": true}}, {"drop": null}`
	nextDrop    = `{"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "nexthdr"}}, "right": "ipv6-opts"}}, {"drop": null}`
	nextAccept  = `{"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "nexthdr"}}, "right": "ipv6-icmp"}}, {"accept": null}`
	updateDrop  = `{"match": {"op": "==", "left": {"payload": {"protocol": "icmpv6", "field": "type"}}, "right": 156}}, {"drop": null}`
	rangeReject = `{"match": {"op": "==", "left": {"payload": {"protocol": "icmpv6", "field": "type"}}, "right": {"range": [150, 160]}}}, {"reject": {"type": "icmpv6"}}`
	setAccept   = `{"match": {"op": "==", "left": {"payload": {"protocol": "icmpv6", "field": "type"}}, "right": {"set": ["echo-request", 156]}}}, {"accept": null}`
	echoAccept  = `{"match": {"op": "==", "left": {"payload": {"protocol": "icmpv6", "field": "type"}}, "right": {"set": ["echo-request"]}}}, {"accept": null}`
	protoAccept = `{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "ipv6-icmp"}}, {"accept": null}`
	stateAccept = `{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}, {"accept": null}`
	reverseDrop = `{"match": {"op": "==", "left": {"fib": {"result": "oif", "flags": ["saddr", "iif"]}}, "right": false}}, {"drop": null}`
	looseDrop   = `{"match": {"op": "==", "left": {"fib": {"result": "oif", "flags": ["saddr"]}}, "right": false}}, {"drop": null}`
	exempt      = `{"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": {"prefix": {"addr": "fd69:6c6e:7000:2627::", "len": 64}}}}, {"accept": null}`
)

func TestFirewallNft(t *testing.T) {
	for name, tc := range map[string]struct{ rules, want string }{
		"options dropped": {chained("output", "accept", optionsDrop),
			"fault firewall: nft inet f c handle 1 drops destination options"},
		"options by next header": {chained("postrouting", "accept", nextDrop), "drops destination options"},
		"updates dropped":        {chained("output", "accept", stateAccept, updateDrop), "handle 2 drops ICMPv6 type 156"},
		"updates in a range":     {chained("output", "accept", rangeReject), "drops ICMPv6 type 156"},
		"accepted before":        {chained("output", "drop", setAccept, rangeReject), ""},
		"closed": {chained("output", "drop", stateAccept, nextAccept, echoAccept),
			"fault firewall: chain inet f c drops whatever no rule accepts"},
		"closed, by protocol": {chained("output", "drop", protoAccept), ""},
		"closed, all":         {chained("output", "drop", `{"accept": null}`), ""},
		"a router's": {chained("forward", "accept", updateDrop), "note firewall: nft inet f c handle 1 drops " +
			"ICMPv6 type 156 (Locator Updates) of others"},
		"arriving control": {chained("input", "accept", updateDrop, optionsDrop), ""},
		"reverse path": {chained("prerouting", "accept", reverseDrop),
			"fault firewall: nft inet f c handle 1 is a reverse-path check"},
		"reverse path, exempted":  {chained("prerouting", "accept", exempt, reverseDrop), ""},
		"reverse path, any link":  {chained("prerouting", "accept", looseDrop), ""},
		"no rules":                {"", ""},
		"another kind of program": {"not JSON", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := well()
			f.NFT = tc.rules
			checkOne(t, bad(f), tc.want)
		})
	}
}

func checkOne(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("found %q, want nothing", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("found %q, want one: %q", got, want)
	}
}

func TestFirewallIPTables(t *testing.T) {
	for name, tc := range map[string]struct{ rules, want string }{
		"updates dropped": {"*filter\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -p ipv6-icmp -m icmp6 --icmpv6-type 156 -j DROP\n",
			"drops outgoing Locator Updates"},
		"options dropped": {openOutput + "-A OUTPUT -m ipv6header --header ipv6-opts --soft -j DROP\n",
			"drops outgoing Locator Updates"},
		"accepted before": {openOutput + "-A OUTPUT -p ipv6-icmp -j ACCEPT\n" +
			"-A OUTPUT -p ipv6-icmp -m icmp6 --icmpv6-type 156 -j DROP\n", ""},
		"closed": {":OUTPUT DROP [0:0]\n-A OUTPUT -m state --state ESTABLISHED -j ACCEPT\n",
			"ip6tables drops in OUTPUT"},
		"closed and opened": {":OUTPUT DROP [0:0]\n-A OUTPUT -p ipv6-icmp -m icmp6 --icmpv6-type 156 -j ACCEPT\n", ""},
		"reverse path":      {"*raw\n-A PREROUTING -m rpfilter --invert -j DROP\n", "is a reverse-path check"},
		"loose":             {"*raw\n-A PREROUTING -m rpfilter --loose --invert -j DROP\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := well()
			f.IPTables = tc.rules
			checkOne(t, bad(f), tc.want)
		})
	}
}
