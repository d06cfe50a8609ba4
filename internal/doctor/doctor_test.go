package doctor

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"roam"
	"roam/internal/config"
	"roam/internal/control"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// well is a host on which all is well.
func well() Facts {
	cfg := config.Default()
	return Facts{
		Now: now, Root: true, Version: "1.0", Config: cfg, ConfigFile: "/etc/roam/roam.conf",
		Daemon: &control.Status{
			Version: "1.0", NID: 7, Started: now.Add(-time.Hour), UptimeS: 3600,
			Plane: control.Plane{Attach: "tcx", Features: []string{"tcx", "csum-replace-ipv6", "netfilter-bpf", "ringbuf"}},
			DNS:   control.DNS{Listen: "127.0.0.156:53", Upstream: []string{"192.0.2.53:53"}, Managed: true},
		},
		Locators:   []control.Locator{{Link: "wlan0", L64: 0x2001_0db8_0001_0001, State: "active"}},
		Kernel:     "6.6.10-amd64",
		LinksKnown: true,
		Links: []Link{
			{Name: "lo", MTU: 65536, Up: true, AcceptRA: 1},
			{Name: "wlan0", MTU: 1500, Up: true, Routed: true, AcceptRA: 1,
				Global: []netip.Prefix{netip.MustParsePrefix("2001:db8:1:1::5/64")}},
			{Name: "roam0", MTU: 1500, Up: true, Global: []netip.Prefix{netip.MustParsePrefix("fd69:6c6e:7000:2627::7/128")}},
		},
		SessionRoutes: sessionRoutes(`[{"dst":"fd69:6c6e:7000:2627::/64","dev":"roam0","table":"local","flags":[]},
			{"type":"local","dst":"fd69:6c6e:7000:2627::7","dev":"roam0","table":"local","flags":[]}]`),
		NFT: `{"nftables": []}`, ResolvConf: "# ours\nnameserver 127.0.0.156\n",
		RunDir:   Dir{Path: "/run/roam", Exists: true, Free: 1 << 30, BPF: true},
		StateDir: Dir{Path: "/var/lib/roam", Exists: true, Free: 1 << 30},
	}
}

// bad returns the findings that are not OK, as "level about: text > do".
func bad(f Facts) []string {
	var out []string
	for _, x := range Examine(f) {
		if x.Level != OK {
			out = append(out, string(x.Level)+" "+x.About+": "+x.Text+" > "+x.Do)
		}
	}
	return out
}

func TestAllIsWell(t *testing.T) {
	list := Examine(well())
	if b := bad(well()); len(b) > 0 {
		t.Errorf("findings on a host on which all is well: %q", b)
	}
	var about []string
	for _, f := range list {
		about = append(about, f.About)
	}
	for _, want := range []string{"daemon", "kernel", "uplinks", "sysctl", "firewall", "names", "clock", "disk"} {
		if !slices.Contains(about, want) {
			t.Errorf("nothing is said about %s: %v", want, about)
		}
	}
	if Stands(list) {
		t.Error("something stands in the way")
	}
}

// withRole adds the role observer to the daemon, and the warning of it.
func withRole(f *Facts, r control.RoleStatus) {
	r.Name = config.RoleObserver
	host := control.RoleStatus{Name: config.RoleHost, State: control.RoleRunning}
	f.Roles = []control.RoleReport{{RoleStatus: host}, {RoleStatus: r}}
	for _, own := range f.Roles {
		f.Daemon.Roles = append(f.Daemon.Roles, own.RoleStatus)
	}
	begins := control.FaultyRole(r.Name)
	if r.State == control.RoleFailed {
		begins = control.FailedRole(r.Name)
	}
	f.Daemon.Warnings = append(f.Daemon.Warnings, begins+": "+r.Error+"; "+r.Do)
}

// TestRoleThatIsWell shows the facts of its status.
func TestRoleThatIsWell(t *testing.T) {
	f := well()
	withRole(&f, control.RoleStatus{State: control.RoleRunning, Facts: []control.RoleFact{
		{Name: "links", Value: "wan0"}, {Name: "packets", Value: "12"},
	}})
	f.Daemon.Warnings = nil
	want := Finding{Level: OK, About: "role observer", Text: "the role runs; links wan0; packets 12"}
	if list := Examine(f); !slices.Contains(list, want) {
		t.Errorf("findings %+v, want %+v", list, want)
	}
}

func TestHostFindings(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Facts)
		want   []string // parts of the only findings, in order
	}{
		"no daemon": {func(f *Facts) { f.Daemon, f.DaemonError = nil, "no daemon answers"; f.Locators = nil },
			[]string{"fault daemon: the daemon does not answer: no daemon answers > roam up"}},
		"no daemon, no network": {func(f *Facts) {
			f.Daemon, f.DaemonError, f.Links[1].Routed = nil, "no daemon answers", false
			f.Locators = nil
		},
			[]string{"fault daemon", "note uplinks: wlan0 is not used", "fault uplinks: no link could be used"}},
		"bad configuration": {func(f *Facts) { f.ConfigFault = "line 3" },
			[]string{"fault daemon: the configuration cannot be used: line 3"}},
		"another version": {func(f *Facts) { f.Version = "1.1" },
			[]string{"warning daemon: roam is 1.1 and the running roamd is 1.0"}},
		"a part is missing": {func(f *Facts) { f.Daemon.Warnings = []string{"port 53 is taken"} },
			[]string{"warning daemon: a part of the daemon has failed: port 53 is taken"}},
		"a rule without effect": {func(f *Facts) { f.Daemon.Notes = []string{"rule 2: no link is named wwan0"} },
			[]string{"note config: rule 2: no link is named wwan0"}},
		"a role fails": {func(f *Facts) {
			withRole(f, control.RoleStatus{State: control.RoleFailed, Error: "no BTF", Do: "see roam.conf:3"})
		}, []string{"fault role observer: the role does not run: no BTF > see roam.conf:3"}},
		"a role lacks something": {func(f *Facts) {
			withRole(f, control.RoleStatus{State: control.RoleRunning, Error: "no link", Do: "plug it in"})
		}, []string{"warning role observer: the role runs, but: no link > plug it in"}},
		"not root":   {func(f *Facts) { f.Root = false }, []string{"note rights"}},
		"old kernel": {func(f *Facts) { f.Kernel = "5.10.0" }, []string{"fault kernel: Linux 5.10.0 lacks"}},
		"clsact": {func(f *Facts) { f.Daemon.Plane.Attach = "clsact" },
			[]string{"note kernel: programs are attached through clsact"}},
		"no ring buffer": {func(f *Facts) { f.Daemon.Plane.Features = []string{"tcx", "csum-replace-ipv6", "netfilter-bpf"} },
			[]string{"fault kernel: the kernel has no BPF ring buffer"}},
		"no IPv6": {func(f *Facts) { f.NoIPv6, f.Locators, f.Links, f.LinksKnown = true, nil, nil, false },
			[]string{"fault uplinks: IPv6 is switched off"}},
		"no IPv6, no daemon": {func(f *Facts) {
			f.NoIPv6, f.Locators, f.Links, f.LinksKnown, f.Daemon = true, nil, nil, false, nil
		}, []string{"fault daemon", "fault uplinks: IPv6 is switched off"}},
		"no IPv6, but on one link": {func(f *Facts) { f.NoIPv6 = true }, nil},
		"no IPv6, but on one link, no daemon": {func(f *Facts) { f.NoIPv6, f.Locators, f.Daemon = true, nil, nil },
			[]string{"fault daemon"}},
		"the daemon answers in part": {func(f *Facts) { f.Incomplete, f.Locators = "locators: timed out", nil },
			[]string{"fault daemon: the daemon answered only in part: locators: timed out"}},
		"a restart is pending": {func(f *Facts) {
			next := f.Config
			next.Host.Device, next.Host.Mode = "roam1", config.Hard
			f.Pending = config.Diff(f.Config, next)
		}, []string{
			`note config: a change of the configuration waits for a restart: host.device: "roam0" -> "roam1" > ` +
				"restart the daemon: `systemctl restart roamd`",
			`note config: a change of the configuration waits for a reload: host.mode: "soft" -> "hard" > ` +
				"roam config reload",
		}},
		"no uplink": {func(f *Facts) { f.Locators = nil; f.Links[1].Routed = false },
			[]string{"note uplinks: wlan0 is not used: no default route", "fault uplinks: no link can be used"}},
		"routed for some sources": {func(f *Facts) { f.Locators = nil; f.Links[1].Routed, f.Links[1].BySource = false, true },
			[]string{"note uplinks: wlan0 is not used: its only default route is for packets from", "fault uplinks"}},
		"no carrier": {func(f *Facts) { f.Links = append(f.Links, Link{Name: "eth0"}) },
			[]string{"note uplinks: eth0 is not used: it has no carrier"}},
		"excluded": {func(f *Facts) { f.Links = append(f.Links, Link{Name: "wg0", Up: true}) },
			[]string{"note uplinks: wg0 is not used: uplinks.exclude"}},
		"no address": {func(f *Facts) { f.Links = append(f.Links, Link{Name: "eth0", Up: true, Routed: true}) },
			[]string{"note uplinks: eth0 is not used: it has no global IPv6 address"}},
		"internal link": {func(f *Facts) { f.Links = append(f.Links, Link{Name: "eth9", Up: true}) }, nil},
		"disabled": {func(f *Facts) {
			f.Locators = append(f.Locators, control.Locator{Link: "wwan0", State: "valid", Disabled: true})
		}, []string{"note uplinks: wwan0 is disabled, by command or by uplinks.disabled > roam locator enable wwan0"}},
		"small MTU": {func(f *Facts) { f.Links[1].MTU = 1280 },
			[]string{"warning uplinks: wlan0 has an MTU of 1280"}},
		"forwarding": {func(f *Facts) { f.Links[1].Forwarding = 1 },
			[]string{"warning sysctl: wlan0 forwards packets"}},
		"forwarding, accept": {func(f *Facts) { f.Links[1].Forwarding, f.Links[1].AcceptRA = 1, 2 }, nil},
		"forwarding, no address": {func(f *Facts) {
			f.Links = append(f.Links, Link{Name: "eth0", Up: true, Forwarding: 1, AcceptRA: 1})
		}, []string{"note sysctl: eth0 forwards packets"}},
		"forwarding, nothing works": {func(f *Facts) {
			f.Links, f.Locators = append(f.Links, Link{Name: "eth0", Up: true, Forwarding: 1, AcceptRA: 1}), nil
			f.Links[1] = Link{Name: "veth7", Kind: "veth", Up: true, Forwarding: 1, AcceptRA: 1}
		}, []string{"fault uplinks: no link can be used", "note sysctl: veth7 forwards packets",
			"fault sysctl: eth0 forwards packets"}},
		"forwarding, containers": {func(f *Facts) {
			global := []netip.Prefix{netip.MustParsePrefix("fd42::1/64")}
			f.Links = append(f.Links,
				Link{Name: "veth1", Kind: "veth", Port: true, Up: true, Forwarding: 1, AcceptRA: 1},
				Link{Name: "eth7", Port: true, Up: true, Forwarding: 1, AcceptRA: 1},
				Link{Name: "cali2", Kind: "veth", Up: true, Forwarding: 1, AcceptRA: 1},
				Link{Name: "cni0", Kind: "bridge", Up: true, Forwarding: 1, AcceptRA: 1},
				Link{Name: "vnet3", Kind: "tun", Up: true, Forwarding: 1, AcceptRA: 1},
				Link{Name: "lxcbr0", Kind: "bridge", Up: true, Forwarding: 1, AcceptRA: 1, Global: global})
		}, []string{"note uplinks: lxcbr0 is not used"}},
		"forwarding, a bridge to the network": {func(f *Facts) {
			f.Links[1].Name, f.Links[1].Kind, f.Links[1].Forwarding = "br0", "bridge", 1
			f.Locators[0].Link = "br0"
		}, []string{"warning sysctl: br0 forwards packets"}},
		"forwarding, named like the session device": {func(f *Facts) {
			f.Links = append(f.Links, Link{Name: "roam01", Up: true, Forwarding: 1, AcceptRA: 1},
				Link{Name: "roam0x", Up: true, Forwarding: 1, AcceptRA: 1})
		}, []string{"note sysctl: roam01 forwards packets"}},
		"trust": {func(f *Facts) { f.NFT = ruleset }, []string{"warning firewall: a rule trusts", "warning firewall",
			"warning firewall", "fault"}[:3]},
		"names off":    {func(f *Facts) { f.Config.DNS.Enabled = false }, []string{"note names: dns.enabled is false"}},
		"names failed": {func(f *Facts) { f.Daemon.DNS = control.DNS{} }, []string{"warning names: names are not answered"}},
		"not managed": {func(f *Facts) { f.Config.DNS.ManageResolvConf = false },
			[]string{"note names: dns.manage_resolv_conf is false"}},
		"not taken": {func(f *Facts) { f.Daemon.DNS.Managed = false },
			[]string{"warning names: /etc/resolv.conf does not point to 127.0.0.156:53"}},
		"overwritten": {func(f *Facts) { f.ResolvConf = "search x\nnameserver 192.0.2.1\nnameserver 127.0.0.156\n" },
			[]string{"warning names: another program has rewritten /etc/resolv.conf: its first server is 192.0.2.1"}},
		"no upstream": {func(f *Facts) { f.Daemon.DNS.Upstream = nil },
			[]string{"warning names: no server is known for all other names"}},
		"circle": {func(f *Facts) { f.Daemon.DNS.Upstream = []string{"127.0.0.53:53"} },
			[]string{"warning names: Roam and systemd-resolved query each other"}},
		"suspended": {func(f *Facts) { f.Daemon.UptimeS = 1800 }, []string{"note clock: the clock went 30m0s ahead"}},
		"set back": {func(f *Facts) { f.Daemon.UptimeS = 7200 },
			[]string{"note clock: the clock was set back by 1h0m0s"}},
		"disk full": {func(f *Facts) { f.RunDir.Free = 1 << 20 },
			[]string{"warning disk: only 1024 kB are left for /run/roam"}},
		"no pins": {func(f *Facts) { f.RunDir.BPF = false },
			[]string{"fault disk: no bpffs is mounted at /run/roam/bpf"}},
		"gone":         {func(f *Facts) { f.RunDir.Exists = false }, []string{"warning disk: /run/roam is gone"}},
		"no state yet": {func(f *Facts) { f.StateDir = Dir{Path: "/var/lib/roam"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := well()
			tc.change(&f)
			got := bad(f)
			if len(got) != len(tc.want) {
				t.Fatalf("found %d: %q", len(got), got)
			}
			for i, w := range tc.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("found %q, want %q", got[i], w)
				}
			}
		})
	}
}

// peer is a correspondent with which all is well.
func peer() *PeerFacts {
	path := func(remote roam.L64) control.Path {
		return control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: remote}
	}
	addr := netip.MustParseAddr("fd69:6c6e:7000:2627::9")
	return &PeerFacts{
		Word: "b.example", KnownPeers: []string{"b.example"},
		Session: &control.Session{
			NID: 9, Address: addr, Names: []string{"b.example"}, State: "established", Checksum: "ipv6", UpdateForm: "rfc6743",
			Locators: []control.RemoteLocator{{L64: 0x2001_0db8_00ff_0001}},
		},
		Asked: true, Resolved: []netip.Addr{addr},
		Probed: &control.Probed{State: "established", Paths: []control.ProbedPath{
			{Path: path(0x2001_0db8_00ff_0001), Answered: true, RTTMS: 20},
			{Path: path(0x2001_0db8_00ff_0002), Answered: true, RTTMS: 30},
		}},
		History: []control.Event{{Kind: "update-failed"}, {Kind: "update-acked"}},
	}
}

// through is the first path of a correspondent, with the forms that came back.
func through(p *PeerFacts, forms string) control.ProbedPath {
	f := p.Probed.Paths[0]
	f.Answered, f.UDP = strings.Contains(forms, "option"), strings.Contains(forms, "udp")
	f.Padded, f.Full, f.Bytes = strings.Contains(forms, "padded"), strings.Contains(forms, "full"), 1500
	return f
}

func TestPeerFindings(t *testing.T) {
	plain := func(p *PeerFacts, why string, echo *control.PlainEcho) {
		p.Probed.State, p.Probed.WhyPlain, p.Probed.Echo = "plain", why, echo
	}
	for name, tc := range map[string]struct {
		change func(*PeerFacts)
		want   []string
	}{
		"well": {func(*PeerFacts) {}, nil},
		"unknown": {func(p *PeerFacts) { p.Session = nil },
			[]string{"fault peer: no peer is called b.example; known: b.example"}},
		"no locators": {func(p *PeerFacts) { p.Session.Locators = nil },
			[]string{"fault peer: b.example is 0000:0000:0000:0009, and no locator"}},
		"not resolved": {func(p *PeerFacts) { p.Resolved = nil },
			[]string{"warning names: the system's resolver does not know b.example"}},
		"resolved wrong": {func(p *PeerFacts) { p.Resolved = []netip.Addr{netip.IPv6Unspecified()} },
			[]string{"says that b.example is ::, not the session address"}},
		"cannot ask": {func(p *PeerFacts) { p.Probed, p.ProbeErr = nil, "timed out" },
			[]string{"fault session: its paths cannot be probed: timed out"}},
		"no ILNP": {func(p *PeerFacts) { plain(p, "no ILNP there", nil) },
			[]string{"fault session: b.example has no ILNP"}},
		"options dropped": {func(p *PeerFacts) { plain(p, "no answer", &control.PlainEcho{Answered: true, RTTMS: 20}) },
			[]string{"fault session: b.example answers an ordinary ping (20.0 ms), but nothing that carries a nonce"}},
		"without nonce": {func(p *PeerFacts) { plain(p, "answers without a nonce", &control.PlainEcho{}) },
			[]string{"fault session: b.example answers, but nothing that carries a nonce"}},
		"nobody there": {func(p *PeerFacts) { plain(p, "no answer", &control.PlainEcho{}) },
			[]string{"fault session: b.example does not answer at all"}},
		"one path silent": {func(p *PeerFacts) { p.Probed.Paths[1].Answered = false },
			[]string{"warning path: wlan0 2001:db8:1:1::/64 > 2001:db8:ff:2::/64 does not answer"}},
		"all paths silent": {func(p *PeerFacts) { p.Probed.Paths[0].Answered, p.Probed.Paths[1].Answered = false, false },
			[]string{"fault path: no path to b.example answers"}},
		"no path": {func(p *PeerFacts) { p.Probed.Paths = nil }, []string{"fault path: there is no path to b.example"}},
		"other stack": {func(p *PeerFacts) { p.Session.Checksum, p.Session.UpdateForm = "rfc6741", "draft" },
			[]string{"note form: checksums follow RFC 6741", "note form: Locator Updates to it have the draft's form"}},
		"options dropped, in UDP": {func(p *PeerFacts) { p.Probed.Paths = []control.ProbedPath{through(p, "udp full")} },
			[]string{
				"warning path: wlan0 2001:db8:1:1::/64 > 2001:db8:ff:1::/64: packets with destination options are dropped"}},
		"ICMPv6 dropped": {func(p *PeerFacts) { p.Probed.Paths = []control.ProbedPath{through(p, "udp padded full")} },
			[]string{"ICMPv6 is dropped, destination options are not"}},
		"no UDP": {func(p *PeerFacts) { p.Probed.Paths = []control.ProbedPath{through(p, "option")} },
			[]string{"note path: wlan0 2001:db8:1:1::/64 > 2001:db8:ff:1::/64: echoes with the option are answered, those in " +
				"UDP are not"}},
		"flow label": {func(p *PeerFacts) {
			p.Probed.Paths = []control.ProbedPath{through(p, "option udp padded full")}
			p.Probed.Paths[0].Relabelled = true
		}, []string{"note label: wlan0 2001:db8:1:1::/64 > 2001:db8:ff:1::/64: a router on the way rewrites the flow label"}},
		"Packet Too Big": {func(p *PeerFacts) {
			p.Probed.Paths, p.Probed.TooBig = []control.ProbedPath{through(p, "option udp padded")}, 1400
		}, []string{"note mtu: wlan0 2001:db8:1:1::/64 > 2001:db8:ff:1::/64: packets of 1500 bytes are too big, and a " +
			"router says so (1400 pass)"}},
		"black hole": {func(p *PeerFacts) {
			p.Probed.Paths, p.PathMTU = []control.ProbedPath{through(p, "option udp padded")}, 1400
			p.History = append(p.History, control.Event{Kind: "path-narrowed", Path: &p.Probed.Paths[0].Path})
		}, []string{"a black hole; Roam keeps TCP and UDP to 1280 bytes there > `ip link set wlan0 mtu 1280`"}},
		"one direction": {func(p *PeerFacts) {
			p.Session.InUse, p.Session.RxPackets = &p.Probed.Paths[1].Path, 1
			p.Probed.Paths[1].Answered = false
		}, []string{"warning path",
			"note path: wlan0 2001:db8:1:1::/64 > 2001:db8:ff:2::/64 was in use and answers nothing"}},
		"firewall": {func(p *PeerFacts) { p.Probed.Opened = 2 },
			[]string{"note path: 2 times a TCP connection with b.example stalled after a move"}},
		"one path for each": {func(p *PeerFacts) { p.Session.Spread = "flow" },
			[]string{"note path: TCP with b.example stalled although each path works"}},
		"updates in UDP": {func(p *PeerFacts) { p.History[1].Encapsulated = true },
			[]string{"warning updates: the last Locator Update was acknowledged in UDP only"}},
		"updates filtered": {func(p *PeerFacts) { p.History = p.History[:1] },
			[]string{"fault updates: b.example does not acknowledge"}},
		"updates of an earlier session": {func(p *PeerFacts) {
			p.History = p.History[:1]
			p.History[0].Time, p.Session.Since = now.Add(-time.Hour), now.Add(-time.Minute)
		}, nil},
		"updates before the peer's restart": {func(p *PeerFacts) {
			p.History[1].Kind = "session-replaced"
		}, nil},
		"forged": {func(p *PeerFacts) {
			p.History = append(p.History, control.Event{Kind: "refused", Reason: "wrong nonce"})
		}, []string{"note refused: input in its name was refused: wrong nonce"}},
		"forged with keys": {func(p *PeerFacts) {
			for _, reason := range []string{"proof that is forged", "wrong nonce", "proof that is forged"} {
				p.History = append(p.History, control.Event{Kind: "refused", Reason: reason})
			}
		}, []string{
			"note refused: input in its name was refused: proof that is forged > nothing, if sessions with the peer work: ",
			"note refused: input in its name was refused: wrong nonce; it may have been forged",
		}},
		"no proof, and why": {func(p *PeerFacts) {
			p.Probed.Refused = control.PlainRefusal{Why: control.WhyNoProof, Allow: "roam add LINE"}
			p.History = append(p.History, control.Event{Kind: "refused", Reason: "peer with a key has sent no proof"})
		}, []string{"fault key", "has sent no proof > nothing, if sessions with the peer work: "}},
		"a small path": {func(p *PeerFacts) { p.PathMTU = 1280 },
			[]string{"warning mtu: the path carries packets of at most 1280 bytes"}},
		"a path large enough": {func(p *PeerFacts) { p.PathMTU = 1400 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := well()
			f.Peer = peer()
			tc.change(f.Peer)
			got := bad(f)
			if len(got) != len(tc.want) {
				t.Fatalf("found %d: %q", len(got), got)
			}
			for i, w := range tc.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("found %q, want %q", got[i], w)
				}
			}
		})
	}
}
