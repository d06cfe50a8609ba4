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
	"roam/wire/ilnp"
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

// silence has a provider pass nothing until the core knows: an outside node answers probes by all others.
func (r *Role) silence(t *testing.T, l roam.L64) {
	t.Helper()
	now := time.Unix(1_000_000, 0)
	nonce := ilnp.Nonce{Len: 4, Bytes: [12]byte{1}}
	flow := sbr.FlowSeen{FlowKey: sbr.FlowKey{Inside: 1, Outside: 9}, Internal: internal, Link: 1,
		Remote: 0x2001_0db8_00cc_0000, Inward: nonce, Outward: nonce, Sent: now}
	r.core.Watch(now)
	r.core.HandleFlow(now, flow, []roam.L64{providerA, providerB})
	for end := now.Add(time.Minute); !r.core.IsSilent(l); {
		at, ok := r.core.PollTimeout()
		if !ok || at.After(end) {
			t.Fatalf("%v is not found silent", l)
		}
		r.core.HandleTimeout(at)
		for o, ok := r.core.Poll(); ok; o, ok = r.core.Poll() {
			switch o := o.(type) {
			case sbr.Look:
				r.core.HandleSeen(at, o.FlowKey, at)
			case sbr.Transmit:
				m, err := ilnp.ParseControl(o.Packet, 0)
				if err != nil || m.Type != ilnp.TypeEchoRequest || m.Src.L64 == l {
					continue
				}
				e, err := ilnp.ParseEcho(m.Payload)
				if err != nil {
					t.Fatal(err)
				}
				b, err := ilnp.BuildEcho(m.Dst, m.Src, nonce, false, e.ID, e.Seq, e.Data)
				if err != nil {
					t.Fatal(err)
				}
				r.core.HandlePacket(at, sbr.Packet{Bytes: b})
			}
		}
	}
}

// A silent provider is no other link to which sessions could move. One that is silent can be drained itself.
func TestSetDrainedBesideSilent(t *testing.T) {
	r := newRole(t)
	r.silence(t, providerB)
	now := time.Unix(1_000_100, 0)
	err := r.setDrained(now, "wan0", true)
	wantRefused(t, err, control.CodeConflict, "packets from fd00:0:1::/64", "wan1 is silent")
	if r.leaves(internal) != 1 || r.drained["wan0"] {
		t.Errorf("a refusal changed something: %v", r.drained)
	}
	cfg := r.Config
	cfg.Border.Links = cfg.Border.Links[:2] // the other prefix leaves by no link
	r.reconfigure(now, cfg)
	if err := r.setDrained(now, "wan1", true); err != nil {
		t.Errorf("the silent one: %v", err)
	}
}

// Where only a silent provider's link is up, that of another one can be drained, and used again.
func TestSetDrainedAloneWithSilent(t *testing.T) {
	r := newRole(t)
	r.silence(t, providerB)
	r.links[1].Up = false
	now := time.Unix(1_000_100, 0)
	r.core.HandleSites(now, r.sites(r.Config))
	for _, drained := range []bool{true, false} {
		if err := r.setDrained(now, "wan0", drained); err != nil || r.leaves(internal) != 1 {
			t.Errorf("drained %t: %v, packets leave from %d locators", drained, err, r.leaves(internal))
		}
	}
}
