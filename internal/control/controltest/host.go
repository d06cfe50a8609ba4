package controltest

import (
	"net/netip"
	"time"

	"roam"
	"roam/internal/control"
)

func ptr(f float64) *float64 { return &f }

func status() control.Status {
	return control.Status{
		Version: "1.2.3", PID: 4711, State: "running", Warnings: []string{}, Notes: []string{},
		Started: Now.Add(-3*time.Hour - 12*time.Minute), UptimeS: 11520,
		NID: 0x0011_22ff_0000_0001, Mode: "soft", Accept: "known",
		SessionPrefix:  roam.DefaultSessionPrefix.Prefix(),
		SessionAddress: control.SessionAddr(roam.DefaultSessionPrefix, 0x0011_22ff_0000_0001),
		Device:         "roam0", Config: "/etc/roam/roam.conf",
		Plane:  control.Plane{Attach: "tcx", ABI: 1, Features: []string{"tcx"}, Uplinks: []string{"wlan0", "wwan0"}, Pins: "/run/roam/bpf"},
		DNS:    control.DNS{Listen: "127.0.0.156:53", Upstream: []string{"192.0.2.53:53"}, Managed: true},
		Faults: []control.HostsFault{}, NotAdmitted: []control.NotAdmitted{}, Obstructed: []control.Obstructed{},
	}
}

func locators() []control.Locator {
	return []control.Locator{
		{
			Link: "wlan0", LinkIndex: 2, L64: 0x2001_0db8_0001_0001, State: "active",
			PreferredS: ptr(1500), Since: Now.Add(-2 * time.Minute), Preference: 10,
		},
		{
			Link: "wwan0", LinkIndex: 3, L64: 0x2001_0db8_0002_0001, State: "valid", Disabled: true,
			Since: Now.Add(-3 * time.Hour), Preference: 20,
		},
	}
}

// views is what is known of two paths in use, and of one that is avoided.
func views(path, other control.Path) []control.PathView {
	avoided := path
	avoided.Link, avoided.Local = "wwan0", 0x2001_0db8_0002_0001
	return []control.PathView{
		{
			Path: path, InUse: true, Why: "in use", Share: 0.8, RTTMS: 24.31, LeastRTTMS: 20.1,
			Out: &control.PathDirection{SentBPS: 81e6, RateBPS: 80.4e6, MostBPS: 93e6, Loss: ptr(0.0061), QueueMS: 4.2, Life: "lives"},
			In:  &control.PathDirection{SentBPS: 1.21e6, RateBPS: 1.21e6, MostBPS: 2e6, Loss: ptr(0), Life: "lives"},
		},
		{
			Path: other, InUse: true, Why: "in use, too long for TCP", Share: 0.2, RTTMS: 68.4, LeastRTTMS: 68.4,
			Out: &control.PathDirection{SentBPS: 640, RateBPS: 640, MostBPS: 640, Life: "unknown"},
			In:  &control.PathDirection{Life: "unknown"},
		},
		{Path: avoided, Why: "avoided: no answers", RTTMS: 41.5, LeastRTTMS: 40.2},
	}
}

func sessions() []control.Session {
	path := control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: 0x2001_0db8_00ff_0001}
	other := control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: 0x2001_0db8_00ff_0002}
	return []control.Session{
		{
			NID: 0x0211_22ff_0000_0002, Address: netip.MustParseAddr("fd69:6c6e:7000:2627:211:22ff:0:2"),
			LocalAlias: 0x0011_22ff_0000_0001, RemoteAlias: 0x0211_22ff_0000_0002,
			Names: []string{"server.example", "server"}, State: "established",
			Locators: []control.RemoteLocator{
				{L64: 0x2001_0db8_00ff_0001, Preference: 10, LifetimeS: ptr(3600), State: "active", Validated: true},
				{L64: 0x2001_0db8_00ff_0002, Preference: 10, State: "valid"},
			},
			Paths: []control.SessionPath{{Path: path, RTTMS: 20.1, Share: 0.8}, {Path: other, RTTMS: 68.4, Share: 0.2, Long: true}},
			Views: views(path, other), InUse: &path, RTTMS: 20.15, Since: Now.Add(-time.Hour),
			Checksum: "ipv6", ChecksumICMP: "ipv6", UpdateForm: "rfc6743", OptionOn: "first", Encapsulation: "options", Spread: "length",
			Proof:    control.ProofListed,
			LastMove: Now.Add(-42 * time.Second), LastMoveMS: 20.8,
			TxPackets: 1000, TxBytes: 1_400_000, RxPackets: 2000, RxBytes: 2_800_000_000,
		},
		{
			NID: 3, Address: netip.MustParseAddr("fd69:6c6e:7000:2627::3"), RemoteAlias: 3, Names: []string{},
			State: "established", Dead: true, Locators: []control.RemoteLocator{}, Paths: []control.SessionPath{}, Since: Now.Add(-26 * time.Hour),
			Checksum: "rfc6741", ChecksumICMP: "rfc6741", UpdateForm: "draft", OptionOn: "always", Encapsulation: "options", Spread: "packet",
			Proof: control.ProofNonce,
		},
		{
			NID: 4, Address: netip.MustParseAddr("fd69:6c6e:7000:2627::4"), RemoteAlias: 4, Names: []string{"plain.example"},
			State: "plain", Locators: []control.RemoteLocator{{L64: 0x2001_0db8_00fe_0001, Preference: 10, State: "active", Validated: true}},
			Paths: []control.SessionPath{{Path: path}}, Since: Now.Add(-30 * time.Second), RTTMS: 5.5,
			Checksum: "ipv6", ChecksumICMP: "sought", UpdateForm: "rfc6743", OptionOn: "first", Encapsulation: "options", Spread: "packet", WhyPlain: "no ILNP there",
			Proof: control.ProofNone,
		},
		{
			NID: 5, Address: netip.MustParseAddr("fd69:6c6e:7000:2627::5"), RemoteAlias: 5, Names: []string{"quiet.example"},
			State: control.StateKnown, Locators: []control.RemoteLocator{{L64: 0x2001_0db8_00fd_0001, Preference: 10, State: "valid"}},
			Paths: []control.SessionPath{}, Checksum: "ipv6", ChecksumICMP: "sought", UpdateForm: "rfc6743", OptionOn: "first", Encapsulation: "options", Spread: "packet",
			Proof: control.ProofKeyed,
		},
	}
}

// history is what happened to the first correspondent of sessions, and to the
// host with it.
func history() []control.Event {
	wifi := control.LinkLocator{Link: "wlan0", L64: 0x2001_0db8_0001_0001}
	mobile := control.LinkLocator{Link: "wwan0", L64: 0x2001_0db8_0002_0001}
	peer := func(e control.Event) control.Event {
		e.Peer, e.PeerName = 0x0211_22ff_0000_0002, "server.example"
		return e
	}
	return []control.Event{
		peer(control.Event{Time: Now.Add(-time.Hour), Kind: "session-started", Reason: "a packet of ours was the first", Locators: []roam.L64{0x2001_0db8_00ff_0001}}),
		peer(control.Event{Time: Now.Add(-time.Hour + 21*time.Millisecond), Kind: "session-established", RTTMS: 20.15, Locators: []roam.L64{0x2001_0db8_00ff_0001}}),
		{Time: Now.Add(-42 * time.Second), Kind: "locator-added", To: []control.LinkLocator{wifi}, Locators: []roam.L64{wifi.L64}},
		{Time: Now.Add(-42 * time.Second), Kind: "handoff-started", From: []control.LinkLocator{mobile}, To: []control.LinkLocator{wifi}, Reason: "new locator"},
		peer(control.Event{Time: Now.Add(-42 * time.Second), Kind: "update-sent", Locators: []roam.L64{wifi.L64, mobile.L64}}),
		peer(control.Event{Time: Now.Add(-42*time.Second + 21*time.Millisecond), Kind: "update-acked", RTTMS: 20.8, Locators: []roam.L64{wifi.L64, mobile.L64}}),
		{Time: Now.Add(-42*time.Second + 21*time.Millisecond), Kind: "handoff-done", From: []control.LinkLocator{mobile}, To: []control.LinkLocator{wifi}, DurationMS: 20.9, Reason: "new locator"},
	}
}

// probed is what probes of the first correspondent of sessions find.
func probed() control.Probed {
	path := func(remote roam.L64) control.Path {
		return control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: remote}
	}
	return control.Probed{Peer: 0x0211_22ff_0000_0002, State: "established", Paths: []control.ProbedPath{
		{Path: path(0x2001_0db8_00ff_0001), Answered: true, RTTMS: 20.15, UDP: true, Padded: true, Full: true, Bytes: 1500},
		{Path: path(0x2001_0db8_00ff_0002)},
	}}
}

// peers are the correspondents of sessions, as they are written.
func peers() []control.KnownPeer {
	hosts, added := "/etc/roam/hosts", "/var/lib/roam/peers"
	at := func(l roam.L64) []control.PeerLocator { return []control.PeerLocator{{L64: l, Preference: 10}} }
	address := func(nid roam.NID) netip.Addr { return control.SessionAddr(roam.DefaultSessionPrefix, nid) }
	return []control.KnownPeer{
		{
			NID: 3, Address: address(3), Names: []string{}, Locators: []control.PeerLocator{}, Options: []string{},
			Written: []control.Place{}, State: "established", Dead: true,
		},
		{
			NID: 4, Address: address(4), Names: []string{"plain.example"}, Locators: at(0x2001_0db8_00fe_0001), Options: []string{},
			Written: []control.Place{{File: added, Line: 2}}, State: "plain", WhyPlain: "no ILNP there",
		},
		{
			NID: 5, Address: address(5), Names: []string{"quiet.example"}, Locators: at(0x2001_0db8_00fd_0001), Options: []string{},
			Written: []control.Place{{File: added, Line: 3}}, State: control.StateKnown,
		},
		{
			NID: 0x0211_22ff_0000_0002, Address: address(0x0211_22ff_0000_0002), Names: []string{"server.example", "server"},
			Locators: at(0x2001_0db8_00ff_0001), Options: []string{"nonce=always", "anywhere=yes"},
			Written: []control.Place{{File: hosts, Line: 4}, {File: added, Line: 5}}, State: "established",
		},
	}
}
