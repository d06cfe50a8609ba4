package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/cli"
	"roam/internal/control"
	"roam/internal/control/controltest"
)

const policyText = "#Locator Prec Scope Advice Label Rewrite Flags\nfd00:0:1:: 50 0 vlb 1 2 0\n" +
	"2001:db8:a:: 20 0 none 2 -1 0\n2001:db8:b:: 80 0 none 2 -1 0\n"

var locatorUpdate uint8 = 156

// borderWorld has a daemon that is a border.
func borderWorld(t *testing.T) *world {
	w := newWorld(t)
	report, err := json.Marshal(control.BorderReport{
		Policy: policyText, Inside: []string{"lan0"},
		Sites: []control.BorderSite{
			{Locator: 0x20010db8000a0000, Link: "wan0", State: control.BorderUp, NextHop: "known",
				TXPackets: 800, TXBytes: 8000, RXPackets: 10, RXBytes: 100},
			{Locator: 0x20010db8000b0000, Link: "wan1", State: control.BorderUp, NextHop: "kernel", TXPackets: 200},
		},
		Flows: []control.BorderFlow{{Inside: 0xa1, Internal: 0xfd00000000010000, Outside: 0xc1, Remote: 0x20010db800cc0000,
			Announced: []roam.L64{0x20010db8000a0000}, IdleS: 4}},
		Refused: []control.BorderRefusals{{Reason: "no link is up", Messages: 3, Last: control.BorderPacket{
			Time: controltest.Now.Add(-time.Minute), Link: "lan0", Protocol: 58, ICMPType: &locatorUpdate,
			Source: netip.MustParseAddr("fd00:0:1::5"), Destination: netip.MustParseAddr("2001:db8:cc::1"),
		}}},
		Dropped: []control.BorderDrops{{Counter: "border_drop_spoofed", Reason: "a forged source", Packets: 7,
			Last: control.BorderPacket{
				Time: controltest.Now.Add(-time.Second), Link: "wan0", Protocol: 17, SourcePort: 5, DestinationPort: 53,
				Source: netip.MustParseAddr("fd00:0:1::6"), Destination: netip.MustParseAddr("2001:db8:a::1"),
			}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.daemon.RoleList = []control.RoleReport{
		{RoleStatus: control.RoleStatus{Name: "border", State: control.RoleRunning}, Report: report},
	}
	return w
}

func TestBorderCommands(t *testing.T) {
	w := borderWorld(t)
	for line, want := range map[string][]string{
		"border": {"2001:db8:a::  wan0  up     known        800  80.0", "1 flows", "3 messages refused: no link is up\n" +
			"  one 1 min 0 s ago, at lan0: fd00:0:1::5 > 2001:db8:cc::1, ICMPv6 type 156\n7 packets dropped: a forged source\n" +
			"  one 1 s ago, at wan0: fd00:0:1::6 > 2001:db8:a::1, protocol 17, ports 5 and 53\n"},
		"border show":  {"2001:db8:b::  wan1  up     kernel       200  20.0"},
		"border flows": {"fd00:0:1::a1", "2001:db8:cc::c1", "2001:db8:a::       4"},
		"policy":       {"LOCATOR", "fd00:0:1::      50      0  vlb         1        2      0"},
		"policy show":  {"2001:db8:b::    80      0  none        2       -1      0"},
		"policy explain fd00:0:1::5 2001:db8:cc::1":         {"80.0 %"},
		"policy explain fd00:0:1::5 2001:db8:cc::1 tcp 5 6": {"ports 5 and 6"},
		"border show --json": {`"tx_packets": 800`, `"icmp_type": 156`, `"counter": "border_drop_spoofed"`,
			`"source_port": 5`},
		"policy explain fd00:0:1::5 2001:db8:cc::1 --json": {`["`, "80.0 %"},
		"border drain wan0":          {"wan0 drained"},
		"border undrain wan0 --json": {`"drained": false`},
		"border drain wan0 --json":   {`"link": "wan0"`},
	} {
		status, out, errs := w.try(strings.Fields(line)...)
		for _, part := range want {
			if status != cli.StatusOK || !strings.Contains(strings.ReplaceAll(out, "[\n  \"", `["`), part) {
				t.Errorf("roam %s: status %d, no %q in\n%s%s", line, status, part, out, errs)
			}
		}
	}
	for _, line := range []string{
		"policy explain fd00::1 here", "policy explain fd00::1 fd00::2 sctp", "policy explain fd00::1 fd00::2 udp 1",
		"policy explain fd00::1 fd00::2 udp 1 65536", "policy explain fd00::1", "policy explain fd00::1 fd00::2 udp 1 2 3",
	} {
		if status, out, errs := w.try(strings.Fields(line)...); status != cli.StatusUsage || out != "" {
			t.Errorf("roam %s: status %d, %s%s", line, status, out, errs)
		}
	}
}

// What a command or the configuration has drained is shown with what ends that, and a link that
// does not exist with those that do.
func TestBorderDrain(t *testing.T) {
	w := borderWorld(t)
	var r control.BorderReport
	if err := json.Unmarshal(w.daemon.RoleList[0].Report, &r); err != nil {
		t.Fatal(err)
	}
	for by, want := range map[string]string{
		control.DrainedByCommand: "`roam border undrain wan1`", control.DrainedByConfig: "border.drained",
	} {
		r.Sites[1].State, r.Sites[1].DrainedBy = control.BorderDrained, by
		report, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		w.daemon.RoleList[0].Report = report
		for _, part := range []string{"2001:db8:b::  wan1  drained", want} {
			if status, out, errs := w.try("border"); status != cli.StatusOK || !strings.Contains(out, part) {
				t.Errorf("by %s: status %d, no %q in\n%s%s", by, status, part, out, errs)
			}
		}
		if _, out, _ := w.try("border", "show", "--json"); !strings.Contains(out, `"drained_by": "`+by+`"`) {
			t.Errorf("by %s: JSON is\n%s", by, out)
		}
	}
	status, _, errs := w.try("border", "drain", "wan9")
	if status != cli.StatusFailure || !strings.Contains(errs, `"wan9"`) || !strings.Contains(errs, "wan0, wan1") {
		t.Errorf("a link that does not exist: status %d, %s", status, errs)
	}
	if _, out, _ := w.try("__complete", "border", "drain", ""); !strings.HasPrefix(out, "wan0\nwan1\n") {
		t.Errorf("completed by %q", out)
	}
	if status, _, _ := w.try("border", "undrain"); status != cli.StatusUsage {
		t.Errorf("undrain without a link: status %d", status)
	}
	if got := w.daemon.Instructions(); len(got) > 0 {
		t.Errorf("the daemon was told %q", got)
	}
}

// A faulty policy is named with its line, in a file of its own and in roam.conf.
func TestPolicyCheck(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad := file("good", policyText), file("bad", policyText+"2001:db8:c:: 1 0 best 2\n")
	if status, out, _ := w.try("policy", "check", good); status != cli.StatusOK || !strings.Contains(out, "3 locators, 2 of") {
		t.Errorf("a good one: %d %s", status, out)
	}
	if status, _, errs := w.try("policy", "check", bad); status != cli.StatusFailure || !strings.Contains(errs, "line 5: Advice") {
		t.Errorf("a bad one: %d %s", status, errs)
	}
	advice := fault{File: bad, Line: 5, Message: `Advice "best"; want none or vlb`}
	for path, want := range map[string]checkedPolicy{
		good: {checked: checked{File: good, OK: true, Faults: []fault{}}, Locators: 3, Assigned: 2},
		bad:  {checked: checked{File: bad, Faults: []fault{advice}}},
	} {
		status, out, errs := w.try("policy", "check", path, "--json")
		var got checkedPolicy
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v in %q, %q", err, out, errs)
		}
		if !reflect.DeepEqual(got, want) || errs != "" || (status == cli.StatusOK) != want.OK {
			t.Errorf("%s: status %d, %+v, %q", path, status, got, errs)
		}
	}
	conf := file("roam.conf", "[role]\nrun = [\"border\"]\n[border]\npolicy = \"\"\"\n2001:db8:c:: 1 0 best 2\n\"\"\"\n")
	for _, verb := range []string{"policy", "config"} {
		status, _, errs := w.try("--config", conf, verb, "check")
		if status != cli.StatusFailure || !strings.Contains(errs, "line 1: Advice") {
			t.Errorf("%s check: %d %s", verb, status, errs)
		}
	}
}

// The sample of the how-to has no fault, nor lines that the how-to does not show; a fault in its
// policy is found.
func TestBorderSample(t *testing.T) {
	w := newWorld(t)
	const sample = "../../docs/howto/border.conf"
	if status, out, errs := w.try("config", "check", sample); status != cli.StatusOK || out != sample+": no fault\n" {
		t.Errorf("check: %d, %q, %q", status, out, errs)
	}
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/howto/border.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(string(text), "[role]")
	for l := range strings.Lines(lines) {
		if !strings.Contains(string(page), "   "+l) && l != "\n" {
			t.Errorf("not in the how-to: %q", l)
		}
	}
	faulty := filepath.Join(t.TempDir(), "roam.conf")
	if err := os.WriteFile(faulty, []byte(strings.Replace(string(text), "vlb", "best", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := w.try("config", "check", faulty); status != cli.StatusFailure || !strings.Contains(errs, "Advice") {
		t.Errorf("check of a fault: %d, %q", status, errs)
	}
}
