package border

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
	plane "roam/internal/dataplane/border"
	"roam/internal/hostnet"
	"roam/internal/role"
	"roam/sbr"
)

const (
	internal, other            roam.L64 = 0xfd00_0000_0001_0000, 0xfd00_0000_0002_0000
	providerA, providerB, more roam.L64 = 0x2001_0db8_000a_0000, 0x2001_0db8_000b_0000, 0x2001_0db8_000d_0000
)

// newRole is a border of two internal prefixes: packets of the first leave by wan0 or wan1, of
// the other by wan1 alone. It has no programs.
func newRole(t *testing.T) *Role {
	t.Helper()
	p, err := sbr.ParsePolicy([]byte("fd00:0:1:: 50 0 vlb 1 2\nfd00:0:2:: 60 0 none 1 3\n" +
		"2001:db8:a:: 50 0 none 2\n2001:db8:b:: 50 0 none 2\n2001:db8:d:: 50 0 none 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := &Role{core: sbr.New(0, 0, 1, sbr.Probe{}), drained: make(map[string]bool), Env: role.Env{
		Log: slog.New(slog.DiscardHandler), ConfigFile: "roam.conf",
		Config: config.Config{Border: config.Border{Links: []config.BorderLink{
			{L64: providerA, Name: "wan0"}, {L64: providerB, Name: "wan1"}, {L64: more, Name: "wan1"},
		}}},
	}}
	for i, name := range []string{"lan0", "wan0", "wan1"} {
		r.links = append(r.links, hostnet.Uplink{Link: roam.LinkID(i + 1), Name: name, Up: true, Routed: i > 0})
	}
	r.core.HandleSites(time.Time{}, r.sites(r.Config))
	r.core.HandlePolicy(time.Time{}, p)
	return r
}

// leaves returns how many locators packets of an internal one can leave from.
func (r *Role) leaves(l roam.L64) int { return len(r.core.Table().Inside[l].Members) }

// wantRefused compares a refusal: its code, and a part of what it says.
func wantRefused(t *testing.T, err error, code control.Code, parts ...string) {
	t.Helper()
	e, ok := err.(*control.Error)
	if !ok || e.Code != code {
		t.Errorf("%v, want a refusal %q", err, code)
		return
	}
	for _, part := range parts {
		if !strings.Contains(e.Message+" > "+e.Hint, part) {
			t.Errorf("no %q in %q > %q", part, e.Message, e.Hint)
		}
	}
}

// A command drains a link until another one ends that. A reload of the configuration, and a link
// that goes and comes, leave it drained; a reload without the link ends it.
func TestSetDrained(t *testing.T) {
	r := newRole(t)
	if n := r.leaves(internal); n != 2 {
		t.Fatalf("packets leave from %d locators", n)
	}
	for range 2 {
		if err := r.setDrained(time.Time{}, "wan0", true); err != nil {
			t.Fatal(err)
		}
		if n := r.leaves(internal); n != 1 {
			t.Errorf("drained: packets leave from %d locators", n)
		}
	}
	s := r.site(r.core.Table().Sites[0], plane.Share{})
	if s.State != control.BorderDrained || s.DrainedBy != control.DrainedByCommand {
		t.Errorf("shown as %+v", s)
	}
	r.reconfigure(time.Time{}, r.Config)
	if n := r.leaves(internal); n != 1 {
		t.Errorf("after a reload packets leave from %d locators", n)
	}
	if err := r.setDrained(time.Time{}, "wan0", false); err != nil || r.leaves(internal) != 2 {
		t.Errorf("undrained: packets leave from %d locators, %v", r.leaves(internal), err)
	}
	if err := r.setDrained(time.Time{}, "wan0", true); err != nil {
		t.Fatal(err)
	}
	was, without := r.Config, r.Config
	without.Border.Links = without.Border.Links[1:]
	r.reconfigure(time.Time{}, without)
	r.reconfigure(time.Time{}, was)
	if n := r.leaves(internal); n != 2 {
		t.Errorf("a link that was not listed meanwhile: packets leave from %d locators", n)
	}
}

// What cannot be drained or used stays as it is, and the refusal says why.
func TestSetDrainedRefuses(t *testing.T) {
	r := newRole(t)
	wantRefused(t, r.setDrained(time.Time{}, "lan0", true), control.CodeNotFound, `"lan0"`, "wan0, wan1")
	// wan1 is not the last link, but that of the other prefix.
	wantRefused(t, r.setDrained(time.Time{}, "wan1", true), control.CodeConflict, "packets from fd00:0:2::/64",
		"ip link set wan1 down")
	if err := r.setDrained(time.Time{}, "wan0", true); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, r.setDrained(time.Time{}, "wan1", true), control.CodeConflict, "fd00:0:1::/64, fd00:0:2::/64")
	if r.leaves(internal) != 1 || r.leaves(other) != 1 || r.drained["wan1"] {
		t.Errorf("a refusal changed something: %v", r.drained)
	}
	cfg := r.Config
	cfg.Border.Drained = []string{"wan0"}
	r.reconfigure(time.Time{}, cfg)
	wantRefused(t, r.setDrained(time.Time{}, "wan0", false), control.CodeConflict, "border.drained", "roam config reload")
	// Of a link that is down, nobody expects packets: draining it cuts nothing off.
	r.links[2].Up = false
	r.core.HandleSites(time.Time{}, r.sites(r.Config))
	if err := r.setDrained(time.Time{}, "wan1", true); err != nil {
		t.Errorf("a link that is down: %v", err)
	}
}
