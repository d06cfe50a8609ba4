package doctor

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
)

const (
	behind    roam.L64 = 0xfd00_0000_0001_0000
	providerA roam.L64 = 0x2001_0db8_000a_0000
	providerB roam.L64 = 0x2001_0db8_000b_0000
)

// wellBorder is a site border on which all is well.
func wellBorder() (Facts, *control.BorderReport) {
	f := well()
	f.Config.Roles = []string{config.RoleBorder}
	own := control.RoleStatus{Name: config.RoleBorder, State: control.RoleRunning}
	f.Daemon.Roles, f.Roles = []control.RoleStatus{own}, []control.RoleReport{{RoleStatus: own}}
	f.Locators, f.BehindRoutes = nil, map[roam.L64]string{behind: "lan0"}
	f.Links = []Link{
		{Name: "lan0", Up: true, Forwarding: 1, AcceptRA: 1, Global: []netip.Prefix{netip.MustParsePrefix("fd00:0:1::1/64")}},
		{Name: "wan0", Up: true, Routed: true, Forwarding: 1, AcceptRA: 2},
		{Name: "wan1", Up: true, Routed: true, Forwarding: 1, AcceptRA: 1},
	}
	link := control.BorderLink{
		Exists: true, Up: true, Routed: true, Programs: true, Hardware: control.HardwareKnown, Router: "fe80::1",
	}
	lan, wan0, wan1 := link, link, link
	lan.Name, lan.Routed, lan.Router, lan.Hardware, lan.Locators = "lan0", false, "", control.HardwareUnknown, []roam.L64{}
	wan0.Name, wan0.Locators = "wan0", []roam.L64{providerA}
	wan1.Name, wan1.Locators = "wan1", []roam.L64{providerB}
	return f, &control.BorderReport{
		Internal: []roam.L64{behind}, Links: []control.BorderLink{lan, wan0, wan1}, MaxFlows: 10,
		Sites: []control.BorderSite{
			{Locator: providerA, Link: "wan0", State: control.BorderUp, TXPackets: 1000, RXPackets: 900},
			{Locator: providerB, Link: "wan1", State: control.BorderUp, TXPackets: 1000, RXPackets: 900},
		},
		Flows: []control.BorderFlow{{Inside: 1}},
	}
}

func TestBorderFindings(t *testing.T) {
	type change func(*Facts, *control.BorderReport)
	drain := func(by string, which ...int) change {
		return func(_ *Facts, r *control.BorderReport) {
			for _, i := range which {
				r.Sites[i].State, r.Sites[i].DrainedBy = control.BorderDrained, by
			}
		}
	}
	for name, tc := range map[string]struct {
		change change
		want   []string // beginnings of the only findings, in order
	}{
		"well": {func(*Facts, *control.BorderReport) {}, nil},
		"no forwarding": {func(f *Facts, _ *control.BorderReport) { f.NoForwarding = true },
			[]string{"fault border: this host does not forward IPv6"}},
		"no inside": {func(_ *Facts, r *control.BorderReport) { r.Links = r.Links[1:] },
			[]string{"fault border: no link to the inside exists", "warning border: packets for the hosts of fd00:0:1::/64"}},
		"inside down": {func(_ *Facts, r *control.BorderReport) { r.Links[0].Up = false },
			[]string{"fault border: lan0, a link to the inside, is down"}},
		"no provider": {func(_ *Facts, r *control.BorderReport) { r.Links, r.Sites = r.Links[:1], nil },
			[]string{"fault border: no link to a provider is configured"}},
		"absent": {func(_ *Facts, r *control.BorderReport) {
			r.Links[1].Exists, r.Sites[0].State = false, control.BorderDown
		},
			[]string{"warning border: wan0 (2001:db8:a::/64) does not exist"}},
		"down": {func(_ *Facts, r *control.BorderReport) { r.Links[1].Up, r.Sites[0].State = false, control.BorderDown },
			[]string{"warning border: wan0 (2001:db8:a::/64) is down or has no carrier > ip link set wan0 up"}},
		"all down": {func(_ *Facts, r *control.BorderReport) {
			for i := range r.Sites {
				r.Links[i+1].Up, r.Sites[i].State = false, control.BorderDown
			}
		}, []string{"fault border: wan0 (2001:db8:a::/64) is down", "fault border: wan1 (2001:db8:b::/64) is down"}},
		"no route": {func(_ *Facts, r *control.BorderReport) {
			r.Links[1].Routed, r.Sites[0].State = false, control.BorderDown
		}, []string{
			"warning border: no default route leads over wan0 (2001:db8:a::/64): nothing leaves by it > ip -6 route add default",
		}},
		"no route as advertisements are ignored": {
			func(_ *Facts, r *control.BorderReport) {
				r.Links[2].Routed, r.Sites[1].State = false, control.BorderDown
			}, []string{
				"warning border: no default route leads over wan1 (2001:db8:b::/64): nothing leaves by it > " +
					"sysctl -w net.ipv6.conf.wan1.accept_ra=2",
			}},
		"no programs": {func(_ *Facts, r *control.BorderReport) { r.Links[0].Programs = false },
			[]string{"fault border: the programs are not attached to lan0: its packets"}},
		"no router": {func(_ *Facts, r *control.BorderReport) {
			r.Links[1].Router, r.Links[1].Hardware = "", control.HardwareUnknown
		},
			[]string{"note border: the default route of wan0 names no router"}},
		"a silent router": {func(_ *Facts, r *control.BorderReport) { r.Links[1].Hardware = control.HardwareUnknown },
			[]string{"warning border: the router fe80::1 on wan0 does not answer"}},
		"a router that was not asked": {func(_ *Facts, r *control.BorderReport) {
			r.Links[1].Hardware, r.Sites[0].TXPackets, r.Sites[0].RXPackets = control.HardwareUnknown, 0, 0
		}, []string{"note border: the hardware address of the router fe80::1 on wan0 is not known yet"}},
		"no hardware addresses": {
			func(_ *Facts, r *control.BorderReport) { r.Links[1].Hardware = control.HardwareNone }, nil},
		"not routed back": {func(_ *Facts, r *control.BorderReport) { r.Sites[1].RXPackets = 0 }, []string{
			"warning border: 1000 packets left from 2001:db8:b::/64 by wan1, and none has come for it > have the provider route",
		}},
		"no XDP": {func(_ *Facts, r *control.BorderReport) {
			r.Links[0].XDP, r.Links[1].XDP, r.Links[2].XDP = control.XDPNone, control.XDPReceives, control.XDPUnknown
		}, []string{
			"note border: lan0 has no XDP", "note border: wan0 sends no frames of XDP programs on other links",
			"note border: this kernel does not say whether wan1 sends frames of XDP programs",
		}},
		"XDP": {func(_ *Facts, r *control.BorderReport) { r.Links[1].XDP = control.XDPWhole }, nil},
		"drained by command": {drain(control.DrainedByCommand, 0), []string{
			"note border: wan0 is drained by command: nothing leaves by it > when the work is done: roam border undrain wan0",
		}},
		"drained by configuration": {drain(control.DrainedByConfig, 1), []string{
			"note border: wan1 is drained by border.drained: nothing leaves by it > when the work is done: take it out of",
		}},
		"drained, and the other fails": {func(f *Facts, r *control.BorderReport) {
			drain(control.DrainedByCommand, 0)(f, r)
			r.Links[2].Up, r.Sites[1].State = false, control.BorderDown
		}, []string{
			"fault border: wan0 is drained by command, and no other link can be used: nothing leaves the site > " +
				"roam border undrain wan0",
			"fault border: wan1 (2001:db8:b::/64) is down",
		}},
		"not in the policy": {func(_ *Facts, r *control.BorderReport) {
			r.Links[1].Locators = append(r.Links[1].Locators, 0x2001_0db8_000d_0000)
		},
			[]string{"warning border: 2001:db8:d::/64 of wan0 is not used: the policy has no line for it"}},
		"no policy": {func(_ *Facts, r *control.BorderReport) { r.Internal, r.Sites = nil, nil }, []string{
			"warning border: 2001:db8:a::/64 of wan0 is not used", "warning border: 2001:db8:b::/64 of wan1 is not used",
			"fault border: the policy has no line with a Rewrite",
		}},
		"an idle line": {func(_ *Facts, r *control.BorderReport) {
			r.Idle = []control.BorderIdle{{Locator: 0x2001_0db8_000d_0000, Why: "no link has it"}}
			r.Links[1].Locators = append(r.Links[1].Locators, r.Idle[0].Locator) // is not said to have no line
		}, []string{
			"warning border: the line of 2001:db8:d::/64 in the policy can never act as it stands: no link has it > " +
				"correct or remove",
		}},
		"no route inside": {func(f *Facts, _ *control.BorderReport) { f.BehindRoutes = nil },
			[]string{"warning border: no route leads to the hosts of fd00:0:1::/64"}},
		"a wrong route inside": {func(f *Facts, _ *control.BorderReport) { f.BehindRoutes[behind] = "wan0" },
			[]string{"warning border: packets for the hosts of fd00:0:1::/64 would leave by wan0, which is no"}},
		"nearly full": {func(_ *Facts, r *control.BorderReport) { r.Flows = make([]control.BorderFlow, 9) },
			[]string{"warning border: the table of flows is nearly full, with 9 of 10"}},
		"was full": {func(_ *Facts, r *control.BorderReport) { r.FlowsRefused = 3 },
			[]string{"note border: the table of flows was full 3 times"}},
		"an older daemon": {func(_ *Facts, r *control.BorderReport) { r.Links = nil }, nil},
	} {
		f, r := wellBorder()
		tc.change(&f, r)
		report, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		f.Roles[0].Report = report
		got := bad(f)
		if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tc.want)
		}
		for _, finding := range got {
			if strings.HasPrefix(finding, "warning") && strings.HasSuffix(finding, "> ") {
				t.Errorf("%s: nothing to do about %q", name, finding)
			}
		}
	}
}

// What the role says is amiss is shown unless a finding says it better, and a report that cannot
// be read is a finding.
func TestBorderStatus(t *testing.T) {
	f, r := wellBorder()
	report, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	f.Roles[0].Report, f.Roles[0].Error = report, "role.run no longer lists it"
	if got := bad(f); len(got) != 1 || !strings.HasPrefix(got[0], "warning role border: the role runs, but: role.run") {
		t.Errorf("only the role says it: %q", got)
	}
	f.NoForwarding, f.Roles[0].Error = true, "this host does not forward IPv6"
	if got := bad(f); len(got) != 1 || !strings.HasPrefix(got[0], "fault border: this host does not forward") {
		t.Errorf("both say it: %q", got)
	}
	f.Roles[0].Report = []byte(`{"links": 1}`)
	if got := bad(f); len(got) != 1 || !strings.HasPrefix(got[0], "warning border: the border's report cannot be read") {
		t.Errorf("an unreadable report: %q", got)
	}
	f.Roles[0].Report, f.Roles[0].Error = report, ""
	f.NoForwarding = false
	want := Finding{Level: OK, About: "border",
		Text: "packets leave by wan0 and wan1; every line of the policy can act; 1 of 10 flows"}
	if list := Examine(f); !slices.Contains(list, want) {
		t.Errorf("%+v", list)
	}
}

// The routes to the hosts of a site are those that the kernel names.
func TestGatherBorder(t *testing.T) {
	m := machine{
		files:  map[string]string{"/proc/sys/net/ipv6/conf/all/forwarding": "0\n"},
		output: map[string]string{"ip -j -6 route get fd00:0:1:0:ffff:ffff:ffff:fffe": `[{"dst":"fd00:0:1::","dev":"lan0"}]`},
	}
	if f := Gather(t.Context(), m, Facts{Config: config.Default()}); !f.NoForwarding {
		t.Error("the host is taken to forward")
	}
	f, r := wellBorder()
	r.Internal = append(r.Internal, behind+1<<16)
	report, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	f.Roles[0].Report = report
	if got := BehindRoutes(t.Context(), m, f.Roles); len(got) != 1 || got[behind] != "lan0" {
		t.Errorf("routes %v", got)
	}
}
