package doctor

import (
	"net/netip"
	"slices"
	"testing"
)

var session = netip.MustParsePrefix("fd69:6c6e:7000:2627::/64")

// ruleset is the output of `nft -j list ruleset` for a table with all the forms that the
// doctor distinguishes.
const ruleset = `{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
{"table": {"family": "inet", "name": "filter", "handle": 1}},
{"set": {"family": "inet", "name": "inside", "table": "filter", "type": "ipv6_addr", "handle": 9, "flags": ["interval"],
  "elem": [{"prefix": {"addr": "fd00::", "len": 8}}, {"prefix": {"addr": "2001:db8::", "len": 32}}, "2001:db8::1"]}},
{"chain": {"family": "inet", "table": "filter", "name": "input", "handle": 2, "type": "filter", "hook": "input", "prio": 0, "policy": "drop"}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 10, "expr": [
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": {"prefix": {"addr": "fc00::", "len": 7}}}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 11, "expr": [
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": "@inside"}}, {"counter": {"packets": 0, "bytes": 0}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 12, "expr": [
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": {"set": [{"prefix": {"addr": "fd69::", "len": 16}}, "fe80::1"]}}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 13, "expr": [
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": {"prefix": {"addr": "fc00::", "len": 7}}}}, {"drop": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 14, "expr": [
  {"match": {"op": "!=", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": {"prefix": {"addr": "fc00::", "len": 7}}}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 15, "expr": [
  {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "lo"}},
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": {"prefix": {"addr": "fc00::", "len": 7}}}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 16, "expr": [
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "daddr"}}, "right": {"prefix": {"addr": "fc00::", "len": 7}}}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 17, "expr": [
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": {"prefix": {"addr": "fd69:6c6e:7000:2627::", "len": 64}}}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 18, "expr": [
  {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "saddr"}}, "right": {"prefix": {"addr": "fd12:3456::", "len": 32}}}}, {"accept": null}]}},
{"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 19, "expr": [
  {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "icmpv6"}}, {"accept": null}]}}]}`

func TestTrustedByNft(t *testing.T) {
	want := []string{
		"nft inet filter input handle 10 (ip6 saddr fc00::/7 accept)",
		"nft inet filter input handle 11 (ip6 saddr fd00::/8 accept)",
		"nft inet filter input handle 12 (ip6 saddr fd69::/16 accept)",
	}
	if got := TrustedByNft([]byte(ruleset), session); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, s := range []string{"", "{", `{"nftables": [{"rule": {"expr": [{"accept": null}, {"match": 5}]}}]}`} {
		if got := TrustedByNft([]byte(s), session); got != nil {
			t.Errorf("from %q: %q", s, got)
		}
	}
}

func TestTrustedByIPTables(t *testing.T) {
	const save = `*filter
:INPUT DROP [0:0]
-A INPUT -s fc00::/7 -p tcp -j ACCEPT
-A INPUT -s fd00::/8 -i lo -j ACCEPT
-A INPUT ! -s fd00::/8 -j ACCEPT
-A INPUT -s fd00::/8 -j DROP
-A INPUT -s ::/0 -j ACCEPT
-A INPUT -s
COMMIT
`
	want := []string{"ip6tables -A INPUT -s fc00::/7 -p tcp -j ACCEPT"}
	if got := TrustedByIPTables(save, session); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
