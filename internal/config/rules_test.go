package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"roam/flowrule"
)

const ruled = `
[uplinks]
preference = { eth0 = 20, "eth0.7" = 80 }

[[rule]]
name = "voice"
peer = ["Server", "0011:22ff:0:1"]
cgroup = "/sys/fs/cgroup/voice/"
protocol = "udp"
ports = [5060, "16384-32767"]
own_ports = ["7"]
dscp = [46, 34]
policy = "lowdelay"
links = ["eth0"]

[[rule]]
protocol = "tcp"
policy = "weighted"
  [rule.shares]
  eth0 = 80
  wlan0 = 20

[[rule]]
`

func TestParseRules(t *testing.T) {
	c, err := Parse("t", []byte(ruled))
	if err != nil {
		t.Fatal(err)
	}
	want := flowrule.Set{
		{
			Name: "voice", Policy: flowrule.LowDelay, Links: []string{"eth0"},
			Match: flowrule.Match{
				Peers: []string{"server", "0011:22ff:0000:0001"}, Cgroup: "/sys/fs/cgroup/voice", Protocol: flowrule.UDP,
				Ports:    []flowrule.Range{{First: 5060, Last: 5060}, {First: 16384, Last: 32767}},
				OwnPorts: []flowrule.Range{{First: 7, Last: 7}}, DSCP: 1<<46 | 1<<34,
			},
		},
		{
			Match: flowrule.Match{Protocol: flowrule.TCP}, Policy: flowrule.Weighted,
			Shares: []flowrule.Share{{Link: "eth0", PerCent: 80}, {Link: "wlan0", PerCent: 20}},
		},
		{},
	}
	if d := cmp.Diff(want, c.Rules); d != "" {
		t.Errorf("rules (-want +got):\n%s", d)
	}
	for link, want := range map[string]uint16{"eth0": 20, "eth0.7": 80, "eth1": DefaultPreference} {
		if got := c.Uplinks.PreferenceOf(link); got != want {
			t.Errorf("preference of %s: %d, want %d", link, got, want)
		}
	}
	again, err := Parse("formatted", []byte(Format(c)))
	if err != nil {
		t.Fatalf("%v\n%s", err, Format(c))
	}
	if d := cmp.Diff(c.Rules, again.Rules); d != "" {
		t.Errorf("Format and Parse (-want +got):\n%s", d)
	}
}

func TestRuleFaults(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{
			"policy", "[[rule]]\n\n[[rule]]\nports = [1]\npolicy = \"quick\"",
			`t:5:1: rule[2].policy: "quick" is not allowed; allowed: one of "adaptive", "equal"`,
		},
		{"unknown key", "[[rule]]\nport = 1", "t:2:1: rule.port: unknown key; a rule has name, peer, cgroup,"},
		{
			"link that is excluded", "[[rule]]\npolicy = \"flow\"\nlinks = [\"docker0\"]",
			`t:3:1: rule[1].links: "docker0" is no uplink`,
		},
		{
			"link that is not included", "[uplinks]\ninclude = [\"eth*\"]\n[[rule]]\npolicy = \"flow\"\nlinks = [\"eht0\"]",
			`t:5:1: rule[1].links: "eht0" is no uplink`,
		},
		{"link of another kind", "[[rule]]\npolicy = \"flow\"\nlinks = [\"lo\"]", `"lo" is no uplink`},
		{"the session device", "[[rule]]\npolicy = \"flow\"\nlinks = [\"roam0\"]", `"roam0" is no uplink`},
		{
			"link twice", "[[rule]]\npolicy = \"flow\"\nlinks = [\"a\", \"a\"]",
			`t:3:1: rule[1].links: "a" is listed twice`,
		},
		{"no link", "[[rule]]\npolicy = \"flow\"\nlinks = []", "t:3:1: rule[1].links: an empty list"},
		{"links of adaptive", "[[rule]]\nlinks = [\"a\"]", "t:2:1: rule[1].links: the policy \"adaptive\""},
		{
			"sum of shares", "[[rule]]\npolicy = \"weighted\"\nshares = { a = 80, b = 30 }",
			"t:3:1: rule[1].shares: the shares sum to 110 per cent; they must sum to 100",
		},
		{"no shares", "[[rule]]\npolicy = \"weighted\"\nshares = {}", "the shares sum to 0 per cent"},
		{"share", "[[rule]]\npolicy = \"weighted\"\nshares = { a = 100, b = 0 }", `rule[1].shares: "b" gets 0 per cent`},
		{
			"shares of another policy", "[[rule]]\npolicy = \"equal\"\nshares = { a = 100 }",
			"t:3:1: rule[1].shares: the policy \"equal\" has no shares",
		},
		{
			"shares and links", "[[rule]]\npolicy = \"weighted\"\nlinks = [\"a\"]\nshares = { a = 100 }",
			"t:3:1: rule[1].links: shares name the links",
		},
		{
			"cgroup", "[[rule]]\ncgroup = \"voice\"",
			`t:2:1: rule[1].cgroup: "voice" is not allowed; allowed: an absolute path`,
		},
		{"protocol", "[[rule]]\nprotocol = \"sctp\"", `t:2:1: rule[1].protocol: "sctp" is not allowed`},
		{
			"port", "[[rule]]\nports = [0]",
			`t:2:1: rule[1].ports: "0" is not allowed; allowed: a list of at most 4 ports`,
		},
		{"port range", "[[rule]]\nown_ports = [\"9-1\"]", `t:2:1: rule[1].own_ports: "9-1" is not allowed`},
		{"port type", "[[rule]]\nports = [1.5]", `rule[1].ports: "1.5" is not allowed`},
		{"ports type", "[[rule]]\nports = 443", "t:2:9: rule.ports: wrong type of value; allowed: a list"},
		{"five ranges", "[[rule]]\nports = [1, 2, 3, 4, 5]", "t:2:1: rule[1].ports: a list of 5"},
		{"empty ports", "[[rule]]\nports = []", "t:2:1: rule[1].ports: an empty list matches nothing"},
		{"empty peers", "[[rule]]\npeer = []", "t:2:1: rule[1].peer: an empty list matches nothing"},
		{"peer", "[[rule]]\npeer = [\"a b\"]", `t:2:1: rule[1].peer: "a b" is not allowed`},
		{"dscp", "[[rule]]\ndscp = [64]", "t:2:1: rule[1].dscp: 64 is not allowed"},
		{"name", "[[rule]]\nname = \"\"", `t:2:1: rule[1].name: "" is not allowed`},
		{
			"never: ports of pings", "[[rule]]\nprotocol = \"icmpv6\"\nports = [7]",
			"t:1:3: rule[1]: this rule can never match: its protocol has no ports",
		},
		{
			"never: hidden", "[[rule]]\nprotocol = \"tcp\"\n[[rule]]\nprotocol = \"tcp\"\nports = [443]",
			"t:3:3: rule[2]: this rule can never match: rule 1 in line 1 takes all",
		},
		{"one table", "[rule]\nprotocol = \"tcp\"", "t:1:2: rule: a rule begins with [[rule]]"},
		{"inline", "rule = [{ protocol = \"sctp\" }]", "t:1:1: rule[1].protocol: "},
		{
			"another role", "[role]\nrun = [\"observer\"]\n[[rule]]\n",
			`t:3:3: rule: section [rule] belongs to the role "host"`,
		},
		{
			"preference", "[uplinks]\npreference = { eth0 = 65001 }",
			`t:2:1: uplinks.preference: "eth0" = 65001 is not allowed`,
		},
		{
			"preference of a glob", "[uplinks]\npreference = { \"wwan*\" = 80 }",
			`t:2:1: uplinks.preference: "wwan*" = 80 is not allowed; allowed: a table of link names, no globs`,
		},
		{
			"glob of links", "[[rule]]\npolicy = \"flow\"\nlinks = [\"eth?\"]",
			`t:3:1: rule[1].links: "eth?" is not allowed; allowed: a list of link names, no globs`,
		},
		{
			"glob of shares", "[[rule]]\npolicy = \"weighted\"\nshares = { \"eth*\" = 100 }",
			`rule[1].shares: "eth*" is not allowed; allowed: a table of link names, no globs`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("t", []byte(tc.text))
			var es Errors
			if !errors.As(err, &es) {
				t.Fatalf("%v is not Errors", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q\nlacks %q", err, tc.want)
			}
			if es[0].Line == 0 || es[0].Column == 0 {
				t.Errorf("error %q has no place", err)
			}
		})
	}
}

// A thousand rules are one fault, where the first one beyond the bound begins.
func TestTooManyRules(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "[[rule]]\nports = [%d]\npolicy = \"flow\"\n", i+1)
	}
	_, err := Parse("t", []byte(b.String()))
	if want := "t:97:3: rule[33]: there are 1000 rules; at most 32 are allowed"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	most, _, _ := strings.Cut(b.String(), "[[rule]]\nports = [33]")
	if c, err := Parse("t", []byte(most)); err != nil || len(c.Rules) != 32 {
		t.Errorf("%d rules, %v", len(c.Rules), err)
	}
}

func TestMergeAndDiffOfRules(t *testing.T) {
	a := Default()
	b, err := Parse("t", []byte("[uplinks]\npreference = { a = 1 }\n[[rule]]\nprotocol = \"udp\"\npolicy = \"flow\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{Key: "uplinks.preference", Old: "{}", New: `{ "a" = 1 }`, Role: RoleHost},
		{Key: "rule", Old: "[]", New: `["protocol = \"udp\", policy = \"flow\""]`, Role: RoleHost},
	}
	if d := cmp.Diff(want, Diff(a, b)); d != "" {
		t.Errorf("Diff (-want +got):\n%s", d)
	}
	if m := Merge(a, b); len(m.Rules) != 1 || m.Uplinks.PreferenceOf("a") != 1 {
		t.Errorf("merged %+v", m.Rules)
	}
}
