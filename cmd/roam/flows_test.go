package main

import (
	"strings"
	"testing"

	"roam/internal/control"
)

// `roam explain PEER PORT` names the rule, the path and the reason, and what else a rule asks for.
func TestExplainFlows(t *testing.T) {
	w := newWorld(t)
	path := control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: 0x2001_0db8_00ff_0001}
	other := path
	other.Link = "wwan0"
	w.daemon.FlowList = []control.Flow{
		{
			Protocol: "tcp", Rule: 1, Name: "backup", Policy: "failover", Condition: `cgroup = "/c"`,
			Paths: []control.Path{other}, Reason: "the first of its links that works",
		},
		{Protocol: "tcp", Paths: []control.Path{path}, Reason: "no rule matches"},
		{Protocol: "udp", Rule: 2, Policy: "equal", Paths: []control.Path{path, other}, Reason: "packets take turns"},
	}
	status, out, errs := w.try(strings.Fields("explain server 443 --wide")...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{
		`TCP to port 443 with cgroup = "/c": rule 1 (backup), failover; leaves by wwan0`,
		"the first of its links that works. Otherwise: no rule matches; leaves by wlan0",
		"UDP to port 443: rule 2, equal; leaves by wlan0",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if _, out, _ = w.try(strings.Fields("explain server 443 --json")...); !strings.Contains(out, `"condition": "cgroup = \"/c\""`) {
		t.Errorf("JSON:\n%s", out)
	}
	for _, bad := range []string{"explain server http", "explain server 0", "explain server 65536", "explain", "explain a 1 2"} {
		if status, _, _ := w.try(strings.Fields(bad)...); status != 2 {
			t.Errorf("%s: status %d, want 2", bad, status)
		}
	}
}

// `roam explain PEER PORT` says what becomes of flows that a rule at the peer sends, and of plain IPv6.
func TestExplainFlowsOfThePeer(t *testing.T) {
	w := newWorld(t)
	path := control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: 0x2001_0db8_00ff_0001}
	other := path
	other.Remote++
	w.daemon.FlowList = []control.Flow{
		{
			Protocol: "tcp", Condition: "a rule at the peer", Paths: []control.Path{path, other},
			Reason: "answered along the path that it came by, as that rule asks",
		},
		{Protocol: "tcp", Paths: []control.Path{path}, Reason: "no rule matches"},
		{Protocol: "udp", Paths: []control.Path{path}, Reason: "the session is plain IPv6, so no rule applies"},
	}
	const way, back = "wlan0 2001:db8:1:1::/64 > 2001:db8:ff:1::/64", "wlan0 2001:db8:1:1::/64 > 2001:db8:ff:2::/64"
	_, out, _ := w.try(strings.Fields("explain server 443 --wide")...)
	for _, want := range []string{
		"TCP to port 443 with a rule at the peer: answered along the path that it came by, as that rule asks; leaves by " +
			way + " or " + back + ". Otherwise: no rule matches; leaves by " + way + ".",
		"UDP to port 443: the session is plain IPv6, so no rule applies; leaves by " + way + ".",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}
