// Package controltest offers a Backend for tests: a host with two links, four
// correspondents and a fixed past.
//
// It implements the answers from fields that a test may change, and records
// what it was told to do. It omits every effect. Tests of packages control and
// cmd/roam drive it.
package controltest

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"roam"
	"roam/ilnp"
	"roam/internal/control"
)

// Now is the moment at which the host is looked at.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Fake is a Backend. Err, when set, is what every method returns.
type Fake struct {
	Err          error
	StatusValue  control.Status
	LocatorList  []control.Locator
	SessionList  []control.Session
	CounterList  []control.Counter
	ReloadValue  control.Reloaded
	ExportLine   string
	Hub          control.Hub
	OnShutdown   func(removePlane bool)
	mu           sync.Mutex
	instructions []string
}

// New returns the host as the golden files show it.
func New() *Fake {
	return &Fake{
		StatusValue: status(),
		LocatorList: locators(),
		SessionList: sessions(),
		CounterList: []control.Counter{
			{Name: "drop_bad_nonce", Meaning: "another nonce than the session's", Value: 12},
			{Name: "drop_two_nonces", Meaning: "two Nonce options in one packet"},
			{Name: "tx_session", Meaning: "session packets sent", Value: 123456},
		},
		ReloadValue: control.Reloaded{
			Applied: []string{`host.mode: "soft" -> "hard"`}, Restart: []string{`host.device: "roam0" -> "r1"`},
		},
		ExportLine: "roam1:11-22ff-0-1:2001+db8+1+1:host.example:00000000",
	}
}

func ptr(f float64) *float64 { return &f }

func status() control.Status {
	return control.Status{
		Version: "1.2.3", PID: 4711, State: "running", Warnings: []string{},
		Started: Now.Add(-3*time.Hour - 12*time.Minute), UptimeS: 11520,
		NID: 0x0011_22ff_0000_0001, Mode: "soft", Accept: "known",
		SessionPrefix:  roam.DefaultSessionPrefix.Prefix(),
		SessionAddress: control.SessionAddr(roam.DefaultSessionPrefix, 0x0011_22ff_0000_0001),
		Device:         "roam0", Config: "/etc/roam/roam.conf",
		Plane: control.Plane{Attach: "tcx", ABI: 1, Features: []string{"tcx"}, Uplinks: []string{"wlan0", "wwan0"}, Pins: "/run/roam/bpf"},
		DNS:   control.DNS{Listen: "127.0.0.156:53", Upstream: []string{"192.0.2.53:53"}, Managed: true},
	}
}

func locators() []control.Locator {
	return []control.Locator{
		{Link: "wlan0", LinkIndex: 2, L64: 0x2001_0db8_0001_0001, State: "active", PreferredS: ptr(1500), Since: Now.Add(-2 * time.Minute)},
		{Link: "wwan0", LinkIndex: 3, L64: 0x2001_0db8_0002_0001, State: "valid", Disabled: true, Since: Now.Add(-3 * time.Hour)},
	}
}

func sessions() []control.Session {
	path := control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: 0x2001_0db8_00ff_0001}
	other := control.Path{Link: "wlan0", Local: 0x2001_0db8_0001_0001, Remote: 0x2001_0db8_00ff_0002}
	return []control.Session{
		{
			NID: 0x0211_22ff_0000_0002, Address: netip.MustParseAddr("fd69:6c6e:7000:2627:211:22ff:0:2"),
			LocalHandle: 0x0011_22ff_0000_0001, RemoteHandle: 0x0211_22ff_0000_0002,
			Names: []string{"server.example", "server"}, State: "established",
			Locators: []control.RemoteLocator{
				{L64: 0x2001_0db8_00ff_0001, Preference: 10, LifetimeS: ptr(3600), State: "active", Proven: true},
				{L64: 0x2001_0db8_00ff_0002, Preference: 10, State: "valid"},
			},
			Paths: []control.Path{path, other}, InUse: &path, RTTMS: 20.15, Since: Now.Add(-time.Hour),
			LastMove: Now.Add(-42 * time.Second), LastMoveMS: 20.8,
			TxPackets: 1000, TxBytes: 1_400_000, RxPackets: 2000, RxBytes: 2_800_000_000,
		},
		{
			NID: 3, Address: netip.MustParseAddr("fd69:6c6e:7000:2627::3"), RemoteHandle: 3, Names: []string{},
			State: "established", Dead: true, Locators: []control.RemoteLocator{}, Paths: []control.Path{}, Since: Now.Add(-26 * time.Hour),
		},
		{
			NID: 4, Address: netip.MustParseAddr("fd69:6c6e:7000:2627::4"), RemoteHandle: 4, Names: []string{"plain.example"},
			State: "plain", Locators: []control.RemoteLocator{{L64: 0x2001_0db8_00fe_0001, Preference: 10, State: "active", Proven: true}},
			Paths: []control.Path{path}, Since: Now.Add(-30 * time.Second), RTTMS: 5.5,
		},
		{
			NID: 5, Address: netip.MustParseAddr("fd69:6c6e:7000:2627::5"), RemoteHandle: 5, Names: []string{"quiet.example"},
			State: control.StateKnown, Locators: []control.RemoteLocator{{L64: 0x2001_0db8_00fd_0001, Preference: 10, State: "valid"}},
			Paths: []control.Path{},
		},
	}
}

// Instructions lists what the backend was told, in words.
func (f *Fake) Instructions() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.instructions...)
}

func (f *Fake) note(s string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err == nil {
		f.instructions = append(f.instructions, s)
	}
	return f.Err
}

// Status returns StatusValue.
func (f *Fake) Status(context.Context) (control.Status, error) { return f.StatusValue, f.Err }

// Locators returns LocatorList.
func (f *Fake) Locators(context.Context) ([]control.Locator, error) { return f.LocatorList, f.Err }

// Sessions returns SessionList.
func (f *Fake) Sessions(context.Context) ([]control.Session, error) { return f.SessionList, f.Err }

// Counters returns CounterList.
func (f *Fake) Counters(context.Context) ([]control.Counter, error) { return f.CounterList, f.Err }

// Subscribe returns what is published on Hub.
func (f *Fake) Subscribe(ctx context.Context) (<-chan control.Event, error) {
	if f.Err != nil {
		return nil, f.Err
	}
	return f.Hub.Subscribe(ctx)
}

// SetMode notes "mode MODE".
func (f *Fake) SetMode(_ context.Context, m ilnp.Mode) error {
	return f.note("mode " + control.ModeName(m))
}

// SetLinkEnabled notes "enable LINK" or "disable LINK"; a link of no locator
// is refused as the daemon does.
func (f *Fake) SetLinkEnabled(_ context.Context, link string, enabled bool) error {
	for _, l := range f.LocatorList {
		if l.Link == link {
			return f.note(map[bool]string{true: "enable ", false: "disable "}[enabled] + link)
		}
	}
	return control.Errorf(control.CodeNotFound, "no uplink %q", link).WithHint("the links are wlan0, wwan0")
}

// AddPeer notes "add LINE".
func (f *Fake) AddPeer(_ context.Context, line string) (control.Peer, error) {
	p := control.Peer{
		NID: 2, Names: []string{"b.example"}, Address: control.SessionAddr(roam.DefaultSessionPrefix, 2),
		Locators: []roam.L64{0x2001_0db8_0001_0001},
	}
	return p, f.note("add " + line)
}

// Export returns ExportLine.
func (f *Fake) Export(context.Context) (string, error) { return f.ExportLine, f.Err }

// Reload notes "reload" and returns ReloadValue.
func (f *Fake) Reload(context.Context) (control.Reloaded, error) {
	return f.ReloadValue, f.note("reload")
}

// Shutdown notes "shutdown" or "shutdown and remove".
func (f *Fake) Shutdown(_ context.Context, removePlane bool) error {
	if f.OnShutdown != nil {
		f.OnShutdown(removePlane)
	}
	if removePlane {
		return f.note("shutdown and remove")
	}
	return f.note("shutdown")
}
