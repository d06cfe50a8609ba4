package doctor

import (
	"strings"
	"testing"

	"roam"
	"roam/internal/control"
)

// TestPolicies: which policy, link and correspondent are named, and how much it matters.
func TestPolicies(t *testing.T) {
	const net roam.L64 = 0x2001_0db8_000a_0000
	at := control.Locator{Link: "eth0", L64: net}
	some := control.Obstructed{Link: "eth0", L64: net, By: "IPsec policy X", Peers: []string{"b", "c"}, Count: 5}
	all := control.Obstructed{Link: "eth0", L64: net, By: "policy routing sends it by wg0", All: true}
	for name, c := range map[string]struct {
		status control.Status
		ignore bool
		level  Level
		words  []string
	}{
		"none":                     {control.Status{}, false, OK, []string{"no policy"}},
		"some that leave us alone": {control.Status{Policies: true}, false, OK, []string{"leave sessions alone"}},
		"ignored":                  {control.Status{}, true, Note, []string{"ignore_policy"}},
		"for some correspondents": {control.Status{Policies: true, Obstructed: []control.Obstructed{some}}, false, Warning,
			[]string{"eth0", "b, c and 3 more", "IPsec policy X"}},
		"for all, on the only link": {control.Status{Policies: true, Obstructed: []control.Obstructed{all}}, false, Fault,
			[]string{"eth0", "anybody", "wg0"}},
		"for all, on one of several": {control.Status{Policies: true,
			Obstructed: []control.Obstructed{{Link: "wlan0", L64: net, All: true}}}, false, Warning, []string{"wlan0"}},
	} {
		var e examination
		f := Facts{Daemon: &c.status, Locators: []control.Locator{at}}
		f.Config.Uplinks.IgnorePolicy = c.ignore
		lookPolicies(&e, f)
		if len(e.findings) != 1 || e.findings[0].Level != c.level {
			t.Errorf("%s: %+v", name, e.findings)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(e.findings[0].Text, w) {
				t.Errorf("%s: %q does not name %q", name, e.findings[0].Text, w)
			}
		}
		if (c.level == Warning || c.level == Fault) != strings.Contains(e.findings[0].Do, "vpn.md") {
			t.Errorf("%s: to do: %q", name, e.findings[0].Do)
		}
	}
}

// TestObstructedPeer: a correspondent without any path left is not asked, and a fault.
func TestObstructedPeer(t *testing.T) {
	path := control.Path{Link: "eth0"}
	s := control.Session{Obstructed: []control.Obstruction{{Path: path, By: "IPsec policy X"}}}
	p := &PeerFacts{Word: "b", Session: &s}
	var e examination
	if !lookObstructed(&e, p) || e.findings[0].Level != Fault || !strings.Contains(e.findings[0].Text, "IPsec policy X") {
		t.Errorf("no path left: %+v", e.findings)
	}
	s.Paths, e = []control.SessionPath{{Path: path}}, examination{}
	if lookObstructed(&e, p) || e.findings[0].Level != Warning {
		t.Errorf("a path left: %+v", e.findings)
	}
	s.Obstructed, e = nil, examination{}
	if lookObstructed(&e, p) || len(e.findings) != 0 {
		t.Errorf("nothing obstructed: %+v", e.findings)
	}
}

// TestTunnelsThatAreNoUplinks: the finding distinguishes a tunnel with a private address
// from a link that lacks something.
func TestTunnelsThatAreNoUplinks(t *testing.T) {
	const address = `[{"ifname":"tun0","flags":["UP","LOWER_UP","POINTOPOINT"],"addr_info":[
		{"family":"inet6","local":"ADDR","prefixlen":64,"scope":"global"}]}]`
	for name, c := range map[string]struct {
		addr, flag string
		include    []string
		want       bool
	}{
		"private":        {"fd00::2", "POINTOPOINT", nil, true},
		"private, named": {"fd00::2", "POINTOPOINT", []string{"tun*"}, false},
		"other":          {"2001:db8::2", "POINTOPOINT", nil, false},
		"Ethernet":       {"fd00::2", "BROADCAST", nil, false},
	} {
		text := strings.NewReplacer("ADDR", c.addr, "POINTOPOINT", c.flag).Replace(address)
		f := Facts{LinksKnown: true, Links: links(text, `[{"dev":"tun0"}]`), Daemon: &control.Status{}}
		f.Config.Uplinks.Include = c.include
		var e examination
		lookLinks(&e, f)
		if got := strings.Contains(e.findings[0].Text, "fc00::/7"); got != c.want {
			t.Errorf("%s: %+v", name, e.findings)
		}
		f.Daemon, e = nil, examination{}
		lookLinks(&e, f)
		if got := e.findings[len(e.findings)-1].Level != OK; got != c.want {
			t.Errorf("%s, no daemon: %+v", name, e.findings)
		}
	}
}
